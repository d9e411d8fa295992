"""One step of Levenberg–Marquardt against dense algebra on derivatives by differences, and the CPU
kernels against plain NumPy."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from lm_for_gpu import own_cameras, parts_of, rigs_that_share, shard_of_six

from daba.backends.cpu.lm.operations import CpuOperations
from daba.backends.cpu.threads import Pool
from daba.backends.plain.operations import PlainOperations
from daba.core.camera_models import MODELS, PARAMETERS, project
from daba.core.decisions import LEAST_DIAGONAL
from daba.core.lm import Estimate, Kind, Loss
from daba.core.options import Options
from daba.distributed.comm.base import Communicator
from daba.distributed.lm_rays import ray_input
from daba.distributed.lm_shard import LmShard, Shared
from daba.problem.optics import compose
from daba.runtime.compile import compile_lm
from daba.solver.lm import deflated, renewed
from daba.solver.lm import solver as lm_solver
from daba.solver.lm.coarse import CoarseSpace, make_space
from daba.solver.lm.direct import Direct
from daba.solver.lm.linear import Whole
from daba.solver.lm.network import Network
from daba.solver.lm.plan import make_plan
from daba.solver.lm.renewed import Renewed, frames_alone
from daba.solver.lm.solver import LevenbergMarquardt, add_parameters, keep_sides, retract

pytestmark = pytest.mark.usefixtures("compiled")

CASES: dict[str, Any] = {
    "ray": lambda shard: ray_input(shard, Communicator()),
    "lenses": lambda shard: own_cameras(shard, "FOV", "EUCM", "OPENCV_FISHEYE", "RADIAL", most=3),
    "panorama": lambda shard: own_cameras(shard, "EQUIRECTANGULAR", "SIMPLE_RADIAL"),
    "rigs": rigs_that_share,
}
QUADRATIC = Loss(0, 1.0)
MU = 1e-3


def parts_named(name: str, points: int = 12, devices: int = 1) -> LmShard:
    shard = shard_of_six(points, devices)
    return parts_of(shard, CASES[name](shard))


# Derivatives by differences


def residuals(parts: LmShard, x: Estimate) -> np.ndarray:
    """ω times the error of each observation, and L of each prior of a point, written down from the
    definitions, with nothing but the projections of camera models."""
    obs, images = parts.obs, parts.images
    poses = x.frames[obs.frame]
    if parts.kind.sensors != "none":
        poses = compose(poses, x.sensors[images.sensor[obs.image]])
    R, δ = poses[:, :9].reshape(-1, 3, 3), x.points[obs.point] - poses[:, 9:]
    params = x.params[images.camera[obs.image]]
    if parts.kind.error == "ray":
        s = (obs.xy**2).sum(axis=1)
        z = params[:, 0] + s * (params[:, 1] + s * params[:, 2])
        ray = np.einsum("kij,kj->ki", R, np.column_stack([obs.xy, z]))
        off = ray - δ * ((ray * δ).sum(axis=1) / (δ * δ).sum(axis=1))[:, None]
        off = across(parts, off)
    else:
        seen = np.einsum("kji,kj->ki", R, δ)
        off = np.zeros((len(seen), 2))
        for m, name in enumerate(parts.kind.models):
            k = np.flatnonzero(params[:, PARAMETERS] == m)
            model = MODELS[name]
            off[k] = project(model, params[k, : model.count], seen[k]).pixels - obs.xy[k]
            if name == "EQUIRECTANGULAR":  # across its seam the other way is shorter
                width = params[k, 0]
                off[k, 0] -= width * np.round(off[k, 0] / width)
    rows = [(obs.weight[:, None] * off).ravel()]
    prior = parts.point_priors
    if len(prior.row):
        j = np.flatnonzero(prior.row >= 0)
        root = np.linalg.cholesky(prior.information[prior.row[j]])
        away = x.points[j] - prior.target[prior.row[j]]
        rows.append(np.einsum("nab,na->nb", root, away).ravel())
    return np.concatenate(rows)


def across(parts: LmShard, off: np.ndarray) -> np.ndarray:
    """The part of errors that lies across where the points are at the start, which is all of them
    there: Gauss and Newton's matrix is made of this part's derivatives."""
    obs = parts.obs
    δ = parts.x.points[obs.point] - parts.x.frames[obs.frame, 9:]
    n = δ / np.linalg.norm(δ, axis=1, keepdims=True)
    return np.asarray(off - n * (off * n).sum(axis=1, keepdims=True))


def moved(parts: LmShard, x: Estimate, v: np.ndarray) -> Estimate:
    """x after a step of all that may move: frames, what is shared, points."""
    kind, F, m = parts.kind, parts.num_frames, parts.shared.count
    frames, shared, points = np.split(v, [F * kind.block, F * kind.block + m])
    step, params, sensors = frames.reshape(F, -1), x.params.copy(), x.sensors
    own = F if kind.own else 0
    if own:
        add_parameters(params[:own], step[:, 6:], kind)
    if m:
        camera, sensor = (
            np.where(numbers >= 0, shared[numbers], 0.0)
            for numbers in (parts.shared.camera, parts.shared.sensor)
        )
        add_parameters(params[own:], camera, kind)
        sensors = retract(sensors, sensor)
    return Estimate(
        retract(x.frames, step[:, :6]), sensors, params, x.points + points.reshape(-1, 3)
    )


def free(parts: LmShard) -> np.ndarray:
    """Which entries of a step may be other than zero."""
    frames = np.ones(parts.num_frames * parts.kind.block, bool)
    if len(parts.fixed_frames):
        frames = ~parts.fixed_frames.ravel()
    points = np.ones(3 * parts.num_points, bool)
    if len(parts.fixed_points):
        points = np.repeat(~parts.fixed_points, 3)
    return np.concatenate([frames, np.ones(parts.shared.count, bool), points])


def jacobian(parts: LmShard, columns: np.ndarray) -> np.ndarray:
    """By central differences, each with a step that moves pixels by about 1e-2."""
    x, n = parts.x, len(columns)
    out = np.zeros((len(residuals(parts, x)), n))
    for c in np.flatnonzero(columns):
        v, h = np.zeros(n), 1e-6
        for _ in range(2):  # the first tells how long the step should be
            v[c] = h
            change = residuals(parts, moved(parts, x, v)) - residuals(parts, moved(parts, x, -v))
            out[:, c] = change / (2 * h)
            h = 1e-2 / max(np.abs(out[:, c]).max(), 1e-8)
    return out


def damped(H: np.ndarray) -> np.ndarray:
    """H + μ diag H, and a little where a parameter changes nothing."""
    return H + MU * np.diag(np.maximum(np.diag(H), LEAST_DIAGONAL))


def quadratic_priors(parts: LmShard) -> LmShard:
    """Priors of points without their robust loss, which differences of residuals do not know."""
    return replace(parts, point_priors=parts.point_priors._replace(kind=0))


@pytest.mark.parametrize("name", CASES)
def test_a_step_is_that_of_dense_algebra(name: str) -> None:
    parts = quadratic_priors(parts_named(name))
    columns = free(parts)
    J, r = jacobian(parts, columns)[:, columns], residuals(parts, parts.x)
    expected = np.zeros(len(columns))
    expected[columns] = -np.linalg.solve(damped(J.T @ J), J.T @ r)
    ops = PlainOperations(parts, QUADRATIC)
    assert ops.objective(parts.x).sum(axis=0)[0] == pytest.approx(0.5 * r @ r, rel=1e-12)
    ops.linearize(parts.x)
    ops.hold()
    found = ops.solve(MU)
    assert found is not None
    frames, shared, _ = found
    F, m = frames.size, len(shared)
    scale = np.abs(J).max(axis=0)  # steps are compared by the pixels they move
    for here, there, size in (
        (frames.ravel(), expected[:F], np.split(_spread(scale, columns), [F])[0]),
        (shared, expected[F : F + m], _spread(scale, columns)[F : F + m]),
    ):
        largest = np.abs(there * size).max(initial=0.0)
        np.testing.assert_allclose(here * size, there * size, atol=1e-6 * largest)


def along(parts: LmShard, rng: np.random.Generator) -> tuple[np.ndarray, Estimate, Estimate]:
    """A step of everything that moves pixels by some hundreds, and the estimate after a tenth of it
    there and back."""
    columns = free(parts)
    J = jacobian(parts, columns)
    size = np.maximum(np.abs(J).max(axis=0), 1e-3)
    v = np.where(columns, rng.normal(size=len(columns)) * 100.0 / size, 0.0)
    return J, moved(parts, parts.x, 0.1 * v), moved(parts, parts.x, -0.1 * v)


@pytest.mark.parametrize("name", CASES)
def test_second_order_is_the_gradient_of_second_differences(name: str) -> None:
    """And afterwards the gradient is what it was."""
    parts = quadratic_priors(parts_named(name))
    J, ahead, behind = along(parts, np.random.default_rng(5))
    r, there, back = (residuals(parts, x) for x in (parts.x, ahead, behind))
    expected = J.T @ (there - 2.0 * r + back) / 0.1**2
    ops = PlainOperations(parts, QUADRATIC)
    ops.linearize(parts.x)
    ops.hold()
    first = [a.copy() for a in (ops.g, ops.g_s, ops.g_l)]
    ops.second_order(parts.x, ahead, behind, 0.1)
    shared = np.zeros(parts.shared.count)
    index = parts.images.index[parts.images.group]
    np.add.at(shared, index[index >= 0], ops.g_s[index >= 0])
    found = np.concatenate([ops.g.ravel(), shared, ops.g_l.ravel()])
    size = np.maximum(np.abs(J).max(axis=0), 1e-300)
    largest = np.abs(expected / size).max()
    assert largest > 1.0
    np.testing.assert_allclose(found / size, expected / size, atol=1e-6 * largest)
    ops.first_order()
    for here, before in zip((ops.g, ops.g_s, ops.g_l), first, strict=True):
        np.testing.assert_array_equal(here, before)


def _spread(scale: np.ndarray, columns: np.ndarray) -> np.ndarray:
    out = np.zeros(len(columns))
    out[columns] = scale
    return out


# The CPU's kernels against plain NumPy


def solver_of(name: str, how: str, devices: int = 1, loss: Loss | None = None) -> Any:
    """One of plain, direct, renewed and deflated, on 300 points."""
    parts = parts_named(name, 300, devices)
    shard = shard_of_six(300, devices)
    loss = Loss(1, 1.5) if loss is None else loss
    network = Network(parts, Communicator())
    ops: Any
    reduced: Any
    if how == "plain":
        ops = PlainOperations(parts, loss)
        reduced = Whole(parts, ops, network)
    else:
        compile_lm(parts.kind, how == "deflated")
        ops = CpuOperations(parts, loss, Pool(2))
        ops.plan(make_plan(parts.obs, parts.cluster[: parts.num_frames], parts.kind.block)[0])
        if how in ("direct", "renewed"):
            shared = parts.shared.count > 0
            space = make_space(parts, ops, network, parts.cluster, 0) if shared else None
            reduced = Direct(parts, ops, network, space)
            if how == "renewed":
                alone = frames_alone(parts.obs)
                plan, _ = make_plan(
                    alone, np.arange(parts.num_frames, dtype=np.int32), parts.kind.block
                )
                reduced = Renewed(parts, ops, network, space, 1e6, (plan, alone))
        else:
            space = make_space(parts, ops, network, parts.cluster, devices)
            reduced = deflated.Deflated(parts, ops, network, space, 100)
    return LevenbergMarquardt(shard, parts, Options(method="lm"), network, ops, reduced)


def values(solver: LevenbergMarquardt, iterations: int = 6) -> np.ndarray:
    found = [solver.total[0]]
    for _ in range(iterations):
        solver.iterate()
        found.append(solver.total[0])
    return np.array(found)


@pytest.mark.parametrize(
    "name", ["ray", *(pytest.param(name, marks=pytest.mark.slow) for name in ("lenses", "rigs"))]
)
def test_kernels_find_what_plain_numpy_finds(name: str) -> None:
    here, there = solver_of(name, "direct"), solver_of(name, "plain")
    there.bends = here.bends
    found, expected = values(here), values(there)
    assert expected[-1] < 0.9 * expected[0]
    np.testing.assert_allclose(found, expected, rtol=1e-8)


@pytest.mark.parametrize(
    "name", ["ray", *(pytest.param(name, marks=pytest.mark.slow) for name in ("lenses", "rigs"))]
)
def test_kernels_find_the_same_second_order(name: str) -> None:
    """Of two devices, with a robust loss."""
    here, there = solver_of(name, "deflated", 2), solver_of(name, "plain", 2)
    _, ahead, behind = along(here.parts, np.random.default_rng(6))
    for solver in (here, there):
        solver.linearize()
        solver.ops.second_order(solver.x, ahead, behind, 0.1)
    for what in ("g", "g_s", "g_l"):
        found, expected = getattr(here.ops, what), getattr(there.ops, what)
        largest = np.abs(expected).max(initial=1e-300)
        np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-8 * largest)


@pytest.mark.parametrize("how", ["direct", "renewed", "deflated"])
@pytest.mark.parametrize("name", ["ray", "rigs"])
def test_another_gradient_is_solved_for_with_the_same_factors(
    name: str, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And what a solution says of its energy, with that of points, is −gᵀv."""
    for module, constant in ((deflated, "RESIDUAL"), (renewed, "RESIDUAL"),
                             (renewed, "RESIDUAL_OF_FRAMES")):  # fmt: skip
        monkeypatch.setattr(module, constant, 1e-10)
    devices = 2 if how == "deflated" else 1
    here, there = solver_of(name, how, devices), solver_of(name, "plain", devices)
    rng = np.random.default_rng(7)
    change = rng.normal(size=here.ops.g_l.shape)
    for solver in (here, there):
        solver.linearize()
        solver.reduced.linearized(solver.x)
        solver.reduced.solve(MU)
        solver.ops.g_l = solver.ops.g_l * (1.0 + change)
        solver.ops.g = 0.5 * solver.ops.g
    found, expected = here.reduced.again(MU), there.reduced.again(MU)
    assert_same_steps(found, expected, 1e-6)
    assert found.energy == pytest.approx(expected.energy, rel=1e-6)
    energy = here.ops.energy_of_points()
    np.testing.assert_allclose(energy, there.ops.energy_of_points(), rtol=1e-9)
    ops, of_images = there.ops, there.reduced.of_images(expected.shared)
    ops.point_bound[:] = np.inf
    points, _ = ops.back_substitute(expected.frames, of_images)
    slope = (ops.g * expected.frames).sum() + (ops.g_l * points).sum()
    slope += (ops.g_s * of_images).sum()
    assert expected.energy + energy.sum() == pytest.approx(-slope, rel=1e-9)


@pytest.mark.parametrize("fine", [0.1, 1.0])
def test_a_step_that_bounds_take_apart_is_kept_if_f_falls_as_much_as_it_should(
    fine: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its model may promise nothing then; what the whole step would have, is the measure, unless
    that is much: such steps lead elsewhere."""
    monkeypatch.setattr(lm_solver, "FINE", fine)
    solver = solver_of("ray", "plain")
    step = solver.step

    def apart(solution: Any) -> Any:
        found, lowered = step(solution)
        return found, -lowered

    solver.step = apart
    before = solver.total[0]
    solver.linearize()
    assert solver.attempt() == (fine == 1.0)
    assert (solver.total[0] < 0.9 * before) == (fine == 1.0)


@pytest.mark.parametrize("name", ["ray", "rigs"])
def test_conjugate_gradients_find_what_a_direct_solution_finds(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two devices, for one damping after the other, where they go on as far as rounding lets
    them; of the rigs the coarse space is all there is."""
    monkeypatch.setattr(deflated, "RESIDUAL", 1e-10)
    here, there = solver_of(name, "deflated", 2), solver_of(name, "plain")
    for solver in (here, there):
        solver.linearize()
        solver.reduced.linearized(solver.x)
    for mu in (1e-4, 1e-3, 1e-2):
        found, expected = here.reduced.solve(mu), there.reduced.solve(mu)
        largest = np.abs(expected.frames).max()
        np.testing.assert_allclose(found.frames, expected.frames, atol=1e-6 * largest)
        np.testing.assert_allclose(found.shared, expected.shared, atol=1e-6, rtol=1e-6)
        assert found.iterations < 20


@pytest.mark.parametrize("name", ["ray", "rigs"])
def test_a_coarse_matrix_of_rounding_has_no_solution(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a loss leaves hardly any weight, E is what rounding leaves of large numbers: no step is
    made, as if a block had no factor, and the radius shrinks."""
    solver = solver_of(name, "deflated", 2)
    solver.linearize()
    solver.reduced.linearized(solver.x)
    assert solver.reduced.solve(MU) is not None
    assemble = CoarseSpace.assemble

    def rounded(space: CoarseSpace, mu: float, z: np.ndarray) -> None:
        assemble(space, mu, z)
        noise = np.random.default_rng(0).normal(size=space.E.shape)
        space.E = noise - noise.T + 1e-16 * np.eye(len(noise))

    monkeypatch.setattr(CoarseSpace, "assemble", rounded)
    assert solver.reduced.solve(MU) is None
    before = solver.total[0]
    solver.iterate()
    assert solver.total[0] == before
    assert not solver.moved


@pytest.mark.parametrize("name", ["ray", "rigs"])
def test_f_never_rises(name: str) -> None:
    """Nor where conjugate gradients stop early, as they do."""
    F = values(solver_of(name, "deflated", 2), 8)
    assert (np.diff(F) <= 0).all()
    assert F[-1] < 0.9 * F[0]


def test_parameters_keep_their_side_of_zero() -> None:
    """α of the first camera and ω of the last go half the way; β stays, and nothing else is cut."""
    kind = Kind("pixel", ("EUCM", "FOV"), ((0, 4, 5), (0, 4)), shared=3)
    params = np.zeros((3, PARAMETERS + 1))
    params[:, -1] = 0, 0, 1
    params[:, :6] = [600, 600, 512, 384, 0.4, 1.0]
    params[2, 4] = -0.2
    numbers = np.array([[0, 1, -1], [2, 3, 4], [5, 6, -1]], np.int32)
    parts = SimpleNamespace(kind=kind, shared=Shared(numbers, np.empty((0, 6), np.int32), 7))
    solver: Any = SimpleNamespace(parts=parts, x=SimpleNamespace(params=params))
    step = np.array([-900.0, -0.9, 7.0, 0.9, -0.3, 9.0, 0.5])
    found = LevenbergMarquardt.bounded_shared(solver, step)
    np.testing.assert_allclose(found, [-900.0, -0.2, 7.0, 0.9, -0.3, 9.0, 0.1])


@pytest.mark.parametrize(
    ("f", "omega", "step", "expected"),
    [
        (300, 0.015, -1.0, -0.005),  # as near to zero as it may come
        (300, -0.015, 1.0, 0.005),
        (300, 0.01, -1e-3, 0.0),
        (300, 0.004, -1e-3, 0.0),  # a file's own value, which is nearer
        (300, 0.004, 1e-3, 1e-3),
        (900, 0.01, -1.0, -0.005),  # nobody could tell
        (300, 2.9, 0.3, 0.1),  # as far from it as it may go
        (300, -2.9, -0.3, -0.1),
        (300, 0.2, -0.05, -0.05),
    ],
)
def test_a_field_of_view_stays_where_colmap_projects_well(
    f: float, omega: float, step: float, expected: float
) -> None:
    kind = Kind("pixel", ("FOV",), ((0, 4),), own=2)
    params = np.zeros((1, PARAMETERS + 1))
    params[0, :5] = f, f, 512, 384, omega
    found = np.array([[1.0, step]])
    keep_sides(found, params, kind)
    np.testing.assert_allclose(found, [[1.0, expected]], atol=1e-15)


def test_the_radius_follows_what_the_model_has_told() -> None:
    """As it said: threefold, unless a larger one has just failed. Half of it: as it is. Less:
    smaller."""
    solver = solver_of("ray", "plain")
    solver.radius = 100.0
    assert solver.next_radius(1.0) == pytest.approx(300.0)
    assert solver.next_radius(4.5) == pytest.approx(300.0)
    assert solver.next_radius(0.5) == pytest.approx(100.0)
    assert solver.next_radius(0.05) < 60.0
    solver.shrink *= 2.0
    assert solver.next_radius(1.0) == pytest.approx(100.0)
    assert solver.next_radius(0.05) < 60.0


def attempts_that_fail(solver: Any, monkeypatch: pytest.MonkeyPatch) -> int:
    """How many steps an iteration tries where F comes out higher than it is, after each of them."""
    tried, solve, settle = [], solver.reduced.solve, solver.ops.settle_points

    def count(mu: float) -> Any:
        tried.append(mu)
        return solve(mu)

    def higher(*args: Any) -> np.ndarray:
        value = settle(*args)
        value[:, 0] = 2.0 * solver.value[:, 0]
        return np.asarray(value)

    with monkeypatch.context() as m:
        m.setattr(solver.reduced, "solve", count)
        m.setattr(solver.ops, "settle_points", higher)
        solver.iterate()
    assert not solver.moved
    return len(tried)


def test_a_step_that_promises_nothing_is_the_last_though_f_does_not_fall(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    solver = solver_of("ray", "plain")
    assert attempts_that_fail(solver, monkeypatch) == solver.options.lm_tries
    assert not solver.settled
    solver.radius = solver.options.first_radius
    for _ in range(60):
        solver.iterate()
    solver.settled, solver.radius = False, solver.options.first_radius
    assert attempts_that_fail(solver, monkeypatch) == 1
    assert solver.settled
    # where it is short because it is damped, it may be the damping that lets it promise nothing
    solver.settled, solver.radius = False, 1e-3 * solver.options.first_radius
    attempts_that_fail(solver, monkeypatch)
    assert not solver.settled


# Factors that are used again


def ready(name: str, how: str) -> Any:
    solver = solver_of(name, how)
    solver.linearize()
    solver.reduced.linearized(solver.x)
    return solver.reduced


def assert_same_steps(found: Any, expected: Any, share: float) -> None:
    largest = np.abs(expected.frames).max()
    np.testing.assert_allclose(found.frames, expected.frames, atol=share * largest)
    np.testing.assert_allclose(found.shared, expected.shared, atol=share, rtol=share)


@pytest.mark.parametrize("name", ["ray", "rigs"])
def test_with_factors_of_frames_and_of_another_damping_the_solution_is_the_same(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(renewed, "RESIDUAL", 1e-9)
    monkeypatch.setattr(renewed, "RESIDUAL_OF_FRAMES", 1e-9)
    here, there = ready(name, "renewed"), ready(name, "plain")
    for mu in (1e-4, 1e-2):
        assert_same_steps(here.solve(mu), there.solve(mu), 1e-6)
    assert (here.made, here.count) == (None, 0)
    here.budget = 1.0
    for mu in (1e-4, 1e-2, 1e-3):
        assert_same_steps(here.solve(mu), there.solve(mu), 1e-6)
    assert (here.made.mu, here.count) == (1e-4, 1)


@pytest.mark.parametrize("name", ["ray", "rigs"])
def test_when_the_budget_is_spent_the_system_is_solved_to_the_end(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(renewed, "FREE", 0)
    monkeypatch.setattr(renewed, "RESIDUAL_OF_FRAMES", 1e-3)
    here, there = ready(name, "renewed"), ready(name, "plain")
    here.budget = 1.0
    solution = here.solve(1e-3)
    assert (here.budget, here.count, solution.iterations) == (here.worth, 1, 1)
    assert_same_steps(solution, there.solve(1e-3), 1e-8)
    assert here.solve(1e-3).iterations == 1  # with the very factors of that system


def test_a_system_that_cannot_be_factored_is_given_up_and_the_next_is_tried_by_frames(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    here, there = ready("ray", "renewed"), ready("ray", "plain")
    monkeypatch.setattr(renewed, "FREE", 0)
    monkeypatch.setattr(renewed, "RESIDUAL_OF_FRAMES", 1e-9)
    here.budget = 1.0
    monkeypatch.setattr(here.whole, "factor", lambda *_: False)
    assert here.solve(1e-3) is None
    assert here.budget == here.worth
    assert_same_steps(here.solve(1e-3), there.solve(1e-3), 1e-6)
    assert here.made is None


def test_a_solver_that_is_put_back_goes_on_with_the_same_factors(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fresh() -> Any:
        solver = solver_of("ray", "renewed")
        solver.reduced.budget = 1.0
        return solver

    monkeypatch.setattr(renewed, "FREE", 0)
    monkeypatch.setattr(renewed, "RESIDUAL_OF_FRAMES", 1e-3)
    whole, first, second = fresh(), fresh(), fresh()
    expected = values(whole, 7)
    assert whole.reduced.count > 0
    values(first, 5)
    assert first.reduced.made is not None
    assert not np.array_equal(first.reduced.made.x.points, first.x.points)
    second.put_back(first.device_states(), first.common_state())
    assert np.array_equal(values(second, 2), expected[5:])
    assert np.array_equal(second.x.frames, whole.x.frames)
    assert second.reduced.common_state() == whole.reduced.common_state()
