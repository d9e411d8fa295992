"""Small copies of the images that a reconstruction was made of."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from daba.core.errors import DabaError

WIDTH = 480
"""Pixels: the panel is about half as wide, on a screen of twice the density."""


class Thumbnails:
    """The images below a folder, by the names that a file gives them."""

    def __init__(self, folder: Path) -> None:
        if not folder.is_dir():
            raise DabaError(f"--images {folder}: there is no such folder")
        self.folder = folder.resolve()

    def get(self, name: str) -> np.ndarray | None:
        """Pixels (height, width, 3); None if there is no such image. A name comes from a file, and
        must not lead out of the folder."""
        from PIL import Image, ImageOps

        try:
            path = Path(os.path.realpath(self.folder / name))
            if not path.is_relative_to(self.folder) or not path.is_file():
                return None
            with Image.open(path) as image:
                image.draft("RGB", (WIDTH, WIDTH))  # JPEG is decoded no larger than needed
                small = ImageOps.exif_transpose(image).convert("RGB")
                small.thumbnail((WIDTH, WIDTH))
                return np.asarray(small)
        except Exception:
            return None  # no image, a damaged one, or a name that no file can have
