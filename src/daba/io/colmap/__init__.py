"""COLMAP models: folders with cameras, images and points3D, in binary or text, and perhaps rigs
and frames.

    parts     what the files hold, as arrays
    binary, text  reading and rewriting them
    model     the files of a folder
    poses, rigs, optics  COLMAP's poses, frames and camera models, and ours
    reading, solution, writing  from a model to a problem and back
"""

from daba.io.colmap.model import is_model
from daba.io.colmap.reading import load
from daba.io.colmap.solution import Solution, is_colmap
from daba.io.colmap.writing import save

__all__ = ["Solution", "is_colmap", "is_model", "load", "save"]
