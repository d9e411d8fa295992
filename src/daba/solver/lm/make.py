"""Which operations, clusters and coarse space Levenberg–Marquardt gets, for the problem at hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from daba.core.lm import Loss, Observations
from daba.core.options import Options
from daba.core.types import Int32
from daba.distributed.comm.base import Communicator
from daba.distributed.lm_shard import LmInput, LmShard, make_lm_shard
from daba.distributed.shard import Shard
from daba.partition.partition import TRIES
from daba.solver.lm.linear import Reduced, Whole
from daba.solver.lm.network import Network
from daba.solver.lm.solver import LevenbergMarquardt

if TYPE_CHECKING:
    from daba.solver.elimination import Cost

SMALL = 1000
"""Observations up to which plain NumPy has a solution, and nothing is compiled. Where kernels were
compiled before and a few iterations are enough, the command takes 0.93 times as long as pycolmap's
process in NumPy and 0.99 times with kernels at 1,000, and 0.98 and 0.99 times at 2,000; a hundred
iterations take 1 to 2 s in NumPy and 0.2 to 0.3 s with kernels."""
MOST_DENSE = 1e7
"""Multiplications for a dense S: above this the same problem has kernels. 26 images with 545
observations need 5e7, and a hundred iterations take 1.5 s densely and 0.2 s with kernels."""
MOTIONS = 12.0
"""Frames of a cluster that moves as a body in the coarse space. With 8 devices, city-300 takes 98
rounds with one body for each device, 80 with bodies of 20 frames, 64 of 10 and of 6."""
ASKED = 15.0
"""Frames of a cluster where conjugate gradients were asked for: more than one cluster, then, of all
but the smallest problems."""
CROWDED = 0.5
"""Share of pairs of frames with common points from which on, where S of one device is not factored
whole, each frame is a cluster and all are one body: where everybody sees everybody, nothing has to
spread. Eight iterations of notredame-692 take 6 s of CPU so, and 15 s with clusters of 15."""
REUSED = 5.0
"""Steps of clusters that factors of S are worth, where they are used again and everybody sees
everybody: notredame-692 then takes three quarters of the time, and never factors S. Elsewhere
frames alone are a poor start: cities of 1,000 and 1,723 cameras take 5.2 and 12 s of CPU so, and
3.2 and 8.3 s with clusters."""
LITTLE_ROOM = 48.0
"""Bytes for each observation that factors of a device may take, …"""
ROOM_OF_ONE = 1500.0
"""… and those of the only device, where everybody sees everybody: notredame-692 takes 400."""
LEAST_WORTH = 8.0
"""Iterations of conjugate gradients: where factoring S takes no longer, every system is factored.
That is 3.5 on trafalgar-21, which then takes 66 instead of 99 ms; 6 and 7 on ladybug-49 and
kitti-vo-250, which take as long either way; 17 to 44 on pinhole-149, telephoto-50, notredame-150
and cup-362, which take 1.3 to 2.6 times as long with a factorization for every system."""
MOST_MOTIONS = 160
"""Bodies at most, where devices are fewer."""


class Speed(NamedTuple):
    """Seconds; only their ratios matter."""

    pair: float
    """To add a block to S."""
    flop: float
    """In factoring it."""
    observation: float
    """All of conjugate gradients with clusters instead, the coarse space included, …"""
    least: float
    """… and at least."""
    product: float
    """One iteration of conjugate gradients, for each observation; 0: factors of an earlier system
    are not used again; …"""
    byte: float
    """… for each byte of factors, …"""
    call: float
    """… and for what it calls."""
    most_frames: int
    """Of a device: beyond this its S_αα is not considered."""
    cluster: float
    """Frames of a cluster, where S is not factored whole; more …"""
    most_clusters: float
    """… where there would be more than so many."""
    tries: int
    """Ways of cutting frames into clusters among which the best is taken, at most."""

    def direct(self, cost: Cost) -> float:
        """To form S and factor it."""
        return self.pair * cost.pairs + self.flop * cost.factor_flops

    def worth(self, cost: Cost, observations: float) -> float:
        """Iterations of conjugate gradients with factors at hand that take as long as making
        others; 0 if they are always made."""
        if not self.product:
            return 0.0
        iteration = self.product * observations + self.byte * cost.bytes + self.call
        return self.direct(cost) / iteration


CPU = Speed(
    pair=24e-9, flop=2e-11, observation=2e-6, least=1e-3, product=16e-9, byte=5e-11,
    call=3e-4, most_frames=6000, cluster=125.0, most_clusters=float("inf"), tries=TRIES,
)  # fmt: skip
"""Of one thread of a current CPU; conjugate gradients as a chain of frames has them, with
eigenmodes: cup-362 takes 0.9 s directly, 1.9 s with them, and 0.5 s with factors that are used
again. The plan alone is quadratic in frames. With clusters of 15, 60, 125 and 250 frames a city of
1,000 cameras is at 1.001 times its optimum after 5.7, 4.5, 3.2 and 5.7 s of CPU; one of 1,723 with
15, 125 and 250 after 156 s not yet, after 8.3 and after 7.3 s; one of 3,000 with 15, 60 and 125
after 35, 18 and 19 s."""
GPU = Speed(
    pair=3.5e-10, flop=6e-14, observation=5e-9, least=15e-3, product=0.0, byte=0.0,
    call=0.0, most_frames=2500, cluster=15.0, most_clusters=400.0, tries=1,
)  # fmt: skip
"""Of an H200: notredame-692, 16 million pairs and 6,228 rows, is formed in 5.6 ms and factored in
4.5; conjugate gradients take 16 ms for it, 14 to 30 for a city of 1,723 cameras, 25 to 60 for
5 million observations. Clusters of 15 and of 60 frames are equally good; the coarse space is dense,
and with more clusters would outgrow everything else."""


class Operations(Protocol):
    """What a backend offers."""

    def prepare(self) -> None:
        """Before the first of its kernels is called."""

    def operations(self, parts: LmShard, loss: Loss, coarse: bool) -> Any:
        """Of a shard; `coarse`: there will be a coarse space of several clusters."""

    def plan(self, obs: Observations, cluster: Int32, block: int) -> tuple[Any, Cost]:
        """How S is factored for clusters of frames, numbered from 0 on, and what that takes."""

    @property
    def speed(self) -> Speed:
        """How fast it is."""


def lm_solver(
    shard: Shard, options: Options, comm: Communicator, backend: Operations
) -> LevenbergMarquardt:
    """For the error of the options."""
    if options.error == "pixel":
        from daba.distributed.lm_pixels import pixel_input

        return make_lm(shard, pixel_input(shard, comm), options, comm, backend)
    from daba.distributed.lm_rays import ray_input

    return make_lm(shard, ray_input(shard, comm), options, comm, backend)


def make_lm(
    shard: Shard, given: LmInput, options: Options, comm: Communicator, backend: Operations
) -> LevenbergMarquardt:
    """The solver of a shard."""
    loss = Loss(options.loss.kind, float(options.loss.radius))
    alone = comm.size == 1 and shard.ranges.devices == 1
    if alone and options.linear_solver == "auto" and _small(shard, given):
        from daba.backends.plain.operations import PlainOperations

        parts = make_lm_shard(shard.on_host(), given, comm)
        network, ops = Network(parts, comm), PlainOperations(parts, loss)
        whole = Whole(parts, ops, network)
        return LevenbergMarquardt(shard, parts, options, network, ops, whole)
    backend.prepare()
    parts, plan, worth = _with_clusters(shard, given, options, comm, backend)
    ops = backend.operations(parts, loss, int(parts.cluster_ptr[-1]) > 1)
    ops.plan(plan)
    network = Network(parts, comm)
    if parts.cluster_ptr[-1] == 1:
        reduced = _of_one_cluster(parts, network, ops, worth, backend)
    else:
        reduced = _of_many(shard, given, parts, options, network, ops, backend.speed.tries)
    return LevenbergMarquardt(shard, parts, options, network, ops, reduced)


def _small(shard: Shard, given: LmInput) -> bool:
    """Whether plain NumPy is as good as kernels are."""
    rows = float(_frames_of_devices(shard, given).sum()) * given.kind.block
    multiplications = rows**2 * 3.0 * shard.num_points
    return shard.ranges.observations <= SMALL and multiplications <= MOST_DENSE


def _with_clusters(
    shard: Shard, given: LmInput, options: Options, comm: Communicator, backend: Operations
) -> tuple[LmShard, Any, float]:
    """Devices are clusters, unless factoring them takes longer than more iterations do. With the
    plan, and what factoring is worth, in iterations; 0 if it is to be done for every system."""
    from daba.solver.lm.plan import split_frames

    B, speed, frames = given.kind.block, backend.speed, _frames_of_devices(shard, given)
    size = max(speed.cluster, float(comm.gather(frames).sum()) / speed.most_clusters)
    if options.linear_solver == "pcg":
        size = min(size, ASKED)
    if not comm.any(bool(frames.max() > speed.most_frames)):
        parts = make_lm_shard(shard, given, comm)
        plan, cost = backend.plan(parts.obs, _here(parts), B)
        crowded = shard.ranges.devices == 1 and cost.density > CROWDED
        if options.linear_solver == "direct":
            return parts, plan, 0.0
        if options.linear_solver == "auto" and _pays(cost, speed, parts, comm):
            return parts, plan, speed.worth(cost, len(parts.obs.frame))
        size = 1.0 if crowded else size
    parts = make_lm_shard(shard, given, comm, split_frames(shard, given, size, speed.tries))
    return parts, backend.plan(parts.obs, _here(parts), B)[0], 0.0


def _here(parts: LmShard) -> np.ndarray:
    """Clusters of own frames, counted from 0."""
    return parts.cluster[: parts.num_frames] - int(parts.cluster_ptr[parts.first_device])


def _pays(cost: Cost, speed: Speed, parts: LmShard, comm: Communicator) -> bool:
    """Decided from numbers of all processes: it must not depend on how devices are assigned."""
    own = float(parts.obs.point_ptr[parts.num_points])
    rows = np.zeros((parts.devices, len(cost) + 1))
    rows[0] = *cost, own
    *total, observations = comm.gather(rows).sum(axis=0)
    cost = type(cost)(*total)
    iterative, room = speed.observation * observations, LITTLE_ROOM
    if speed.product and parts.cluster_ptr[-1] == 1 and cost.density > CROWDED:
        iterative, room = REUSED * iterative, ROOM_OF_ONE
    quick = speed.direct(cost) < max(iterative, speed.least)
    return bool(quick and cost.fits(observations, room))


def _of_one_cluster(
    parts: LmShard, network: Network, ops: Any, worth: float, backend: Operations
) -> Reduced:
    """Factors of S, used again where making them takes long."""
    from daba.solver.lm.coarse import make_space
    from daba.solver.lm.direct import Direct

    shared = parts.shared.count > 0
    space = make_space(parts, ops, network, parts.cluster, 0) if shared else None
    if worth < LEAST_WORTH:
        return Direct(parts, ops, network, space)
    from daba.solver.lm.renewed import Renewed, frames_alone

    obs, frames = frames_alone(parts.obs), np.arange(parts.num_frames, dtype=np.int32)
    alone, _ = backend.plan(obs, frames, parts.kind.block)
    return Renewed(parts, ops, network, space, worth, (alone, obs))


def _of_many(
    shard: Shard,
    given: LmInput,
    parts: LmShard,
    options: Options,
    network: Network,
    ops: Any,
    tries: int,
) -> Reduced:
    """Conjugate gradients over clusters."""
    from daba.solver.lm.coarse import make_space
    from daba.solver.lm.deflated import Deflated
    from daba.solver.lm.plan import everywhere, split_frames

    frames = float(network.comm.gather(_frames_of_devices(shard, given)).sum())
    alone = parts.cluster_ptr[-1] == frames and shard.ranges.devices == 1
    frames = frames if alone else max(MOTIONS, frames / MOST_MOTIONS)
    bodies = split_frames(shard, given, frames, tries)
    bodies, count = everywhere(parts, bodies, network.comm)
    space = make_space(parts, ops, network, bodies, count)
    return Deflated(parts, ops, network, space, options.pcg_iterations)


def _frames_of_devices(shard: Shard, given: LmInput) -> np.ndarray:
    """How many each device here has, (S, 1)."""
    first = np.flatnonzero(np.diff(given.frame, prepend=-1))
    return np.diff(np.searchsorted(first, shard.devices.camera_ptr))[:, None].astype(float)
