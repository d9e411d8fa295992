"""How processes communicate: `base` is the interface, and one process alone."""
