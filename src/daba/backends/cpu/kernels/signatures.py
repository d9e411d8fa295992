"""What Numba calls the types that a kernel's arguments are annotated with."""

import inspect
from types import NoneType
from typing import Annotated, get_args, get_origin, get_type_hints

import numba
import numpy as np
from numba import types
from numpy.typing import NDArray

ARRAYS = (np.ndarray, NDArray)
"""NDArray[T] was ndarray[…, dtype[T]]; since NumPy 2.5 it is an alias, with T alone."""
SCALARS = {bool: types.boolean, int: types.int64, float: types.float64}


def signature_of(function, given):
    """Types of all arguments; those that may be None are, unless `given`."""
    hints = get_type_hints(function, include_extras=True)
    return tuple(type_of(hints[name], given) for name in inspect.signature(function).parameters)


def type_of(hint, given=False):
    """An array is contiguous, and has one dimension where none are told; a bundle has its fields'
    types."""
    parts = get_args(hint)
    if hint in SCALARS:
        return SCALARS[hint]
    if NoneType in parts:
        return type_of(parts[0]) if given else types.none
    if get_origin(hint) is Annotated:
        array, dimensions = parts
        return _array(array, dimensions)
    if get_origin(hint) is tuple:
        return types.Tuple([type_of(part) for part in parts])
    if get_origin(hint) in ARRAYS:
        return _array(hint, 1)
    fields = get_type_hints(hint, include_extras=True)
    return types.BaseTuple.from_types([type_of(fields[name]) for name in hint._fields], hint)


def spelled(kinds):
    """Types of arguments in words that need no Numba: "int", "none", "float642" for a matrix of
    float64, lists for bundles."""
    return [_word(kind) for kind in kinds]


def _word(kind):
    if isinstance(kind, types.BaseTuple):
        return spelled(kind.types)
    if isinstance(kind, types.Array):
        return f"{kind.dtype}{kind.ndim}"
    if kind == types.none:
        return "none"
    return next(word.__name__ for word, number in SCALARS.items() if number == kind)


def _array(hint, dimensions):
    kind = get_args(hint)[-1]
    (number,) = get_args(kind) or (kind,)
    return types.Array(numba.from_dtype(np.dtype(number)), dimensions, "C")
