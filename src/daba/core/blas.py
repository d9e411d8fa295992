"""What a process was told before it loaded anything."""

from __future__ import annotations

import os

BLAS_THREADS = "OPENBLAS_NUM_THREADS"

one_blas_thread = False
"""Whether OpenBLAS has one thread for as long as the process lives."""


def have_one_blas_thread() -> None:
    """Before NumPy is loaded: our kernels run BLAS on one thread each, to start threads of its own
    takes 60 ms, and to hold them back while kernels run 5 ms."""
    global one_blas_thread
    one_blas_thread = os.environ.setdefault(BLAS_THREADS, "1") == "1"
