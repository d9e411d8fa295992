"""Algorithm 1 on a GPU: the same as `solver.algorithm.Algorithm1`, seen from `runtime.loop`."""

from __future__ import annotations

import math
from functools import partial
from types import SimpleNamespace

import numpy as np
import torch

from daba.backends.gpu.arrays import Arrays
from daba.backends.gpu.ghosts import Ghosts
from daba.backends.gpu.graphs import Graphs
from daba.backends.gpu.iteration import Iteration
from daba.backends.gpu.kernels.book import Row, Status
from daba.backends.gpu.precision import precision_of
from daba.core.decisions import CAUTIOUS_RADIUS, FIRST_SHRINK, LARGEST_RADIUS
from daba.core.options import Options
from daba.distributed.comm.base import Communicator
from daba.distributed.shard import Shard, State
from daba.solver import invariants as guarantees
from daba.solver.extrapolation_scales import surroundings
from daba.solver.interface import Counts, DeviceObjective
from daba.solver.radius import careful
from daba.solver.state import Saved, Saving

CHUNKS = (32, 8, 2)
"""Iterations of conjugate gradients that graphs are made of."""
MORE = 16
"""Those that need more than was expected: this many, then twice as many, and so on."""


class GpuSolver(Saving):
    """The devices of one process on one GPU, and the state of Algorithm 1 on them."""

    def __init__(
        self,
        shard: Shard,
        options: Options,
        comm: Communicator | None = None,
        device: torch.device | str = "cuda",
    ) -> None:
        self.shard, self.options, self.comm = shard, options, comm or Communicator()
        self.exchange = self.comm.exchange(shard)
        self.all = np.ones(shard.num_devices, dtype=bool)
        self.device = torch.device(device)
        start = shard.state()
        self.exchange.update(start, "both")
        precision = precision_of(options.precision, shard.extent.observations)
        self.arrays = Arrays(shard, options, precision, self.device)
        self.accelerated = self.arrays.accelerated
        self.iteration = Iteration(self.arrays, options)
        self.graphs = Graphs(self.device)
        self.ghosts = Ghosts(self.exchange, self.arrays)
        on_gpu = self.device.type == "cuda"
        self.host = torch.zeros_like(self.arrays.book, device="cpu", pin_memory=on_gpu)
        self.expected = 4
        if self.accelerated and (options.resets or math.isfinite(options.clip)):
            self._surroundings(start)
        book = self.book
        limit = np.where(careful(shard, options), CAUTIOUS_RADIUS, LARGEST_RADIUS)
        for row, value in (
            (Row.ALWAYS, 1.0), (Row.RADIUS, np.minimum(options.first_radius, limit)),
            (Row.SHRINK, FIRST_SHRINK), (Row.LIMIT, limit), (Row.S_POINTS, 1.0),
            (Row.ETA, options.eta),
        ):  # fmt: skip
            book[row] = value
        self.write_book(book)
        self.place(start)
        if self.accelerated:  # its ghosts are known only now
            self.arrays.last.cameras.copy_(self.arrays.x.cameras)
            self.arrays.last.points.copy_(self.arrays.x.points)
        F = self.book[Row.INTRA] + self.book[Row.AT_X]
        book = self.book
        book[Row.F], book[Row.E], book[Row.F_BAR] = F, F, F * options.restart_ratio
        self.write_book(book)
        self.moved = True
        self.counts = Counts()
        self.checked = (self.objective, book[Row.F_BAR].copy())

    # The book

    @property
    def book(self) -> np.ndarray:
        """The book as the host has it."""
        return self.host.numpy()

    def read_book(self) -> np.ndarray:
        """Wait for the GPU, and read its book."""
        self.host.copy_(self.arrays.book, non_blocking=True)
        self.wait()
        return self.book

    def write_book(self, book: np.ndarray) -> None:
        self.arrays.book.copy_(torch.from_numpy(book))
        self.host.copy_(torch.from_numpy(book))

    def wait(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.current_stream().synchronize()

    # What `daba.runtime.loop` and `daba.runtime.checkpoint` look at

    @property
    def x(self) -> State:
        return self.arrays.download(self.arrays.x)

    @property
    def intra(self) -> np.ndarray:
        return np.ascontiguousarray(self.book[Row.INTRA : Row.INTRA_SQUARE + 1].T)

    @property
    def inter(self) -> np.ndarray:
        return np.ascontiguousarray(self.book[Row.INTER : Row.INTER_SQUARE + 1].T)

    @property
    def estimate(self) -> State:
        return self.x

    @property
    def linear_solver(self) -> str:
        return "pcg"

    def device_objective(self) -> DeviceObjective:
        """Without priors: problems that have some are for the CPU."""
        F, square = (self.intra + self.inter).T
        return DeviceObjective(F, square, np.zeros_like(F))

    @property
    def metrics(self) -> SimpleNamespace:
        book = self.book
        return SimpleNamespace(
            F=book[Row.F].copy(), F_bar=book[Row.F_BAR].copy(), E=book[Row.E].copy(),
            eta=float(book[Row.ETA, 0]),
        )  # fmt: skip

    def saved(self) -> Saved:
        a, book = self.arrays, self.read_book()
        rows = (Row.RADIUS, Row.SHRINK, Row.LIMIT, Row.F, Row.F_BAR, Row.E)
        values = (book[row].copy() for row in rows)
        return Saved(self.x, a.download(a.last), a.camera_s.cpu().numpy(), *values)

    def common_state(self) -> dict[str, float]:
        s = float(self.book[Row.S_POINTS, 0]) if self.accelerated else 1.0
        return {"eta": float(self.book[Row.ETA, 0]), "s": s, "turn": 0}

    def restore(self, saved: Saved, common: dict[str, float]) -> None:
        a, book = self.arrays, self.book
        if self.accelerated:
            last = a.upload(saved.last)
            a.last.cameras.copy_(last.cameras)
            a.last.points.copy_(last.points)
            a.camera_s.copy_(torch.from_numpy(saved.camera_s))
        for row, value in (
            (Row.RADIUS, saved.radius), (Row.SHRINK, saved.shrink), (Row.LIMIT, saved.limit),
            (Row.F, saved.F), (Row.F_BAR, saved.F_bar), (Row.E, saved.E),
            (Row.ETA, common["eta"]), (Row.S_POINTS, common["s"]),
        ):  # fmt: skip
            book[row] = value
        self.write_book(book)
        self.place(saved.x)
        self.checked = (self.objective, saved.F_bar.copy())

    def gradient_norm(self) -> float:
        """Largest entry of the gradient of F; the surrogate's is the same at its base (Prop. 1)."""
        a, launches = self.arrays, self.iteration
        launches.linearize()
        launches.assemble(a.x, a.at_x)
        by_camera = a.system.view(-1, 16, 16)[:, :9, 9].abs().max()
        g = a.g - 2.0 * a.at_x.points[:, 1:].T if a.surrogate else a.g
        here = max(float(by_camera), float(g.abs().max()))
        return float(self.comm.gather(np.full((len(self.all), 1), here)).max())

    def place(self, x: State) -> None:
        """Stand at x, whose ghosts are known."""
        a, launches = self.arrays, self.iteration
        here = a.upload(x)
        a.x.cameras.copy_(here.cameras)
        a.x.points.copy_(here.points)
        launches.objective(a.x, Row.ALWAYS)
        if a.surrogate:
            launches.rebase(a.x, a.at_x, guarded=False, gap=False)
        launches.add_up(
            a.jobs(
                ("inter_c", 0), ("inter_c1", 0), ("inter_l", 2), ("objective", 0), ("objective1", 0)
            )
        )
        book, split = self.read_book().copy(), self.options.split
        inter, inter_square, by_point, intra, intra_square = book[Row.SUM : Row.SUM + 5]
        book[Row.INTRA], book[Row.INTRA_SQUARE] = intra, intra_square
        book[Row.INTER], book[Row.INTER_SQUARE] = inter, inter_square
        book[Row.AT_X] = split * inter + (1.0 - split) * by_point
        self.write_book(book)

    # Algorithm 1

    def iterate(self) -> None:
        """One pass through the loop of Algorithm 1, for every device α. The host looks at the book
        once for each attempt at a step."""
        here, more = False, MORE
        self.graphs.run("begin", self.iteration.begin)
        self._attempt(here)
        while (status := Status(int(self.book[Row.STATUS, 0]))) != Status.DONE:
            here = here or status == Status.RESTART
            if status == Status.MORE:
                self._gradients(more, here)
                more *= 2
            else:
                self._attempt(here)
        self._end()
        book = self.book
        self.expected = int(book[Row.COUNT].max())
        restarts = int(book[Row.RESTARTS].sum())
        self.counts = Counts(
            restarts=restarts,
            pcg_iterations=int(book[Row.PCG].sum()),
            lm_retries=int(book[Row.RETRIES].sum()),
            lm_steps=int(book[Row.MOVED].sum()) + restarts,
        )
        self.moved = bool(book[Row.MOVED].any())

    def _attempt(self, here: bool) -> None:
        self.graphs.run(("attempt", here), partial(self.iteration.attempt, here))
        self._gradients(self.expected, here)

    def _gradients(self, count: int, here: bool) -> None:
        """So many iterations of CG, the judgement, and what follows: the end of the iteration,
        which does nothing until no device tries any more. Then read the book."""
        for chunk in CHUNKS:
            for _ in range(count // chunk if chunk > 2 else -(-count // chunk)):
                self.graphs.run(("gradients", chunk), partial(self.iteration.gradients, chunk))
            count %= chunk

        def decide() -> None:
            self.iteration.decide(here)
            for part, _ in () if self.ghosts.needed else self.iteration.endings():
                part()
            self.host.copy_(self.arrays.book, non_blocking=True)

        self.graphs.run(("decide", here), decide)
        self.wait()

    def _end(self) -> None:
        """The end of the iteration where neighbours must be told what it makes, part by part."""
        if not self.ghosts.needed:
            return
        for n, (part, blocks) in enumerate(self.iteration.endings()):
            self.graphs.run(("end", n), part)
            if blocks is not None:
                self.ghosts.update(self.arrays.new, blocks)
        self.read_book()

    def _surroundings(self, x: State) -> None:
        """What clipping and resetting the momentum look at."""
        a = self.arrays
        distance, middle = surroundings(self.shard, x)
        self.exchange.constants(distance, middle)
        self.iteration.distance = torch.from_numpy(distance[:, 0].copy()).to(self.device)
        centers = torch.zeros((a.all_P, 4), dtype=torch.float64, device=self.device)
        centers[:, :3] = torch.from_numpy(middle).to(self.device)[a.order]
        self.iteration.centers = centers

    def check(self) -> None:
        """Raise `DabaError` if a guarantee of the method does not hold at this iteration."""
        single = self.arrays.precision.points == torch.float32
        self.checked = guarantees.check(self, 1e-4 if single else 1e-9)
