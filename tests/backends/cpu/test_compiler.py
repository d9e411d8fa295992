"""Kernels are compiled by workers, once, whoever asks for them; who runs them only loads. They are
kept in the first place that can be written to, and is ours alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import kernel_jobs
import numba
import numpy as np
import pytest
from places import ROOT

from daba.backends.cpu import cache, compiler
from daba.backends.cpu.cache import Job, job
from daba.backends.cpu.kernels.signatures import signature_of
from daba.core.types import Tasks


def word(folder: Path, name: str, seconds: float = 0.0) -> Job:
    return Job("kernel_jobs:leave_word", (str(folder), name, seconds))


@pytest.fixture
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setattr(cache, "FOLDER", folder)
    return folder


def test_jobs_are_done_once_and_by_several_processes(
    empty_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.setattr(compiler, "usable_cores", lambda: {0, 1, 2})
    jobs = [word(tmp_path, f"{n}", 0.3) for n in range(6)]
    cache.compile_jobs(jobs)
    assert "compiling 6 kernels in 3 processes" in capsys.readouterr().err
    cache.compile_jobs(jobs)
    assert capsys.readouterr().err == ""
    processes = [(tmp_path / f"{n}").read_text().split() for n in range(6)]
    assert all(len(done) == 1 for done in processes)
    assert len({done[0] for done in processes}) == 3
    assert str(os.getpid()) not in {done[0] for done in processes}


def test_of_several_who_ask_at_once_one_compiles(empty_cache: Path, tmp_path: Path) -> None:
    """Here threads, each with a lock on a file of its own; processes have that by themselves."""
    jobs = [word(tmp_path, "one", 0.5), word(tmp_path, "two", 0.5)]
    asking = [threading.Thread(target=cache.compile_jobs, args=(jobs, False)) for _ in range(4)]
    for thread in asking:
        thread.start()
    for thread in asking:
        thread.join()
    assert [len((tmp_path / n).read_text().split()) for n in ("one", "two")] == [1, 1]


def test_what_fails_is_told_and_tried_again(
    empty_cache: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    jobs = [Job("kernel_jobs:fail"), word(tmp_path, "done")]
    cache.compile_jobs(jobs)
    assert "it went wrong" in capsys.readouterr().err
    assert [j.finished for j in jobs] == [False, True]
    failures = compiler.run_in_workers([Job("kernel_jobs:die"), word(tmp_path, "never")])
    assert len(failures) == 1
    assert not (tmp_path / "never").exists()


def test_annotations_tell_what_arguments_will_be() -> None:
    index = np.zeros(2, np.int32)
    tasks = Tasks(np.zeros(2, np.int64), index, np.zeros(2, np.int64))
    ones = np.ones(3)
    for given, g in ((False, None), (True, index)):
        arguments = (ones, np.ones((3, 3)), tasks, 1, 1.0, True, g, (ones, 2))
        wanted = tuple(numba.typeof(argument) for argument in arguments)
        assert signature_of(kernel_jobs.everything.py_func, given) == wanted


def test_a_kernel_is_compiled_elsewhere_and_loaded_here(
    compiled: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also for types that nobody has foreseen, and one that a factory has made."""
    asked: list[Job] = []
    run = compiler.run_in_workers

    def noted(jobs: list[Job], count: int = 1) -> list[str]:
        asked.extend(jobs)
        return run(jobs, count)

    monkeypatch.setattr(compiler, "run_in_workers", noted)
    three = kernel_jobs.adder(3)
    assert three is kernel_jobs.adder(3)
    for kind in (np.float64, np.float32):  # as declared, and not
        assert three(np.full(2, 2.0, kind)) == 6.0
        assert sum(three.stats.cache_misses.values()) == 0
    assert kernel_jobs.adder(4)(np.full(2, 2.0)) == 8.0
    assert len(asked) <= 3  # none where an earlier run has left them
    cache.compile_jobs([job(kernel_jobs.adder(5))], tell=False)
    asked.clear()
    assert kernel_jobs.adder(5)(np.full(2, 2.0)) == 10.0
    assert asked == []


def test_where_no_worker_can_be_started_the_kernel_runs_all_the_same(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(compiler, "run_in_workers", lambda jobs: ["no processes left"])
    unforeseen = np.array([[1.0 + 2.0j, 0.0], [0.0, 0.0]])[:, 0]  # neither contiguous nor real
    assert kernel_jobs.adder(1000 + os.getpid())(unforeseen[::2]) == (1000 + os.getpid()) * (1 + 2j)
    said = capsys.readouterr().err
    assert "no processes left" in said
    assert "bits" in said


def test_where_numba_is_told_to_compile_nothing_that_is_said() -> None:
    path = os.pathsep.join(filter(None, [str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]))
    done = subprocess.run(
        [sys.executable, "-c", "import daba.backends.cpu.kernels.state"], text=True, timeout=60,
        env={**os.environ, "PYTHONPATH": path, "NUMBA_DISABLE_JIT": "1"}, capture_output=True,
    )  # fmt: skip
    assert "DabaError: the environment variable NUMBA_DISABLE_JIT is set" in done.stderr


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine whose user has no cache folder, only temporary ones."""
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.setenv("NUMBA_CACHE_DIR", "")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    monkeypatch.delenv(cache.TREE, raising=False)
    (tmp_path / "file").write_text("no folder")
    return folder


def test_another_installation_is_another_stamp(tmp_path: Path) -> None:
    """Numba compiles anew for sources of another place or time, whatever is in them."""
    names = ("one.py", "two.py")
    for name in names:
        (tmp_path / name).write_text("x = 1\n")
    one, two = ([tmp_path / name] for name in names)
    first = cache.stamp(one)
    assert cache.stamp(one) == first
    assert cache.stamp(two) != first
    os.utime(one[0], ns=(1, 1))
    assert cache.stamp(one) != first


def test_the_sources_are_all_that_kernels_are_made_of() -> None:
    """A formula that is bound anew by the backends must be among them."""
    core = {path.stem: path for path in cache.SOURCES if path.parent.name == "core"}
    folder = core["formulas"].parent
    found = {path.stem for path in folder.glob("*.py") if "globals()" in path.read_text()}
    assert found | {"camera_models", "lm"} == set(core)
    assert cache.digest(cache.SOURCES) != cache.digest(cache.SOURCES[1:])


def test_the_users_own_cache_comes_first(
    temporary: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "user"))
    found = cache._find_folder()
    assert found is not None
    assert found.is_relative_to(tmp_path / "user" / "daba")


def test_without_it_kernels_are_kept_among_temporary_files(temporary: Path) -> None:
    """In a folder that all processes of this user find, and nobody else can write to."""
    found = cache._find_folder()
    assert found is not None
    own = temporary / f"daba-{os.getuid()}"
    assert found.is_relative_to(own)
    assert own.stat().st_mode & 0o777 == 0o700
    assert cache._find_folder() == found


@pytest.mark.parametrize("spoilt", ["open to all", "a link", "a file"])
def test_a_folder_that_others_have_made_is_not_used(
    temporary: Path, tmp_path: Path, spoilt: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process and those it starts have one of their own."""
    own = temporary / f"daba-{os.getuid()}"
    if spoilt == "open to all":
        own.mkdir()
        own.chmod(0o777)
    elif spoilt == "a link":
        (tmp_path / "theirs").mkdir()
        own.symlink_to(tmp_path / "theirs")
    else:
        own.write_text("")
    monkeypatch.setenv(cache.TREE, "")  # so that it is put back after the test
    found = cache._find_folder()
    assert found is not None
    assert found.is_relative_to(temporary)
    assert not found.is_relative_to(own)
    assert cache._find_folder() == found  # as a child would find it


def test_where_nothing_can_be_written_there_is_no_cache(
    temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(temporary / "nothing" / "here"))
    assert cache._find_folder() is None


SCRIPT = """
import hashlib, json, sys
import daba
problem = daba.generate(daba.SceneOptions(cameras=30, points=2000, rotation_error=1.0)).start
result = daba.solve(problem, method="lm", linear_solver="pcg", iterations=8)
bits = result.problem.cameras.tobytes() + result.problem.points.tobytes()
print(json.dumps([hashlib.sha256(bits).hexdigest(), result.history[-1].objective.hex()]))
"""


@pytest.mark.slow
def test_cold_and_warm_caches_give_the_same_bits(tmp_path: Path) -> None:
    """Two processes start at once with nothing compiled, one comes after, and one has the cache of
    all other tests. Were a kernel compiled where it runs, the last digits would differ."""
    path = os.pathsep.join(filter(None, [str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]))
    environment = {**os.environ, "PYTHONPATH": path}
    own = {"XDG_CACHE_HOME": str(tmp_path), "NUMBA_CACHE_DIR": ""}

    def start(**changes: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-c", SCRIPT], env={**environment, **changes}, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    first = [start(**own), start(**own)]
    ended = [run.communicate(timeout=300) for run in first]
    ended += [start(**own).communicate(timeout=300), start().communicate(timeout=300)]
    found = [json.loads(out) for out, _ in ended]
    assert [found[0]] * 4 == found
    assert sum("compiling" in err for _, err in ended[:3]) == 1
