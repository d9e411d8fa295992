"""The kernels of an iteration, each launched by its name; nothing here waits for the GPU.

What a device does not need, or must not do yet, its programs skip when they look into the device
table.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import triton
import triton.language as tl

from daba.backends.gpu.arrays import BLOCK, Arrays, GpuState, MomentTensors
from daba.backends.gpu.kernels import decide, intra, moments, pcg, refine, schur, state, step
from daba.backends.gpu.kernels.exact import bits
from daba.backends.gpu.tensors import Tensor
from daba.backends.gpu.tolerances import tolerances_of
from daba.backends.operations import Row
from daba.core.options import Options

FLAT = 1024
"""Numbers that one program copies."""


class Launches:
    """Launches; the arrays they work on are fixed, so that they can be recorded and replayed."""

    def __init__(self, arrays: Arrays, options: Options) -> None:
        a, self.a, self.options = arrays, arrays, options
        loss = options.loss
        self.loss: dict[str, Any] = {"KIND": loss.kind, "RADIUS": bits(loss.radius)}
        self.table: dict[str, Any] = {"table": a.table, "S": a.S}
        self.tolerances = tolerances_of(options, a.shard.ranges.cameras)
        self.lanes = _lanes(a.lanes.points)
        self.camera_lanes = _lanes(a.lanes.camera)
        self.block_lanes = _lanes(a.lanes.block)
        self.terms = a.precision.terms
        self.linear = {torch.float32: tl.float32, torch.float64: tl.float64}[a.precision.linear]
        self.SP = max(2, triton.next_power_of_2(a.S))
        self.theta = bits(options.split)
        self.distance: Tensor = a.camera_s
        """Of each camera to what it sees; here and below only what is like it, until it is set."""
        self.centroids: Tensor = a.x.points
        """Of each point's cameras."""

    # What kernels are handed of constraints: here something that they do not look at

    def constrained(self, *names: str) -> dict[str, Any]:
        """Arrays of `KernelConstraints`, by their names."""
        return {"CONSTRAINED": False} | {name: self.a.owner_c for name in names}

    def known_of_cameras(self) -> dict[str, Any]:
        """What refinement is told of cameras' constraints."""
        names = self.constrained("alone", "position_rows", "intrinsics_rows")
        names |= {"positions": self.a.table, "intrinsics": self.a.table}
        return names | {"P_KIND": 0, "P_RADIUS": 0, "D_KIND": 0, "D_RADIUS": 0}

    def known_of_points(self) -> dict[str, Any]:
        names = self.constrained("held", "known_rows")
        return names | {"known": self.a.table, "KNOWN_KIND": 0, "KNOWN_RADIUS": 0}

    # Nesterov's acceleration, and the surrogates

    def extrapolate(self) -> None:
        """x̄ = Proj(x + γ (x − x_last))."""
        a, clip = self.a, self.options.clip
        state.extrapolate_cameras[(blocks_of(a.all_C, 32),)](
            a.x.cameras, a.last.cameras, s=a.camera_s, out=a.bar.cameras, C=a.all_C,
            B=32, num_warps=1,
        )  # fmt: skip
        clipped = math.isfinite(clip)
        state.extrapolate_points[(blocks_of(a.all_P, 128),)](
            a.x.points, a.last.points, centroid=self.centroids if clipped else a.x.points,
            out=a.bar.points, P=a.all_P, CLIP=bits(clip if clipped else 0.0), CLIPPED=clipped,
            B=128, num_warps=4, **self.table,
        )  # fmt: skip

    def rebase(self, at: GpuState, into: MomentTensors, guarded: bool, gap: bool) -> None:
        """The surrogate at an estimate; with `gap` its slack there for the base x."""
        a = self.a
        last = (a.x if gap else at).arguments("last_")
        fixed: dict[str, Any] = {
            **self.loss, **self.table, "GUARDED": guarded, "GAP": gap, "THETA": self.theta,
            "T": self.terms,
        }  # fmt: skip
        if a.inter_l.count:
            moments.build_points[(a.inter_l.count,)](
                **a.inter_l.arguments, **at.arguments(), **last, moments=into.points,
                partial=a.sums.column(Row.SUM_INTER_L), N=a.inter_l.count, **self.lanes, **fixed,
            )  # fmt: skip
        moments.build_cameras[(a.C,)](
            **a.inter_c.arguments, **at.arguments(), **last, moments=into.cameras,
            partial=a.sums.column(Row.SUM_INTER_C), C=a.C, **self.block_lanes, **fixed,
        )  # fmt: skip

    def slack(self) -> None:
        """ΔE^α(x⁺ | x), all of an inter observation's on its point's device."""
        a = self.a
        if a.inter_l.count:
            moments.build_points[(a.inter_l.count,)](
                **a.inter_l.arguments, **a.new.arguments(), **a.x.arguments("last_"),
                moments=a.at_x.points, partial=a.sums.column(Row.SUM_SLACK_F_L),
                N=a.inter_l.count, GUARDED=True, GAP=True, THETA=self.theta, T=self.terms,
                **self.lanes, **self.loss, **self.table,
            )  # fmt: skip

    def evaluate(
        self,
        x: GpuState,
        one: tuple[GpuState, MomentTensors],
        two: tuple[GpuState, MomentTensors] | None,
        guard: Row,
    ) -> None:
        """Values of one surrogate, or two, less those at their bases."""
        a = self.a
        base, first = one
        other, second = two or one
        fixed: dict[str, Any] = {
            **self.table, "GUARD": int(guard), "SECOND": two is not None, "XI": self.options.xi,
        }  # fmt: skip
        moments.evaluate_cameras[(a.C,)](
            owner=a.owner_c, cameras=x.cameras, base=base.cameras, moments=first.cameras,
            second_base=other.cameras, second_moments=second.cameras, zeta=a.zeta,
            partial=a.sums.column(Row.SUM_VALUE_C), C=a.C, num_warps=1, **fixed,
        )  # fmt: skip
        moments.evaluate_points[(a.intra_l.count,)](
            heads=a.intra_l.heads, members=a.intra_l.members, points=x.points, base=base.points,
            moments=first.points, second_base=other.points, second_moments=second.points,
            partial=a.sums.column(Row.SUM_VALUE_L), N=a.intra_l.count, **self.lanes, **fixed,
        )  # fmt: skip

    # The system, and conjugate gradients

    def linearize(self, x: GpuState) -> None:
        """The system of the intra observations at x, and the linear solver's records of it."""
        a = self.a
        intra.linearize_points[(a.intra_l.count,)](
            **a.intra_l.arguments, **x.arguments(), V=a.V, g=a.g, P=a.P, T=self.terms,
            **self.lanes, **self.loss,
        )  # fmt: skip
        intra.linearize_cameras[(a.C,)](
            **a.intra_c.arguments, **x.arguments(), U=a.U, bound=a.camera_bound, T=self.terms,
            W=self.linear, **self.block_lanes, **self.loss,
        )  # fmt: skip
        schur.fill_cameras[(blocks_of(a.C * 16, FLAT),)](
            x.cameras, owner=a.owner_c, centroid=a.centroid, record_c=a.record_c, C=a.C,
            STRIDE=a.stride, B=FLAT, num_warps=4,
        )  # fmt: skip

    def add_priors(self, x: GpuState, row: Row) -> None:
        """Add the priors' part of F at x to a row of the table: here nothing."""

    def assemble(self, base: GpuState, surrogate: MomentTensors) -> None:
        """The cameras' part of E^α's system."""
        a = self.a
        moments.camera_system[(a.C,)](
            U=a.U, begins=a.inter_c.begins, cameras=a.x.cameras, base=base.cameras,
            moments=surrogate.cameras, zeta=a.zeta, derivative=a.derivative, system=a.system,
            SURROGATE=a.surrogate, XI=self.options.xi, num_warps=4,
        )  # fmt: skip

    def damp(self, base: GpuState, surrogate: MomentTensors) -> None:
        """V'⁻¹, and the points' records."""
        a = self.a
        schur.damp_points[(a.intra_l.count,)](
            heads=a.intra_l.heads, members=a.intra_l.members, V=a.V, g=a.g, points=a.x.points,
            base=base.points, moments=surrogate.points, centroid=a.centroid, v_inv=a.v_inv,
            record_l=a.record_l, P=a.P, SURROGATE=a.surrogate, XI=self.options.xi,
            LEAST=a.precision.damping, **self.constrained("held"), **self.lanes, **self.table,
        )  # fmt: skip

    def eliminate(self) -> None:
        """Diagonal blocks of W V'⁻¹ Wᵀ, and W z."""
        a = self.a
        schur.eliminate[(a.C,)](
            **a.intra_c.arguments, owner=a.owner_c, record_c=a.record_c, record_l=a.record_l,
            v_inv=a.v_inv, tiles=a.tiles, STRIDE=a.stride,
            **self.block_lanes, **self.loss, **self.table,
        )  # fmt: skip

    def precondition(self) -> None:
        """The preconditioner, and where conjugate gradients begin."""
        a = self.a
        pcg.precondition[(a.C,)](
            owner=a.owner_c, system=a.system, tiles=a.tiles, M_inv=a.M_inv, rhs=a.rhs, r=a.r,
            x=a.step, z=a.z, partial=a.dots, TINY=a.precision.tiny, num_warps=1,
            **self.constrained("blocks", "still", "shares"), **self.table,
        )  # fmt: skip

    def collect(self, v: Tensor, guard: int) -> None:
        """Sums along d over cameras that share it, where a row of the table is set: here nobody
        does."""

    def product(self, parity: int) -> None:
        """Sp = S p."""
        a = self.a
        schur.product_points[(a.intra_l.count,)](
            **a.intra_l.arguments, record_c=a.record_c, record_l=a.record_l, v_inv=a.v_inv,
            PARITY=parity, STRIDE=a.stride, **self.lanes, **self.loss, **self.table,
        )  # fmt: skip
        schur.product_cameras[(a.C,)](
            **a.intra_c.arguments, owner=a.owner_c, record_c=a.record_c, record_l=a.record_l,
            system=a.system, Sp=a.Sp, partial=a.dots, PARITY=parity, STRIDE=a.stride,
            **self.camera_lanes, **self.loss, **self.table,
        )  # fmt: skip

    def update(self, parity: int) -> None:
        """x += α p, r −= α Sp, z = M⁻¹ r."""
        a = self.a
        pcg.update[(len(a.blocks),)](
            blocks=a.blocks, device_cameras=a.device_cameras, record_c=a.record_c, M_inv=a.M_inv,
            Sp=a.Sp, rhs=a.rhs, r=a.r, x=a.step, z=a.z, dots=a.dots, partial=a.cg_sums,
            N=len(a.blocks), PARITY=parity, STRIDE=a.stride, NB=BLOCK, num_warps=4,
            **self.constrained("still"), **self.table,
        )  # fmt: skip

    def direction(self, first: bool, parity: int) -> None:
        """p = z + β p, and whether a device goes on."""
        a, cg = self.a, self.tolerances
        pcg.direction[(len(a.blocks),)](
            blocks=a.blocks, device_blocks=a.device_blocks, device_cameras=a.device_cameras,
            record_c=a.record_c, z=a.z, dots=a.dots, partial=a.cg_sums, N=len(a.blocks),
            FIRST=first, PARITY=parity, FORCING=bits(cg.forcing), RESIDUAL=bits(cg.residual),
            MOST=cg.most, STRIDE=a.stride, NB=BLOCK, num_warps=4,
            **self.constrained("representative"), **self.table,
        )  # fmt: skip

    # A step

    def move(self, base: GpuState, surrogate: MomentTensors) -> None:
        """x⁺ to be tried."""
        a = self.a
        self.move_cameras(a.x.cameras, a.new.cameras)
        self.move_points(base, surrogate, a.new.points)

    def move_cameras(self, origin: Tensor, trial: Tensor) -> None:
        """`trial` is the origin and the step that was found."""
        a = self.a
        step.move_cameras[(a.C,)](
            owner=a.owner_c, cameras=a.x.cameras, origin=origin, system=a.system,
            bound=a.camera_bound, x=a.step, record_c=a.record_c, trial=trial,
            partial=a.sums.column(Row.SUM_DECREASE_C), STRIDE=a.stride, SP=self.SP, num_warps=1,
            **self.constrained("shares"), **self.table,
        )  # fmt: skip

    def move_points(
        self, base: GpuState, surrogate: MomentTensors, trial: Tensor, follow: bool = False
    ) -> None:
        """`follow`: points that are in `trial` follow their cameras."""
        a = self.a
        step.move_points[(a.intra_l.count,)](
            **a.intra_l.arguments, V=a.V, g=a.g, points=a.x.points, base=base.points,
            moments=surrogate.points, record_c=a.record_c, record_l=a.record_l,
            trial=trial, P=a.P, partial=a.sums.column(Row.SUM_DECREASE_L), FOLLOWS=follow,
            SURROGATE=a.surrogate, XI=self.options.xi, LEAST=a.precision.damping,
            STRIDE=a.stride, SP=self.SP, **self.constrained("held"), **self.lanes, **self.loss,
            **self.table,
        )  # fmt: skip

    def objective(self, x: GpuState, guard: Row) -> None:
        """F and squared pixel error of the intra observations."""
        a = self.a
        intra.objective[(a.C,)](
            **a.intra_c.arguments, owner=a.owner_c, **x.arguments(), GUARD=int(guard),
            partial=a.sums.column(Row.SUM_INTRA_C), C=a.C, T=self.terms,
            **self.camera_lanes, **self.loss, **self.table,
        )  # fmt: skip

    def settle(self) -> None:
        """x⁺ = x where no step was found."""
        a = self.a
        state.settle_cameras[(a.C,)](
            owner=a.owner_c, cameras=a.x.cameras, new=a.new.cameras, num_warps=1, **self.table
        )
        state.settle_points[(a.intra_l.count,)](
            heads=a.intra_l.heads, members=a.intra_l.members, points=a.x.points,
            new=a.new.points, **self.lanes, **self.table,
        )  # fmt: skip

    def refine(self, x: GpuState, block: str, again: bool) -> None:
        """Move the boundary's points, or cameras, to lower the true F."""
        a = self.a
        fixed: dict[str, Any] = {**x.arguments(), "T": self.terms, **self.loss, **self.table}
        if block == "cameras":
            refine.refine_cameras[(a.C,)](
                **a.both_c.arguments, partial=a.sums.column(Row.SUM_REFINED_C),
                **self.known_of_cameras(), **self.block_lanes, **fixed,
            )  # fmt: skip
        elif a.both_l.count:
            refine.refine_points[(a.both_l.count,)](
                **a.both_l.arguments, partial=a.sums.column(Row.SUM_REFINED_L), AGAIN=again,
                **self.known_of_points(), **self.lanes, **fixed,
            )  # fmt: skip

    # What is decided

    def begin(self) -> None:
        decide.begin[(1,)](SP=self.SP, num_warps=1, **self.table)

    def add_up(self, jobs: Tensor) -> None:
        """Sums over the programs of each device, into the table."""
        a = self.a
        decide.add_up[(a.S, len(jobs))](
            partial=a.sums.partial, jobs=jobs, ranges=a.sums.ranges, num_warps=4, **self.table
        )

    def start(self) -> None:
        decide.start[(1,)](THETA=self.theta, SP=self.SP, num_warps=1, **self.table)

    def judge(self, here: bool, concludes: bool = True) -> None:
        """`here`: of a step on the surrogate at x; `concludes`: when it is found, nothing is left
        but E^α⁺ and restarts."""
        a, o = self.a, self.options
        decide.judge[(1,)](
            CONCLUDES=concludes, ACCELERATED=a.accelerated, HERE=here or not a.accelerated,
            GAIN=bits(o.lm_gain), TRIES=o.lm_tries, EPSILON=bits(a.precision.epsilon), SP=self.SP,
            num_warps=1, **self.table,
        )  # fmt: skip

    def finish(self, shared: bool = False) -> None:
        """`shared`: intrinsics that devices share have moved."""
        a, o = self.a, self.options
        decide.finish[(1,)](
            ACCELERATED=a.accelerated, REFINED=a.refined, SHARED=shared, THETA=self.theta, XI=o.xi,
            GROWTH=bits(o.eta_growth), LIMITED=o.limited_by_objective, SP=self.SP, num_warps=1,
            **self.table,
        )  # fmt: skip

    def reset_momentum(self) -> None:
        a = self.a
        state.reset_momentum[(blocks_of(a.all_C, 64),)](
            x_bar=a.bar.cameras, new=a.new.cameras, cameras=a.x.cameras, distance=self.distance,
            s=a.camera_s, C=a.all_C, B=64, num_warps=2, **self.table,
        )  # fmt: skip

    def shift(self) -> None:
        """x_last ← x, x ← x⁺."""
        a = self.a
        for x, last, new in zip(a.x, a.last, a.new, strict=True):
            count = x.numel()
            state.shift[(blocks_of(count, FLAT),)](
                x=x, last=last, new=new, count=count, LAST=a.accelerated, B=FLAT, num_warps=4,
                **self.table,
            )  # fmt: skip


def _lanes(count: int) -> dict[str, Any]:
    return {"B": count, "num_warps": count // 32}


def blocks_of(count: int, size: int) -> int:
    return -(-count // size)
