"""NumPy's meaning of the few names that `formulas.py` is written in."""

from numpy import exp, log1p, sqrt, where

__all__ = ["exp", "jit", "log1p", "sqrt", "where"]


def jit(function):
    """Nothing to compile: NumPy evaluates the formulas as they stand."""
    return function
