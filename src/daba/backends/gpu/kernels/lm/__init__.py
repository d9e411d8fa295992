"""Kernels of Levenberg–Marquardt. Those of `passes.py` depend on cameras and are bound to a kind of
problem (`binding.py`); the others work on stored derivatives, and are the same for all kinds."""
