"""The picture of the README: a synthetic city before and after a solve, in natural colours.

    python benchmarks/picture.py docs/images/scene.png

The city is that of `daba synth`. What a point is, wall, window, road or tree, is told from where it
truly lies, and gives its colour; cameras are small pyramids.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw, ImageFont

import daba
from daba.io.ply import EDGES, openings, place_pyramids
from daba.problem.problem import Floats, Problem
from daba.tools.synthetic.city import HALF_WIDTH, HOUSE, PITCH

SCENE = daba.SceneOptions(cameras=110, points=90_000, center_error=0.05, point_error=0.03,
                          drift=0.004, seed=4)  # fmt: skip
SIZE = (620, 430)
"""Pixels of one of the two halves."""
FINE = 2
"""Pixels are drawn so many times as fine, and averaged."""
PAPER = (15, 23, 42)
CAMERA = (251, 146, 60)
WALLS = np.array([
    [226, 170, 104], [205, 98, 70], [240, 214, 150], [140, 150, 165], [214, 132, 84],
    [238, 226, 204], [176, 84, 78], [120, 158, 186],
])  # fmt: skip
FRAME, ROAD, LEAF = np.array([240, 240, 236]), np.array([100, 106, 116]), np.array([96, 160, 72])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("picture", type=Path, help="PNG to write")
    path = parser.parse_args().picture
    scene = daba.generate(SCENE)
    result = daba.solve(scene.start, method="lm", max_seconds=600)
    print(result.summary())
    colours = paint(scene.truth.points)
    eye = View.of(scene.truth)
    halves = [
        half(problem, colours, eye, f"{what}: {daba.pixel_error(problem).rms:.3g} px")
        for what, problem in (("before", scene.start), ("after", result.problem))
    ]
    whole = Image.new("RGB", (2 * SIZE[0] + 4, SIZE[1]), PAPER)
    for n, image in enumerate(halves):
        whole.paste(image, (n * (SIZE[0] + 4), 0))
    whole.quantize(128, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).save(
        path, optimize=True
    )
    print(f"{path}: {path.stat().st_size // 1000} kB")


def paint(points: Floats) -> np.ndarray:
    """The colour of each point of the true city, (P,3)."""
    random = np.random.default_rng(0)
    z, from_street = points[:, 2], points[:, :2] - PITCH * np.rint(points[:, :2] / PITCH)
    off = np.abs(from_street)
    axis = np.argmin(np.abs(off - HALF_WIDTH), axis=1)  # a wall stands across this one
    rows = np.arange(len(points))
    behind = points[:, :2].copy()
    behind[rows, axis] += np.sign(from_street[rows, axis])
    house = np.floor(behind / HOUSE).astype(int)
    colours = WALLS[(7 * house[:, 0] + 13 * house[:, 1]) % len(WALLS)].astype(float)
    window = off[rows, axis] > HALF_WIDTH + 0.08
    colours[window] = 0.72 * colours[window] + 0.28 * FRAME
    tree = (z > 2.3) & (z < 4.1) & (off.min(axis=1) > 2.1) & (off[rows, axis] < HALF_WIDTH - 0.15)
    colours[tree] = LEAF
    colours[z < 0.03] = ROAD
    light = 0.85 + 0.35 * np.clip(z / 20.0, 0, 1) - 0.12 * (axis == 0)
    light += random.normal(0, 0.05, len(points))
    return np.clip(colours * light[:, None], 0, 255).astype(np.uint8)


class View:
    """Somebody who looks down at the city from a corner."""

    def __init__(self, eye: Floats, target: Floats, zoom: float) -> None:
        forward = (target - eye) / np.linalg.norm(target - eye)
        right = np.cross(forward, [0.0, 0.0, 1.0])
        right /= np.linalg.norm(right)
        self.eye, self.zoom = eye, zoom
        self.axes = np.stack([right, np.cross(forward, right), forward])

    @staticmethod
    def of(problem: Problem) -> View:
        low, high = np.percentile(problem.points, [1, 99], axis=0)
        middle, size = 0.5 * (low + high), float((high - low)[:2].max())
        return View(
            middle + size * np.array([-0.62, -1.0, 0.85]), middle - [0.0, 0.0, 0.05 * size], 0.98
        )

    def __call__(self, x: Floats) -> tuple[Floats, Floats]:
        """Where points are seen, in fine pixels, and how far they are."""
        seen = (x - self.eye) @ self.axes.T
        depth = seen[..., 2]
        scale = FINE * SIZE[0] * self.zoom
        at = scale * seen[..., :2] / depth[..., None] + 0.5 * FINE * np.array(SIZE)
        return at, depth


def half(problem: Problem, colours: np.ndarray, view: View, title: str) -> Image.Image:
    canvas = np.tile(np.array(PAPER, np.uint8), (FINE * SIZE[1], FINE * SIZE[0], 1))
    at, depth = view(problem.points)
    order = np.argsort(-depth)
    order = order[(depth[order] > 0) & np.isfinite(at[order]).all(axis=1)]
    fog = np.clip(depth[order] / np.median(depth) - 0.6, 0, 1)[:, None] * 0.3
    shown = ((1 - fog) * colours[order] + fog * np.array(PAPER)).astype(np.uint8)
    for dx, dy in ((0, 0), (1, 0), (0, 1), (1, 1)):  # the nearest comes last
        x, y = (at[order] + (dx, dy)).astype(int).T
        inside = (x >= 0) & (y >= 0) & (x < canvas.shape[1]) & (y < canvas.shape[0])
        canvas[y[inside], x[inside]] = shown[inside]
    image = Image.fromarray(canvas)
    draw_cameras(ImageDraw.Draw(image), problem, view)
    small = image.resize(SIZE, Image.Resampling.LANCZOS)
    ImageDraw.Draw(small).text((14, 10), title, (226, 232, 240), ImageFont.load_default(17))
    return small


def draw_cameras(draw: Any, problem: Problem, view: View) -> None:
    wide = openings(problem.num_cameras, problem.camera_index, problem.u)
    corners = place_pyramids(problem.rotations, problem.centers, wide, 0.9)
    at, depth = view(corners)
    for pyramid in at[(depth > 0).all(axis=1)]:
        for a, b in EDGES:
            draw.line([*map(float, pyramid[a]), *map(float, pyramid[b])], CAMERA, FINE)


if __name__ == "__main__":
    main()
