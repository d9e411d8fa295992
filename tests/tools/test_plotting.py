"""Pictures: that they are made, whole, of the right kind, and refuse what is no history."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import daba
from daba.core.options import Options
from daba.distributed.scatter import Sizes
from daba.problem.problem import Problem
from daba.runtime.result import Iteration, Result
from daba.tools import plotting as plot

MAGIC = {".png": b"\x89PNG", ".svg": b"<?xml", ".pdf": b"%PDF"}


@pytest.fixture(scope="module")
def problem() -> Problem:
    return daba.generate(daba.SceneOptions(cameras=10, points=200, seed=1)).start


def result_of(problem: Problem, iterations: int = 30, restarts: int = 0) -> Result:
    values = 1.0 + 10.0 / np.arange(1, iterations + 2) ** 2
    history = [
        Iteration(n, 0.1 * n, v * 50, v, v**0.5, restarts=restarts * (n % 5 == 4))
        for n, v in enumerate(values)
    ]
    sizes = Sizes(problem.name, 10, 200, problem.num_observations, 0.2)
    options = Options(devices=4)
    return Result(problem, problem, options, history, "reached the limit", False, "direct", sizes)


@pytest.mark.parametrize("suffix", plot.SUFFIXES)
def test_convergence(suffix: str, problem: Problem, tmp_path: Path) -> None:
    path = tmp_path / f"a{suffix}"
    plot.convergence(result_of(problem), path)
    assert path.read_bytes().startswith(MAGIC[suffix])
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


def test_several_runs_from_results_and_files(problem: Problem, tmp_path: Path) -> None:
    first = result_of(problem, restarts=2)
    second = json.loads(json.dumps(result_of(problem, 100).to_dict()))
    path = tmp_path / "a.svg"
    plot.convergence([first, second], path, labels=["mine", "yours"], best=0.9)
    text = path.read_text()
    plot.convergence([first, second], tmp_path / "b.svg", labels=["mine", "yours"], best=0.9)
    assert (tmp_path / "b.svg").read_text() == text  # no date, no random names


@pytest.mark.parametrize("iterations", [0, 1])
def test_short_runs(iterations: int, problem: Problem, tmp_path: Path) -> None:
    plot.convergence(result_of(problem, iterations), tmp_path / "a.png")
    assert (tmp_path / "a.png").exists()


def test_what_is_no_history(problem: Problem, tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    with pytest.raises(daba.DabaError, match="not a history of daba"):
        plot.convergence({"iterations": []}, path)
    with pytest.raises(daba.DabaError, match="no iterations"):
        plot.convergence(result_of(problem).to_dict() | {"iterations": []}, path)
    with pytest.raises(daba.DabaError, match="no runs"):
        plot.convergence([], path)
    with pytest.raises(daba.DabaError, match=r"a plot is written as \.png"):
        plot.convergence(result_of(problem), tmp_path / "a.jpeg")
    assert list(tmp_path.iterdir()) == []
    plot.convergence(result_of(problem), tmp_path / "new" / "a.png")
    assert (tmp_path / "new" / "a.png").is_file()


def test_scene(problem: Problem, tmp_path: Path) -> None:
    for n, (after, devices) in enumerate(((None, 0), (problem, 0), (problem, 3))):
        partition = None
        if devices:
            partition = daba.partition_from_arrays(problem, np.arange(10) % devices)
        path = tmp_path / f"{n}.png"
        plot.scene(problem, after, path, partition)
        assert path.read_bytes().startswith(MAGIC[".png"])


def test_the_users_own_matplotlib_style_is_left_alone(problem: Problem, tmp_path: Path) -> None:
    import matplotlib as mpl

    before = dict(mpl.rcParams)
    plot.convergence(result_of(problem), tmp_path / "a.png")
    assert dict(mpl.rcParams) == before


def test_up_is_up(problem: Problem) -> None:
    """In the picture, what lies higher (against the cameras' y axis) is drawn higher."""
    view = plot._View.of(problem)
    up = -problem.rotations[:, :, 1].mean(axis=0)
    x, y = view(problem.points[:1] + up)[0] - view(problem.points[:1])[0]
    assert y > 0.5
    assert abs(x) < 0.1
