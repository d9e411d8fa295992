"""Algorithm 1's operations on a GPU: Triton kernels that look into the device table for what to do,
so that nothing waits for the host but the host for the status."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import partial

import numpy as np
import torch

from daba.backends.gpu.arrays import Arrays, GpuState, MomentTensors
from daba.backends.gpu.constrained_launches import ConstrainedLaunches
from daba.backends.gpu.constraints import KernelConstraints
from daba.backends.gpu.ghosts import Ghosts
from daba.backends.gpu.graphs import Graphs
from daba.backends.gpu.launches import Launches
from daba.backends.gpu.precision import precision_of
from daba.backends.gpu.setting_up import TorchArrays
from daba.backends.gpu.tensors import Tensor
from daba.backends.operations import Base, Block, Operations, Phase, Row, Status
from daba.core.options import Options
from daba.core.types import Floats, State
from daba.distributed.comm.base import Blocks, Exchange
from daba.distributed.shard import Shard

CHUNKS = (32, 8, 2)
"""Iterations of conjugate gradients that graphs are made of."""
LEAST_EXPECTED = 4
"""Iterations expected in the very first step, and at least; after that as many as the step before
has taken. One that nobody needs takes 40 µs of 29 million observations, and one more look at the
status 0.4 ms."""
MORE = 4
"""Those that need more than was expected: this many, then twice as many, and so on."""


class GpuOperations(Operations):
    """The devices of one process on one GPU. A phase is a graph."""

    linear_solver = "pcg"
    concludes = True
    """Whether a step that is found is all there is to it, before E^α⁺ and restarts."""
    ahead = False
    """Whether the intra observations are linearized at x before an iteration begins."""

    def __init__(
        self,
        shard: Shard,
        options: Options,
        exchange: Exchange,
        device: torch.device | str = "cuda",
        constraints: Callable[[Arrays], KernelConstraints] | None = None,
    ) -> None:
        """`constraints` makes the constraints of what is on the GPU, if there are any."""
        self.options, self.device = options, torch.device(device)
        precision = precision_of(options.precision, shard.ranges.observations)
        self.tolerance = 1e-4 if precision.points == torch.float32 else 1e-9
        self.arrays = Arrays(shard, options, precision, self.device)
        self.constraints = constraints and constraints(self.arrays)
        self.launches = (
            Launches(self.arrays, options)
            if self.constraints is None
            else ConstrainedLaunches(self.arrays, options, self.constraints)
        )
        self.graphs = Graphs(self.device)
        self.ghosts = Ghosts(exchange, self.arrays)
        on_gpu = self.device.type == "cuda"
        self.host = torch.zeros_like(self.arrays.table, device="cpu", pin_memory=on_gpu)
        self.table = self.host.numpy()
        self.expected, self.more = LEAST_EXPECTED, MORE
        self._jobs()

    def _jobs(self) -> None:
        """What is added up after each kind of phase."""
        jobs, a = self.arrays.sums.jobs, self.arrays
        inter = (Row.SUM_INTER_C, Row.SUM_INTER_L)
        intra = (Row.SUM_INTRA_C, Row.SUM_INTRA_SQUARE_C)
        value = (Row.SUM_VALUE_C, Row.SUM_VALUE_L)
        self.rebase_jobs = jobs(*inter, *value)
        self.step_jobs = jobs(
            Row.SUM_DECREASE_C, Row.SUM_DECREASE_L, *intra, *value, Row.SUM_VALUE_X_C,
            Row.SUM_VALUE_X_L, Row.SUM_MOVE_C, Row.SUM_MOVE_L,
        )  # fmt: skip
        self.place_jobs = jobs(*inter, Row.SUM_INTER_SQUARE_C, *intra)
        more: list[Row] = []
        if a.refined:
            more += [*intra, Row.SUM_REFINED_L, Row.SUM_REFINED_C]
        if a.accelerated:
            more += [Row.SUM_SLACK_L] if a.refined else [Row.SUM_GAP_C, Row.SUM_GAP_L]
        self.finish_jobs = jobs(*inter, Row.SUM_INTER_SQUARE_C, *more)

    def launch_all(self) -> None:
        """Launch every kernel that a solve may need: for compilation, not to be run."""
        a, rounds = self.arrays, self.options.rounds
        self.launches.objective(a.x, Row.ALWAYS)
        self.begin()
        self.linearize()
        if a.surrogate:
            self.launches.rebase(a.x, a.at_x, guarded=False, gap=False)
        if a.accelerated:
            arrays = TorchArrays(self.device)  # which sum up what `set_scales` is told
            for columns in (1, 3):
                arrays.sums(torch.zeros((1, columns), device=self.device).double(), np.arange(2))
            self.extrapolate()
            self.rebase()
        for base in (Base.BAR, Base.X) if a.accelerated else (Base.X,):
            self.assemble(base)
            self.damp(base)
            self.gradients(2)
            self.move(base)
            self.weigh(base)
        self.settle()
        if rounds and a.accelerated:
            self.slack()
        for n, block in enumerate(rounds):
            self.refine(block, again=block in rounds[:n])
        self.finish()
        self.launches.add_priors(a.x, Row.SUM_KNOWN)
        self.launches.collect(a.rhs, int(Row.ALWAYS))

    # Running

    def run(self, name: Hashable, phase: Phase) -> None:
        self.graphs.run((name, self.ahead), phase)

    def when_done(self, phase: Phase) -> None:
        """Its kernels skip what they do while the status is another."""
        phase()

    def status(self) -> Status:
        status = Status(int(self.read()[Row.STATUS, 0]))
        if status is Status.DONE:
            self.expected = max(LEAST_EXPECTED, int(self.table[Row.COUNT].max()))
        return status

    def read(self) -> Floats:
        self.host.copy_(self.arrays.table, non_blocking=True)
        if self.device.type == "cuda":
            torch.cuda.current_stream().synchronize()
        return self.table

    def write(self, table: Floats) -> None:
        table[Row.ALWAYS] = 1.0
        self.arrays.table.copy_(torch.from_numpy(table))
        self.host.copy_(torch.from_numpy(table))

    # The state

    def set_estimate(self, x: State) -> None:
        a, launches, self.ahead = self.arrays, self.launches, False
        here = a.upload(x)
        for estimate in (a.x, a.last):
            estimate.copy_(here)
        self.write(self.read().copy())  # every device takes part
        launches.objective(a.x, Row.ALWAYS)
        if a.surrogate:
            launches.rebase(a.x, a.at_x, guarded=False, gap=False)
        launches.add_up(self.place_jobs)
        launches.add_priors(a.x, Row.SUM_INTRA_C)
        table, split = self.read().copy(), self.options.split
        for row, sum_row in (
            (Row.INTRA, Row.SUM_INTRA_C), (Row.INTRA_SQUARE, Row.SUM_INTRA_SQUARE_C),
            (Row.INTER, Row.SUM_INTER_C), (Row.INTER_SQUARE, Row.SUM_INTER_SQUARE_C),
        ):  # fmt: skip
            table[row] = table[sum_row]
        table[Row.AT_X] = split * table[Row.INTER] + (1.0 - split) * table[Row.SUM_INTER_L]
        self.write(table)

    def set_momentum(self, last: State, camera_s: Floats) -> None:
        self.arrays.last.copy_(self.arrays.upload(last))
        self.arrays.camera_s.copy_(torch.from_numpy(camera_s))

    def set_scales(self, distance: Floats, centroid: Floats) -> None:
        a = self.arrays
        self.launches.distance = torch.from_numpy(distance).to(self.device)
        centroids = torch.zeros((a.all_P, 4), dtype=torch.float64, device=self.device)
        centroids[:, :3] = torch.from_numpy(centroid).to(self.device)[a.order]
        self.launches.centroids = centroids

    def estimate(self) -> State:
        return self.arrays.download(self.arrays.x)

    def momentum(self) -> tuple[State, Floats]:
        a = self.arrays
        return a.download(a.last), a.camera_s.cpu().numpy()

    def prior_objective(self) -> Floats:
        if self.constraints is None or not self.constraints.known:
            return np.zeros(self.arrays.S)
        table = self.arrays.table
        table[Row.SUM_KNOWN] = 0.0
        self.launches.add_priors(self.arrays.x, Row.SUM_KNOWN)
        return np.asarray(table[Row.SUM_KNOWN].cpu().numpy())

    def gradient_norm(self) -> float:
        """The surrogate's gradient is F's at its base (Prop. 1)."""
        a = self.arrays
        self.linearize()
        self.assemble(Base.X)
        by_camera = a.system.view(-1, 16, 16)[:, :9, 9]
        g = a.g - 2.0 * a.at_x.points[:, 1:].T if a.surrogate else a.g
        if self.constraints is not None:
            by_camera = self.along_steps(by_camera)
            g = g * (self.constraints.held[: a.P] == 0)
        return max(float(by_camera.abs().max()), float(g.abs().max()))

    def along_steps(self, gradient: Tensor) -> Tensor:
        """Of cameras, along what they move by: d once for those that share it on a device."""
        assert self.constraints is not None
        rows = torch.zeros_like(self.arrays.rhs)
        rows[:, :9] = gradient
        self.launches.collect(rows, int(Row.ALWAYS))
        return rows * (self.constraints.still == 0)

    # Nesterov's acceleration and majorization

    def begin(self) -> None:
        self.launches.begin()

    def extrapolate(self) -> None:
        self.launches.extrapolate()

    def rebase(self) -> None:
        a, launches = self.arrays, self.launches
        launches.rebase(a.bar, a.at_bar, guarded=False, gap=False)
        launches.evaluate(a.x, (a.bar, a.at_bar), None, Row.ACTIVE)
        launches.add_up(self.rebase_jobs)
        launches.start()

    def linearize(self) -> None:
        if not self.ahead:
            self.launches.linearize(self.arrays.x)

    def assemble(self, base: Base) -> None:
        self.launches.assemble(*self.surrogate(base))

    def surrogate(self, base: Base) -> tuple[GpuState, MomentTensors]:
        """The estimate that a surrogate was built at, and its moments."""
        a = self.arrays
        return (a.x, a.at_x) if base is Base.X else (a.bar, a.at_bar)

    # Minimization

    def damp(self, base: Base) -> None:
        """The damped system, and conjugate gradients' first direction."""
        launches = self.launches
        launches.damp(*self.surrogate(base))
        launches.eliminate()
        launches.precondition()
        launches.direction(first=True, parity=0)

    def solve(self) -> None:
        self.more = MORE
        self.iterate_gradients(self.expected)

    def solve_on(self) -> None:
        self.iterate_gradients(self.more)
        self.more *= 2

    def iterate_gradients(self, count: int) -> None:
        """So many iterations of conjugate gradients; devices that have converged skip them."""
        for chunk in CHUNKS:
            for _ in range(count // chunk if chunk > 2 else -(-count // chunk)):
                self.graphs.run(("gradients", chunk), partial(self.gradients, chunk))
            count %= chunk

    def gradients(self, count: int) -> None:
        """Iterations of conjugate gradients, an even number."""
        assert count % 2 == 0
        for k in range(count):
            self.launches.product(k % 2)
            self.launches.collect(self.arrays.Sp, Row.RUN + k % 2)
            self.launches.update(k % 2)
            self.launches.direction(first=False, parity=k % 2)

    def move(self, base: Base) -> None:
        self.launches.move(*self.surrogate(base))

    def judge(self, base: Base) -> None:
        self.weigh(base)

    def weigh(self, base: Base) -> None:
        """What x⁺ is worth, and what follows from it."""
        a, launches = self.arrays, self.launches
        launches.objective(a.new, Row.TRYING)
        if a.surrogate:
            second = self.surrogate(Base.X) if base is Base.BAR else None
            launches.evaluate(a.new, self.surrogate(base), second, Row.TRYING)
        launches.add_up(self.step_jobs)
        launches.add_priors(a.new, Row.SUM_INTRA_C)
        launches.judge(base is Base.X, self.concludes)

    # The end of an iteration

    def settle(self) -> None:
        self.launches.settle()

    def slack(self) -> None:
        self.launches.slack()

    def refine(self, block: Block, again: bool) -> None:
        self.launches.refine(self.arrays.new, block, again)

    def exchange(self, blocks: Blocks, final: bool) -> None:
        arrive = self.ghosts.start(self.arrays.new, blocks)
        if final:  # meanwhile begin what needs no ghosts
            self.launches.linearize(self.arrays.new)
            self.ahead = True
        arrive()

    def finish(self) -> None:
        a, launches = self.arrays, self.launches
        if a.refined:
            launches.objective(a.new, Row.ALWAYS)
        if a.surrogate:
            launches.rebase(a.new, a.at_x, guarded=True, gap=a.accelerated and not a.refined)
        launches.add_up(self.finish_jobs)
        if a.refined:
            launches.add_priors(a.new, Row.SUM_INTRA_C)
        launches.finish()
        if a.accelerated and self.options.resets:
            launches.reset_momentum()
        launches.shift()
