"""The native file loses nothing, and nothing else is taken for one."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import plain_bal
import pytest

import daba.io
from daba.core.errors import DabaError

ARRAYS = ("cameras", "points", "camera_index", "point_index", "u", "weights", "focal")


def test_nothing_is_lost(tmp_path: Path) -> None:
    colours = np.random.default_rng(0).integers(0, 256, (60, 3)).astype(np.uint8)
    info = {"fit": {"rms_px": 0.1}, "names": ["ä", "b"], "n": np.int64(3), "colors": colours}
    problem = replace(plain_bal.scene(), name="Ωmega", info=info)
    path = tmp_path / "a.npz"
    daba.io.save(problem, path)
    again = daba.io.load(path)
    for what in ARRAYS:
        before, after = getattr(problem, what), getattr(again, what)
        assert before.dtype == after.dtype
        assert before.tobytes() == after.tobytes()
    assert again.name == "Ωmega"
    assert again.info.pop("colors").tobytes() == colours.tobytes()
    assert again.info == {"fit": {"rms_px": 0.1}, "names": ["ä", "b"], "n": 3}


def test_info_that_cannot_be_saved(tmp_path: Path) -> None:
    for value in (object(), np.array([object()])):
        with pytest.raises(DabaError, match="cannot be saved"):
            daba.io.save(replace(plain_bal.scene(), info={"x": value}), tmp_path / "a.npz")
    assert list(tmp_path.iterdir()) == []


def test_foreign_files(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    for content, reason in ((b"", "not an .npz"), (b"1 2 3\n", "not an .npz")):
        path.write_bytes(content)
        with pytest.raises(DabaError, match=rf"a\.npz: {reason}"):
            daba.io.load(path)
    np.savez(path, x=np.arange(3))
    with pytest.raises(DabaError, match="not one that daba wrote"):
        daba.io.load(path)
    np.savez(path, head=np.array([object()]))
    with pytest.raises(DabaError, match=r"a\.npz"):  # no pickle is ever opened
        daba.io.load(path)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"version": 4}, "written in version 4 of the format by a newer daba"),
        ({"format": "daba checkpoint"}, "holds a 'daba checkpoint', not a 'daba problem'"),
        ({"name": None}, "name or info is missing"),
    ],
)
def test_other_versions(change: dict[str, object], reason: str, tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    daba.io.save(plain_bal.scene(), path)
    with np.load(path) as archive:
        entries = dict(archive)
    head = json.loads(entries["head"].tobytes()) | change
    entries["head"] = np.frombuffer(json.dumps(head).encode(), np.uint8)
    np.savez(path, **entries)
    with pytest.raises(DabaError, match=reason):
        daba.io.load(path)


def test_missing_or_wrong_arrays(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    daba.io.save(plain_bal.scene(), path)
    with np.load(path) as archive:
        entries = dict(archive)
    for value, reason in (
        (None, "the array 'u' is missing"),
        (entries["u"].astype(np.float32), "'u' is float32, not float64"),
        (entries["u"][1:], "u must have shape"),
        (entries["u"] * np.nan, "observation 0: NaN"),
    ):
        changed = {k: v for k, v in entries.items() if k != "u"}
        if value is not None:
            changed["u"] = value
        np.savez(path, **changed)
        with pytest.raises(DabaError, match=reason):
            daba.io.load(path)


def test_damage_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    daba.io.save(plain_bal.scene(), path)
    data = path.read_bytes()
    for cut in range(0, len(data), 997):
        path.write_bytes(data[:cut])
        with pytest.raises(DabaError, match=r"a\.npz"):
            daba.io.load(path)
    at = data.index(plain_bal.scene().points.tobytes()) + 100
    path.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
    with pytest.raises(DabaError, match=r"a\.npz: the file is damaged"):
        daba.io.load(path)
