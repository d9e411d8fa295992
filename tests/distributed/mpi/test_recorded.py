"""What a report needs is recorded alike by one process and by several that hold only parts."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from jobs import needs_mpi, run_all, scene

import daba
from daba.io.store.writing import save
from daba.runtime.recording import read_recording

pytestmark = [needs_mpi, pytest.mark.usefixtures("compiled")]


def test_a_store_on_three_processes(tmp_path: Path) -> None:
    problem = scene()
    daba.save(problem, tmp_path / "a.npz")
    save(problem, tmp_path / "a.daba", devices=5)
    page = tmp_path / "r.html"
    told, films = [], []
    for ranks, source, more in ((0, "a.npz", ["--devices", 5]), (3, "a.daba", ["--report", page])):
        history = tmp_path / f"{ranks}.json"
        film = tmp_path / f"film-{ranks}"
        command = ("solve", tmp_path / source, "--iterations", 4, "--history", history, *more)
        command = (*command, "--record", film)
        run_all(ranks, [command])
        told.append(json.loads(history.read_text())["overview"])
        films.append(read_recording(film))
    alone, shared = told
    assert shared["devices"] == alone["devices"]
    for when in ("start", "solution"):
        a, b = (each["errors"][when] for each in told)
        assert a["rms"] == pytest.approx(b["rms"], rel=1e-12)
        assert np.abs(np.subtract(a["counts"], b["counts"])).sum() <= 4
    worst = [[w["camera"] for w in each["worst_cameras"]] for each in told]
    assert worst[0] == worst[1]
    assert "seconds of each process" in page.read_text()
    for (still, shots), (other, others) in [films]:
        assert len(shots) == len(others) == 5
        a, b = np.argsort(still.point_id), np.argsort(other.point_id)
        np.testing.assert_array_equal(still.point_device[a], other.point_device[b])
        np.testing.assert_array_equal(shots[-1].points[a], others[-1].points[b])
