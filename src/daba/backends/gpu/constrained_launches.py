"""The kernels of an iteration under constraints: what they are handed, and those that are added."""

from __future__ import annotations

from typing import Any

from daba.backends.gpu.arrays import Arrays, GpuState, MomentTensors
from daba.backends.gpu.constraints import KernelConstraints, KnownTensors
from daba.backends.gpu.kernels import known, sharing
from daba.backends.gpu.launches import Launches, blocks_of
from daba.backends.gpu.tensors import Tensor
from daba.backends.operations import Row
from daba.core.options import Options

MEMBERS = 32
"""Cameras of a group, or priors, that one program looks at side by side."""


class ConstrainedLaunches(Launches):
    """What is fixed, shared or known beforehand is in `constraints`."""

    def __init__(self, arrays: Arrays, options: Options, constraints: KernelConstraints) -> None:
        super().__init__(arrays, options)
        self.constraints = constraints

    def constrained(self, *names: str) -> dict[str, Any]:
        return {"CONSTRAINED": True} | {name: getattr(self.constraints, name) for name in names}

    def known_of_cameras(self) -> dict[str, Any]:
        t, d = self.constraints.positions, self.constraints.intrinsics
        return self.constrained("alone") | {
            "position_rows": t.rows, "positions": t.table, "P_KIND": t.kind, "P_RADIUS": t.radius,
            "intrinsics_rows": d.rows, "intrinsics": d.table, "D_KIND": d.kind,
            "D_RADIUS": d.radius,
        }  # fmt: skip

    def known_of_points(self) -> dict[str, Any]:
        l = self.constraints.points
        names = {"known_rows": l.rows, "known": l.table}
        return self.constrained("held") | names | {"KNOWN_KIND": l.kind, "KNOWN_RADIUS": l.radius}

    # Priors

    def linearize(self, x: GpuState) -> None:
        super().linearize(x)
        a, given = self.a, self.constraints
        for at, priors in ((9, given.positions), (12, given.intrinsics)):
            if priors.count:
                known.add_known_cameras[(blocks_of(priors.count, MEMBERS),)](
                    priors.index, known=priors.table, cameras=x.cameras, U=a.U, count=priors.count,
                    AT=at, B=MEMBERS, num_warps=1, **priors.loss,
                )  # fmt: skip
        if given.points.count:
            known.add_known_points[(blocks_of(given.points.count, MEMBERS),)](
                given.points.index, known=given.points.table, points=x.points, V=a.V, g=a.g, P=a.P,
                count=given.points.count, B=MEMBERS, num_warps=1, **given.points.loss,
            )  # fmt: skip

    def add_priors(self, x: GpuState, row: Row) -> None:
        kinds: tuple[tuple[KnownTensors, Tensor, int, int], ...] = (
            (self.constraints.positions, x.cameras, 16, 9),
            (self.constraints.intrinsics, x.cameras, 16, 12),
            (self.constraints.points, x.points, 4, 0),
        )
        for priors, values, stride, at in kinds:
            if priors.count:
                known.value_of_known[(self.a.S,)](
                    priors.index, begins=priors.begins, known=priors.table, x=values, ROW=int(row),
                    STRIDE=stride, AT=at, B=MEMBERS, num_warps=1, **priors.loss, **self.table,
                )  # fmt: skip

    # What is fixed

    def assemble(self, base: GpuState, surrogate: MomentTensors) -> None:
        super().assemble(base, surrogate)
        self.a.system.mul_(self.constraints.inside)

    # What is shared

    def precondition(self) -> None:
        a, given = self.a, self.constraints
        sharing.diagonal_blocks[(a.C,)](
            owner=a.owner_c, system=a.system, tiles=a.tiles, blocks=given.blocks, raw=given.raw,
            num_warps=1, **self.table,
        )  # fmt: skip
        if given.groups:
            sharing.sum_blocks[(given.groups,)](
                given.begins, members=given.members, owner=a.owner_c, blocks=given.blocks,
                B=MEMBERS, num_warps=1, **self.table,
            )  # fmt: skip
        super().precondition()

    def collect(self, v: Tensor, guard: int) -> None:
        given = self.constraints
        if given.groups:
            sharing.collect[(given.groups,)](
                given.begins, members=given.members, owner=self.a.owner_c, v=v, ROW=guard,
                B=MEMBERS, num_warps=1, **self.table,
            )  # fmt: skip

    def intrinsics(self, x: GpuState, chosen: Tensor, out: Tensor) -> None:
        """Add the quadratics in d of some cameras' observations to rows of `out`."""
        a = self.a
        for obs in (a.intra_c, a.inter_c) if len(chosen) else ():
            sharing.intrinsics[(len(chosen),)](
                **obs.arguments, chosen=chosen, **x.arguments(), out=out, T=self.terms,
                **self.camera_lanes, **self.loss,
            )  # fmt: skip
