"""Pose priors of a COLMAP database (.db), such as GNSS positions of images, as position priors."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from daba.core.errors import DabaError
from daba.core.losses import Loss
from daba.io.colmap.theirs import pycolmap
from daba.io.files import PathLike
from daba.problem.priors import Targets
from daba.problem.problem import Problem


def read_pose_priors(
    path: PathLike, problem: Problem, loss: Loss, names: dict[str, int]
) -> Targets:
    """Positions, with their covariances, of the cameras whose images, by name, are in the problem.

    They must be Cartesian and in the coordinates of the model: latitudes are refused.
    """
    colmap = pycolmap()
    if not Path(path).is_file():  # or pycolmap would make one
        raise DabaError(f"cannot read {path}: there is no such file")
    try:
        with colmap.Database.open(os.fspath(path)) as database:
            priors = database.read_all_pose_priors()
            images = {image.image_id: image.name for image in database.read_all_images()}
    except RuntimeError as error:
        raise DabaError(f"{path}: not a COLMAP database") from error
    found: dict[int, tuple[np.ndarray, np.ndarray]] = {}
    for prior in priors:
        name = images.get(prior.corr_data_id.id)
        if name is None or names.get(name, -1) < 0 or not prior.has_position():
            continue
        if prior.coordinate_system != colmap.PosePriorCoordinateSystem.CARTESIAN:
            raise DabaError(
                f"{path}: the position of {name} is {prior.coordinate_system.name}, and priors "
                "must be Cartesian, in the coordinates of the model"
            )
        if not prior.has_position_cov():
            raise DabaError(f"{path}: the position of {name} has no covariance")
        found[names[name]] = prior.position.ravel(), prior.position_covariance
    if not found:
        raise DabaError(f"{path}: no image of '{problem.name}' has a position in it")
    target, covariance = zip(*found.values(), strict=True)
    return Targets.make(list(found), np.array(target), covariance=np.array(covariance), loss=loss)
