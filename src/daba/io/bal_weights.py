"""What BAL has no place for: the focal lengths by which a solution's observations were divided.

`solution.txt` has `solution.txt.weights.json` beside it:

    {"format": "daba weights", "version": 1,
     "focal": [...],      f of each camera as the BAL file says
     "divisor": [...]}    f by which its observations were divided, on which ω depends

It counts only for a file with exactly those focal lengths, so that it can never change the
meaning of another file of the same name.
"""

from __future__ import annotations

import json
import os
import warnings
from contextlib import suppress
from pathlib import Path

import numpy as np

from daba.core.errors import DabaError, DabaWarning
from daba.core.text import parse_json
from daba.io.files import PathLike, open_input, open_output
from daba.problem.problem import Floats

FORMAT = "daba weights"
VERSION = 1
"""What such a file says that it is."""


def weights_path(path: PathLike) -> Path:
    """Where the divisors of a BAL file are kept."""
    target = Path(os.path.realpath(path))
    return target.with_name(target.name + ".weights.json")


def save(path: PathLike, focal: Floats, divisor: Floats) -> None:
    """Write the divisors beside a BAL file, or remove older ones where none are needed."""
    beside = weights_path(path)
    if not Path(os.path.realpath(path)).is_file():  # a device or a pipe has nothing beside it
        return
    if np.allclose(focal, divisor, rtol=1e-12, atol=0):
        with suppress(FileNotFoundError):
            beside.unlink()
        return
    content = {
        "format": FORMAT,
        "version": VERSION,
        "focal": focal.tolist(),
        "divisor": divisor.tolist(),
    }
    with open_output(beside) as out:
        out.write(json.dumps(content).encode("ascii") + b"\n")


def load(path: PathLike, focal: Floats) -> Floats | None:
    """The divisors kept beside a BAL file whose focal lengths are `focal`.

    None where there are none; if there are some that cannot be used, a warning says why.
    """
    beside = weights_path(path)
    if not beside.is_file():
        return None
    try:
        return _divisor(beside, focal)
    except DabaError as error:
        warnings.warn(
            f"{beside.name} is ignored: {error}. {Path(path).name} is read without it, and its "
            "objective may differ from the one it was written with; delete the first to be rid "
            "of this warning",
            DabaWarning,
            stacklevel=2,
        )
        return None


def _divisor(beside: Path, focal: Floats) -> Floats:
    with open_input(beside, compressed=False) as stream:
        text = stream.read()
    try:
        content = parse_json(text)
        form, version = content["format"], content["version"]
        kept, divisor = (np.asarray(content[key], np.float64) for key in ("focal", "divisor"))
    except (ValueError, KeyError, TypeError, OverflowError):
        raise DabaError("it is damaged") from None
    if form != FORMAT or version != VERSION:
        raise DabaError(f"it holds '{form}' version {version}, not '{FORMAT}' version {VERSION}")
    if not np.array_equal(kept, focal):
        raise DabaError("it belongs to a file with other focal lengths")
    if divisor.shape != focal.shape or not (np.isfinite(divisor) & (divisor > 0)).all():
        raise DabaError("it is damaged")
    return divisor
