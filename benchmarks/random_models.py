"""COLMAP models that nobody has tuned for, adjusted by COLMAP and by daba from the same start.

    python benchmarks/random_models.py --first 0 --count 100 --scenes orbit forward

Each number is a model: a scene, cameras of a random model (one for all images, one each, or
three), noise, a start that is off, and what is refined, all drawn from the number. Both adjust it
in memory with the same options. Compared are the mean reprojection error and the cost (with its
loss) where COLMAP has all points in front of their cameras: it gives up outliers by moving points
behind them. A model on which daba ends higher in both, by more than a thousandth, is told with its
number, and `--only NUMBER` makes it again. `2>/dev/null` hides what COLMAP logs.
"""

from __future__ import annotations

import argparse
import copy
import sys
import time
from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pycolmap

import daba
import daba.colmap
from report import HERE, table

sys.path.insert(0, str(HERE.parent / "tests" / "helpers"))
from colmap_models import PARAMS, perturbed

SIZE = np.array([1024, 768])
WORSE = 1.001
"""Times COLMAP's mean and cost: above it in both is worse."""


class Case(NamedTuple):
    """What a number stands for."""

    number: int
    scene: str
    model: str
    cameras: str
    """One for all images, one each, or three."""
    images: int
    points: int
    seen: float
    """Share of what an image could see that is observed."""
    noise: float
    outliers: float
    loss: str
    rotation: float
    """Degrees that the start is off."""
    share: float
    """… and of the extent."""
    intrinsics: float
    """… and of the focal lengths."""
    principal: bool
    devices: int

    def __str__(self) -> str:
        off = f"{self.rotation:g}°, {100 * self.share:g} %, f {100 * self.intrinsics:g} %"
        more = [
            f"{100 * self.outliers:g} % outliers" if self.outliers else "",
            self.loss if self.loss != "TRIVIAL" else "",
            "principal points" if self.principal else "",
            f"{self.devices} devices" if self.devices > 1 else "",
        ]
        return ", ".join(
            [
                f"{self.scene}, {self.model}, {self.cameras}",
                f"{self.images} images, {self.points} points, {100 * self.seen:.0f} % seen",
                f"{self.noise:g} px, off {off}",
                *filter(None, more),
            ]
        )


# Scenes: centres and directions of views, and points.


def orbit(random: np.random.Generator, images: int, points: int) -> tuple[Any, ...]:
    """About a body, looking at it."""
    angle = np.linspace(0, random.uniform(1, 2 * np.pi), images)
    height = random.normal(0, 0.5, images)
    centers = 5 * np.stack([np.cos(angle), np.sin(angle), 0.2 * height], axis=1)
    return centers, -centers, random.normal(0, 1, (points, 3))


def forward(random: np.random.Generator, images: int, points: int) -> tuple[Any, ...]:
    """Down a street."""
    ahead = np.array([0.0, 1.0, 0.0])
    centers = np.arange(images)[:, None] * 0.8 * ahead + random.normal(0, 0.05, (images, 3))
    views = ahead + random.normal(0, 0.03, (images, 3))
    along = random.uniform(2, 0.8 * images + 20, points)
    side = random.choice([-1.0, 1.0], points) * random.uniform(2, 5, points)
    return centers, views, np.stack([side, along, random.uniform(-2, 3, points)], axis=1)


def aerial(random: np.random.Generator, images: int, points: int) -> tuple[Any, ...]:
    """From above, onto a plane or hills."""
    wide = int(np.ceil(images**0.5))
    at = np.stack(np.divmod(np.arange(images), wide), axis=1) * 1.5
    centers = np.column_stack([at + random.normal(0, 0.1, at.shape), np.full(images, 6.0)])
    centers[:, 2] += random.normal(0, 0.1, images)
    views = np.array([0.0, 0.0, -1.0]) + random.normal(0, 0.05, (images, 3))
    ground = random.uniform(-3, 1.5 * wide + 3, (points, 2))
    hills = random.choice([0.0, 0.02, 0.3]) * random.normal(size=points)
    return centers, views, np.column_stack([ground, hills])


def inside(random: np.random.Generator, images: int, points: int) -> tuple[Any, ...]:
    """In a room, looking about."""
    centers = random.normal(0, 1, (images, 3)) * [1, 1, 0.2]
    angle = random.uniform(0, 2 * np.pi, images)
    views = np.stack([np.cos(angle), np.sin(angle), random.normal(0, 0.1, images)], axis=1)
    walls = random.normal(size=(points, 3)) * [1, 1, 0.4]
    return centers, views, 5 * walls / np.linalg.norm(walls, axis=1)[:, None]


def among(random: np.random.Generator, images: int, points: int) -> tuple[Any, ...]:
    """Cameras among the points, so near to some that a start has these behind them."""
    centers, views, _ = inside(random, images, points)
    return centers, views, random.normal(0, 2, (points, 3)) * [1, 1, 0.4]


def narrow(random: np.random.Generator, images: int, points: int) -> tuple[Any, ...]:
    """From far away, with a small baseline: depth is hardly known."""
    centers = random.normal(0, 0.5, (images, 3)) - [0, 12, 0]
    return centers, -centers, random.normal(0, 1, (points, 3)) * [1.5, 0.5, 1.5]


SCENES = {f.__name__: f for f in (orbit, forward, aerial, inside, among, narrow)}


def draw(number: int, scenes: list[str]) -> Case:
    random = np.random.default_rng([number, 1])
    rough = random.choice([0.3, 1.0, 3.0], p=[0.4, 0.4, 0.2])
    outliers = float(random.choice([0.0, 0.02], p=[0.75, 0.25]))
    return Case(
        number,
        scene=str(random.choice(scenes)),
        model=str(random.choice([m for m in PARAMS if m != "EQUIRECTANGULAR"])),
        cameras=str(random.choice(["one camera", "one each", "three cameras"])),
        images=int(random.integers(4, 30)),
        points=int(random.integers(60, 500)),
        seen=float(random.uniform(0.3, 1.0)),
        noise=float(random.choice([0.1, 0.5, 1.0])),
        outliers=outliers,
        loss=str(random.choice(["HUBER", "CAUCHY", "SOFT_L1"])) if outliers else "TRIVIAL",
        rotation=0.5 * rough,
        share=0.005 * rough,
        intrinsics=float(random.choice([0.0, 0.02])),
        principal=bool(random.random() < 0.1),
        devices=int(random.choice([1, 3], p=[0.75, 0.25])),
    )


def looking(center: np.ndarray, view: np.ndarray) -> Any:
    """The pose of a camera that looks along a direction, upright."""
    z = view / np.linalg.norm(view)
    x = np.cross(z, [0.1, 0.05, 1.0] if abs(z[2]) < 0.9 else [0.0, 1.0, 0.0])
    x /= np.linalg.norm(x)
    R = np.stack([x, np.cross(z, x), z])
    return pycolmap.Rigid3d(pycolmap.Rotation3d(R), -R @ center)


def make(case: Case) -> Any:
    """The start."""
    random = np.random.default_rng([case.number, 2])
    centers, views, points = SCENES[case.scene](random, case.images, case.points)
    r = pycolmap.Reconstruction()
    count = {"one camera": 1, "one each": case.images, "three cameras": 3}[case.cameras]
    for k in range(count):
        params = np.array(PARAMS[case.model])
        r.add_camera_with_trivial_rig(
            pycolmap.Camera(
                camera_id=k + 1, model=case.model, width=SIZE[0], height=SIZE[1], params=params
            )
        )
    seen: dict[int, list[tuple[int, int]]] = {}
    for i in range(case.images):
        pose, camera = looking(centers[i], views[i]), r.cameras[1 + i % count]
        found: list[int] = []
        pixels = []
        for j, point in enumerate(points):
            x = pose.rotation.matrix() @ point + pose.translation
            at = camera.img_from_cam(x) if x[2] > 0.2 else None
            if at is None or not (at > 0).all() or not (at < SIZE).all():
                continue
            if random.random() > case.seen:
                continue
            at = at + case.noise * random.normal(size=2)
            if random.random() < case.outliers:
                at = random.uniform(0, 1, 2) * SIZE
            seen.setdefault(j, []).append((i + 1, len(found)))
            found.append(j)
            pixels.append(pycolmap.Point2D(at))
        image = pycolmap.Image(
            image_id=i + 1, name=f"{i}.jpg", camera_id=camera.camera_id, points2D=pixels
        )
        r.add_image_with_trivial_frame(image, pose)
    for j, observed in seen.items():
        if len(observed) > 1:
            track = pycolmap.Track()
            for image_id, k in observed:
                track.add_element(image_id, k)
            r.add_point3D(points[j], track)
    perturbed(r, case.number, case.rotation, case.share)
    for camera in r.cameras.values():
        params, focal = camera.params.copy(), list(camera.focal_length_idxs())
        params[focal] *= 1 + case.intrinsics * random.choice([-1.0, 1.0])
        camera.params = params
    return r


def options_of(case: Case) -> Any:
    options = pycolmap.BundleAdjustmentOptions()
    options.print_summary = False
    options.refine_principal_point = case.principal
    options.ceres.loss_function_type = getattr(pycolmap.LossFunctionType, case.loss)
    return options


def squares(r: Any) -> np.ndarray:
    """|r|² of each observation, always in the same order; infinite where it is behind."""
    found = []
    for number in sorted(r.points3D):
        point = r.points3D[number]
        for e in sorted(point.track.elements, key=lambda e: (e.image_id, e.point2D_idx)):
            image = r.images[e.image_id]
            at = image.project_point(point.xyz)
            offset = np.full(2, np.inf) if at is None else at - image.points2D[e.point2D_idx].xy
            found.append(offset @ offset)
    return np.array(found)


RHO: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "TRIVIAL": lambda s: s,
    "HUBER": lambda s: np.where(s <= 1, s, 2 * np.sqrt(s) - 1),
    "CAUCHY": np.log1p,
    "SOFT_L1": lambda s: 2 * (np.sqrt(1 + s) - 1),
}


class Outcome(NamedTuple):
    mean: float
    """daba's mean error over COLMAP's."""
    cost: float
    start: float
    """Mean errors."""
    colmap: float
    behind: list[int]
    """Observations behind their cameras: at the start, after COLMAP, after daba."""
    seconds: tuple[float, float]
    said: str

    @property
    def kind(self) -> str:
        """How daba ended."""
        if self.behind[1]:
            return "not compared"
        if self.mean > WORSE and self.cost > WORSE:
            return "higher"
        return "lower" if self.mean < 1 / WORSE and self.cost < 1 / WORSE else "alike"


def compare(case: Case, **changes: Any) -> Outcome | None:
    start = make(case)
    if len(start.points3D) < 20 or min(i.num_points3D for i in start.images.values()) < 8:
        return None
    theirs, ours = copy.deepcopy(start), copy.deepcopy(start)
    began = time.perf_counter()
    pycolmap.bundle_adjustment(theirs, options_of(case))
    middle = time.perf_counter()
    try:
        changes = {"devices": case.devices, **changes}
        summary = daba.colmap.bundle_adjustment(ours, options_of(case), **changes)
        said = f"{summary.result.reason}, {summary.num_iterations} it."
    except daba.DabaError as error:
        said = str(error)
    end = time.perf_counter()
    residuals = [squares(r) for r in (start, theirs, ours)]
    common = np.isfinite(residuals[1]) & np.isfinite(residuals[2])
    rho = RHO[case.loss]
    mean = [float(np.sqrt(s[common]).mean()) for s in residuals[1:]]
    cost = [float(rho(s[common]).sum()) for s in residuals[1:]]
    first = np.sqrt(residuals[0][np.isfinite(residuals[0])]).mean()
    behind = [int((~np.isfinite(s)).sum()) for s in residuals]
    return Outcome(
        mean[1] / mean[0], cost[1] / cost[0], float(first), mean[0], behind,
        (middle - began, end - middle), said,
    )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--only", type=int)
    parser.add_argument("--scenes", nargs="+", choices=SCENES, default=list(SCENES))
    parser.add_argument("--devices", type=int, help="the same for all")
    args = parser.parse_args()
    numbers = range(args.first, args.first + args.count) if args.only is None else [args.only]
    counts: dict[str, Counter[str]] = {}
    seconds = np.zeros(2)
    for number in numbers:
        case = draw(number, args.scenes)
        outcome = compare(case, **({"devices": args.devices} if args.devices else {}))
        if outcome is None:
            continue
        count = counts.setdefault(case.scene, Counter())
        count[outcome.kind] += 1
        seconds += outcome.seconds
        if outcome.kind == "higher" or args.only is not None:
            print(
                f"{number}: {case}\n  mean {outcome.start:.4g} -> {outcome.colmap:.4g} with "
                f"COLMAP, daba over it {outcome.mean:.4f}, cost {outcome.cost:.4f}; behind "
                f"{outcome.behind}; {outcome.said}",
                flush=True,
            )
    kinds = ("alike", "lower", "higher", "not compared")
    counts["all"] = sum(counts.values(), Counter())
    rows = [[scene, *(str(count[k]) for k in kinds)] for scene, count in counts.items()]
    print(table(["scene", *(f"daba {kind}" for kind in kinds[:3]), kinds[3]], rows))
    print(f"\npycolmap {seconds[0]:.1f} s, daba {seconds[1]:.1f} s")


if __name__ == "__main__":
    main()
