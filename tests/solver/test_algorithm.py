"""Algorithm 1 whole: Lemma 1 at every iteration, monotony, refinement, and where it ends."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import daba
from daba.backends.operations import Row
from daba.core.errors import DabaError
from daba.core.losses import Loss, make_loss
from daba.core.options import ROUNDS, Options
from daba.partition.partition import Partition, make_partition
from daba.problem.problem import Problem
from daba.solver.algorithm import Algorithm1
from helpers import (
    EAGER,
    check_iteration,
    device_of_observations,
    make_solver,
    now,
    operations_of,
    paper_majorizers,
    paper_penalties,
    paper_surrogate,
    random_rotations,
    rng,
    scattered,
    similar,
    state_of,
    synthetic,
)

pytestmark = pytest.mark.usefixtures("compiled")

REFINE = ["none", "points", "sweep"]
ORBIT = daba.generate(synthetic("orbit", cameras=12, points=150, seed=1)).start
CITY = daba.generate(synthetic("city", cameras=16, points=200, seed=2)).start
ROUGH = daba.generate(
    synthetic("city", cameras=16, points=200, seed=5, outliers=0.1, rotation_error=2.0)
).start


def check_run(problem: Problem, iterations: int, **options: Any) -> int:
    solver = make_solver(problem, **options)
    first = float(solver.row(Row.F_BAR).sum())
    restarts = sum(check_iteration(solver, first) for _ in range(iterations))
    assert now(solver).objective(solver.options.loss) < problem.objective(solver.options.loss)
    return restarts


@pytest.mark.parametrize("split", [0.3, 0.5, 0.8])
@pytest.mark.parametrize("refine", REFINE)
@pytest.mark.parametrize("name", ["trivial", "huber", "welsch"])
def test_lemma_1_holds_at_every_iteration(name: str, refine: str, split: float) -> None:
    loss = make_loss(name, 32.0)
    common: dict[str, Any] = {"devices": 4, "refine": refine, "split": split, "loss": loss}
    check_run(CITY, 25, **common)
    check_run(ROUGH, 25, **common, eta=0.1, restart_ratio=1.0)
    check_run(ROUGH, 25, **common, **EAGER)


@pytest.mark.parametrize("refine", REFINE)
def test_lemma_1_holds_where_devices_do_restart(refine: str) -> None:
    total = check_run(ROUGH, 60, devices=5, refine=refine, momentum_clip=1e6, **EAGER)
    assert total >= 5


@pytest.mark.parametrize("xi", [1e-9, 1.0])
@pytest.mark.parametrize("options", [{}, EAGER])
def test_the_metrics_are_the_papers_sums_over_observations(
    options: dict[str, Any], xi: float
) -> None:
    """E^α⁺ = E^α(x⁺|x) + F^α − E^α(x|x), and F^α⁺ = E^α⁺ + ΔE^α with the slack of an inter
    observation shared evenly by its two devices."""
    loss, split = make_loss("huber", 20.0), 0.4
    fixed: dict[str, Any] = {"devices": 4, "refine": "none", "loss": loss, "split": split, "xi": xi}
    solver = make_solver(ROUGH, **fixed, **options)
    partition = make_partition(ROUGH, 4, 0)
    restarts = 0
    for _ in range(30):
        x, F = now(solver), solver.row(Row.F)
        solver.iterate()
        restarts += solver.counts.restarts
        new = now(solver)
        E, here, slack = explicit_metrics(new, x, partition, loss, split, xi)
        np.testing.assert_allclose(solver.row(Row.E), F + E - here, rtol=1e-9)
        np.testing.assert_allclose(solver.row(Row.F), F + E - here + slack, rtol=1e-9)
    assert bool(restarts) == bool(options)


def explicit_metrics(
    new: Problem, x: Problem, partition: Partition, loss: Loss, split: float, xi: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """E^α(x⁺|x), E^α(x|x) and ΔE^α(x⁺|x)."""
    fixed = (partition, loss, split, xi)
    E = np.add(*paper_surrogate(new, x, *fixed)).astype(float)
    here = np.add(*paper_surrogate(x, x, *fixed)).astype(float)
    a, b = device_of_observations(new, partition)
    inter = a != b
    m = paper_majorizers(new, x, loss, split)
    gap = (paper_penalties(new, loss) - m.P - m.Q)[inter].astype(float) / 2
    slack: Any = np.bincount(a[inter], gap, partition.devices)
    slack += np.bincount(b[inter], gap, partition.devices)
    move_c = ((new.cameras - x.cameras) ** 2).sum(axis=1)
    move_l = ((new.points - x.points) ** 2).sum(axis=1)
    slack -= xi / 2 * np.bincount(partition.camera_device, move_c, partition.devices)
    slack -= xi / 2 * np.bincount(partition.point_device, move_l, partition.devices)
    return E, here, slack


@pytest.mark.parametrize("refine", REFINE)
@pytest.mark.parametrize("name", sorted(daba.core.losses.LOSSES))
def test_duba_never_raises_the_objective(name: str, refine: str) -> None:
    loss = make_loss(name, 10.0)
    for problem in (CITY, ROUGH):
        solver = make_solver(problem, method="duba", devices=5, refine=refine, loss=loss)
        before = problem.objective(loss)
        for _ in range(25):
            solver.iterate()
            after = now(solver).objective(loss)
            assert after <= before * (1 + 1e-14)
            before = after
        assert after < problem.objective(loss)


def refined(solver: Algorithm1, x: Problem) -> tuple[Problem, np.ndarray]:
    state = state_of(solver.shard, x)
    change = np.zeros(solver.shard.num_devices)
    for block in ROUNDS[solver.options.refine]:
        change += operations_of(solver).refined(state, block)
    return solver.shard.to_problem(state), change


@pytest.mark.parametrize("far", [0.0, 1e-3, 0.03, 0.3])
@pytest.mark.parametrize("name", sorted(daba.core.losses.LOSSES))
@pytest.mark.parametrize("refine", ["points", "sweep"])
def test_refinement_lowers_the_objective_by_what_it_says(
    refine: str, name: str, far: float
) -> None:
    loss = make_loss(name, 15.0)
    solver = make_solver(CITY, devices=4, refine=refine, loss=loss)
    x = scattered(CITY, 3, far)
    before = x.objective(loss)
    new, change = refined(solver, x)
    after = new.objective(loss)
    assert after < before
    assert (change <= 0).all()
    assert change.sum() == pytest.approx(after - before, rel=1e-9, abs=1e-11 * before)


@pytest.mark.parametrize("refine", REFINE)
def test_refinement_moves_the_boundary_and_nothing_else(refine: str) -> None:
    solver = make_solver(CITY, devices=4, refine=refine)
    partition = make_partition(CITY, 4, 0)
    inter = partition.camera_device[CITY.camera_index] != partition.point_device[CITY.point_index]
    boundary_c = np.isin(np.arange(CITY.num_cameras), CITY.camera_index[inter])
    boundary_l = np.isin(np.arange(CITY.num_points), CITY.point_index[inter])
    new, _ = refined(solver, CITY)
    moved_c = (new.cameras != CITY.cameras).any(axis=1)
    moved_l = (new.points != CITY.points).any(axis=1)
    assert not moved_c[~boundary_c].any()
    assert not moved_l[~boundary_l].any()
    assert moved_l[boundary_l].any() == (refine != "none")
    assert moved_c[boundary_c].any() == (refine == "sweep")


def test_refining_again_and_again_ends_where_the_boundary_has_no_gradient() -> None:
    from daba.problem import reference

    solver = make_solver(ORBIT, devices=3, refine="sweep")
    partition = make_partition(ORBIT, 3, 0)
    inter = partition.camera_device[ORBIT.camera_index] != partition.point_device[ORBIT.point_index]
    shared = np.unique(ORBIT.point_index[inter])
    x, gradients = ORBIT, []
    for _ in range(30):
        gradients.append(np.abs(reference.gradient(x, solver.options.loss)[1][shared]).max())
        x, _ = refined(solver, x)
    assert gradients[-1] < 1e-2 * gradients[0]


@pytest.mark.parametrize("refine", REFINE)
def test_the_gradient_falls_to_zero(refine: str) -> None:
    from daba.problem import reference

    solver = make_solver(ORBIT, devices=3, refine=refine)
    first = solver.gradient_norm()
    g_c, g_l = reference.gradient(ORBIT, solver.options.loss)
    assert first == pytest.approx(max(abs(g_c).max(), abs(g_l).max()), rel=1e-10)
    for _ in range(1500):
        solver.iterate()
    g_c, g_l = reference.gradient(now(solver), solver.options.loss)
    last = max(abs(g_c).max(), abs(g_l).max())
    assert last < 1e-7 * first
    assert solver.gradient_norm() == pytest.approx(last, rel=1e-6, abs=1e-9 * first)


@pytest.mark.parametrize("refine", REFINE)
@pytest.mark.parametrize("name", ["trivial", "huber"])
def test_devices_reach_the_optimum_of_one(refine: str, name: str) -> None:
    loss = make_loss(name, 2.0)
    tight: dict[str, Any] = {"loss": loss, "function_tolerance": 0.0, "threads": 1}
    one = daba.solve(ORBIT, method="lm", iterations=60, **tight)
    many = daba.solve(ORBIT, devices=4, refine=refine, iterations=1200, **tight)
    assert many.objective == pytest.approx(one.objective, rel=1e-8)
    assert many.problem.objective(loss) == pytest.approx(many.objective, rel=1e-12)


@pytest.mark.parametrize("linear", ["direct", "pcg"])
def test_one_device_is_levenberg_marquardt_bit_for_bit(linear: str) -> None:
    fixed: dict[str, Any] = {"linear_solver": linear, "iterations": 15, "loss": daba.Huber(5.0)}
    lm = daba.solve(CITY, method="lm", **fixed)
    for method in ("daba", "duba"):
        same = daba.solve(CITY, method=method, devices=1, **fixed)
        assert same.problem.cameras.tobytes() == lm.problem.cameras.tobytes()
        assert same.problem.points.tobytes() == lm.problem.points.tobytes()
        assert [i.objective for i in same.history] == [i.objective for i in lm.history]


def test_levenberg_marquardt_finds_the_same_on_any_number_of_devices() -> None:
    one, many = (daba.solve(CITY, method="lm", devices=d) for d in (1, 6))
    assert many.objective == pytest.approx(one.objective, rel=1e-7)


@pytest.mark.parametrize("scene", ["orbit", "street", "city"])
def test_without_noise_one_device_finds_the_truth(scene: str) -> None:
    start = daba.generate(synthetic(scene, cameras=12, points=150, seed=4, noise=0.0)).start
    result = daba.solve(start, method="lm", iterations=60)
    assert result.objective < 1e-15 * start.num_observations


@pytest.mark.parametrize("refine", REFINE)
def test_without_noise_several_devices_find_the_truth(refine: str) -> None:
    start = daba.generate(synthetic("orbit", cameras=12, points=150, seed=4, noise=0.0)).start
    result = daba.solve(
        start,
        method="daba",
        devices=3,
        refine=refine,
        iterations=3000,
        function_tolerance=0.0,
        threads=1,
    )
    assert result.mean_objective < 1e-15


def quarter_turn(seed: int) -> np.ndarray:
    """A rotation that only swaps and flips axes: damping by the diagonal cannot tell."""
    random = rng(seed)
    Q = np.eye(3)[random.permutation(3)] * random.choice([-1.0, 1.0], 3)
    return Q * np.linalg.det(Q)


@pytest.mark.parametrize("method", ["lm", "daba", "duba"])
@pytest.mark.parametrize(("turn", "tolerance"), [("quarter", 1e-10), ("any", 2e-2)])
def test_where_the_scene_stands_makes_no_difference(
    turn: str, tolerance: float, method: str
) -> None:
    """Exactly the same steps after quarter turns; after any other turn the damping, which acts
    on the diagonal, differs a little, and the optimum does not."""
    Q = quarter_turn(3) if turn == "quarter" else random_rotations(rng(1), 1)[0]
    moved = similar(ORBIT, Q, np.array([3.0, -7.0, 2.0]))
    assert moved.objective() == pytest.approx(ORBIT.objective(), rel=1e-10)
    fixed: dict[str, Any] = {
        "method": method,
        "devices": 3,
        "refine": "sweep",
        "linear_solver": "direct",
    }
    first, second = (daba.solve(p, iterations=12, **fixed) for p in (ORBIT, moved))
    compared = slice(-1, None) if turn == "any" and method == "lm" else slice(None)
    for a, b in zip(first.history[compared], second.history[compared], strict=True):
        assert b.objective == pytest.approx(a.objective, rel=tolerance)


@pytest.mark.parametrize("scale", [0.01, 100.0])
def test_the_optimum_does_not_depend_on_the_unit_of_length(scale: float) -> None:
    moved = similar(ORBIT, random_rotations(rng(5), 1)[0], np.ones(3), scale)
    assert moved.objective() == pytest.approx(ORBIT.objective(), rel=1e-10)
    here, there = (daba.solve(p, method="lm", iterations=100) for p in (ORBIT, moved))
    assert there.objective == pytest.approx(here.objective, rel=1e-6)


def test_the_start_is_not_changed() -> None:
    cameras, points = CITY.cameras.copy(), CITY.points.copy()
    daba.solve(CITY, devices=3, iterations=3)
    np.testing.assert_array_equal(CITY.cameras, cameras)
    np.testing.assert_array_equal(CITY.points, points)


def test_rotations_stay_rotations() -> None:
    solver = make_solver(CITY, devices=4, refine="sweep")
    for _ in range(200):
        solver.iterate()
    R = now(solver).rotations
    identity = np.tile(np.eye(3), (len(R), 1, 1))
    np.testing.assert_allclose(R @ R.transpose(0, 2, 1), identity, atol=2e-15)
    assert (np.linalg.det(R) > 0).all()


def test_clipping_can_be_switched_off_and_is_the_default_with_refinement() -> None:
    assert Options(refine="none").clip == np.inf
    assert Options(refine="points").clip == 0.01
    free = make_solver(CITY, devices=3, refine="none")
    clipped = make_solver(CITY, devices=3, refine="none", momentum_clip=1e-6)
    for _ in range(10):
        free.iterate()
        clipped.iterate()
    assert free.objective != clipped.objective


def without(problem: Problem, drop: np.ndarray) -> Problem:
    """The problem less some observations."""
    keep = np.flatnonzero(~drop)
    return problem.with_observations(keep)


def less(problem: Problem, index: np.ndarray, which: int, left: int) -> Problem:
    """Camera or point `which` keeps only `left` observations."""
    drop = np.zeros(problem.num_observations, bool)
    drop[np.flatnonzero(index == which)[left:]] = True
    return without(problem, drop)


ODD: dict[str, Problem] = {
    "camera without observations": less(CITY, CITY.camera_index, 3, 0),
    "camera with one observation": less(CITY, CITY.camera_index, 3, 1),
    "camera with two observations": less(CITY, CITY.camera_index, 3, 2),
    "point without observations": less(CITY, CITY.point_index, 7, 0),
    "points seen once": without(CITY, np.append(False, np.diff(CITY.point_index) == 0)),
    "every observation twice": CITY.with_observations(
        np.repeat(np.arange(CITY.num_observations), 2)
    ),
    "one observation a hundred times": CITY.with_observations(
        np.append(np.arange(CITY.num_observations), np.full(100, 5))
    ),
    "one observation in all": CITY.with_observations(np.array([0])),
    "point behind its cameras": CITY.with_estimate(
        CITY.cameras, np.where(np.arange(200)[:, None] == 7, -CITY.points - 50.0, CITY.points)
    ),
}


@pytest.mark.parametrize(
    "options",
    [
        {"method": "lm", "linear_solver": "direct"},
        {"method": "lm", "linear_solver": "pcg"},
        {"devices": 4, "refine": "none"},
        {"devices": 4, "refine": "points", "linear_solver": "pcg"},
        {"devices": 4, "refine": "sweep"},
        {"devices": 16, "refine": "sweep"},
    ],
    ids=lambda o: "-".join(map(str, o.values())),
)
@pytest.mark.parametrize("odd", ODD)
def test_odd_problems_are_solved_as_far_as_they_go(odd: str, options: dict[str, Any]) -> None:
    problem = ODD[odd]
    for loss in (daba.Trivial(), daba.Welsch(20.0)):
        result = daba.solve(problem, iterations=12, loss=loss, threads=1, **options)
        new = result.problem
        assert np.isfinite(new.cameras).all()
        assert np.isfinite(new.points).all()
        assert new.objective(loss) <= problem.objective(loss)
        unseen = np.bincount(problem.point_index, minlength=problem.num_points) == 0
        np.testing.assert_array_equal(new.points[unseen], problem.points[unseen])
        unseen = np.bincount(problem.camera_index, minlength=problem.num_cameras) == 0
        np.testing.assert_array_equal(new.cameras[unseen, 9:], problem.cameras[unseen, 9:])
        np.testing.assert_allclose(new.cameras[unseen], problem.cameras[unseen], atol=1e-14)


@pytest.mark.parametrize("name", ["cameras", "points", "u", "weights", "focal"])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_values_that_are_no_numbers_are_refused(name: str, value: float) -> None:
    array = getattr(CITY, name).copy()
    array.reshape(-1)[-1] = value
    with pytest.raises(DabaError, match="NaN or infinite"):
        daba.solve(replace(CITY, **{name: array}))


def test_more_devices_than_cameras_are_refused() -> None:
    with pytest.raises(DabaError, match="17 devices but only 16 cameras"):
        daba.solve(CITY, devices=17)
