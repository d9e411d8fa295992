"""NumPy's meaning of the few names that the files in `BOUND` are written in."""

from numpy import arctan2, exp, expm1, log1p, maximum, minimum, sin, sqrt, tan, where

__all__ = [
    "BOUND", "arctan2", "cube", "exp", "expm1", "jit", "log1p", "maximum", "minimum", "sin", "sqrt",
    "tan", "where",
]  # fmt: skip

BOUND = ("decisions", "formulas", "lenses", "pixel", "ray", "camera_models", "lm")
"""Modules of `core` that the backends load again with these names bound to their own, and others
that their kernels are made of."""


def jit(function):
    """Nothing to compile: NumPy evaluates the formulas as they stand."""
    return function


def cube(x):
    return x**3
