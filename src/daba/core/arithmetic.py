"""NumPy's meaning of the few names that `formulas.py` is written in."""

from numpy import exp, expm1, log1p, sin, sqrt, where

__all__ = ["exp", "expm1", "jit", "log1p", "sin", "sqrt", "where"]


def jit(function):
    """Nothing to compile: NumPy evaluates the formulas as they stand."""
    return function
