"""COLMAP models: folders with cameras, images and points3D, in binary or text, and perhaps rigs
and frames.

    parts     what the files hold, as arrays
    binary, text  reading and rewriting them
    model     the files of a folder
    poses, rigs  COLMAP's poses and frames, and ours
    reading, solution, writing  from a model to a problem and back
    memory    the same with a `pycolmap.Reconstruction`
"""

from daba.io.colmap.memory import is_reconstruction, load_reconstruction
from daba.io.colmap.model import is_model
from daba.io.colmap.reading import load
from daba.io.colmap.solution import is_colmap
from daba.io.colmap.writing import save

__all__ = ["is_colmap", "is_model", "is_reconstruction", "load", "load_reconstruction", "save"]
