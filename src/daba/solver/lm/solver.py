"""Levenberg–Marquardt on the true F, one radius for all devices.

A step is solved for all frames at once (`linear.py`); points follow by back-substitution and then
make a few steps of their own on the true F, for which nothing is exchanged. F⁺ decides whether all
of it is kept, so F never rises.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from daba.core import formulas
from daba.core.decisions import FIRST_SHRINK, SMALLEST_RADIUS, STEP_BOUND
from daba.core.errors import DabaError
from daba.core.lm import Estimate, Kind
from daba.core.options import Options
from daba.core.types import Floats
from daba.distributed.lm_shard import LmShard
from daba.distributed.shard import Shard, State
from daba.solver.interface import Arrays, Counts, DeviceObjective, Solver
from daba.solver.lm.linear import Reduced, Solution
from daba.solver.lm.network import Network

if TYPE_CHECKING:
    from daba.core.camera_models import CameraModel
    from daba.solver.lm.priors import ImagePriorTerms

LARGEST_RADIUS = 1e12
"""Where damping is lost in rounding, and S_cc with it."""
FINE = 0.1
"""Share of F: a step that bounds have taken apart, so that its model promises nothing any more, is
measured by what the whole one promises, if that is no more than this. On kitti-vo-250 F falls as
much; where a start is rough such steps lead into another valley: a city of 3,000 cameras on 512
devices is at 1.1 after eight of them, and without at 0.3."""
GROWTH = 3.0
"""Most that the radius grows after a step."""
BENT = 0.9
"""Share of what was promised: a step that lowers F by less is tried bent, too."""
REACH = 0.1
"""Of a step, as far as it is followed to see how residuals curve along it."""
POINT_STEPS = 3
"""Steps that points make on their own after each step of all."""
SETTLED = 1e-3
"""Share of the function tolerance: a step that is not damped more than the first one, and promises
no larger share of F, is the last, kept or not. A model of 300 points ends after 3 iterations
instead of 5; another, where F's rounding hid what the last one lowered, after 4 attempts instead of
10."""
ROUGH = 15.0
"""Pixels: where F is more than it would be if all errors were as large, and falls quickly, systems
are solved more closely. Models whose cameras are 1° off begin at 45 px and do not need it; of those
that are 2° off, at 77 to 90 px, some do, and so does one of forward motion that begins at 16.
Photographs from the internet must not have it: notredame-150 begins at 9 px and is at its target
after 8 steps, and with it not after 14; notredame-692 begins at 11, and would take seven times as
long."""
FALLING = 0.5
"""Share that a step leaves of F: above this it has not fallen quickly."""
UNSEEN = 1e-14
"""Share of F: a step whose model promises less is lost in F's rounding, and shorter ones promise
less still. A model of 50 points ends after 6 iterations of 5 instead of 14 ms so."""


class Step(NamedTuple):
    """What an estimate is moved by."""

    frames: Floats
    """Ghosts included."""
    shared: Floats
    points: Any


class Trial(NamedTuple):
    """Where a step leads."""

    x: Estimate
    value: Floats
    """F, Σ ω²|r|², and points that a camera does not see, of each device, …"""
    sums: Floats
    """… and of all; then, of the first that is tried, what its model says it lowers, and the energy
    of points."""


class LevenbergMarquardt(Solver):
    """The devices of one process."""

    def __init__(
        self,
        shard: Shard,
        parts: LmShard,
        options: Options,
        network: Network,
        ops: Any,
        reduced: Reduced,
    ) -> None:
        self.shard, self.parts, self.options = shard, parts, options
        self.network, self.ops, self.reduced = network, ops, reduced
        self.comm, self.exchange = network.comm, parts.exchange
        self.radius, self.shrink = options.first_radius, FIRST_SHRINK
        self.priors = self._priors_of_images()
        self.x = ops.upload(parts.x)
        self.value, self.total = self.evaluate()
        self.hidden = 0
        """Observations of points that their cameras do not see at the start."""
        if parts.kind.error == "pixel" and self.total[2] > 0:
            self.hidden = self.hide()
            self.value, self.total = self.evaluate()
        self.counts, self.moved = Counts(), True
        self.falling = True
        """Whether the last step that was kept, if any, has lowered F quickly."""
        self.bends = reduced.at_hand
        """Whether the next step is tried bent: the first one, where that takes little, and others
        …"""
        self.curved = False
        """… since a bent one was better than a straight one, until it is the other way."""
        self.checked = self.total[0]

    def _priors_of_images(self) -> ImagePriorTerms | None:
        """None where there are none, here."""
        if not len(self.parts.centre_priors.image) + len(self.parts.parameter_priors.image):
            return None
        from daba.solver.lm.priors import ImagePriorTerms

        return ImagePriorTerms(self.parts, self.network)

    # One iteration

    def iterate(self) -> None:
        """One accepted step, or none that helps."""
        self.network.take_counts()  # what is told between iterations is none's
        self.counts, self.moved = Counts(), False
        self.linearize()
        self.reduced.linearized(self.x)
        for attempt in range(self.options.lm_tries):
            self.counts.lm_retries += attempt > 0
            if self.attempt():
                self.moved = True
                self.counts.lm_steps = 1
                break
            self.radius /= self.shrink
            self.shrink *= 2.0
            lost = self.settled or self.promised <= UNSEEN * self.total[0]
            if lost or self.radius < SMALLEST_RADIUS:
                break
        else:
            self.shrink = FIRST_SHRINK  # the next try is no continuation of these
        if self.comm.rank > 0:  # what all do together is counted once
            self.counts = Counts()
        self.counts.add(self.network.take_counts())

    def hide(self) -> int:
        """Take the weight from what cameras do not see: an error that is not a number cannot fall.
        All that sees an observation takes it, its ghosts' owners too; counted over all devices."""
        hidden = ~self.ops.visible(self.x)
        self.parts.obs.weight[hidden] = 0.0
        self.ops.take_weights()
        count = np.zeros((self.parts.devices, 1))
        count[0] = int(hidden[: self.parts.obs.point_ptr[self.parts.num_points]].sum())
        return int(self.network.sum(count)[0])

    def evaluate(self) -> tuple[Floats, Floats]:
        """F, Σ ω²|r|², and points that a camera does not see, of each device and of all."""
        value = self.with_priors(self.ops.objective(self.x), self.x)
        return value, self.network.sum(value)

    def linearize(self) -> None:
        self.ops.linearize(self.x)
        if self.priors is not None:
            self.priors.add_to(self.ops, self.x)
        self.ops.hold()

    def with_priors(self, value: Floats, x: Estimate) -> Floats:
        """F and the rest with what priors of images add."""
        if self.priors is not None:
            value[:, 0] += self.priors.value(x)
        return value

    def attempt(self) -> bool:
        """Try a step with the radius at hand; whether it was good."""
        self.promised = np.inf
        self.reduced.rough = self.rough
        solution = self.reduced.solve(1.0 / self.radius)
        if solution is None:
            return False
        self.counts.pcg_iterations += solution.iterations
        (step, lowered), energy = self.step(solution), self.ops.energy_of_points()
        trial = self.trial(self.bent(step) if self.bends else step, lowered, energy)
        self.promised = abs(trial.sums[3])
        promise = self.promise(solution, trial)
        least = SETTLED * self.options.function_tolerance * min(trial.sums[0], self.total[0])
        last = self.promised <= least and self.radius >= self.options.first_radius
        if not last:
            trial = self.better(trial, step, promise)
        self.settled = bool(last and trial.sums[2] == 0)
        gain = self.gain(trial, promise)
        if not gain > self.options.lm_gain:
            return False
        self.radius, self.shrink = self.next_radius(gain), FIRST_SHRINK
        self.falling = bool(trial.sums[0] < FALLING * self.total[0])
        self.x, self.value, self.total = trial.x, trial.value, trial.sums[:3]
        return True

    @property
    def rough(self) -> bool:
        """Whether errors are large, and steps still lower them quickly."""
        loss = self.options.loss
        rho, _ = formulas.rho(loss.kind, float(loss.radius), np.float64(ROUGH**2))
        return self.falling and bool(
            self.total[0] > 0.5 * float(rho) * self.shard.ranges.observations
        )

    def promise(self, solution: Solution, trial: Trial) -> float:
        """What F should fall by: what the model says or, where bounds have taken the step apart so
        that it says nothing, what it does of the whole step."""
        lowered, energy = trial.sums[3:]
        whole = 0.5 * (solution.energy + energy)
        return float(whole if lowered <= 0.0 < whole < FINE * self.total[0] else lowered)

    def better(self, trial: Trial, step: Step, promise: float) -> Trial:
        """What was tried, bent or straight, or the other way, where that has not lowered F by what
        it should and the other lowers it more."""
        if self.gain(trial, promise) > (self.options.lm_gain if self.curved else BENT):
            self.bends = self.curved
            return trial
        other = self.trial(step if self.bends else self.bent(step))
        if self.gain(other, promise) > self.gain(trial, promise):
            self.bends, trial = not self.bends, other
        self.curved = self.bends and self.gain(trial, promise) > self.options.lm_gain
        return trial

    def trial(self, step: Step, *beside: Floats) -> Trial:
        """Make a step, and let points settle; `beside`, (S,) each, are summed with what F is."""
        x = move(self.parts, self.x, step)
        value = self.ops.settle_points(x, self.x.points, POINT_STEPS)
        value = self.with_priors(value, x)
        self.network.points(x.points)
        return Trial(x, value, self.network.sum(np.column_stack([value, *beside])))

    def gain(self, trial: Trial, promise: float) -> float:
        """How much of what was promised F falls by."""
        F, _, unseen = trial.sums[:3]
        if not (promise > 0.0 and unseen == 0 and F < np.inf):
            return -np.inf
        return float((self.total[0] - F) / promise)

    def next_radius(self, gain: float) -> float:
        """After a step that was kept: no larger, if a larger one has just failed."""
        growth = GROWTH if self.shrink == FIRST_SHRINK else 1.0
        wider = self.radius / max(1.0 / growth, 1.0 - (2.0 * min(gain, 1.0) - 1.0) ** 3)
        return min(wider, LARGEST_RADIUS)

    def step(self, solution: Solution) -> tuple[Step, Floats]:
        """What points do when frames do that, and what the model says it lowers, (S,)."""
        ops = self.ops
        frames = self.bounded(ops.host(solution.frames))
        shared = self.bounded_shared(ops.host(solution.shared))
        everywhere = self.network.frames(frames)
        of_images = ops.host(self.reduced.of_images(ops.put(shared)))
        points, lowered = ops.back_substitute(ops.put(everywhere), ops.put(of_images))
        lowered = lowered - ops.model_of_frames(frames, of_images)
        return Step(everywhere, shared, points), lowered

    def bent(self, step: Step) -> Step:
        """The step with its geodesic acceleration: where residuals curve along it, r'', their model
        is lowest after v + ½a, where a solves the same system for r'' instead of r. The step as it
        is, where rounding leaves no solution."""
        ops, network, mu = self.ops, self.network, 1.0 / self.radius
        network.points(step.points)
        ahead, behind = (
            move(self.parts, self.x, step, REACH),
            move(self.parts, self.x, step, -REACH),
        )
        ops.second_order(self.x, ahead, behind, REACH)
        solution = self.reduced.again(mu)
        if solution is not None:
            self.counts.pcg_iterations += solution.iterations
            turn, _ = self.step(solution)
        ops.first_order()
        if solution is None:
            return step
        own = self.parts.num_frames
        frames = self.bounded(step.frames[:own] + 0.5 * turn.frames[:own])
        shared = self.bounded_shared(step.shared + 0.5 * turn.shared)
        points = step.points + 0.5 * turn.points
        return Step(network.frames(frames), shared, points)

    def bounded(self, step: Floats) -> Floats:
        """No frame turns or moves further than its bound, nor changes its focal length by more than
        that share: one of few observations could lower F by leaving the scene."""
        turn = np.linalg.norm(step[:, :3], axis=1) / STEP_BOUND
        move = np.linalg.norm(step[:, 3:6], axis=1) / self.ops.frame_bound
        excess = np.maximum(np.maximum(turn, move), 1.0)
        kind, params = self.parts.kind, self.x.params[: len(step)]
        if kind.own:
            for n, focal in enumerate(focal_columns(kind)):
                rows = np.flatnonzero(params[:, -1] == n)
                for column, parameter in focal:
                    zoom = np.abs(step[rows, 6 + column]) / np.abs(params[rows, parameter])
                    excess[rows] = np.maximum(excess[rows], zoom / STEP_BOUND)
        step = step / excess[:, None]
        if kind.own:
            keep_sides(step[:, 6:], params, kind)
        return step

    def bounded_shared(self, shared: Floats) -> Floats:
        """No parameter of a shared camera passes zero that must not."""
        kind, numbers = self.parts.kind, self.parts.shared.camera
        if not kind.shared or not any(sided_columns(kind)):
            return shared
        known, out = numbers >= 0, shared.copy()
        step = np.where(known, shared[numbers], 0.0)
        keep_sides(step, self.x.params[len(self.x.params) - len(numbers) :], kind)
        out[numbers[known]] = step[known]
        return out

    # What the run loop looks at

    @property
    def estimate(self) -> State:
        return self.rows(self.x)

    def rows(self, x: Estimate) -> State:
        """Of each image what its camera record holds, and the points."""
        images, kind, own = self.parts.images, self.parts.kind, self.shard.num_cameras
        frame = np.repeat(np.arange(self.parts.num_frames), np.diff(images.frame_ptr))
        params = x.params[images.camera[:own]]
        cameras = self.shard.start.cameras[:own].copy()
        cameras[:, :12] = x.frames[frame]
        if kind.error == "ray":
            cameras[:, 12:] = params[:, :3]
        else:
            from daba.problem import image_rows

            cameras[:, image_rows.PARAMS] = params[:, :-1]
            cameras[:, image_rows.PLACE] = x.sensors[images.sensor[:own]]
        return State(cameras, self.ops.download(x.points)[: self.parts.num_points])

    def device_objective(self) -> DeviceObjective:
        priors = np.zeros(self.parts.devices)
        if len(self.parts.point_priors.row):
            from daba.solver.lm.priors import of_points

            priors = of_points(self.parts, lambda j: self.ops.download(self.x.points[j]))
        if self.priors is not None:
            priors = priors + self.priors.value(self.x)
        return DeviceObjective(self.value[:, 0], self.value[:, 1], priors)

    @property
    def linear_solver(self) -> str:
        return self.reduced.description

    def view(self, cameras: np.ndarray, points: np.ndarray) -> tuple[Floats, Floats]:
        x = self.estimate
        rows = x.cameras[cameras]
        if self.parts.kind.error == "ray":
            return rows[:, :12], x.points[points]
        from daba.problem import image_rows

        return image_rows.poses(rows), x.points[points]

    def gradient_norm(self) -> float:
        ops, parts = self.ops, self.parts
        self.linearize()
        here = ops.largest_gradient()
        shared = np.zeros((parts.devices, parts.shared.count + 1))
        shared[:, -1] = here
        if parts.shared.count:
            of = np.repeat(np.arange(parts.num_frames), np.diff(parts.images.frame_ptr))
            index = parts.images.index[parts.images.group[: len(of)]]
            device = np.broadcast_to(self.network.frame_device[of][:, None], index.shape)
            known = index >= 0
            np.add.at(shared, (device[known], index[known]), ops.g_s[known])
        rows = self.network.gather(shared)
        return float(max(np.abs(rows[:, :-1].sum(axis=0)).max(initial=0.0), rows[:, -1].max()))

    def check(self) -> None:
        """F must not rise."""
        F = self.total[0]
        if self.checked * (1.0 + 1e-12) < F:
            raise DabaError("a guarantee of the method failed in rounding or in code: F has risen")
        self.checked = F

    # Checkpoints (`state.py`)

    def device_states(self) -> dict[int, Arrays]:
        from daba.solver.lm.state import device_states

        return device_states(self)

    def common_state(self) -> dict[str, Any]:
        from daba.solver.lm.state import common_state

        return common_state(self)

    def put_back(self, states: dict[int, Arrays], common: dict[str, Any]) -> None:
        from daba.solver.lm.state import put_back

        put_back(self, states, common)


def move(parts: LmShard, x: Estimate, step: Step, share: float = 1.0) -> Estimate:
    """x after a share of a step."""
    kind, frames, shared = parts.kind, share * step.frames, share * step.shared
    sensors, params = x.sensors, x.params.copy()
    own = len(frames) if kind.own else 0
    if own:
        add_parameters(params[:own], frames[:, 6:], kind)
    if parts.shared.count:
        camera, sensor = (
            np.where(numbers >= 0, shared[numbers], 0.0)
            for numbers in (parts.shared.camera, parts.shared.sensor)
        )
        if kind.shared:
            add_parameters(params[own:], camera, kind)
        sensors = retract(sensors, sensor)
    points = x.points + share * step.points
    return Estimate(retract(x.frames, frames[:, :6]), sensors, params, points)


def retract(records: Floats, step: Floats) -> Floats:
    """R ← exp(ω̂) R, t ← t + step; what does not move keeps its bits."""
    moving = np.flatnonzero(step[:, :6].any(axis=1))
    turning = moving[step[moving, :3].any(axis=1)]
    out = records.copy()
    R = formulas.multiply3(formulas.exponential(*step[turning, :3].T), records[turning, :9].T)
    out[turning, :9] = np.stack(formulas.polar_step(R), axis=1)
    out[moving, 9:] += step[moving, 3:6]
    return out


def add_parameters(params: Floats, step: Floats, kind: Kind) -> None:
    """Add steps of the refined parameters to cameras."""
    if kind.error == "ray":
        params[:, : step.shape[1]] += step[: len(params)]
        return
    for n, refined in enumerate(kind.refined):
        rows = np.flatnonzero(params[:, -1] == n)
        for column, parameter in enumerate(refined):
            params[rows, parameter] += step[rows, column]


def keep_sides(step: Floats, params: Floats, kind: Kind) -> None:
    """Let parameters that have a side of zero go half the way there at most, and none beyond where
    it must end. Others go on: a camera that stands at an edge must not hold up the rest."""
    for n, sided in enumerate(sided_columns(kind)):
        rows = np.flatnonzero(params[:, -1] == n)
        for column, parameter, model in sided:
            now, f = params[rows, parameter], params[rows, 0]
            side, far = np.where(now < 0.0, -1.0, 1.0), np.abs(now)
            wide = f < np.hypot(*params[rows, model.focals : model.focals + 2].T)
            inwards = np.minimum(STEP_BOUND * far, np.maximum(far - wide * model.least, 0.0))
            outwards = np.maximum(model.most - far, 0.0)
            step[rows, column] = side * np.clip(side * step[rows, column], -inwards, outwards)


def sided_columns(kind: Kind) -> list[list[tuple[int, int, CameraModel]]]:
    """Of each model the columns of its intrinsics that stay on their side of zero, and their places
    among the parameters."""
    from daba.core.camera_models import named

    models = [named(name) for name in kind.models]
    return [
        [
            (column, p, model)
            for column, p in enumerate(refined)
            if model.parameters[p] in model.sided
        ]
        for model, refined in zip(models, kind.refined, strict=True)
    ]


def focal_columns(kind: Kind) -> list[list[tuple[int, int]]]:
    """Of each model the columns of a frame's intrinsics that are focal lengths, and their places
    among the parameters."""
    from daba.core.camera_models import named

    if kind.error == "ray":
        return [[(0, 0)]]
    return [
        [(column, p) for column, p in enumerate(refined) if p < named(name).focals]
        for name, refined in zip(kind.models, kind.refined, strict=True)
    ]
