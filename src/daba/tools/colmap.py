"""`daba.colmap.bundle_adjustment`: what `pycolmap.bundle_adjustment` does, to the same objects.

A `pycolmap.Reconstruction` is adjusted in place. Options and config are pycolmap's own; of their
solver's settings, those that mean the same here are taken over.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from daba.core.errors import DabaError
from daba.core.losses import Loss, make_loss
from daba.core.types import frozen
from daba.io.colmap.memory import is_reconstruction, load_reconstruction, update
from daba.io.colmap.theirs import pycolmap
from daba.problem.problem import Bools, Problem

if TYPE_CHECKING:
    from daba.runtime.result import Result

FOREVER = 1e9
"""Seconds, which is how pycolmap says that time does not matter."""


@frozen
class BundleAdjustmentSummary:
    """What came of it, with the names that pycolmap's summary has, and the whole `daba.Result`."""

    result: Result
    num_residuals: int
    initial_cost: float
    """½ Σ ρ(|r|²) in pixels."""
    final_cost: float
    num_iterations: int

    @property
    def termination_type(self) -> Any:
        """A `pycolmap.BundleAdjustmentTerminationType`."""
        kinds = pycolmap().BundleAdjustmentTerminationType
        return kinds.CONVERGENCE if self.result.converged else kinds.NO_CONVERGENCE

    def is_solution_usable(self) -> bool:
        return bool(np.isfinite(self.final_cost) and self.final_cost <= self.initial_cost)

    def brief_report(self) -> str:
        return (
            f"daba: iterations {self.num_iterations}, initial cost {self.initial_cost:.6e}, final "
            f"cost {self.final_cost:.6e}, {self.result.reason}"
        )


def bundle_adjustment(
    reconstruction: Any, options: Any = None, config: Any = None, **changes: Any
) -> BundleAdjustmentSummary:
    """Adjust a `pycolmap.Reconstruction` in place, in pixels.

    Args:
        reconstruction: the `pycolmap.Reconstruction`
        options: a `pycolmap.BundleAdjustmentOptions`; what is refined, the loss and its scale,
            iterations, threads and time are taken from it
        config: a `pycolmap.BundleAdjustmentConfig`: which images are adjusted, and which poses,
            cameras, sensors and points are constant; None adjusts everything
        changes: options of `daba.solve`, such as `devices=4`, which come before those above
    """
    if not is_reconstruction(reconstruction):
        kind = type(reconstruction).__name__
        raise DabaError(f"bundle_adjustment takes a pycolmap.Reconstruction, not a {kind}")
    from daba.runtime.solve import solve

    options = pycolmap().BundleAdjustmentOptions() if options is None else options
    problem = load_reconstruction(reconstruction)
    chosen = problem if config is None else _chosen(problem, reconstruction, config)
    chosen = _with_options(chosen, options)
    result = solve(chosen, **(_solver_options(options) | changes))
    solved = result.problem
    whole = replace(solved.optics, pixels=problem.pixels)  # of all observations, adjusted or not
    new = problem.with_optics(whole, solved.points, solved.poses)
    dropped = {key: solved.info[key] for key in ("dropped",) if key in solved.info}
    update(reconstruction, new.changed(info=new.info | dropped))
    return BundleAdjustmentSummary(
        result,
        2 * chosen.num_observations,
        result.history[0].objective,
        result.objective,
        result.history[-1].iteration,
    )


def _solver_options(options: Any) -> dict[str, Any]:
    """Options of `daba.solve`."""
    ceres = options.ceres.solver_options
    threads = ceres.num_threads
    seconds = ceres.max_solver_time_in_seconds
    return {
        "error": "pixel",
        "refine_focal_length": options.refine_focal_length,
        "refine_extra_params": options.refine_extra_params,
        "refine_principal_point": options.refine_principal_point,
        "refine_sensor_from_rig": options.refine_sensor_from_rig,
        "loss": _loss(options.ceres),
        "iterations": ceres.max_num_iterations,
        "threads": threads if threads > 0 else None,
        "max_seconds": seconds if seconds < FOREVER else None,
    }


def _loss(ceres: Any) -> Loss:
    name = ceres.loss_function_type.name.lower().replace("_", "-")
    return make_loss(name, ceres.loss_function_scale)


def _with_options(problem: Problem, options: Any) -> Problem:
    """The problem with what options hold constant, and without what they leave out."""
    if options.min_track_length > 0:
        track = np.bincount(problem.point_index, minlength=problem.num_points)
        problem = _with_kept(problem, (track >= options.min_track_length)[problem.point_index])
    free = _free(problem)
    if not options.refine_rig_from_world:
        free[_one_of_each_frame(problem), :6] = False
    elif options.constant_rig_from_world_rotation:
        free[_one_of_each_frame(problem), :3] = False
    if not options.refine_points3D:
        problem = problem.changed(free_points=np.zeros(problem.num_points, bool))
    return problem.changed(free_cameras=None if free.all() else free)


def _chosen(problem: Problem, reconstruction: Any, config: Any) -> Problem:
    """The problem with the images, and what is constant, as a config says.

    As in COLMAP, a point that images see which are not chosen stays, unless the config names it:
    then these images see it, too, from where they are.
    """
    adjusted = np.isin(problem.image_ids, list(config.images))
    if not adjusted.any():
        raise DabaError("the config has no image of this reconstruction")
    ids = problem.point3D_ids
    named = np.isin(ids, list(config.constant_points | config.variable_points))
    keep = adjusted[problem.camera_index] | named[problem.point_index]
    whole = np.bincount(problem.point_index[~keep], minlength=problem.num_points) == 0
    points = whole & ~np.isin(ids, list(config.constant_points))
    free = _free(problem)
    free[~adjusted, :6] = False
    camera = problem.optics.camera
    camera_ids = np.asarray(problem.info["camera_ids"])[camera]
    constant = np.isin(camera_ids, list(config.constant_cam_intrinsics))
    free[constant | ~np.isin(camera, camera[adjusted]), 6:] = False
    frame = [reconstruction.images[int(i)].frame_id for i in problem.image_ids]
    constant = np.isin(frame, list(config.constant_rig_from_world_poses))
    first = _one_of_each_frame(problem)
    free[first[constant[first]], :6] = False
    problem = _with_held_sensors(problem, reconstruction, config)
    return _with_kept(problem, keep).changed(
        free_points=None if points.all() else points, free_cameras=None if free.all() else free
    )


def _with_held_sensors(problem: Problem, reconstruction: Any, config: Any) -> Problem:
    optics = problem.given_optics
    assert optics is not None
    if optics.sensor is None or optics.sensors is None:
        return problem
    images = [reconstruction.images[int(i)] for i in problem.image_ids]
    constant = {sensor.id for sensor in config.constant_sensor_from_rig_poses}
    held = np.zeros(len(optics.sensors), bool)
    held[[n for n, i in zip(optics.sensor, images, strict=True) if i.camera_id in constant]] = True
    return problem.changed(given_optics=replace(optics, held_sensors=held))


def _free(problem: Problem) -> Bools:
    free = problem.free_cameras
    return np.ones((problem.num_cameras, 9), bool) if free is None else free.copy()


def _one_of_each_frame(problem: Problem) -> np.ndarray:
    """An image of each frame, where there is one, that on the place of the rig itself: to hold a
    frame is to hold one of its images, whose sensors may move on."""
    optics = problem.optics
    if optics.frame is None or optics.sensor is None:
        return np.arange(problem.num_cameras)
    order = np.lexsort((optics.sensor, optics.frame))
    return np.asarray(order[np.unique(optics.frame[order], return_index=True)[1]])


def _with_kept(problem: Problem, keep: np.ndarray) -> Problem:
    """The problem with some of its observations; the others are not dropped from the tracks."""
    if not keep.any():
        raise DabaError("no observation is left to be adjusted")
    info = problem.info | {"keys": np.asarray(problem.info["keys"])[keep]}
    return problem.with_observations(keep, info)
