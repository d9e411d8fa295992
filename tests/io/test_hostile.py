"""Files made to harm: each is refused in a line that names it, and costs no time and no memory."""

from __future__ import annotations

import gzip
import io
import json
import re
import tracemalloc
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from command_line import BAL, run, small_scene, write_bal

import daba
from daba.core.errors import DabaError
from daba.core.losses import Trivial
from daba.io.colmap.model import Model
from daba.io.errors import bal as bal_errors
from daba.io.tables import read_list, read_positions

Capsys = pytest.CaptureFixture[str]
MEGABYTES = 1 << 20


@contextmanager
def memory_below(megabytes: int) -> Iterator[None]:
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < megabytes * MEGABYTES
    finally:
        tracemalloc.stop()


HEAD = "\n".join(BAL[:5])
LONG = 120 * MEGABYTES
BOMBS: dict[str, Callable[[], bytes]] = {
    "zeros": lambda: HEAD.encode() + bytes(LONG),
    "one long line": lambda: HEAD.encode() + b"\n" + b"1 " * (LONG // 2),
    "blanks": lambda: HEAD.encode() + b" \n" * (LONG // 2),
    "a comment": lambda: "\n".join(BAL).encode() + b"\n#" + b"x" * LONG,
    "numbers at the end": lambda: "\n".join(BAL).encode() + b"\n" + b"7 " * (LONG // 2),
}


@pytest.mark.parametrize("kind", BOMBS)
def test_a_small_file_that_becomes_a_large_one(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "bomb.txt.gz"
    path.write_bytes(gzip.compress(BOMBS[kind](), 1))
    with memory_below(60), pytest.raises(DabaError, match=r"bomb\.txt\.gz"):
        daba.load(path)


def test_a_bundler_point_with_too_many_views(tmp_path: Path) -> None:
    head = "# Bundle file v0.3\n1 1\n500 0 0\n1 0 0\n0 1 0\n0 0 1\n0 0 0\n0 0 -5\n0 0 0\n"
    path = tmp_path / "bomb.out.gz"
    path.write_bytes(gzip.compress(head.encode() + b"9000000 " + b"0 0 1 1 " * 9_000_000, 1))
    with memory_below(60), pytest.raises(DabaError, match="line 10: point 0: the number of its v"):
        daba.load(path)


def rewritten(path: Path, change: Callable[[dict[str, bytes]], None], how: int = 0) -> Path:
    """An .npz with other entries."""
    with zipfile.ZipFile(path) as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    change(entries)
    with zipfile.ZipFile(path, "w", how or zipfile.ZIP_STORED) as archive:
        for name, data in entries.items():
            archive.writestr(name, data)
    return path


@pytest.fixture
def npz(tmp_path: Path) -> Path:
    daba.save(small_scene(), tmp_path / "a.npz")
    return tmp_path / "a.npz"


def test_arrays_that_nobody_asked_for_are_not_read(npz: Path) -> None:
    stream = io.BytesIO()
    np.save(stream, np.zeros(LONG, np.uint8))
    rewritten(npz, lambda e: e.update({"x.npy": stream.getvalue()}), zipfile.ZIP_DEFLATED)
    with memory_below(20):
        problem = daba.load(npz)
    assert problem.num_cameras == 8


def claim(count: int) -> Callable[[dict[str, bytes]], None]:
    def change(entries: dict[str, bytes]) -> None:
        found = re.sub(rb"'shape': \(\d+, 3\)", b"'shape': (%d, 3)" % count, entries["points.npy"])
        entries["points.npy"] = found

    return change


@pytest.mark.parametrize("command", ["info", "convert", "partition", "solve"])
def test_a_header_that_claims_a_trillion_points(npz: Path, command: str, capsys: Capsys) -> None:
    rewritten(npz, claim(10**12))
    rest: dict[str, list[str | Path]]
    rest = {"convert": [npz.with_name("b.txt")], "partition": ["--devices", "2"]}
    outcome = run(capsys, command, npz, *rest.get(command, []))
    assert outcome.code == 2
    assert outcome.err == (
        "daba: error: a.npz: the file is damaged: 'points' is not as large as it says\n"
    )


@pytest.mark.parametrize(
    ("offset", "value"),
    [(8, 99), (6, 1), (8, 12), (8, 14)],
    ids=["unknown compression", "encrypted", "bzip2 that is none", "lzma that is none"],
)
def test_odd_zip_headers(offset: int, value: int, npz: Path, capsys: Capsys) -> None:
    data = bytearray(npz.read_bytes())
    for signature, at in ((b"PK\x03\x04", offset), (b"PK\x01\x02", offset + 2)):
        start = 0
        while (found := data.find(signature, start)) >= 0:
            data[found + at : found + at + 2] = value.to_bytes(2, "little")
            start = found + 4
    npz.write_bytes(data)
    for rest in ([], [npz.with_name("b.daba")]):
        outcome = run(capsys, "convert" if rest else "info", npz, *rest)
        assert outcome.code == 2
        assert outcome.err.startswith("daba: error: a.npz: the file is damaged")


def test_an_archive_within_an_archive(npz: Path) -> None:
    """Neither gzip nor a folder: the suffix says what it is."""
    npz.write_bytes(gzip.compress(npz.read_bytes()))
    with pytest.raises(DabaError, match=r"a\.npz: not an \.npz file"):
        daba.load(npz)


@pytest.mark.parametrize(
    ("key", "value"),
    [("world_sign", "x"), ("images", [1]), ("colmap", 5), ("colmap", {"path": "x"}),
     ("cameras_in_file", -1), ("intrinsics_fit", [])],
)  # fmt: skip
def test_info_that_makes_no_sense(key: str, value: object, npz: Path, capsys: Capsys) -> None:
    def change(entries: dict[str, bytes]) -> None:
        head = json.loads(np.load(io.BytesIO(entries["head.npy"])).tobytes())
        head["info"][key] = value
        stream = io.BytesIO()
        np.save(stream, np.frombuffer(json.dumps(head).encode(), np.uint8))
        entries["head.npy"] = stream.getvalue()

    outcome = run(capsys, "info", rewritten(npz, change))
    assert outcome.code == 2
    assert "a.npz" in outcome.err
    assert f"'{key}' in its info makes no sense" in outcome.err


@pytest.mark.parametrize("ends", ["\n", "\r\n", "\r"])
def test_tables_may_have_the_ends_of_lines_of_any_system(ends: str, tmp_path: Path) -> None:
    lines = ["camera,x,y,z,sigma", "0,1,2,3,0.1", "", "2,4,5,6,0.2", ""]
    path = tmp_path / "gnss.csv"
    path.write_bytes(ends.join(lines).encode())
    found = read_positions(path, small_scene(), Trivial())
    assert found.index.tolist() == [0, 2]
    path.write_bytes(f"0{ends}3 # three{ends}{ends}5".encode())
    assert read_list(path, "camera", small_scene()).tolist() == [0, 3, 5]


def test_tables_that_are_none(tmp_path: Path) -> None:
    path = tmp_path / "gnss.csv"
    path.write_text("camera,x,y,z,sigma\n0,1,2,3,0.1\r1,1,2,3,0.1\r\n1," + "9" * 200_000 + "\n")
    with pytest.raises(DabaError, match=r"gnss\.csv, line 4: no table: field larger than"):
        read_positions(path, small_scene(), Trivial())


@pytest.mark.parametrize("command", ["info", "convert", "partition", "solve", "report"])
def test_names_that_are_too_long(command: str, tmp_path: Path, capsys: Capsys) -> None:
    name = tmp_path / ("x" * 300 + ".txt")
    rest: dict[str, list[str | Path]]
    rest = {"convert": [tmp_path / "b.npz"], "partition": ["--devices", "2"]}
    rest |= {"report": ["--output", tmp_path / "r.html"]}
    outcome = run(capsys, command, name, *rest.get(command, []))
    assert (outcome.code, "Traceback" in outcome.err) == (2, False)
    assert "x" * 300 in outcome.err
    bal = write_bal(tmp_path / "a.txt")
    if command == "solve":
        for option in ("--output", "--history", "--log", "--record", "--checkpoint", "--resume"):
            outcome = run(capsys, "solve", bal, option, name)
            assert (outcome.code, "x" * 300 in outcome.err) == (2, True), (option, outcome.err)


def test_binary_models_may_begin_with_any_bytes(tmp_path: Path) -> None:
    """35,615 images are 1f 8b in binary, as gzip begins."""
    data = (35_615).to_bytes(8, "little") + bytes(100)
    for part in ("cameras", "images", "points3D"):
        (tmp_path / f"{part}.bin").write_bytes(data)
    assert Model(tmp_path).data("points3D") == data


@pytest.mark.parametrize("name", ["history", "seconds", "idle", "iteration", "files", "common"])
@pytest.mark.usefixtures("compiled")
def test_manifests_of_checkpoints(name: str, npz: Path, capsys: Capsys) -> None:
    saved = npz.with_name("saved")
    argv = ("solve", npz, "--iterations", "1", "--devices", "2", "--method", "daba", "--quiet")
    assert run(capsys, *argv, "--checkpoint", saved).code == 0
    manifest = next(saved.glob("*/manifest.json"))
    whole = json.loads(manifest.read_text())["checkpoint"]
    values: list[object] = [None, "x", [], -1, {"a": 1}]
    for value in values:
        content = {k: v for k, v in whole.items() if k != name}
        content |= {} if value is None else {name: value}
        if content == whole | {"idle": -1} or (name, value) == ("history", []):
            continue
        body = json.dumps(content, indent=1)
        manifest.write_text(f'{{"crc32": {zlib.crc32(body.encode())},\n"checkpoint": {body}}}\n')
        outcome = run(capsys, *argv, "--resume", saved)
        assert outcome.code == 2, (value, outcome)
        assert str(saved) in outcome.err


def test_lines_come_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bal_errors, "PIECE", 8)
    text = b"1 2 3\n\n44 55 66 77 88 99\n# a long comment indeed\n5 6"
    pieces = list(bal_errors.lines_of(io.BytesIO(text)))
    assert [number for number, _ in pieces] == [1, 3, 3, 3, 4, 5]
    words = [word for _, piece in pieces[:4] for word in piece.split()]
    assert words == [b"1", b"2", b"3", b"44", b"55", b"66", b"77", b"88", b"99"]
