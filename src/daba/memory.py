"""How much memory a process has used."""

from __future__ import annotations

import resource
import sys


def peak_memory() -> int:
    """The most memory this process has held at once, in bytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak
