"""The points, cameras and lines of a page.

Points are sent in batches of a random order: the first already shows the whole scene, and the
others follow when somebody looks. Cameras are lines, of some first and then of all others, however
many there are.
"""

from __future__ import annotations

import threading
from typing import Any, Literal

import numpy as np

from daba.io.ply import EDGES, place_pyramids, pyramid_size
from daba.problem.problem import Floats
from daba.tools.viewer import paint
from daba.tools.viewer.markup import block
from daba.tools.viewer.placing import Placing
from daba.tools.viewer.subject import ShownErrors, ShownEstimate, Subject

Mode = Literal["colour", "error", "device"]

FIRST = 40_000
"""Points in the first batch."""
REST = 200_000
"""Points in each that follows."""
SOME = 300
"""Cameras that are shown at first: without a graphics card, lines take long to draw."""
PAUSE = 1.5
"""Seconds between two batches, after the browser has drawn the one before."""
PATIENCE = 30.0
"""Seconds that a browser may take for that."""
LINES = 3000
"""Observation lines of a camera, at most."""
FOV = float(np.radians(50.0))
THIN, THICK = (
    {"thickness": 1.6, "thickness_units": "screen"},
    {"thickness": 4.0, "thickness_units": "screen"},
)


class ViewerScene:
    """What a server shows of a subject."""

    def __init__(self, server: Any, subject: Subject) -> None:
        self.server, self.subject = server, subject
        last = subject.estimates[-1]
        self.placing = Placing.of(last.rotations, last.centers, last.points, subject.sign)
        depth = self.placing.scale * pyramid_size(last.centers, last.points)
        self.camera_size = max(depth, 0.05)
        self.point_size = float(np.clip(3.5 / len(last.points) ** 0.5, 0.005, 0.035))
        self.mode: Mode = "colour"
        self.one_scale = False
        """Whether all estimates share one scale of errors, rather than have one each."""
        self.threshold = 0.0
        """Pixels: points with a smaller mean error are not shown."""
        self.number = len(subject.estimates) - 1
        self.picked: int | None = None
        self.lock = threading.RLock()
        self.stopped = threading.Event()
        order = np.random.default_rng(0).permutation(len(last.points))
        ends = [0, *range(FIRST, len(order), REST), len(order)]
        self.batches = [order[a:b] for a, b in zip(ends, ends[1:], strict=False)]
        cameras = np.arange(len(last.centers))
        early = cameras % max(1, len(cameras) // SOME) == 0
        self.groups = [group for group in (cameras[early], cameras[~early]) if len(group)]
        self._sight: list[Any] = []
        self._cameras = [self._add_group(0)]
        self._points = [self._add_batch(0)]
        self._look()
        server.on_client_connect(self._add_rest)

    def stop(self) -> None:
        with self.lock:  # nothing changes any more
            self.stopped.set()

    def _look(self) -> None:
        view = self.server.initial_camera
        view.fov = FOV
        view.position, view.look_at = self.placing.first_look(self.estimate.rotations, FOV)
        view.near, view.far = 0.01, 2000.0

    def _add_group(self, number: int) -> Any:
        lines = self._lines(self.groups[number])
        return self.server.scene.add_line_segments(f"/cameras/{number}", *lines, **THIN)

    def _add_batch(self, number: int) -> Any:
        positions = self._positions(self.batches[number])
        return self.server.scene.add_point_cloud(
            f"/points/{number}",
            self._seen(self.batches[number], positions),
            self._point_colours(self.batches[number], positions),
            point_size=self.point_size,
            point_shape="circle",
            point_shading="flat",
            precision="float32",
        )

    def _add_rest(self, client: Any) -> None:
        """Somebody looks: the batches that are still missing, each when the browser has drawn the
        one before, so that a slow one has a picture soon."""
        while self._missing():
            if not _has_drawn(client) or self.stopped.wait(PAUSE):
                return
            with self.lock:  # another browser may have been quicker
                if len(self._cameras) < len(self.groups):
                    self._cameras.append(self._add_group(len(self._cameras)))
                    self._cameras[-1].visible = self._cameras[0].visible
                if len(self._points) < len(self.batches):
                    self._points.append(self._add_batch(len(self._points)))
                    self._points[-1].visible = self._points[0].visible

    def _missing(self) -> bool:
        return len(self._points) < len(self.batches) or len(self._cameras) < len(self.groups)

    # what is where

    @property
    def estimate(self) -> ShownEstimate:
        return self.subject.estimates[self.number]

    def _positions(self, which: np.ndarray) -> np.ndarray:
        return self.placing(self.estimate.points[which])

    def _corners(self) -> np.ndarray:
        e = self.estimate
        return place_pyramids(
            self.placing.turn(e.rotations),
            self.placing(e.centers).astype(float),
            self.subject.wide,
            self.camera_size,
        )

    def _lines(self, which: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The lines of some cameras, and the colours of their ends."""
        corners, colours = self._corners()[which], self._camera_colours()[which]
        shown = np.isfinite(corners).all(axis=(1, 2))
        lines = corners[shown][:, EDGES].reshape(-1, 2, 3).astype(np.float32)
        of_ends = np.repeat(paint.of_lines(colours[shown]), 2 * len(EDGES), axis=0)
        return lines, of_ends.reshape(-1, 2, 3)

    # colours

    def errors(self) -> ShownErrors:
        return self.subject.errors(self.number)

    def error_range(self) -> tuple[float, float]:
        """The ends of the scale of errors."""
        numbers = range(len(self.subject.problems)) if self.one_scale else [self.number]
        return paint.error_range(*(self.subject.errors(n).points for n in numbers))

    def _point_colours(self, which: np.ndarray, positions: np.ndarray) -> np.ndarray:
        if self.mode == "device":
            return paint.by_device(self.subject.devices().point_device[which])
        if self.mode == "error":
            return paint.by_error(self.errors().points[which], *self.error_range())
        if self.subject.colors is not None:
            return paint.lifted(self.subject.colors[which])
        return paint.by_height(positions[:, 2], self.placing.low[2], self.placing.high[2])

    def _camera_colours(self) -> np.ndarray:
        if self.mode == "device":
            return paint.by_device(self.subject.devices().camera_device)
        if self.mode == "error":
            return paint.by_error(self.errors().cameras, *self.error_range())
        return np.tile(paint.CAMERA, (len(self.estimate.centers), 1))

    # changes

    def show(self, number: int) -> None:
        """Another estimate."""
        self.number = number
        self._update(moved=True)

    def colour(self, mode: Mode) -> None:
        self.mode = mode
        self._update(moved=False)

    def hide_below(self, threshold: float) -> None:
        """Show only points with a larger mean error; all, if it is 0."""
        self.threshold = threshold
        self._update(moved=True)

    def _seen(self, which: np.ndarray, positions: np.ndarray) -> np.ndarray:
        """Positions, with what is not to be seen where nobody looks: what is too far away, and
        points with small errors where only large ones are wanted."""
        if self.threshold > 0:
            small = ~(self.errors().points[which] >= self.threshold)
            positions = np.where(small[:, None], np.float32(np.nan), positions)
        return np.nan_to_num(positions, nan=1e6)

    def resize_points(self, size: float) -> None:
        self.point_size = size
        with self.lock:
            for handle in self._points:
                handle.point_size = size

    def resize_cameras(self, size: float) -> None:
        self.camera_size = size
        with self.lock:
            self._update_cameras()
            self.pick(self.picked)

    def hide(self, points: bool, cameras: bool) -> None:
        with self.lock:
            for handle in self._points:
                handle.visible = not points
            for handle in self._cameras:
                handle.visible = not cameras

    def _update(self, moved: bool) -> None:
        with self.lock:
            self._update_cameras()
            for handle, batch in zip(self._points, self.batches, strict=False):
                positions = self._positions(batch)
                if moved:
                    handle.points = self._seen(batch, positions)
                handle.colors = self._point_colours(batch, positions)
            self.pick(self.picked)

    def _update_cameras(self) -> None:
        for number, handle in enumerate(self._cameras):
            lines, of_ends = self._lines(self.groups[number])
            if len(lines) == len(handle.points):
                handle.points, handle.colors = lines, of_ends
            else:  # one has come from too far away to be shown, or gone there
                self._cameras[number] = self._add_group(number)
                self._cameras[number].visible = handle.visible

    # one camera

    def pick(self, camera: int | None) -> str:
        """Show what a camera sees, or nothing; says what it is, as HTML."""
        with self.lock:
            for handle in self._sight:
                handle.remove()
            self._sight, self.picked = [], camera
            if camera is None:
                return block("", "Click one, or give its name, id or number.")
            corners = self._corners()[camera]
            if np.isfinite(corners).all():
                white = np.tile(paint.PICKED, (len(EDGES), 2, 1))
                frame = corners[EDGES].astype(np.float32)
                add = self.server.scene.add_line_segments
                self._sight.append(add("/picked/camera", frame, white, **THICK))
            seen = self.subject.seen(camera, self.number)
            if len(seen.points):
                self._add_sight(corners[0], seen.points, seen.errors)
            return self._about(camera, seen.errors)

    def _add_sight(self, centre: Floats, points: np.ndarray, errors: Floats) -> None:
        some = np.arange(0, len(points), max(1, len(points) // LINES))
        ends = self._positions(points[some])
        lines = np.stack([np.broadcast_to(centre, ends.shape), ends], axis=1).astype(np.float32)
        good = np.isfinite(lines).all(axis=(1, 2))
        if good.any():
            colours = paint.of_lines(0.65 * paint.by_error(errors[some], *self.error_range())[good])
            add = self.server.scene.add_line_segments
            look = {**THIN, "thickness": 1.0}
            of_ends = np.repeat(colours[:, None], 2, axis=1)
            self._sight.append(add("/picked/lines", lines[good], of_ends, **look))

    def _about(self, camera: int, errors: Floats) -> str:
        images = self.subject.images
        words = [f"camera {camera}" if images is None else images.label(camera)]
        if self.mode == "device":
            words.append(f"device {self.subject.devices().camera_device[camera]}")
        if len(errors):
            words.append(f"{len(errors):,} observations, mean error {errors.mean():.3g} px")
        elif not self.subject.problems:
            words.append("a recording does not hold observations")
        return block(*words)

    def nearest(self, origin: Floats, direction: Floats) -> int | None:
        """The camera that a click was meant for, if any."""
        at = self.placing(self.estimate.centers) - origin
        far = at @ direction
        with np.errstate(invalid="ignore", divide="ignore"):
            off = np.linalg.norm(at - far[:, None] * direction, axis=1)
            allowed = np.maximum(1.2 * self.camera_size, 0.012 * far)
            miss = np.where((far > 0) & (off < allowed), off / far, np.inf)
        return int(np.argmin(miss)) if np.isfinite(miss).any() else None


def _has_drawn(client: Any) -> bool:
    """Wait until a browser has drawn what it was sent; whether it is still there."""
    try:
        client.get_render(8, 8, timeout=PATIENCE)
    except TimeoutError:  # a page that nobody looks at now is not drawn
        return True
    except RuntimeError:
        return False
    return True
