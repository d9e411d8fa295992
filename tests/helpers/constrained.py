"""Problems under every kind of constraint, made with NumPy alone: for tests of the GPU."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

import daba
from daba.problem.priors import Priors, Targets
from daba.problem.problem import Problem


def fixed(problem: Problem) -> Problem:
    """A whole camera, the rotation of one, the position of one, intrinsics of one, and points."""
    free = np.ones((problem.num_cameras, 9), bool)
    free[0] = False
    free[1, :3] = False
    free[2, 3:6] = False
    free[3, 6:] = False
    free_points = np.arange(problem.num_points) % 4 != 1
    return replace(problem, free_cameras=free, free_points=free_points).validated()


def with_shared(problem: Problem, groups: np.ndarray) -> Problem:
    """Cameras of a group have the d of its first."""
    _, first, of = np.unique(groups, return_index=True, return_inverse=True)
    cameras = problem.cameras.copy()
    cameras[:, 12:] = cameras[first[of], 12:]
    return replace(problem, cameras=cameras, shared=groups.astype(np.int32)).validated()


def shared_on_devices(problem: Problem) -> Problem:
    """By cameras of one device each: `in_halves` puts the first half on the first."""
    groups = np.arange(problem.num_cameras)
    half = len(groups) // 2
    groups[: half - 1] = 0
    groups[half:] = half
    return with_shared(problem, groups)


def shared_across_devices(problem: Problem) -> Problem:
    """One camera for all but one image, which stays alone."""
    groups = np.zeros(problem.num_cameras, int)
    groups[-1] = 1
    return with_shared(problem, groups)


def known(problem: Problem, loss: daba.Loss | None = None) -> Problem:
    """Something of a few of everything, not all of it right; nobody's priors are alike."""
    rng = np.random.default_rng(3)

    def about(values: np.ndarray, count: int, size: float) -> Targets:
        index = rng.permutation(len(values))[:count]
        A = rng.normal(size=(count, 3, 3))
        covariance = size**2 * (A @ A.transpose(0, 2, 1) + 0.1 * np.eye(3))
        off = size * rng.normal(size=(count, 3))
        return Targets.make(index, values[index] + off, covariance=covariance, loss=loss)

    C, P = problem.num_cameras, problem.num_points
    priors = Priors(
        about(problem.centers, C // 2, 0.05),
        about(problem.intrinsics, C // 2, 0.02),
        about(problem.points, P // 3, 0.05),
    )
    return replace(problem, priors=priors).validated()


def everything(problem: Problem) -> Problem:
    """Two groups that live on both devices and one camera alone, poses and points fixed here and
    there, and priors under a robust loss; of what is shared one camera has the prior."""
    groups = np.arange(problem.num_cameras) % 2
    groups[-1] = 7
    free = np.ones((problem.num_cameras, 9), bool)
    free[0, :6] = False
    free[groups == 1, 8] = False
    made = replace(
        with_shared(problem, groups),
        free_cameras=free,
        free_points=np.arange(problem.num_points) % 5 != 2,
    )
    priors = known(problem, daba.Huber(1.5)).priors
    assert priors is not None
    only = np.flatnonzero(np.isin(priors.intrinsics.index, [0, 1, problem.num_cameras - 1]))
    one = np.full(problem.num_cameras, -1)
    one[priors.intrinsics.index[only]] = priors.intrinsics.index[only]
    return replace(made, priors=replace(priors, intrinsics=priors.intrinsics.take(one))).validated()


def all_but_across(problem: Problem) -> Problem:
    """The same, with groups that live on one device each."""
    made, groups = everything(problem), np.arange(problem.num_cameras)
    half = len(groups) // 2
    groups[:half], groups[half:] = 0, half
    shared = with_shared(made, groups)
    assert shared.free_cameras is not None
    free = shared.free_cameras.copy()
    free[:, 6:] = True
    return replace(shared, free_cameras=free).validated()


def held(problem: Problem) -> Problem:
    """All intrinsics, as where daba, ADMM and DR go before lm in pixels."""
    free = np.ones((problem.num_cameras, 9), bool)
    free[:, 6:] = False
    return replace(with_shared(problem, np.zeros(problem.num_cameras, int)), free_cameras=free)


KINDS: dict[str, Callable[[Problem], Problem]] = {
    "fixed": fixed,
    "shared on a device": shared_on_devices,
    "shared across devices": shared_across_devices,
    "priors": known,
    "everything": everything,
}


def in_halves(problem: Problem) -> daba.Partition:
    """Two devices: one has the first half of the cameras."""
    device = (np.arange(problem.num_cameras) >= problem.num_cameras // 2).astype(np.int32)
    return daba.partition_from_arrays(problem, device)
