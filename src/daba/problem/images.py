"""What the images of a problem are called: by name and id, as in the tool that made the file.

COLMAP and Bundler know images by name; BAL has numbered cameras only.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from daba.core.types import frozen


@frozen
class ImageNames:
    """Names and ids, in the problem's own order."""

    names: list[str]
    """Empty where the file has none."""
    ids: np.ndarray
    """COLMAP's, else numbers from 0."""

    @staticmethod
    def of(info: Mapping[str, Any], count: int) -> ImageNames:
        """The images of a problem or store with this `info` and so many cameras."""
        ids = np.asarray(info.get("image_ids", np.arange(count)))
        names = info.get("images")
        if names is None:
            return ImageNames([], ids)
        rows = info.get("registered", range(count))
        found = [str(names[row]) for row in rows]
        return ImageNames(found if "colmap" in info else [image_name(name) for name in found], ids)

    def chosen(self, rows: np.ndarray) -> ImageNames:
        """Some of them."""
        return ImageNames([self.names[row] for row in rows] if self.names else [], self.ids[rows])

    @property
    def noun(self) -> str:
        return "image" if self.names else "camera"

    def count(self, number: int) -> str:
        """'1,200 images'."""
        return f"{number:,} {self.noun}{'' if number == 1 else 's'}"

    def label(self, number: int) -> str:
        """'DSC_7.jpg (id 8)', or 'camera 7'."""
        if not self.names:
            return f"camera {number}"
        return f"{self.names[number]} (id {self.ids[number]})"

    def labels(self, numbers: Iterable[int]) -> list[str]:
        """The same in a list that follows the word `noun`: without names, only numbers."""
        return [self.label(number) if self.names else str(number) for number in numbers]


def image_name(line: str) -> str:
    """The name alone: in a list of Bundler it may be followed by numbers, and may have spaces."""
    return re.sub(r"( -?[\d.]+(e[-+]?\d+)?)+$", "", str(line))
