"""A store loses nothing, is refused when damaged, and appears whole or not at all."""

from __future__ import annotations

import ast
import errno
import json
import os
import shutil
import zlib
from collections.abc import Callable, Iterator
from mmap import mmap
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given, settings
from odd_problems import assert_same, contents, odd_problem, odd_problems

import daba.io
from daba.core.errors import DabaError
from daba.io.store import arrays, writing
from daba.io.store import solution as solved_store
from daba.io.store.solution import write_solution
from daba.io.store.store import Store
from daba.io.store.writing import write_store
from daba.partition.ordering import Records, lay_out
from daba.partition.partition import make_partition
from daba.partition.statistics import statistics
from daba.problem.problem import Problem

PROBLEM = odd_problem(6, 30, 150, 3)


@pytest.fixture(autouse=True, scope="module")
def _no_waiting_for_the_disk() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda _: None)
        yield


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    writing.save(PROBLEM, tmp_path / "a.daba", 3)
    return tmp_path / "a.daba"


@given(odd_problems())
@settings(max_examples=30, deadline=None)
def test_nothing_is_lost(drawn: tuple[Problem, int]) -> None:
    problem, devices = drawn
    with TemporaryDirectory() as folder:
        path = Path(folder) / "a.daba"
        writing.save(problem, path, devices)
        assert_same(problem, daba.io.load(path))
        assert_same(problem, Store(path).load())


@given(odd_problems())
@settings(max_examples=20, deadline=None)
def test_pieces_are_those_of_the_layout(drawn: tuple[Problem, int]) -> None:
    problem, devices = drawn
    layout = lay_out(problem, make_partition(problem, devices))
    with TemporaryDirectory() as folder:
        write_store(layout, Path(folder) / "a.daba")
        found = Store(Path(folder) / "a.daba")
        assert found.devices == devices
        np.testing.assert_array_equal(found.ranges.camera_ptr, layout.ranges.camera_ptr)
        np.testing.assert_array_equal(found.ranges.point_ptr, layout.ranges.point_ptr)
        assert found.ranges.observations == problem.num_observations
        for device in range(devices):
            one, two = layout.device_block(device), found.device_block(device)
            for what in ("camera_id", "point_id", "cameras", "points"):
                np.testing.assert_array_equal(getattr(one, what), getattr(two, what))
            np.testing.assert_array_equal(found.focal(device), problem.focal[one.camera_id])
            work = 0
            for kind in ("intra", "inter", "outer"):
                a, b = getattr(one, kind), getattr(two, kind)
                work += len(b.camera)
                for what in Records._fields:
                    x, y = getattr(a, what), getattr(b, what)
                    assert x.dtype == y.dtype
                    np.testing.assert_array_equal(x, y)
            assert found.work[device] == work
        assert found.statistics() == statistics(problem, make_partition(problem, devices))


def test_pieces_are_mapped_and_read_only(folder: Path) -> None:
    block = Store(folder).device_block(0)
    base: object = block.intra.u
    while isinstance(base, np.ndarray):
        base = base.base
    assert isinstance(base, memoryview)
    assert isinstance(base.obj, mmap)
    with pytest.raises(ValueError, match="read-only"):
        block.cameras[:] = 0


def test_a_store_may_have_any_name(folder: Path, tmp_path: Path) -> None:
    for name in ("b", "b.txt"):
        shutil.copytree(folder, tmp_path / name)
        assert_same(PROBLEM, daba.io.load(tmp_path / name))


def test_the_manifest_can_be_read_by_people(folder: Path) -> None:
    text = (folder / "manifest.json").read_text()
    head = json.loads(text)
    assert (head["format"], head["version"], head["devices"]) == ("daba store", 1, 3)
    assert head["info"] == {"fit": {"rms_px": 0.1, "names": ["ä"]}}
    assert max(map(len, text.splitlines())) < 100
    entry = head["parts"][1]["arrays"]["intra-u"]
    assert entry["shape"] == [head["parts"][1]["intra"], 2]
    assert np.load(folder / "device-0001" / "intra-u.npy").shape == tuple(entry["shape"])


def test_not_a_store(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(DabaError, match="none is not a daba store: there is no such folder"):
        Store(tmp_path / "none")
    (tmp_path / "file").touch()
    with pytest.raises(DabaError, match="file is not a daba store: it is a file"):
        Store(tmp_path / "file")
    (tmp_path / "empty").mkdir()
    for read in (Store, daba.io.load):
        with pytest.raises(DabaError, match=r"empty is not a daba store: it has no manifest\.json"):
            read(tmp_path / "empty")
    shutil.rmtree(folder / "device-0001")
    with pytest.raises(DabaError, match="device-0001 is missing: the store is incomplete"):
        Store(folder)


def _without(*keys: str) -> Callable[[dict], None]:
    def change(head: dict) -> None:
        for key in keys[:-1]:
            head = head[int(key) if key.isdigit() else key]
        del head[keys[-1]]

    return change


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda head: head.update(version=4), "written in version 4 of the format by a newer daba"),
        (lambda head: head.update(format="x"), "not the manifest of a 'daba store'"),
        (lambda head: head.update(observations=7), "counts of its devices do not add up"),
        (lambda head: head.update(devices=2), "2 devices, but 3 parts"),
        (lambda head: head["parts"][0].update(cameras="x"), "is damaged"),
        (_without("name"), "is damaged"),
        (_without("parts"), "is damaged"),
        (_without("parts", "1", "arrays", "intra-u"), r"device-0001/intra-u\.npy must hold"),
    ],
)
def test_foreign_and_damaged_manifests(
    change: Callable[[dict], None], reason: str, folder: Path
) -> None:
    path = folder / "manifest.json"
    head = json.loads(path.read_text())
    change(head)
    path.write_text(json.dumps(head))
    with pytest.raises(DabaError, match=reason) as caught:
        Store(folder)
    assert str(path) in str(caught.value)
    for text in ("", "[]", "{", "{}", "\x00\xff"):
        path.write_text(text)
        with pytest.raises(DabaError, match=r"manifest\.json"):
            Store(folder)


def test_damaged_files(folder: Path) -> None:
    for file in sorted(folder.rglob("*.npy")):
        data = file.read_bytes()
        for damaged in (data[:-1], b"", data[:-1] + bytes([data[-1] ^ 1])):
            file.write_bytes(damaged)
            with pytest.raises(DabaError) as caught:
                Store(folder).load()
            assert str(caught.value).startswith(f"{file} is damaged: its checksum is ")
        file.unlink()
        with pytest.raises(DabaError) as caught:
            Store(folder).load()
        assert str(caught.value).startswith(f"{file} is missing")
        file.write_bytes(data)
    assert_same(PROBLEM, Store(folder).load())


def test_headers_are_not_parsed_as_python(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two threads read a store, and `ast.parse` in both at a time is a SystemError in Python 3.11.7
    now and then."""
    monkeypatch.setattr(ast, "parse", None)
    assert_same(PROBLEM, Store(folder).load())


def test_files_of_another_type(folder: Path) -> None:
    """The checksum is right, and the array is not: somebody wrote the manifest by hand."""
    file, manifest = folder / "device-0000/focal.npy", folder / "manifest.json"
    head = json.loads(manifest.read_text())
    np.save(file, np.zeros(99, np.float32))
    head["parts"][0]["arrays"]["focal"]["crc32"] = f"{zlib.crc32(file.read_bytes()):08x}"
    manifest.write_text(json.dumps(head))
    with pytest.raises(DabaError, match=r"focal\.npy is damaged: its header is .*<f4"):
        Store(folder).focal(0)


def test_observation_numbers_out_of_range(folder: Path) -> None:
    layout = lay_out(PROBLEM, make_partition(PROBLEM, 3))
    layout.intra_id[0] = PROBLEM.num_observations
    write_store(layout, folder)
    with pytest.raises(DabaError, match=r"intra-id\.npy is damaged: entry 0 is 150"):
        Store(folder).load()
    layout.intra_id[0] = layout.intra_id[1]
    write_store(layout, folder)
    with pytest.raises(DabaError, match=r"a\.daba: observation \d+: camera_index -1"):
        Store(folder).load()


def test_what_is_there_already(folder: Path, tmp_path: Path) -> None:
    writing.save(PROBLEM, folder, 2)  # a store gives way
    assert Store(folder).devices == 2
    (tmp_path / "empty").mkdir()
    writing.save(PROBLEM, tmp_path / "empty")  # and so does an empty folder
    assert Store(tmp_path / "empty").devices == 1
    (folder / "notes.txt").touch()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "x").touch()
    for path in (folder, tmp_path / "other"):
        before = contents(path)
        with pytest.raises(DabaError, match="a folder of that name that is not a daba store"):
            writing.save(PROBLEM, path)
        assert contents(path) == before
    with pytest.raises(DabaError, match="it is a file, and a store needs a folder"):
        writing.save(PROBLEM, folder / "notes.txt")
    with pytest.raises(DabaError, match=r"notes\.txt is a file, not a folder"):
        writing.save(PROBLEM, folder / "notes.txt" / "a.daba")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.daba", "empty", "other"]


@pytest.mark.parametrize("when", ["write", "fsync", "replace"])
@pytest.mark.parametrize("new", [True, False])
def test_a_full_disk_leaves_nothing_behind(
    when: str, new: bool, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = folder.parent / "b.daba" if new else folder
    before = contents(folder.parent)

    calls = 0

    def full(*arguments: object) -> None:
        nonlocal calls
        calls += 1
        # Not at once: some files, and the older store's move, have gone well by then.
        if calls == (2 if when == "replace" and not new else 1 if when == "replace" else 9):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(*arguments)

    owner, name = {
        "write": (arrays.ArrayWriter, "_write"),
        "fsync": (os, "fsync"),
        "replace": (os, "replace"),
    }[when]
    real = getattr(owner, name)
    monkeypatch.setattr(owner, name, full)
    with pytest.raises(DabaError, match=r"cannot write .*\.daba: the disk is full"):
        writing.save(PROBLEM, target, 2)
    monkeypatch.undo()
    assert contents(folder.parent) == before
    assert_same(PROBLEM, daba.io.load(folder))


def moved(problem: Problem) -> Problem:
    cameras = problem.cameras.copy()
    cameras[:, 9:] += 1e-3
    return problem.with_estimate(cameras, problem.points + 0.5)


def states(found: Store, problem: Problem) -> list[tuple[np.ndarray, np.ndarray]]:
    blocks = [found.device_block(device) for device in range(found.devices)]
    return [(problem.cameras[p.camera_id], problem.points[p.point_id]) for p in blocks]


def test_a_solution_is_a_whole_store(folder: Path) -> None:
    found, solved, path = Store(folder), moved(PROBLEM), folder.parent / "b.daba"
    write_solution(found, path, states(found, solved))
    assert_same(solved, Store(path).load())
    assert_same(PROBLEM, Store(folder).load())
    shared = "device-0002/intra-u.npy"
    assert (path / shared).samefile(folder / shared)
    shutil.rmtree(folder)
    assert_same(solved, Store(path).load())
    write_solution(Store(path), path, states(Store(path), PROBLEM))  # onto itself
    assert_same(PROBLEM, Store(path).load())
    assert [p.name for p in folder.parent.iterdir()] == ["b.daba"]


def test_where_files_cannot_be_linked_they_are_copied(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))

    monkeypatch.setattr(os, "link", refuse)
    found, path = Store(folder), folder.parent / "b.daba"
    write_solution(found, path, states(found, moved(PROBLEM)))
    assert_same(moved(PROBLEM), Store(path).load())
    assert not (path / "device-0000/focal.npy").samefile(folder / "device-0000/focal.npy")


def test_devices_of_a_solution_in_any_order_and_what_is_missing(folder: Path) -> None:
    found, path = Store(folder), folder.parent / "b.daba"
    new = states(found, moved(PROBLEM))
    temporary = solved_store.begin_solution(path)
    crcs = {a: solved_store.write_device(found, a, *new[a], temporary) for a in (2, 0)}
    with pytest.raises(DabaError, match="a solution of 3 devices cannot be made of 2"):
        solved_store.finish_solution(found, temporary, path, crcs)
    with pytest.raises(DabaError, match="cameras of device 1 must have shape"):
        solved_store.write_device(found, 1, np.zeros((1, 3)), new[1][1], temporary)
    crcs[1] = solved_store.write_device(found, 1, *new[1], temporary)
    solved_store.finish_solution(found, temporary, path, crcs)
    assert_same(moved(PROBLEM), daba.io.load(path))
    with pytest.raises(DabaError, match="must have shape"):
        write_solution(found, folder.parent / "c.daba", new[::-1])
    assert sorted(p.name for p in folder.parent.iterdir()) == ["a.daba", "b.daba"]
