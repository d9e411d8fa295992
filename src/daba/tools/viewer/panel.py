"""The controls of a page."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from daba.problem.images import ImageNames
from daba.tools.viewer import paint
from daba.tools.viewer.markup import block
from daba.tools.viewer.scene import Mode, ViewerScene
from daba.tools.viewer.subject import ShownEstimate
from daba.tools.viewer.thumbnails import Thumbnails

MODES: dict[str, Mode] = {"image colour": "colour", "pixel error": "error", "device": "device"}
PAUSE = 0.25
"""Seconds between two iterations of a film."""


class Panel:
    """Controls that change a scene; one change at a time, whoever asks for it."""

    def __init__(
        self, server: Any, scene: ViewerScene, thumbnails: Thumbnails | None = None
    ) -> None:
        self.scene, self.gui, self.subject = scene, server.gui, scene.subject
        self.thumbnails = thumbnails
        self.measured = threading.Event()
        """Set when the errors are known; the first picture does not wait for them."""
        self.lock = scene.lock
        self._changes: dict[int, Callable[[], object]] = {}
        self._playing = False
        self.name = self.gui.add_html(block(self.subject.name, self.subject.counts))
        self._time()
        self._colour()
        self._errors()
        self._sizes()
        self._image()
        server.scene.on_click()(self._clicked)
        threading.Thread(target=self._measure, daemon=True).start()

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
            self.switch = self.gui.add_button_group("show", labels)
            self.about = self.gui.add_html("")
            self._on(self.switch, self._switched)
            self._tell()
        else:
            self.about = self.gui.add_html("")
            self._tell()

    def _switched(self) -> None:
        labels = [e.label for e in self.subject.estimates]
        self.scene.show(labels.index(self.switch.value))
        self._tell()
        self._show_errors()
        self._repick()

    def _slid(self) -> None:
        number = min(int(self.slider.value), len(self.subject.estimates) - 1)
        if number != self.scene.number:
            self.scene.show(number)
        self._tell()

    def _tell(self) -> None:
        e = self.subject.estimates[self.scene.number]
        if self.subject.film:
            self.about.content = block(f"iteration {e.label}", e.about)
            return
        measured = self.measured.is_set()
        words = self.subject.spread(self.scene.number).words if measured else "measuring …"
        title = f"shown: {e.label}" if e.label else "errors"
        others = [
            f"{other.label}: rms {self.subject.spread(n).rms:.3g} px"
            for n, other in enumerate(self.subject.estimates)
            if measured and n != self.scene.number
        ]
        self.about.content = block(title, words, *others)

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

    # errors

    def _errors(self) -> None:
        """What is there as soon as the errors are known."""
        if not self.subject.problems:
            return
        self.histogram = self.gui.add_html("")
        self.threshold = self.gui.add_slider(
            "only above, px", 0.0, 1.0, 0.01, 0.0, hint="Hide points with a smaller mean error.",
            visible=False,
        )  # fmt: skip
        self._on(self.threshold, self._hid)
        if len(self.subject.problems) > 1:
            self.one_scale = self.gui.add_checkbox(
                "one scale for both", False, hint="Else each has colours of its own errors."
            )
            self._on(self.one_scale, self._scaled)

    def _measure(self) -> None:
        if self.subject.problems:
            for number in range(len(self.subject.problems)):
                self.subject.spread(number)
            with self.lock:
                self.measured.set()
                if not self.scene.stopped.is_set():
                    self.threshold.visible = True
                    self._tell()
                    self._show_errors()

    def _show_errors(self) -> None:
        """The errors of the estimate that is shown."""
        if not self.measured.is_set():
            return
        spread = self.subject.spread(self.scene.number)
        top = float(f"{spread.edges[-1]:.2g}")
        if self.threshold.max != top:
            self.threshold.step, self.threshold.max = top / 200, top
        shown = spread.html(*self.scene.error_range(), self.scene.threshold)
        self.histogram.content = shown
        self.legend.content = self._legend(self.scene.mode)

    def _hid(self) -> None:
        self.scene.hide_below(float(self.threshold.value))
        self._show_errors()

    def _scaled(self) -> None:
        self.scene.one_scale = bool(self.one_scale.value)
        self.scene.colour(self.scene.mode)
        self._show_errors()

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

    # one image

    def _image(self) -> None:
        images = self.subject.images
        noun = "camera" if images is None else images.noun
        with self.gui.add_folder(noun):
            self.find = self.gui.add_text("find", "", hint="Name or a part of it, id or number.")
            self.next = self.gui.add_button("next", visible=False)
            self.description = self.gui.add_html(self.scene.pick(None))
            blank = np.zeros((1, 1, 3), np.uint8)
            self.thumbnail = self.gui.add_image(blank, visible=False)
        self._found: list[int] = []
        self._on(self.find, self._searched)
        self._on(self.next, self._go_on)

    def _searched(self) -> None:
        text = self.find.value.strip()
        self._found = find(self.subject.images, len(self.scene.estimate.centers), text)
        self.next.visible = len(self._found) > 1
        self._pick(self._found[0] if self._found else None)
        if text and not self._found:
            self.description.content = block("", f"no name has '{text}' in it")

    def _go_on(self) -> None:
        """The next of those that were found."""
        if self._found:
            at = self._found.index(self.scene.picked) if self.scene.picked in self._found else -1
            self._pick(self._found[(at + 1) % len(self._found)])

    def _pick(self, number: int | None) -> None:
        self.description.content = self.scene.pick(number)
        if len(self._found) > 1 and number in self._found:
            self.next.label = f"next of {len(self._found)}"
        images, small = self.subject.images, None
        if number is not None and self.thumbnails is not None and images and images.names:
            small = self.thumbnails.get(images.names[number])
        if small is not None:
            self.thumbnail.image = small
        self.thumbnail.visible = small is not None

    def _repick(self) -> None:
        """Say of the picked image what holds in the estimate that is shown now."""
        if self.scene.picked is not None:
            self.description.content = self.scene.pick(self.scene.picked)

    def _clicked(self, event: Any) -> None:
        with self.lock:
            found = self.scene.nearest(np.array(event.ray_origin), np.array(event.ray_direction))
            if found is not None:
                self._pick(found)


def find(images: ImageNames | None, count: int, text: str) -> list[int]:
    """Images with that name or id; if there is none, with that in their name."""
    if not text:
        return []
    names = [] if images is None else [name.lower() for name in images.names]
    ids = np.arange(count) if images is None else images.ids
    exact = [i for i, name in enumerate(names) if name == text.lower()]
    if text.isdecimal():
        exact += np.flatnonzero(ids == min(int(text), np.iinfo(np.int64).max)).tolist()
    return exact or [i for i, name in enumerate(names) if text.lower() in name]
