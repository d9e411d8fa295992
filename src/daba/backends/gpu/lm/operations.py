"""What Levenberg–Marquardt does with arrays, on a GPU: as `backends/cpu/lm/operations.py`.

Arrays are tensors. Points have rows of 4 numbers, or of 8 for symmetric matrices. What the solver
decides by, sums over devices, is handed over as NumPy arrays.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from daba.backends.gpu.kernels.exact import bits
from daba.backends.gpu.kernels.lm import products
from daba.backends.gpu.kernels.lm.binding import kernels, tile_width
from daba.backends.gpu.lm.coarse_operations import CoarseOperations
from daba.backends.gpu.lm.factors import Factors
from daba.backends.gpu.lm.segments import add_rows
from daba.backends.gpu.tensors import Tensor
from daba.backends.lm import nothing
from daba.core.decisions import LEAST_DIAGONAL, STEP_BOUND
from daba.core.lm import Estimate, Loss
from daba.core.types import Floats, Int32
from daba.distributed.lm_shard import LmShard

ENOUGH = 1e-6
"""A point rests when its model promises less than this share of its terms of F."""


class GpuOperations(CoarseOperations):
    """The devices of one process on one GPU."""

    def __init__(self, shard: LmShard, loss: Loss, device: torch.device | str = "cuda") -> None:
        super().__init__(shard, torch.device(device))
        kind, a = shard.kind, self.a
        self.kernels: Any = kernels(kind)
        self.B, self.G = kind.block, kind.columns
        self.W = tile_width(self.B + self.G + 1)
        rows = len(a.row_point)
        self.J = self._zeros(2 * (self.B + self.G), a.size)
        self.J_rows = self._zeros(rows, 2 * self.B)
        self.V, self.V_inv = self._zeros(a.all_P, 8), self._zeros(a.all_P, 8)
        self.g_l, self.z = self._zeros(a.all_P, 4), self._zeros(a.all_P, 4)
        self.point_bound = torch.full((a.all_P,), np.inf, dtype=torch.float64, device=self.device)
        self.normal, self.away = self._zeros(a.I, self.W, self.W), self._zeros(a.I, 1)
        self.mu, self.enough = self._zeros(1), self._zeros(1) + ENOUGH
        self.partial = self._zeros(len(a.heads), 4)
        self.decrease = self._zeros(len(a.heads), 1)
        self.fixed = torch.zeros(a.all_P, dtype=torch.int8, device=self.device)
        if len(shard.fixed_points):
            self.fixed[: a.P] = a.put(shard.fixed_points).to(torch.int8)
        self.free = torch.ones((a.F, self.B), dtype=torch.float64, device=self.device)
        if len(shard.fixed_frames):
            self.free[a.put(shard.fixed_frames)] = 0.0
        self.loss = {"KIND": loss.kind, "RADIUS": bits(loss.radius)}
        self._priors()
        self.copies: dict[str, Floats] = {}

    def launch_all(self, x: Estimate) -> None:
        """Launch every kernel that a solve needs but those of clusters and of the coarse space: for
        compilation, not to be run."""
        if self.shard.kind.error == "pixel":
            self.visible(x)
        self.objective(x)
        self.linearize(x)
        self.damp(1.0)
        frames, images = len(self.shard.x.frames), len(self.shard.images.group)
        v, v_s = self._zeros(frames, self.B), self._zeros(images, self.G)
        own = v[: self.a.F]
        self.dots(own, own)
        self.right_hand_side()
        self.push(own, v_s, self.pull(v, v_s))
        self.back_substitute(v, v_s)
        self.second_order(x, x, x, 1.0)
        self.first_order()
        self.settle_points(x, x.points, 1)

    def _priors(self) -> None:
        known, a = self.shard.point_priors, self.a
        some = len(known.row) > 0
        empty = np.full(1, -1, np.int32), np.zeros((1, 3)), np.zeros((1, 3, 3))
        row, target, information = known[:3] if some else empty
        self.priors = {
            "prior_rows": a.put(row), "targets": a.put(target), "information": a.put(information),
        }  # fmt: skip
        self.prior_loss = {
            "PRIORS": some,
            "PRIOR_KIND": known.kind,
            "PRIOR_RADIUS": bits(known.radius),
        }

    def _seen(self, x: Estimate) -> dict[str, Tensor]:
        return {
            "frames": self._put(x.frames), "sensors": self._put(x.sensors),
            "cameras": self._put(x.params),  # Triton 3.6 has no room for an argument "params"
            "points": x.points,
        }  # fmt: skip

    @property
    def _slices(self) -> dict[str, Tensor]:
        a = self.a
        return {
            "records": a.slot_records,
            "ends": a.slot_ends,
            "heads": a.heads,
            "members": a.members,
        }

    def _by_slice(self, kernel: Any, **arguments: Any) -> None:
        lanes = self.a.lanes.points
        kernel[(len(self.a.heads),)](**arguments, L=lanes, num_warps=max(1, lanes // 32))

    # The objective and its derivatives

    def objective(self, x: Estimate) -> Floats:
        """F, Σ ω²|r|², and points that a camera does not see, of each device, (S, 3)."""
        self._by_slice(
            self.kernels.objective, **self._slices, **self._seen(x), **self.priors,
            partial=self.partial, **self.prior_loss, **self.loss,
        )  # fmt: skip
        return self._sums()

    def visible(self, x: Estimate) -> Any:
        """Whether cameras see the points of their observations, ghosts' included: where the shard
        has these."""
        a = self.a
        seen = torch.ones(len(a.point), dtype=torch.int8, device=self.device)
        self.kernels.visible[(-(-len(seen) // 128),)](
            records=a.records, ends=a.ends, point=a.point, **self._seen(x), seen=seen,
            count=len(seen), L=128,
        )  # fmt: skip
        return seen > 0 if isinstance(a.given.weight, torch.Tensor) else self.host(seen > 0)

    def take_weights(self) -> None:
        """The shard's weights have changed."""
        self.a.weigh()

    def _sums(self) -> Floats:
        return np.asarray(self.a.by_device.sum(self.partial)[:, :3].cpu().numpy())

    def linearize(self, x: Estimate) -> None:
        """Derivatives of all observations; U, V and gradients."""
        a, B, G = self.a, self.B, self.G
        seen = self._seen(x)
        self._by_slice(
            self.kernels.linearize_points, **self._slices, **seen, **self.priors, fixed=self.fixed,
            J=self.J, size=a.size, V=self.V, g=self.g_l, bound=self.point_bound, **self.prior_loss,
            **self.loss,
        )  # fmt: skip
        self.kernels.linearize_images[(a.I,)](
            records=a.row_records, point=a.row_point, begins=a.image_begins, images=a.images,
            **seen, J=self.J_rows, normal=self.normal, away=self.away, **self.loss,
            L=64 if self.W < 32 else 32,
        )  # fmt: skip
        whole, away = self.normal.view(a.I, -1), self.away
        if a.I != a.F:
            whole, away = add_rows(whole, a.images_of), add_rows(away, a.images_of)
        whole = whole.view(-1, self.W, self.W)
        self.tensors = {
            "U": whole[:, :B, :B].contiguous(), "g": whole[:, :B, B + G].contiguous(),
            "X": self.normal[:, :B, B : B + G].contiguous(),
            "T": self.normal[:, B : B + G, B : B + G].contiguous(),
            "g_s": self.normal[:, B : B + G, B + G].contiguous(),
        }  # fmt: skip
        mean = away[:, 0] / torch.clamp(a.seen, min=1.0)
        bound = torch.where(a.seen > 0, STEP_BOUND * mean, np.inf)
        self.frame_bound = np.asarray(bound.cpu().numpy())
        self.copies = {}

    def second_order(self, x: Estimate, ahead: Estimate, behind: Estimate, reach: float) -> None:
        """Put the second derivatives of residuals along a step in their place: the gradient is that
        of these, until `first_order`. `ahead` and `behind` are so far along the step."""
        a, B, G, t = self.a, self.B, self.G, self.tensors
        self.first = t["g"], self.g_l, t["g_s"]
        seen = self._seen(x) | {"scale": self._zeros(1) + 1.0 / reach**2}
        for name, there in (("ahead", ahead), ("behind", behind)):
            seen |= {f"{name}_{what}": array for what, array in self._seen(there).items()}
        self.g_l = torch.zeros_like(self.g_l)
        self._by_slice(
            self.kernels.second_order_points, **self._slices, **seen, fixed=self.fixed, J=self.J,
            size=a.size, g=self.g_l, **self.loss,
        )  # fmt: skip
        gradient = self._zeros(a.I, self.W)
        self.kernels.second_order_images[(a.I,)](
            records=a.row_records, point=a.row_point, begins=a.image_begins, images=a.images,
            **seen, gradient=gradient, **self.loss, L=64 if self.W < 32 else 32,
        )  # fmt: skip
        whole = gradient if a.I == a.F else add_rows(gradient, a.images_of)
        t["g"], t["g_s"] = whole[:, :B].contiguous(), gradient[:, B : B + G].contiguous()
        self.copies = {}
        self.hold()

    def first_order(self) -> None:
        """Have the gradient of residuals again."""
        self.tensors["g"], self.g_l, self.tensors["g_s"] = self.first
        self.copies = {}

    def __getattr__(self, name: str) -> Floats:
        """U, g, X, T, g_s and D, for those who work on the host."""
        if name not in ("U", "g", "X", "T", "g_s", "D"):
            raise AttributeError(name)
        if name not in self.copies:
            self.copies[name] = self.tensors[name].cpu().numpy()
        return self.copies[name]

    def hold(self) -> None:
        """Take what is fixed out of U and the gradient, to which others may have added."""
        for name, array in self.copies.items():
            self.tensors[name] = self.a.put(array)
        if len(self.shard.fixed_frames):
            t, free = self.tensors, self.free
            t["U"] *= free[:, :, None] * free[:, None, :]
            t["g"] *= free
            t["X"] *= free[self.a.image_frame][:, :, None]
        self.copies = {}

    def model_of_frames(self, step: Floats, of_images: Floats) -> Floats:
        """gᵀv + ½ vᵀHv of each device, (S,), for steps v of its frames, and of what its images
        share."""
        a, t, v = self.a, self.tensors, self.put(step)
        each = v * (t["g"] + 0.5 * torch.einsum("iab,ib->ia", t["U"], v))
        if self.G:
            s = self.put(of_images)[: a.I]
            crossed = torch.einsum("mab,mb->ma", t["X"], s)
            if a.I != a.F:
                crossed = add_rows(crossed, a.images_of)
            each = each + v * crossed
            of_image = s * (t["g_s"] + 0.5 * torch.einsum("mab,mb->ma", t["T"], s))
            alone = of_image.sum(dim=1, keepdim=True)
            each = each.sum(dim=1, keepdim=True)
            each += alone if a.I == a.F else add_rows(alone, a.images_of)
        return self.host(self.frames_of.sum(each.sum(dim=1, keepdim=True)))[:, 0]

    def largest_gradient(self) -> float:
        """Of own frames and points."""
        points = self.g_l[: self.a.P].abs().max() if self.a.P else 0.0
        return max(float(self.tensors["g"].abs().max()), float(points))

    # One damped system

    def damp(self, mu: float) -> tuple[Tensor, Tensor]:
        """D = U', and V'⁻¹ and z = V'⁻¹ g of own points, to be sent to whoever sees them."""
        D = self.tensors["U"].clone()
        diagonal = D.diagonal(dim1=1, dim2=2)
        diagonal += mu * torch.clamp(diagonal, min=LEAST_DIAGONAL)
        self.tensors["D"] = D
        self.copies.pop("D", None)
        self.mu.fill_(mu)
        products.damp_points[(-(-self.a.P // 128),)](
            self.V, self.g_l, self.fixed, self.mu, self.V_inv, self.z, self.a.P, L=128
        )
        return self.V_inv, self.z

    def right_hand_side(self) -> Tensor:
        """−g + W z of frames."""
        return self._push(self.z, None, None)

    def _push(self, h: Tensor, v: Tensor | None, v_s: Tensor | None) -> Tensor:
        a, t = self.a, self.tensors
        out = torch.empty((a.F, self.B), dtype=torch.float64, device=self.device)
        none = t["g"]
        products.push[(a.F,)](
            self.J_rows, a.frame_begins, a.row_point, h, t["D"], none if v is None else v, t["X"],
            none if v_s is None else v_s, a.images_of, none, self.free, out,
            PRODUCT=v is not None, B=self.B, G=self.G, WG=tile_width(max(self.G, 1)),
            W=tile_width(self.B), L=64,
        )  # fmt: skip
        return out

    # Diagonal blocks of S, cluster by cluster

    def plan(self, cluster: Int32) -> None:
        """The clusters of own frames, counted from 0 here."""
        self.factors = Factors(self.a, self.shard, cluster)

    def factor(self) -> bool:
        """Form and factor them; False if one is not positive definite."""
        return self.factors.factor(self.J_rows, self.V_inv, self.tensors["D"], self.free)

    def precondition(self, r: Tensor) -> Tensor:
        """S_cc⁻¹ r of each cluster c, (F, B), or of several columns, (F, B, w)."""
        return self.factors.solve(r)

    # Products with S

    def pull(self, v: Tensor, v_s: Tensor, arrive: Callable[[], None] = nothing) -> Tensor:
        """h = V'⁻¹ Wᵀ v of own points; `arrive` waits for v of ghosts."""
        arrive()
        a, h = self.a, self.no_steps()
        self._by_slice(
            products.pull, J=self.J, size=a.size, ends=a.slot_ends, heads=a.heads,
            members=a.members, v=v, v_s=v_s, V_inv=self.V_inv, h=h, B=self.B, G=self.G,
        )  # fmt: skip
        return h

    def push(
        self, v: Tensor, v_s: Tensor, h: Tensor, arrive: Callable[[], None] = nothing
    ) -> Tensor:
        """S v = D v + X v_s − W h of own frames; `arrive` waits for h of ghosts."""
        arrive()
        return self._push(h, v, v_s)

    # The step

    def energy_of_points(self) -> Floats:
        """Σ g_lᵀV'⁻¹g_l of each device, (S,)."""
        own = self.a.P
        each = (self.g_l[:own, :3] * self.z[:own, :3]).sum(dim=1, keepdim=True)
        return np.asarray(self.points_of.sum(each)[:, 0].cpu().numpy())

    def back_substitute(self, step: Tensor, step_s: Tensor) -> tuple[Tensor, Floats]:
        """Steps of own points, and what the model says they lower, (S,); `step` has its ghosts."""
        a, out = self.a, self.no_steps()
        self._by_slice(
            products.back_substitute, J=self.J, size=a.size, ends=a.slot_ends, heads=a.heads,
            members=a.members, v=step, v_s=step_s, V=self.V, V_inv=self.V_inv,
            g=self.g_l, bound=self.point_bound, step=out, partial=self.decrease, B=self.B, G=self.G,
        )  # fmt: skip
        return out, np.asarray(a.by_device.sum(self.decrease)[:, 0].cpu().numpy())

    def settle_points(self, x: Estimate, old: Tensor, steps: int) -> Floats:
        """Let each of x's own points make steps of its own; F and the rest as in `objective`."""
        self._by_slice(
            self.kernels.settle_points, **self._slices, **self._seen(x), old=old, **self.priors,
            fixed=self.fixed, partial=self.partial, enough=self.enough, STEPS=steps,
            **self.prior_loss, **self.loss,
        )  # fmt: skip
        return self._sums()
