"""The kernels of an iteration, each launched by its name; nothing here waits for the GPU."""

from __future__ import annotations

import math
from typing import Any

import torch
import triton
import triton.language as tl

from daba.backends.gpu.arrays import BLOCK, Arrays, Estimate, Moments
from daba.backends.gpu.kernels import decide, intra, moments, pcg, refine, schur, state, step
from daba.backends.gpu.kernels.book import Row
from daba.backends.gpu.kernels.exact import bits
from daba.backends.gpu.tolerances import tolerances_of
from daba.core.options import ROUNDS, Options

FLAT = 1024
"""Numbers that one program copies."""


class Launches:
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

    def extrapolate(self) -> None:
        a, clip = self.a, self.options.clip
        state.extrapolate_cameras[(blocks_of(a.all_C, 32),)](
            a.x.cameras, a.last.cameras, a.camera_s, a.bar.cameras, a.all_C, B=32, num_warps=1
        )
        clipped = math.isfinite(clip)
        middle = self.centers if clipped else a.x.points
        state.extrapolate_points[(blocks_of(a.all_P, 128),)](
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
        schur.fill_cameras[(blocks_of(a.C * 16, FLAT),)](
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
            FORCING=bits(cg.forcing), RESIDUAL=bits(cg.residual), MOST=cg.most,
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
            GAIN=bits(o.lm_gain), TRIES=o.lm_tries, EPSILON=bits(a.precision.epsilon), SP=self.SP,
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
            state.shift[(blocks_of(count, FLAT),)](
                x, last, new, count, a.book, a.S, LAST=a.accelerated, B=FLAT, num_warps=4
            )


def _lanes(count: int) -> dict[str, Any]:
    return {"B": count, "num_warps": count // 32}


def blocks_of(count: int, size: int) -> int:
    return -(-count // size)
