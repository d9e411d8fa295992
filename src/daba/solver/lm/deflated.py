"""Conjugate gradients over all devices, preconditioned by S_cc of each cluster and deflated by a
coarse space Z, E = ZᵀSZ:

    y = Z E⁻¹ Zᵀ rhs,  r = rhs − S y,  w = S_cc⁻¹ r
    repeat  v = w − Z E⁻¹ (SZ)ᵀ w,  p ← v + β p,  y += α p,  r −= α S p,  w −= α S_cc⁻¹ S p

A product S v takes two rounds of exchange: v of frames goes to the owners of their points, and
h = V'⁻¹ Wᵀ v of points to the owners of frames. (SZ)ᵀ w comes of h before that, and h is corrected
by what Z takes away. rᵀw of the next iteration follows from what α is summed from. So an iteration
has two rounds and two sums over all devices, and a damping one round and one sum besides.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from daba.core.lm import Estimate
from daba.core.types import Floats
from daba.distributed.lm_shard import LmShard
from daba.solver.lm.coarse import CoarseSpace, make_eigenmodes, make_space
from daba.solver.lm.linear import Reduced, Solution
from daba.solver.lm.network import Network

if TYPE_CHECKING:
    from daba.solver.lm.eigenmodes import Eigenmodes

RESIDUAL = 0.3
"""Conjugate gradients stop when √(rᵀS_cc⁻¹r) has fallen by this factor. Rounds to 1.001 of the
optimum with 8 devices, for 0.1, 0.2, 0.3 and 0.5: kitti-vo-250 246, 186, 186, 176; notredame-150
183, 166, 158, 153; city-1000 62, –, 45, 53."""
RESIDUAL_WHERE_ROUGH = 0.03
"""The same where errors are still large. A step that is solved to 0.3 lets points follow cameras
that are wrong together, into a valley that no later step leaves: of 40 models with cameras 3° off,
on 4 devices, 18 end above COLMAP with 0.3, and 1 with 0.03; of 40 others, which had no part in the
choice, 18 and none. With 0.01 city-300 takes 88 rounds instead of 60."""
ROUNDING = 1e-14
"""Of yᵀSy: a residual rᵀS_cc⁻¹r below this share is rounding, and directions made of it lead
astray. Where the coarse space is all there is (rigs of six images on two devices) it is 1e-18 from
the beginning; six cameras on two devices lose their way at 7e-16."""
MANY_ITERATIONS = 6
"""Of conjugate gradients for one step: when one takes so many, local eigenmodes take the place of
bodies' motions. With 4, city-1000 has them, and takes longer."""
CHAIN = 7.0
"""A scene whose bodies have fewer neighbours than this, and than a quarter of all bodies, is a
chain, and has eigenmodes from the first step on: kitti-vo-250 has 5 to 6, streets 4, cities 13 to
19. With 32 devices kitti-vo-250 then takes 24 rounds to 1.01, else 51."""


class Deflated(Reduced):
    """Conjugate gradients."""

    def __init__(
        self,
        shard: LmShard,
        ops: Any,
        network: Network,
        space: CoarseSpace,
        most: int,
    ) -> None:
        """most: iterations."""
        super().__init__(shard, ops, network)
        self.space, self.most = space, most
        self.eigenmodes: Eigenmodes | None = None
        self.frames = shard.x.frames
        self.stale = False
        """Whether eigenmodes are those of another linearization."""
        self.bodies = space.clusters > 1
        """Whether there are several bodies, whose place eigenmodes may take."""
        if self.bodies and space.neighbours() < min(CHAIN, 0.25 * space.clusters):
            self._use_eigenmodes()

    @property
    def description(self) -> str:
        clusters, size = int(self.shard.cluster_ptr[-1]), self.space.size
        what = "motions" if self.eigenmodes is None else "eigenmodes"
        return f"conjugate gradients, {clusters:,} clusters, {size:,} coarse {what}"

    def linearized(self, x: Estimate) -> None:
        self.frames = x.frames
        if self.eigenmodes is None:
            self.space.linearized(x.frames)
        self.stale = True

    def solve(self, mu: float) -> Solution | None:
        ops, network = self.ops, self.network
        V_inv, z = ops.damp(mu)
        h = ops.no_steps()
        ready = self.eigenmodes is None or not self.stale
        if ready:
            solution = self._coarse(mu, z, h)
            network.points(V_inv, z, h)
        else:
            network.points(V_inv, z)
        definite = ops.factor()
        if network.any(not definite):
            return None
        if not ready:
            self._find_eigenmodes()
            solution = self._coarse(mu, z, h)
            network.points(h)
        if solution is None:
            return None
        r = ops.right_hand_side()
        r = r - ops.push(solution.frames, self.of_images(solution.shared), h)
        r, slow = self._iterate(solution, r)
        if slow:
            self._use_eigenmodes()
            self._find_eigenmodes()
            left = self._correct(mu, z, solution, r)
            if left is not None:
                self._iterate(solution, left)
        return solution

    def again(self, mu: float) -> Solution | None:
        ops = self.ops
        _, z = ops.damp(mu)
        h = ops.no_steps()
        solution = self._coarse(mu, z, h)
        if solution is None:
            return None
        self.network.points(z, h)
        r = ops.right_hand_side()
        r = r - ops.push(solution.frames, self.of_images(solution.shared), h)
        self._iterate(solution, r)
        return solution

    def _coarse(self, mu: float, z: Floats, h: Floats) -> Solution | None:
        """Z E⁻¹ Zᵀ rhs, and h of it; None if E has no inverse."""
        space = self.space
        space.assemble(mu, z)
        if not space.factor():
            return None
        c = space.solve(space.right)
        self.ops.coarse_correct(space.blocks, space.Y, -space.by_block(c), h)
        return Solution(*space.extend(c), energy=float(c @ space.right))

    def _correct(self, mu: float, z: Floats, solution: Solution, r: Floats) -> Floats | None:
        """Make the residual one without a part in the space, which is another now."""
        space, h = self.space, self.ops.no_steps()
        space.assemble(mu, z)
        if not space.factor():
            return None
        right = self.network.sparse_sum(space.modes_of(r), space.used)
        c = space.solve(right)
        solution.energy += float(c @ right)
        self.ops.coarse_correct(space.blocks, space.Y, -space.by_block(c), h)
        arrive = self.network.start_points(h)
        frames, shared = space.extend(c)
        solution.frames, solution.shared = solution.frames + frames, solution.shared + shared
        return r - self.ops.push(frames, self.of_images(shared), h, arrive)

    def _iterate(self, solution: Solution, r: Floats) -> tuple[Floats, bool]:
        """The residual that is left, and whether eigenmodes should take over."""
        ops, space, network, shared = self.ops, self.space, self.network, self.shard.shared.count
        none = self.of_images(ops.zeros(shared))
        tolerance = (RESIDUAL_WHERE_ROUGH if self.rough else RESIDUAL) ** 2
        p, Sp, p_shared = 0.0 * r, 0.0 * r, ops.zeros(shared)
        w = ops.precondition(r)
        rw = first = beta = 0.0
        for iteration in range(self.most):
            everywhere, arrive = network.start_frames(w)
            h = ops.pull(everywhere, none, arrive)
            both = ops.beside(ops.dots(r, w), space.project(w, h))
            sums = network.sparse_sum(both, space.used_beside)
            if iteration == 0:
                rw = first = float(sums[0])
            if not rw > ROUNDING * solution.energy:
                break
            solved = space.solve(sums[1:])
            less, v_shared = space.extend(-solved)
            v = w + less
            ops.coarse_correct(space.blocks, space.Y, space.by_block(solved), h)
            Sv = ops.push(v, self.of_images(v_shared), h, network.start_points(h))
            p, p_shared, Sp = v + beta * p, v_shared + beta * p_shared, Sv + beta * Sp
            t = ops.precondition(Sp)
            sums = network.sum(ops.beside(ops.dots(p, Sp), ops.dots(w, Sp), ops.dots(Sp, t)))
            pSp, wSp, SpSp = ops.host(sums).tolist()
            solution.iterations += 1
            if not pSp > 0.0:  # rounding has eaten the curvature: what we have must do
                break
            alpha = rw / pSp
            solution.frames = solution.frames + alpha * p
            solution.shared = solution.shared + alpha * p_shared
            solution.energy += alpha * rw
            r, w = r - alpha * Sp, w - alpha * t
            left = rw - alpha * (2.0 * wSp - alpha * SpSp)
            if not left > tolerance * first:
                break
            if iteration + 1 == MANY_ITERATIONS and self.eigenmodes is None and self.bodies:
                return r, True
            beta, rw = left / rw, left
        return r, False

    # Local eigenmodes

    def _use_eigenmodes(self) -> None:
        shard, clusters = self.shard, int(self.shard.cluster_ptr[-1])
        self.eigenmodes = make_eigenmodes(shard, self.ops)
        self.space = make_space(shard, self.ops, self.network, shard.cluster, clusters)

    def _find_eigenmodes(self) -> None:
        """Of the system at hand, with its factors; those of ghosts are brought."""
        assert self.eigenmodes is not None
        found, kept = self.eigenmodes.find(self.space.motions(self.frames))
        counts = np.zeros((self.shard.devices, 1))
        counts[0] = kept
        modes = found[:, :, : int(self.network.gather(counts).max())]
        self.space.take(modes, travels=True)
        self.stale = False

    def state(self) -> dict[str, Floats]:
        if self.eigenmodes is None or self.eigenmodes.basis is None:
            return {}
        return {"basis": self.ops.host(self.eigenmodes.basis)}

    def restore(self, states: dict[int, dict[str, np.ndarray]]) -> None:
        if any("basis" in found for found in states.values()):
            self._use_eigenmodes()
            assert self.eigenmodes is not None
            basis = np.concatenate([found["basis"] for found in states.values()])
            self.eigenmodes.basis = self.ops.put(basis)
