"""The library as its front page shows it: load, solve, look, save."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import daba
from daba.problem.problem import Problem
from daba.runtime.result import Iteration


@pytest.fixture(scope="module")
def problem() -> Problem:
    return daba.generate(daba.SceneOptions(scene="orbit", cameras=8, points=120, seed=2)).start


@pytest.mark.usefixtures("compiled")
def test_the_front_page(problem: Problem, tmp_path: Path) -> None:
    daba.save(problem, tmp_path / "problem.txt")
    loaded = daba.load(tmp_path / "problem.txt")
    result = daba.solve(loaded, method="daba", devices=3, loss=daba.Huber(32.0), iterations=20)
    assert "(daba) on rays, huber loss beyond 32 px, 3 devices" in result.summary()
    daba.save(result.problem, tmp_path / "solution.txt")
    assert daba.pixel_error(result.problem).rms < 1 < daba.pixel_error(loaded).rms


@pytest.mark.usefixtures("compiled")
def test_result(problem: Problem) -> None:
    result = daba.solve(problem, method="daba", devices=2, iterations=6)
    assert [row.iteration for row in result.history] == list(range(7))
    assert result.reason == "reached the limit of 6 iterations"
    assert not result.converged
    assert result.start is problem
    assert result.objective == pytest.approx(result.problem.objective(), rel=1e-10)
    assert result.history[0].objective == pytest.approx(problem.objective(), rel=1e-10)
    for row in result.history:
        assert row.mean_objective == pytest.approx(row.objective / problem.num_observations)
        assert min(row.restarts, row.pcg_iterations, row.lm_retries) >= 0
        assert row.lm_steps == (2 + row.restarts if row.iteration else 0)
    assert 0 < result.inter_share < 1
    assert result.seconds == result.history[-1].seconds
    assert result.pixel_error.rms < result.start_pixel_error.rms
    assert json.loads(json.dumps(result.to_dict()))["result"]["reason"] == result.reason


@pytest.mark.usefixtures("compiled")
def test_the_given_problem_is_left_alone(problem: Problem) -> None:
    before = problem.cameras.copy(), problem.points.copy()
    result = daba.solve(problem, method="daba", devices=2, iterations=3)
    np.testing.assert_array_equal(problem.cameras, before[0])
    np.testing.assert_array_equal(problem.points, before[1])
    assert result.problem.u is problem.u  # observations are shared, not copied


@pytest.mark.usefixtures("compiled")
def test_summary_names_what_matters(problem: Problem) -> None:
    text = daba.solve(problem, iterations=3).summary()
    for words in ("problem", "8 cameras", "cost", "pixel error", "iterations", "stopped", "lm"):
        assert words in text
    assert len(text.splitlines()) == len(daba.solve(problem, iterations=3).rows())


@pytest.mark.usefixtures("compiled")
def test_callback_sees_every_iteration_and_can_stop(problem: Problem) -> None:
    seen: list[Iteration] = []

    def stop_at_four(row: Iteration) -> bool:
        seen.append(row)
        return row.iteration == 4

    result = daba.solve(problem, method="daba", devices=2, callback=stop_at_four)
    assert seen == result.history
    assert len(seen) == 5
    assert result.reason == "the callback asked to stop"
    assert daba.solve(problem, callback=lambda _: True).history[-1].iteration == 0


@pytest.mark.usefixtures("compiled")
def test_an_interrupt_returns_what_was_reached(problem: Problem) -> None:
    def interrupt(row: Iteration) -> None:
        if row.iteration == 2:
            raise KeyboardInterrupt

    result = daba.solve(problem, method="daba", devices=2, callback=interrupt)
    assert result.reason == "interrupted"
    assert result.history[-1].iteration == 2


@pytest.mark.usefixtures("compiled")
def test_limits(problem: Problem) -> None:
    assert daba.solve(problem, iterations=0).history[-1].iteration == 0
    timed = daba.solve(problem, method="daba", devices=2, max_seconds=1e-9)
    assert timed.reason.startswith("reached the time limit of 1e-09 s")
    done = daba.solve(problem)
    assert done.converged
    assert done.reason


@pytest.mark.usefixtures("compiled")
def test_options_can_be_given_in_both_ways(problem: Problem) -> None:
    options = daba.Options(method="daba", devices=2, iterations=2, refine="none")
    a = daba.solve(problem, options)
    b = daba.solve(problem, method="daba", devices=2, iterations=2, refine="none")
    assert a.options == b.options
    np.testing.assert_array_equal(a.problem.cameras, b.problem.cameras)
    assert daba.solve(problem, options, iterations=1).history[-1].iteration == 1


@pytest.mark.usefixtures("compiled")
def test_a_partition_of_ones_own(problem: Problem) -> None:
    partition = daba.partition_from_arrays(problem, np.arange(8) % 2)
    result = daba.solve(problem, partition=partition, iterations=2)
    assert result.options.devices == 2
    with pytest.raises(daba.DabaError, match="the partition has 2 devices, the options say 3"):
        daba.solve(problem, partition=partition, devices=3)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"devises": 2}, "unknown option 'devises'; the options are method, error"),
        ({"method": "magic"}, "method must be one of auto, lm, daba, duba, admm, dr, not 'magic'"),
        ({"refine": "all"}, "refine must be one of none, points, sweep"),
        ({"linear_solver": "qr"}, "linear_solver must be one of auto, pcg, direct"),
        ({"devices": 0}, "devices must be at least 1, not 0"),
        ({"devices": 9}, "9 devices but only 8 cameras"),
        ({"loss": "huber"}, r"loss must be a daba\.Loss, such as daba\.Huber"),
        ({"iterations": -1}, "iterations must not be negative"),
        ({"split": 1.0}, "split must lie between 0 and 1"),
        ({"xi": 0.0}, "xi must be positive"),
        ({"eta": 2.0}, r"eta must lie in \(0, 1\]"),
        ({"restart_ratio": 0.5}, "restart_ratio must be at least 1"),
        ({"function_tolerance": -1.0}, "tolerances must be >= 0"),
    ],
)
@pytest.mark.usefixtures("compiled")
def test_impossible_options(problem: Problem, options: dict[str, Any], expected: str) -> None:
    with pytest.raises(daba.DabaError, match=expected):
        daba.solve(problem, **options)


def test_losses() -> None:
    assert daba.make_loss("welsch", 8.0) == daba.Welsch(8.0)
    with pytest.raises(daba.DabaError, match="unknown loss 'l3'; choose one of trivial, huber"):
        daba.make_loss("l3")
    with pytest.raises(daba.DabaError, match="must be positive, not -1"):
        daba.Huber(-1.0)


def test_every_option_is_documented() -> None:
    from daba.tools.cli.help import documentation

    for source in (daba.Options, daba.SceneOptions):
        assert set(documentation(source)) == {f.name for f in fields(source)}


def test_names_of_version_0_1() -> None:
    assert vars(daba)["__getattr__"]("Asked") is daba.ConstraintOptions


def test_public_names() -> None:
    for name in daba.__all__:
        assert getattr(daba, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'solv'"):
        daba.solv  # noqa: B018


ARRAYS: dict[str, Any] = {
    "rotations": np.tile(np.eye(3), (2, 1, 1)),
    "centers": np.array([[0.0, 0, 0], [1, 0, 0]]),
    "points": np.array([[0.0, 0, 5], [1, 1, 6], [-1, 0, 7]]),
    "camera_index": [0, 0, 0, 1, 1, 1],
    "point_index": [0, 1, 2, 0, 1, 2],
    "pixels": np.arange(12.0).reshape(6, 2),
    "focal": 500.0,
}


def test_from_arrays() -> None:
    problem = Problem.from_arrays(**ARRAYS, name="mine", info={"place": "here"})
    assert (problem.num_cameras, problem.num_points, problem.num_observations) == (2, 3, 6)
    np.testing.assert_allclose(problem.pixels, ARRAYS["pixels"])
    np.testing.assert_array_equal(problem.intrinsics, [[1, 0, 0]] * 2)
    assert (problem.name, problem.info) == ("mine", {"place": "here"})
    assert Problem.from_arrays(**ARRAYS).info == {}


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"rotations": np.eye(3)}, r"rotations must have shape \(C, 3, 3\), not \(3, 3\)"),
        ({"rotations": 2 * ARRAYS["rotations"]}, "camera 0: its rotation matrix is not a rotation"),
        ({"rotations": -ARRAYS["rotations"]}, "camera 0: its rotation matrix is not a rotation"),
        ({"centers": np.zeros((3, 3))}, r"centers must have shape \(2, 3\), not \(3, 3\)"),
        ({"points": np.zeros(3)}, r"points must have shape \(P, 3\), not \(3,\)"),
        ({"points": np.zeros((3, 2))}, r"points must have shape \(P, 3\), not \(3, 2\)"),
        ({"points": np.full((3, 3), np.nan)}, "point 0: NaN or infinite value"),
        ({"points": np.zeros((3, 3))}, "observation 0: point 0 lies on the centre of camera 0"),
        ({"camera_index": [0, 0, 0, 1, 1, 2]}, "observation 5: camera_index 2 is out of range"),
        ({"point_index": [0, 1, 2, 0, 1, -1]}, "observation 5: point_index -1 is out of range"),
        ({"point_index": [0.5] * 6}, "point_index must be a one-dimensional array of integers"),
        ({"pixels": np.zeros((5, 2))}, r"pixels must have shape \(6, 2\), not \(5, 2\)"),
        ({"pixels": np.full((6, 2), np.inf)}, "observation 0: NaN or infinite value"),
        ({"focal": [500.0, 0.0]}, "camera 1: focal length must be positive, not 0"),
        ({"intrinsics": np.ones((2, 2))}, r"intrinsics must have shape \(2, 3\), not \(2, 2\)"),
        ({"weights": np.zeros(6)}, "observation 0: weight must be positive, not 0"),
        ({"weights": np.ones(5)}, r"weights must have shape \(6,\), not \(5,\)"),
    ],
)
def test_from_arrays_says_what_is_wrong(change: dict[str, Any], expected: str) -> None:
    with pytest.raises(daba.DabaError, match=expected):
        Problem.from_arrays(**(ARRAYS | change))


@pytest.mark.usefixtures("compiled")
def test_a_real_problem(real_file: Callable[[str], Path]) -> None:
    path = real_file("trafalgar-21-11315-pre.txt.bz2")
    result = daba.solve(daba.load(path), iterations=15)
    assert result.history[0].mean_objective == pytest.approx(9.720695, abs=1e-6)
    assert result.mean_objective < 0.9


def test_no_public_name_is_hidden_by_a_module() -> None:
    modules = {path.stem for path in Path(daba.__file__).parent.iterdir()}
    assert not modules & set(daba.__all__)


@pytest.mark.parametrize(
    ("name", "value", "what"),
    [
        ("iterations", "5", "a whole number"),
        ("iterations", 2.0, "a whole number"),
        ("devices", 2.5, "a whole number"),
        ("seed", True, "a whole number"),
        ("devices", None, "a whole number"),
        ("filter", "4", "a number"),
        ("lm_radius", float("inf"), "positive and finite"),
    ],
)
def test_options_of_another_type(name: str, value: object, what: str) -> None:
    with pytest.raises(daba.DabaError, match=f"{name} must be {what}, not"):
        daba.Options(**{name: value})  # type: ignore[arg-type]
    numbers: dict[str, Any] = {"iterations": np.int64(3), "filter": np.float32(2)}
    assert daba.Options(**numbers).most_iterations == 3


@pytest.mark.parametrize("kind", ["complex128", "U8", "O"])
def test_arrays_of_another_type(kind: str, problem: Problem) -> None:
    wrong = replace(problem, points=problem.points.astype(kind))
    with pytest.raises(daba.DabaError, match="points must be a NumPy array of numbers, not"):
        wrong.validated()
    with pytest.raises(daba.DabaError, match="points must be a NumPy array of numbers, not list"):
        replace(problem, points=problem.points.tolist()).validated()
    replace(problem, points=problem.points.astype("f4")).validated()


def test_what_is_no_problem(tmp_path: Path) -> None:
    with pytest.raises(daba.DabaError, match=r"a str is no problem: daba.load\(...\) reads one"):
        daba.solve("problem.txt")  # type: ignore[arg-type]
