"""pycolmap, where it is needed: databases, other kinds of files, models in memory."""

from __future__ import annotations

from typing import Any

from daba.core.errors import DabaError


def pycolmap() -> Any:
    """The module, or an error that says how to get it."""
    try:
        import pycolmap
    except ImportError as error:
        raise DabaError(
            "this needs pycolmap, which is not installed: pip install 'daba[colmap]'"
        ) from error
    return pycolmap
