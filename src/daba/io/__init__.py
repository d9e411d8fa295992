"""Reading and writing problems. `daba.io.formats` knows the formats; its names can be had here,
too, and are imported when they are first used: a solve needs none of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__all__ = ["FORMATS", "Format", "load", "open_source", "save", "target_format"]

if TYPE_CHECKING:
    from daba.io.formats import FORMATS, Format, load, open_source, save, target_format


def __getattr__(name: str) -> Any:
    if name in __all__:
        from daba.io import formats

        return getattr(formats, name)
    raise AttributeError(f"module 'daba.io' has no attribute '{name}'")
