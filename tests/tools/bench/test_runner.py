"""Cases have files of their own, only missing ones are run, and a failure is a result."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from daba.core.errors import DabaError
from daba.io import load
from daba.tools.bench import execute, runner
from daba.tools.bench.cases import Case, make_cases
from daba.tools.bench.folder import Folder
from daba.tools.bench.problems import find_problems

TOLD = {"histories": [{"iteration": [0], "seconds": [0.0], "mean_objective": [2.0],
                       "restarts": [0]}]}  # fmt: skip


@pytest.fixture
def cases(tmp_path: Path) -> list[Case]:
    for name in ("a", "b"):
        (tmp_path / f"{name}.txt").write_text(f"problem {name}")
    sources = find_problems([str(tmp_path / "a.txt"), str(tmp_path / "b.txt")], tmp_path)
    found = make_cases(sources, ["daba", "ceres"], (2, 4), ["trivial"], 10)
    return [case for case in found if case.method != "footprint"]


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[Case]:
    """The cases run, in turn, by a bench that only pretends."""
    asked: list[Case] = []

    def pretend(self: execute.Bench, case: Case) -> dict[str, Any]:
        asked.append(case)
        return dict(TOLD)

    monkeypatch.setattr(execute.Bench, "run", pretend)
    monkeypatch.setattr(runner, "_warm", lambda: None)
    monkeypatch.setattr("daba.runtime.compile.compile_kernels", lambda: None)
    return asked


def test_all_combinations(cases: list[Case]) -> None:
    assert [(c.source.name, c.method, c.devices, c.iterations) for c in cases] == [
        ("a", "daba", 2, 10), ("a", "daba", 4, 10), ("a", "ceres", 1, 40),
        ("b", "daba", 2, 10), ("b", "daba", 4, 10), ("b", "ceres", 1, 40),
    ]  # fmt: skip
    assert len({case.file for case in cases}) == len(cases)


def test_another_content_or_option_is_another_case(tmp_path: Path) -> None:
    path = tmp_path / "p.txt"
    path.write_text("one")
    (before,) = find_problems([str(path)], tmp_path)
    path.write_text("two")
    (after,) = find_problems([str(path)], tmp_path)
    first = Case(before, "daba", 4, "trivial", 10)
    others = [
        Case(after, "daba", 4, "trivial", 10), Case(before, "daba", 4, "huber", 10),
        Case(before, "daba", 8, "trivial", 10), Case(before, "daba", 4, "trivial", 11),
        Case(before, "duba", 4, "trivial", 10), Case(before, "daba", 4, "trivial", 10, threads=1),
    ]  # fmt: skip
    assert first.file not in {case.file for case in others}


def test_only_what_is_missing_is_run(cases: list[Case], ran: list[Case], tmp_path: Path) -> None:
    folder = Folder(tmp_path / "results")
    runner.run_cases(cases[:3], folder, quiet=True)
    assert ran == cases[:3]
    runner.run_cases(cases, folder, quiet=True)
    assert ran == cases
    runner.run_cases(cases, folder, quiet=True)
    assert len(ran) == len(cases)
    (folder.path / cases[1].file).unlink()
    (folder.path / cases[4].file).write_text("{ half a file")
    runner.run_cases(cases, folder, quiet=True)
    assert ran[len(cases) :] == [cases[1], cases[4]]


def test_a_failure_is_recorded_and_the_others_run(
    cases: list[Case], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ran: list[Case]
) -> None:
    def fail(self: execute.Bench, case: Case) -> dict[str, Any]:
        ran.append(case)
        if case.devices == 2:
            raise DabaError("too few cameras")
        if case.method == "ceres":
            raise ZeroDivisionError("oops")
        return dict(TOLD)

    monkeypatch.setattr(execute.Bench, "run", fail)
    folder = Folder(tmp_path / "results")
    runner.run_cases(cases, folder, quiet=True)
    assert ran == cases
    results = folder.results(cases)
    assert [run.error for run in results.failed] == 2 * [
        "too few cameras", "ZeroDivisionError('oops')",
    ]  # fmt: skip
    assert "fail" in results.failed[1].data["traceback"]
    assert results.get("a", "daba", 2, "trivial") is None
    assert results.get("a", "daba", 4, "trivial") is not None
    runner.run_cases(cases, folder, quiet=True)
    assert len(ran) == len(cases)  # a failure is a result …
    runner.run_cases(cases, folder, quiet=True, retry=True)
    assert len(ran) == len(cases) + 4  # … unless it is to be tried again


def test_an_interrupt_keeps_what_is_done(
    cases: list[Case],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    ran: list[Case],
    capsys: pytest.CaptureFixture[str],
) -> None:
    def stop(self: execute.Bench, case: Case) -> dict[str, Any]:
        if case is cases[2]:
            raise KeyboardInterrupt
        return dict(TOLD)

    monkeypatch.setattr(execute.Bench, "run", stop)
    folder = Folder(tmp_path / "results")
    with pytest.raises(KeyboardInterrupt):
        runner.run_cases(cases, folder)
    assert runner.missing(cases, folder) == cases[2:]
    assert "goes on with the 4 that are missing" in capsys.readouterr().err


def test_progress_tells_the_time_left(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter([0.0, 10.0, 14.0, 20.0, 26.0])
    monkeypatch.setattr(runner.time, "perf_counter", lambda: next(clock))
    line = runner.Line(5, [2.0, 3.0, 5.0], False)
    line.begin("first")
    line.end("F/K 1")
    line.begin("second")
    line.end("F/K 2")
    assert line.left() == pytest.approx(10.0)  # 10 s for costs of 5, and 5 are left
    said = capsys.readouterr().err
    assert "2 of 5 results are there, 3 to run" in said
    assert "[3/5] first ... F/K 1, 4.0 s" in said
    assert "[4/5, about 16.0 s left] second ... F/K 2, 6.0 s" in said


def test_processes_share_the_work(cases: list[Case], ran: list[Case], tmp_path: Path) -> None:
    """What another one is at is left to it, what it has done meanwhile is not done again, and
    what it was at when it died is."""
    ours, theirs = Folder(tmp_path / "results"), Folder(tmp_path / "results")
    lock = (ours.path / cases[3].file).with_suffix(".lock")
    lock.parent.mkdir(parents=True)
    lock.write_text("")  # left by a process that is no more
    with theirs.claimed(cases[1]) as claimed:
        assert claimed
        runner.run_cases(cases, ours, quiet=True)
        assert ran == [cases[0], *cases[2:]]
    assert runner.missing(cases, ours) == [cases[1]]
    runner.run_cases(cases, theirs, quiet=True)
    assert ran[len(cases) - 1 :] == [cases[1]]
    assert not list(tmp_path.glob("**/*.lock"))


def test_done_by_another_process_in_the_meantime(
    cases: list[Case], ran: list[Case], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Folder(tmp_path / "results")

    def both(self: execute.Bench, case: Case) -> dict[str, Any]:
        ran.append(case)
        folder.write(cases[-1], dict(TOLD))  # by another
        return dict(TOLD)

    monkeypatch.setattr(execute.Bench, "run", both)
    runner.run_cases(cases, folder, quiet=True)
    assert ran == cases[:-1]


def test_a_partition_is_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And kept with the results, so that a run elsewhere gets the same; a damaged one is made
    again."""
    (source,) = find_problems(["orbit:12:100"], tmp_path)
    problem, folder = load(source.path), Folder(tmp_path / "results")
    made = folder.partition(source, 3, problem)
    monkeypatch.setattr(
        "daba.tools.bench.folder.make_partition", lambda *_: pytest.fail("made again")
    )
    kept = Folder(folder.path).partition(source, 3, problem)
    assert kept.devices == 3
    assert np.array_equal(kept.camera_device, made.camera_device)
    assert np.array_equal(kept.point_device, made.point_device)
    monkeypatch.setattr("daba.tools.bench.folder.make_partition", lambda *_: made)
    (path,) = folder.path.glob("*/partition-3-*.npz")
    path.write_bytes(path.read_bytes()[:100])
    folder.partition(source, 3, problem)
    with np.load(path) as again:
        assert np.array_equal(again["cameras"], made.camera_device)


def test_on_a_gpu(cases: list[Case], tmp_path: Path) -> None:
    """A run on the GPU is another case, and stands in for one on the CPU that is missing."""
    sources = [cases[0].source]
    every = make_cases(sources, ["daba", "admm", "lm", "ceres"], (2,), ["trivial"], backend="gpu")
    kinds = {case.method: case.backend for case in every}
    assert kinds == {"daba": "gpu", "admm": "gpu", "lm": "gpu", "ceres": "cpu", "footprint": "cpu"}
    assert every[0].options == {"method": "daba", "refine": "none", "backend": "gpu"}
    plain = dataclasses.replace(every[0], backend="cpu")
    assert plain.file != every[0].file
    folder = Folder(tmp_path / "results")
    folder.write(every[0], dict(TOLD))
    assert runner.missing([plain], folder) == [plain]
    assert [run.backend for run in folder.results([plain]).all] == ["gpu"]
    folder.write(plain, dict(TOLD))
    assert [run.backend for run in folder.results([plain]).all] == ["cpu"]
    assert [run.backend for run in folder.results([every[0]]).all] == ["gpu"]


def test_a_gpu_compiles_before_the_clock_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[dict[str, Any]] = []

    def pretend(problem: object, **options: Any) -> Any:
        asked.append(options)
        if len(asked) == 2:
            raise DabaError("enough")

    monkeypatch.setattr("daba.runtime.solve.solve", pretend)
    (source,) = find_problems(["orbit:12:100"], tmp_path)
    case = Case(source, "duba", 2, "trivial", 50, backend="gpu")
    bench = execute.Bench(Folder(tmp_path / "results"))
    with pytest.raises(DabaError, match="enough"):
        bench.solve(case, bench.take(source))
    assert [options["iterations"] for options in asked] == [3, 50]
    assert [options["backend"] for options in asked] == ["gpu", "gpu"]


def test_bad_requests(tmp_path: Path) -> None:
    with pytest.raises(DabaError, match="no such file"):
        find_problems([str(tmp_path / "none.txt")], tmp_path)
    with pytest.raises(DabaError, match="is no scene"):
        find_problems(["city:100"], tmp_path)
    with pytest.raises(DabaError, match="no method 'admn'"):
        make_cases([], ["admn"])
    with pytest.raises(DabaError, match="above 1"):
        make_cases([], ["daba"], (1, 4))
    for folder in ("x", "y"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "p.txt").write_text("")
    with pytest.raises(DabaError, match="two problems are called 'p'"):
        find_problems([str(tmp_path / f / "p.txt") for f in "xy"], tmp_path)


def test_a_scene_is_made_once(tmp_path: Path) -> None:
    (first,) = find_problems(["orbit:12:100"], tmp_path)
    made = first.path.stat().st_mtime_ns
    (again,) = find_problems(["orbit:12:100"], tmp_path)
    assert again == first
    assert again.path.stat().st_mtime_ns == made
