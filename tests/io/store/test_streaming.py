"""A store that is written chunk by chunk is the one written from memory, bit for bit."""

from __future__ import annotations

import errno
import os
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from odd_problems import assert_same, contents, odd_problem, odd_problems

import daba.io
import daba.io.store.streaming
from daba.core.errors import DabaError
from daba.io import bal, native, numbers, source
from daba.io.store import store, streaming, writing
from daba.io.store.streaming import partition_to_store
from daba.io.store.streaming.buckets import ROW, Buckets, even_bounds
from daba.partition.partition import make_partition
from daba.partition.statistics import statistics
from daba.problem.problem import Problem

# The problems here have made-up lenses, on which the paper's reading of BAL is doubted.
pytestmark = pytest.mark.filterwarnings("ignore:.* makes no sense as the paper reads")

SUFFIXES = [".npz", ".txt", ".txt.bz2", ".bal.gz"]


@pytest.fixture(autouse=True, scope="module")
def _many_chunks_and_buckets() -> Iterator[None]:
    """So few observations at once that small problems make many chunks, blocks and buckets."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(streaming, "_ROWS", 5)
        patch.setattr(numbers, "BLOCK", 100)
        for module in (bal, native, source, store):
            patch.setattr(module, "CHUNK", 7, raising=False)
        patch.setattr(os, "fsync", lambda _: None)  # slow where others use the disk
        yield


def assert_streamed(path: Path, devices: int, intrinsics: daba.io.Intrinsics = "paper") -> None:
    problem = daba.io.load(path, intrinsics)
    memory, streamed = path.parent / "memory", path.parent / "streamed"
    writing.save(problem, memory, devices, seed=3)
    found = partition_to_store(path, devices, 3, streamed, intrinsics)
    assert contents(streamed) == contents(memory)
    assert found == statistics(problem, make_partition(problem, devices, seed=3))


@given(odd_problems(), st.sampled_from([".npz", ".txt"]))
@settings(max_examples=40, deadline=None)
def test_the_same_as_from_memory(drawn: tuple[Problem, int], suffix: str) -> None:
    problem, devices = drawn
    with TemporaryDirectory() as folder:
        path = Path(folder) / f"a{suffix}"
        daba.io.save(problem, path)
        assert_streamed(path, devices)


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("devices", [1, 5])
def test_every_format(suffix: str, devices: int, tmp_path: Path) -> None:
    path = tmp_path / f"a{suffix}"
    daba.io.save(odd_problem(9, 70, 400, 5), path)
    assert_streamed(path, devices)


def test_other_ways_lead_through_memory(tmp_path: Path) -> None:
    problem = odd_problem(5, 20, 120, 1)
    daba.io.save(problem, tmp_path / "a.txt")
    assert_streamed(tmp_path / "a.txt", 2, "standard")
    writing.save(problem, tmp_path / "b.daba", 4)
    assert_streamed(tmp_path / "b.daba", 2)
    with np.load(tmp_path_npz(tmp_path, problem)) as archive:
        entries = dict(archive)
    np.savez(tmp_path / "c.npz", **(entries | {"u": np.asfortranarray(entries["u"])}))
    assert_streamed(tmp_path / "c.npz", 3)
    np.savez_compressed(tmp_path / "d.npz", **entries)
    assert_streamed(tmp_path / "d.npz", 3)
    assert_same(problem, daba.io.load(tmp_path / "streamed"))


def tmp_path_npz(folder: Path, problem: Problem) -> Path:
    daba.io.save(problem, folder / "plain.npz")
    return folder / "plain.npz"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda e: e.pop("u"), "the array 'u' is missing"),
        (lambda e: e.update(u=e["u"].astype(np.float32)), "'u' is float32, not float64"),
        (lambda e: e.update(u=e["u"][1:]), r"u must have shape \(120, 2\), not \(119, 2\)"),
        (lambda e: e["u"].__setitem__(50, np.nan), "observation 50: NaN"),
        (lambda e: e["weights"].__setitem__(33, 0), "observation 33: weight must be positive"),
        (lambda e: e["point_index"].__setitem__(99, 20), "observation 99: point_index 20 is out"),
        (lambda e: e["cameras"].__setitem__(1, 0), "camera 1: its rotation matrix"),
        (lambda e: e["focal"].__setitem__(2, -1), "camera 2: focal length must be positive"),
        (lambda e: e["points"].__setitem__(..., e["cameras"][3, 9:12]), "centre of camera 3"),
    ],
)
def test_wrong_files_are_refused_as_when_loaded(
    change: Callable[[dict[str, np.ndarray]], object], reason: str, tmp_path: Path
) -> None:
    with np.load(tmp_path_npz(tmp_path, odd_problem(5, 20, 120, 1))) as archive:
        entries = dict(archive)
    (tmp_path / "plain.npz").unlink()
    change(entries)
    np.savez(tmp_path / "a.npz", **entries)
    assert_refused(tmp_path, "a.npz", rf"a\.npz: .*{reason}|a\.npz: {reason}")


def assert_refused(folder: Path, name: str, reason: str, *, like_load: bool = True) -> None:
    with pytest.raises(DabaError, match=reason) as caught:
        partition_to_store(folder / name, 2, 0, folder / "b.daba")
    if like_load:
        with pytest.raises(DabaError) as loaded:
            daba.io.load(folder / name)
        assert str(loaded.value) == str(caught.value)
    assert [path.name for path in folder.iterdir()] == [name]


@pytest.mark.parametrize(
    ("line", "text", "reason"),
    [
        (1, "5 20 130", r"a\.txt"),
        (4, "0 21 1 1", r"a\.txt, line 4: .*21"),
        (50, "0 1 word 1", r"a\.txt, line 50"),
        (0, "", r"a\.txt"),
    ],
)
def test_wrong_text_is_refused_with_its_line(
    line: int, text: str, reason: str, tmp_path: Path
) -> None:
    path = tmp_path / "a.txt"
    daba.io.save(odd_problem(5, 20, 120, 1), path)
    (tmp_path / "a.txt.weights.json").unlink(missing_ok=True)
    lines = path.read_text().splitlines()
    if line:
        lines[line - 1] = text
    else:
        lines.pop()
    path.write_text("\n".join(lines))
    assert_refused(tmp_path, "a.txt", reason)


def test_damaged_and_cut_short_archives(tmp_path: Path) -> None:
    problem = odd_problem(5, 20, 120, 1)
    path = tmp_path / "a.npz"
    daba.io.save(problem, path)
    data = path.read_bytes()
    for cut in range(0, len(data), 1999):
        path.write_bytes(data[:cut])
        assert_refused(tmp_path, "a.npz", r"a\.npz: ", like_load=False)
    at = data.index(problem.u.tobytes()) + 1000
    path.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
    assert_refused(tmp_path, "a.npz", r"a\.npz: the file is damaged", like_load=False)


def test_more_devices_than_cameras(tmp_path: Path) -> None:
    daba.io.save(odd_problem(5, 20, 120, 1), tmp_path / "a.npz")
    for devices, reason in ((6, "6 devices but only 5 cameras"), (0, "at least 1, not 0")):
        with pytest.raises(DabaError, match=reason):
            partition_to_store(tmp_path / "a.npz", devices, 0, tmp_path / "b.daba")
    assert [path.name for path in tmp_path.iterdir()] == ["a.npz"]


@pytest.mark.parametrize("suffix", [".npz", ".txt"])
@pytest.mark.parametrize("fails", [0, 3, 20])
def test_a_full_disk_leaves_nothing_behind(
    suffix: str, fails: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    daba.io.save(odd_problem(5, 20, 120, 1), tmp_path / f"a{suffix}")
    before, left = contents(tmp_path), fails
    real = Buckets.add

    def add(self: Buckets, key: np.ndarray, rows: np.ndarray) -> None:
        nonlocal left
        if not left:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        left -= 1
        real(self, key, rows)

    monkeypatch.setattr(Buckets, "add", add)
    with pytest.raises(DabaError, match=r"cannot write .*b\.daba: the disk is full"):
        partition_to_store(tmp_path / f"a{suffix}", 3, 0, tmp_path / "b.daba")
    assert contents(tmp_path) == before


@pytest.mark.parametrize("suffix", [".npz", ".txt"])
def test_memory_does_not_grow_with_observations(
    suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streaming, "_ROWS", 2000)
    monkeypatch.setattr(numbers, "BLOCK", 20_000)
    for module in (bal, native, source):
        monkeypatch.setattr(module, "CHUNK", 1000)

    def peak(observations: int) -> int:
        path = tmp_path / f"{observations}{suffix}"
        daba.io.save(odd_problem(20, 500, observations, 0), path)
        tracemalloc.start()
        try:
            partition_to_store(path, 4, 0, tmp_path / "out")
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    peak(1000)  # imports
    few, many = peak(10_000), peak(60_000)
    assert many < 1.5 * few  # six times the observations
    assert many < 60_000 * ROW.itemsize / 2


@given(
    st.lists(st.integers(0, 9), min_size=1, max_size=30),
    st.integers(1, 25),
    st.lists(st.integers(0, 30), max_size=4),
)
@settings(max_examples=100, deadline=None)
def test_buckets_cover_all_keys_evenly(counts: list[int], limit: int, cuts: list[int]) -> None:
    cuts = sorted(min(cut, len(counts)) for cut in cuts)
    bounds = even_bounds(np.array(counts), limit, np.array(cuts, int) if cuts else None)
    assert (bounds[0], bounds[-1]) == (0, len(counts))
    assert (np.diff(bounds) > 0).all()
    assert set(cuts) <= set(bounds.tolist())
    for lo, hi in zip(bounds[:-1], bounds[1:], strict=True):
        assert sum(counts[lo:hi]) <= limit or hi == lo + 1


def test_buckets_keep_the_order_of_rows(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    key = random.integers(0, 20, 500)
    rows = np.zeros(500, ROW)
    rows["id"], rows["point"] = np.arange(500), key
    counts = np.bincount(key, minlength=20)
    buckets = Buckets(tmp_path / "a", counts, even_bounds(counts, 60))
    for chunk in np.array_split(np.arange(500), 9):
        buckets.add(key[chunk], rows[chunk])
    buckets.add(key[:0], rows[:0])
    seen = 0
    for keys, found in buckets:
        expected = rows[(key >= keys.start) & (key < keys.stop)]
        np.testing.assert_array_equal(found, expected)
        seen += len(found)
    assert seen == 500
    buckets.remove()
    assert list(tmp_path.iterdir()) == []
