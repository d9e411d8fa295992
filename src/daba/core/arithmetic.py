"""NumPy's meaning of the few names that the files in `BOUND` are written in."""

from numpy import exp, expm1, log1p, maximum, minimum, sin, sqrt, where

__all__ = [
    "BOUND", "cube", "exp", "expm1", "jit", "log1p", "maximum", "minimum", "sin", "sqrt", "where",
]  # fmt: skip

BOUND = ("decisions", "formulas")
"""Modules of `core` that the backends load again with these names bound to their own."""


def jit(function):
    """Nothing to compile: NumPy evaluates the formulas as they stand."""
    return function


def cube(x):
    return x**3
