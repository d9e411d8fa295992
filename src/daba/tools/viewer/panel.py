"""The controls of a page."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from daba.tools.viewer import paint
from daba.tools.viewer.markup import block
from daba.tools.viewer.scene import Mode, ViewerScene
from daba.tools.viewer.subject import ShownEstimate

MODES: dict[str, Mode] = {"image colour": "colour", "pixel error": "error", "device": "device"}
PAUSE = 0.25
"""Seconds between two iterations of a film."""


class Panel:
    """Controls that change a scene; one change at a time, whoever asks for it."""

    def __init__(self, server: Any, scene: ViewerScene) -> None:
        self.scene, self.gui, self.subject = scene, server.gui, scene.subject
        self.lock = scene.lock
        self._changes: dict[int, Callable[[], object]] = {}
        self._playing = False
        self.name = self.gui.add_html(block(self.subject.name, self.subject.counts))
        self._time()
        self._colour()
        self._sizes()
        self._camera()
        server.scene.on_click()(self._clicked)

    def _on(self, control: Any, change: Callable[[], object]) -> None:
        """What is to be done when somebody uses a control."""

        def run(_: Any) -> None:
            with self.lock:
                change()

        self._changes[id(control)] = change
        (control.on_update if hasattr(control, "on_update") else control.on_click)(run)

    def change(self, control: Any, value: Any) -> None:
        """Set a control as if somebody had done so on the page."""
        with self.lock:
            control.value = value
            self._changes[id(control)]()

    # before and after, or iterations

    def _time(self) -> None:
        estimates = self.subject.estimates
        if self.subject.film:
            last = max(len(estimates) - 1, 1)
            self.slider = self.gui.add_slider("snapshot", 0, last, 1, len(estimates) - 1)
            self._on(self.slider, self._slid)
            self.about = self.gui.add_html("")
            self.play = self.gui.add_button("play")
            self.play.on_click(lambda _: self._film())
            self._tell()
        elif len(estimates) > 1:
            labels = [e.label for e in estimates]
            self.switch = self.gui.add_button_group("estimate", labels)
            self.about = self.gui.add_html("")
            self._on(self.switch, self._switched)
            self._tell()

    def _switched(self) -> None:
        labels = [e.label for e in self.subject.estimates]
        self.scene.show(labels.index(self.switch.value))
        self._tell()

    def _slid(self) -> None:
        number = min(int(self.slider.value), len(self.subject.estimates) - 1)
        if number != self.scene.number:
            self.scene.show(number)
        self._tell()

    def _tell(self) -> None:
        e = self.subject.estimates[self.scene.number]
        if self.subject.film:
            self.about.content = block(f"iteration {e.label}", e.about)
        else:
            self.about.content = block("", f"shown is {e.label}")

    def _film(self) -> None:
        """From the start to the end; again asks for a stop."""
        if self._playing:
            self._playing = False
            return
        self._playing, self.play.label = True, "stop"
        for number in range(len(self.subject.estimates)):
            if not self._playing:
                break
            self.change(self.slider, number)
            if self.scene.stopped.wait(PAUSE):
                break
        self._playing, self.play.label = False, "play"

    def grow(self, estimate: ShownEstimate) -> None:
        """A new iteration of a solve that is being watched; shown unless one looks back."""
        with self.lock:
            estimates = self.subject.estimates
            follows = self.scene.number == len(estimates) - 1
            estimates.append(estimate)
            self.slider.max = len(estimates) - 1
            if follows:
                self.change(self.slider, len(estimates) - 1)

    # looks

    def _colour(self) -> None:
        subject = self.subject
        names = ["image colour"]
        names += ["pixel error"] if subject.problems else []
        names += ["device"] if subject.partition is not None else []
        if subject.colors is None:
            names[0] = "plain"
        self.colour = self.gui.add_dropdown("colour by", names, initial_value=names[0])
        self.legend = self.gui.add_html("")
        self._on(self.colour, self._coloured)
        if subject.film and subject.devices().devices > 1:
            self.change(self.colour, "device")

    def _coloured(self) -> None:
        mode = MODES.get(self.colour.value, "colour")
        self.scene.colour(mode)
        self.legend.content = self._legend(mode)

    def _legend(self, mode: Mode) -> str:
        if mode == "error":
            low, high = self.scene.error_range()
            stops = ", ".join(f"rgb({r},{g},{b})" for r, g, b in paint.RAMP)
            return (
                '<div style="margin: 0 .9em .6em; font-size: .8em">'
                f'<div style="height: .6em; border-radius: .3em; background: '
                f'linear-gradient(to right, {stops})"></div>'
                f'<div style="display: flex; justify-content: space-between"><span>{low:.2g} px'
                f"</span><span>mean error</span><span>{high:.2g} px</span></div></div>"
            )
        if mode == "device":
            count = self.subject.devices().devices
            dots = "".join(
                f'<span style="color: rgb({r},{g},{b})">●</span> {n} &nbsp;'
                for n, (r, g, b) in enumerate(paint.DEVICES[:count])
            )
            more = f" and {count - 12} more, in the same colours" if count > 12 else ""
            return f'<div style="margin: 0 .9em .6em; font-size: .8em">{dots}{more}</div>'
        return ""

    def _sizes(self) -> None:
        scene, gui = self.scene, self.gui
        with gui.add_folder("sizes", expand_by_default=False):
            points, cameras = scene.point_size, scene.camera_size
            self.point_size = gui.add_slider("points", 0.1, 5.0, 0.1, 1.0)
            self._on(self.point_size, lambda: scene.resize_points(points * self.point_size.value))
            self.camera_size = gui.add_slider("cameras", 0.1, 5.0, 0.1, 1.0)
            self._on(
                self.camera_size, lambda: scene.resize_cameras(cameras * self.camera_size.value)
            )
            self.points = gui.add_checkbox("show points", True)
            self.cameras = gui.add_checkbox("show cameras", True)
            for box in (self.points, self.cameras):
                self._on(box, lambda: scene.hide(not self.points.value, not self.cameras.value))

    # one camera

    def _camera(self) -> None:
        last = len(self.subject.estimates[-1].centers) - 1
        with self.gui.add_folder("camera"):
            self.number = self.gui.add_number("number", -1, min=-1, max=last, step=1,
                                              hint="-1: none")  # fmt: skip
            self.description = self.gui.add_html(self.scene.pick(None))
        self._on(self.number, self._picked)

    def _picked(self) -> None:
        number = int(self.number.value)
        if (number if number >= 0 else None) != self.scene.picked:
            self.description.content = self.scene.pick(number if number >= 0 else None)

    def _clicked(self, event: Any) -> None:
        with self.lock:
            found = self.scene.nearest(np.array(event.ray_origin), np.array(event.ray_direction))
            if found is not None:
                self.description.content = self.scene.pick(found)
                self.number.value = found
