"""One iteration of Algorithm 1 as kernels, in order; nothing here waits for the GPU.

`begin`, `attempt`, `gradients`, `decide` and `finish` read like `Solver.iterate` and
`Levenberg.step`. What a device does not need, or must not do yet, its programs skip when they look
into the book.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import triton
import triton.language as tl

from daba.comm.serial import Blocks
from daba.gpu.arrays import BLOCK, Arrays, Estimate, Moments
from daba.kernels.gpu import decide, intra, moments, pcg, refine, schur, state, step
from daba.kernels.gpu.book import Row
from daba.kernels.gpu.exact import bits
from daba.options import ROUNDS, Options

FLAT = 1024
"""Numbers that one program copies."""
EXACT, SMALL = 6000, 1000
"""Cameras up to which the CPU would consider a direct solution: there, with `auto`, conjugate
gradients go on until they come near it; and up to which their iterations cost hardly anything."""


@dataclass(frozen=True)
class Tolerances:
    """When conjugate gradients stop: `pcg_forcing`, `pcg_residual` and `pcg_iterations`."""

    forcing: float
    residual: float
    most: int


def tolerances_of(options: Options, cameras: int) -> Tolerances:
    """Refinement is sensitive to loose steps: on a long chain of cameras (kitti-vo-250) F would
    end 0.5 % higher. The paper's method is less so; there a long tail of iterations on one device
    would keep the others waiting for nothing. Who asks for double precision gets all of it."""
    given = Tolerances(options.pcg_forcing, options.pcg_residual, options.pcg_iterations)
    if options.linear_solver != "auto" or cameras > EXACT:
        return given
    if options.precision == "float64":
        wanted = Tolerances(0.0, 1e-6, given.most)
    elif options.refine != "none" and not options.centralized:
        wanted = Tolerances(0.0, 1e-5, given.most)
    elif cameras <= SMALL and not options.centralized:
        wanted = Tolerances(0.0, 1e-4, 24)
    else:
        wanted = Tolerances(0.01, 1e-3, given.most)
    return Tolerances(
        min(given.forcing, wanted.forcing),
        min(given.residual, wanted.residual),
        min(given.most, wanted.most),
    )


class Iteration:
    """Launches; the arrays they work on are fixed, so that they can be recorded and replayed."""

    def __init__(self, arrays: Arrays, options: Options) -> None:
        a, self.a, self.options = arrays, arrays, options
        loss = options.loss
        self.loss: dict[str, Any] = {"KIND": loss.kind, "RADIUS": bits(loss.radius)}
        self.tolerances = tolerances_of(options, a.shard.extent.cameras)
        self.lanes = _lanes(a.lanes.points)
        self.camera_lanes = _lanes(a.lanes.camera)
        self.block_lanes = _lanes(a.lanes.block)
        self.terms = a.precision.terms
        self.linear = {torch.float32: tl.float32, torch.float64: tl.float64}[a.precision.linear]
        self.SP = max(2, triton.next_power_of_2(a.S))
        self.rounds = ROUNDS[options.refine if a.refined else "none"]
        self.distance: Any = None
        self.centers: Any = None
        self.begin_jobs = a.jobs(("inter_c", 0), ("inter_l", 2), ("value_c", 0), ("value_l", 1))
        self.step_jobs = a.jobs(
            ("decrease_c", 0), ("decrease_l", 1), ("objective", 0), ("objective1", 0),
            ("value_c", 0), ("value_l", 1), ("value_c1", 0), ("value_l1", 1),
            ("value_c2", 0), ("value_l2", 1),
        )  # fmt: skip
        gaps = [("zero", 0), ("zero", 0)]
        if a.accelerated and not a.refined:
            gaps = [("inter_c2", 0), ("inter_l1", 2)]
        more = [("objective", 0), ("objective1", 0)]
        if a.refined:
            slack = ("slack1", 2) if a.accelerated else ("zero", 0)
            more += [slack, ("refined_l", 3), ("refined_c", 0)]
        self.finish_jobs = a.jobs(("inter_c", 0), ("inter_c1", 0), ("inter_l", 2), *gaps, *more)

    # The parts of an iteration

    def begin(self) -> None:
        """Nesterov's acceleration and the surrogate at x̄; the intra observations linearized."""
        a, o = self.a, self.options
        decide.begin[(1,)](a.book, a.S, SP=self.SP, num_warps=1)
        if a.accelerated:
            self.extrapolate()
            self.rebase(a.bar, a.at_bar, guarded=False, gap=False)
            self.evaluate(a.x, (a.bar, a.at_bar), None, Row.ACTIVE)
            self.add_up(self.begin_jobs)
            decide.start[(1,)](a.book, a.S, THETA=bits(o.split), SP=self.SP, num_warps=1)
        self.linearize()
        self.assemble(a.bar, a.at_bar)

    def attempt(self, here: bool) -> None:
        """The damped system at x for the surrogate at x̄ or, `here`, at x; CG's first direction."""
        a = self.a
        base, surrogate = self.base(here)
        if here and a.accelerated:
            self.assemble(base, surrogate)
        self.damp(base, surrogate)
        self.eliminate()
        self.precondition()
        self.direction(first=True, parity=0)

    def gradients(self, count: int) -> None:
        """Iterations of CG, an even number; devices that have converged skip them."""
        assert count % 2 == 0
        for k in range(count):
            self.product(k % 2)
            self.update(k % 2)
            self.direction(first=False, parity=k % 2)

    def decide(self, here: bool) -> None:
        """Make the step, if CG has converged, and judge it."""
        a = self.a
        base, surrogate = self.base(here)
        self.move(base, surrogate)
        self.objective(a.new, Row.TRYING)
        if a.surrogate:
            second = (a.x, a.at_x) if a.accelerated and not here else None
            self.evaluate(a.new, (base, surrogate), second, Row.TRYING)
        self.add_up(self.step_jobs)
        self.judge(here)

    def base(self, here: bool) -> tuple[Estimate, Moments]:
        """The estimate that the surrogate in use was built at, and its moments."""
        a = self.a
        return (a.x, a.at_x) if here or not a.accelerated else (a.bar, a.at_bar)

    def endings(self) -> list[tuple[Callable[[], None], Blocks | None]]:
        """The end of an iteration, part by part, with what neighbours must be told after each: x⁺
        where a step was found, refinement, and the metrics. They do nothing until it is DONE."""
        a = self.a
        if not self.rounds:
            return [(self.settle, "both"), (self.finish, None)]
        parts: list[tuple[Callable[[], None], Blocks | None]] = [(self.settle, "cameras")]
        for n, block in enumerate(self.rounds):

            def refined(n: int = n, block: Blocks = block) -> None:
                if n == 0 and a.accelerated:
                    self.slack()
                self.refine(block, again=n == 2)

            parts.append((refined, block))
        return [*parts, (self.finish, None)]

    def finish(self) -> None:
        """The surrogate at x⁺, the metrics, and x ← x⁺."""
        a, o = self.a, self.options
        refined = bool(self.rounds)
        if refined:
            self.objective(a.new, Row.ALWAYS)
        if a.surrogate:
            self.rebase(a.new, a.at_x, guarded=True, gap=a.accelerated and not refined)
        self.add_up(self.finish_jobs)
        decide.finish[(1,)](
            a.book, a.S, ACCELERATED=a.accelerated, REFINED=refined, THETA=bits(o.split), XI=o.xi,
            GROWTH=bits(o.eta_growth), SP=self.SP, num_warps=1,
        )  # fmt: skip
        if a.accelerated and o.resets:
            state.reset_momentum[(_blocks(a.all_C, 64),)](
                a.bar.cameras, a.new.cameras, a.x.cameras, self.distance, a.camera_s, a.all_C,
                a.book, a.S, B=64, num_warps=2,
            )  # fmt: skip
        self.shift()

    # One kernel, or two, each

    def extrapolate(self) -> None:
        a, clip = self.a, self.options.clip
        state.extrapolate_cameras[(_blocks(a.all_C, 32),)](
            a.x.cameras, a.last.cameras, a.camera_s, a.bar.cameras, a.all_C, B=32, num_warps=1
        )
        clipped = math.isfinite(clip)
        middle = self.centers if clipped else a.x.points
        state.extrapolate_points[(_blocks(a.all_P, 128),)](
            a.x.points, a.last.points, middle, a.book, a.S, a.bar.points, a.all_P,
            CLIP=bits(clip if clipped else 0.0), CLIPPED=clipped, B=128, num_warps=4,
        )  # fmt: skip

    def rebase(self, at: Estimate, into: Moments, guarded: bool, gap: bool) -> None:
        """The surrogate at an estimate; with `gap` its slack there for the base x."""
        a = self.a
        fixed: dict[str, Any] = {
            **self.loss, "GUARDED": guarded, "GAP": gap, "THETA": bits(self.options.split),
            "T": self.terms,
        }  # fmt: skip
        last = a.x if gap else at
        if a.inter_l.count:
            moments.build_points[(a.inter_l.count,)](
                a.inter_l.records, a.inter_l.heads, a.inter_l.members, at.cameras, at.points,
                last.cameras, last.points, into.points, a.book, a.column("inter_l"),
                a.inter_l.count, **self.lanes, **fixed,
            )  # fmt: skip
        moments.build_cameras[(a.C,)](
            a.inter_c.records, a.inter_c.begins, at.cameras, at.points, last.cameras, last.points,
            into.cameras, a.book, a.column("inter_c"), a.C, **self.block_lanes, **fixed,
        )  # fmt: skip

    def slack(self) -> None:
        """ΔE^α(x⁺ | x), all of an inter observation's on its point's device."""
        a = self.a
        if a.inter_l.count:
            moments.build_points[(a.inter_l.count,)](
                a.inter_l.records, a.inter_l.heads, a.inter_l.members, a.new.cameras,
                a.new.points, a.x.cameras, a.x.points, a.at_x.points, a.book, a.column("slack"),
                a.inter_l.count, GUARDED=True, GAP=True, THETA=bits(self.options.split),
                T=self.terms, **self.lanes, **self.loss,
            )  # fmt: skip

    def evaluate(
        self,
        x: Estimate,
        one: tuple[Estimate, Moments],
        two: tuple[Estimate, Moments] | None,
        guard: Row,
    ) -> None:
        """Values of one surrogate, or two, less those at their bases."""
        a = self.a
        base, first = one
        other, second = two or one
        fixed: dict[str, Any] = {
            "GUARD": int(guard), "SECOND": two is not None, "XI": self.options.xi
        }  # fmt: skip
        moments.evaluate_cameras[(a.C,)](
            a.owner_c, x.cameras, base.cameras, first.cameras, other.cameras, second.cameras,
            a.zeta, a.book, a.S, a.column("value_c"), a.C, num_warps=1, **fixed,
        )  # fmt: skip
        moments.evaluate_points[(a.intra_l.count,)](
            a.intra_l.heads, a.intra_l.members, x.points, base.points, first.points,
            other.points, second.points, a.book, a.S, a.column("value_l"), a.intra_l.count,
            **self.lanes, **fixed,
        )  # fmt: skip

    def linearize(self) -> None:
        a = self.a
        intra.linearize_points[(a.intra_l.count,)](
            a.intra_l.records, a.intra_l.heads, a.intra_l.members, a.x.cameras, a.x.points, a.V,
            a.g, a.P, T=self.terms, **self.lanes, **self.loss,
        )  # fmt: skip
        intra.linearize_cameras[(a.C,)](
            a.intra_c.records, a.intra_c.begins, a.x.cameras, a.x.points, a.U, a.reach,
            T=self.terms, W=self.linear, **self.block_lanes, **self.loss,
        )  # fmt: skip
        schur.fill_cameras[(_blocks(a.C * 16, FLAT),)](
            a.x.cameras, a.owner_c, a.middle, a.record_c, a.C, STRIDE=a.stride, B=FLAT, num_warps=4
        )

    def assemble(self, base: Estimate, surrogate: Moments) -> None:
        """The cameras' part of E^α's system."""
        a = self.a
        moments.camera_system[(a.C,)](
            a.U, a.inter_c.begins, a.x.cameras, base.cameras, surrogate.cameras, a.zeta,
            a.derivative, a.system, SURROGATE=a.surrogate, XI=self.options.xi, num_warps=4,
        )  # fmt: skip

    def damp(self, base: Estimate, surrogate: Moments) -> None:
        a = self.a
        schur.damp_points[(a.intra_l.count,)](
            a.intra_l.heads, a.intra_l.members, a.V, a.g, a.x.points, base.points,
            surrogate.points, a.middle, a.v_inv, a.record_l, a.book, a.S, a.P,
            SURROGATE=a.surrogate, XI=self.options.xi, LEAST=a.precision.damping, **self.lanes,
        )  # fmt: skip

    def eliminate(self) -> None:
        a = self.a
        schur.eliminate[(a.C,)](
            a.intra_c.records, a.intra_c.begins, a.owner_c, a.record_c, a.record_l, a.v_inv,
            a.tiles, a.book, a.S, STRIDE=a.stride, **self.block_lanes, **self.loss,
        )  # fmt: skip

    def precondition(self) -> None:
        a = self.a
        pcg.precondition[(a.C,)](
            a.owner_c, a.system, a.tiles, a.M_inv, a.rhs, a.r, a.step, a.z, a.column("dots"),
            a.book, a.S, TINY=a.precision.tiny, num_warps=1,
        )  # fmt: skip

    def product(self, parity: int) -> None:
        """Sp = S p."""
        a = self.a
        schur.product_points[(a.intra_l.count,)](
            a.intra_l.records, a.intra_l.heads, a.intra_l.members, a.record_c, a.record_l,
            a.v_inv, a.book, a.S, PARITY=parity, STRIDE=a.stride, **self.lanes, **self.loss,
        )  # fmt: skip
        schur.product_cameras[(a.C,)](
            a.intra_c.records, a.intra_c.begins, a.owner_c, a.record_c, a.record_l, a.system,
            a.Sp, a.column("dots"), a.book, a.S, PARITY=parity, STRIDE=a.stride,
            **self.camera_lanes, **self.loss,
        )  # fmt: skip

    def update(self, parity: int) -> None:
        a = self.a
        pcg.update[(len(a.blocks),)](
            a.blocks, a.device_cameras, a.record_c, a.M_inv, a.Sp, a.rhs, a.r, a.step, a.z,
            a.column("dots"), a.column("pcg"), len(a.blocks), a.book, a.S, PARITY=parity,
            STRIDE=a.stride, NB=BLOCK, num_warps=4,
        )  # fmt: skip

    def direction(self, first: bool, parity: int) -> None:
        a, cg = self.a, self.tolerances
        pcg.direction[(len(a.blocks),)](
            a.blocks, a.device_blocks, a.device_cameras, a.record_c, a.z, a.column("dots"),
            a.column("pcg"), len(a.blocks), a.book, a.S, FIRST=first, PARITY=parity,
            FORCING=cg.forcing, RESIDUAL=cg.residual, MOST=cg.most,
            STRIDE=a.stride, NB=BLOCK, num_warps=4,
        )  # fmt: skip

    def move(self, base: Estimate, surrogate: Moments) -> None:
        """x⁺ to be tried."""
        a = self.a
        step.move_cameras[(a.C,)](
            a.owner_c, a.x.cameras, a.system, a.reach, a.step, a.record_c, a.new.cameras, a.book,
            a.S, a.column("decrease_c"), STRIDE=a.stride, SP=self.SP, num_warps=1,
        )  # fmt: skip
        step.move_points[(a.intra_l.count,)](
            a.intra_l.records, a.intra_l.heads, a.intra_l.members, a.V, a.g, a.x.points,
            base.points, surrogate.points, a.record_c, a.record_l, a.new.points, a.book, a.S, a.P,
            a.column("decrease_l"), SURROGATE=a.surrogate, XI=self.options.xi,
            LEAST=a.precision.damping,
            STRIDE=a.stride, SP=self.SP, **self.lanes, **self.loss,
        )  # fmt: skip

    def objective(self, x: Estimate, guard: Row) -> None:
        a = self.a
        intra.objective[(a.C,)](
            a.intra_c.records, a.intra_c.begins, a.owner_c, x.cameras, x.points, a.book,
            int(guard), a.S, a.column("objective"), a.C, T=self.terms, **self.camera_lanes,
            **self.loss,
        )  # fmt: skip

    def add_up(self, jobs: Any) -> None:
        a = self.a
        decide.add_up[(a.S, len(jobs))](a.partial, jobs, a.ranges, a.book, a.S, num_warps=4)

    def judge(self, here: bool) -> None:
        a, o = self.a, self.options
        decide.judge_step[(1,)](
            a.book, a.S, ACCELERATED=a.accelerated, HERE=here or not a.accelerated,
            GAIN=o.lm_gain, TRIES=o.lm_tries, EPSILON=a.precision.epsilon, SP=self.SP,
            num_warps=1,
        )  # fmt: skip

    def settle(self) -> None:
        """x⁺ = x where no step was found."""
        a = self.a
        state.settle_cameras[(a.C,)](
            a.owner_c, a.x.cameras, a.new.cameras, a.book, a.S, num_warps=1
        )
        state.settle_points[(a.intra_l.count,)](
            a.intra_l.heads, a.intra_l.members, a.x.points, a.new.points, a.book, a.S, **self.lanes,
        )  # fmt: skip

    def refine(self, block: str, again: bool) -> None:
        """Move the boundary's points, or cameras, to lower the true F."""
        a = self.a
        if block == "points":
            if a.both_l.count:
                refine.refine_points[(a.both_l.count,)](
                    a.both_l.records, a.both_l.heads, a.both_l.members, a.new.cameras,
                    a.new.points, a.book, a.S, a.column("refined_l"), AGAIN=again, T=self.terms,
                    **self.lanes, **self.loss,
                )  # fmt: skip
        else:
            refine.refine_cameras[(a.C,)](
                a.both_c.records, a.both_c.begins, a.new.cameras, a.new.points, a.book, a.S,
                a.column("refined_c"), T=self.terms, **self.block_lanes, **self.loss,
            )  # fmt: skip

    def shift(self) -> None:
        a = self.a
        for x, last, new in zip(a.x, a.last, a.new, strict=True):
            count = x.numel()
            state.shift[(_blocks(count, FLAT),)](
                x, last, new, count, a.book, a.S, LAST=a.accelerated, B=FLAT, num_warps=4
            )


def _lanes(count: int) -> dict[str, Any]:
    return {"B": count, "num_warps": count // 32}


def _blocks(count: int, size: int) -> int:
    return -(-count // size)
