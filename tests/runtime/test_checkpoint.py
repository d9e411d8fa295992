"""A checkpoint holds all that the next iteration depends on."""

from __future__ import annotations

import json
import zlib
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import daba
from daba.core.errors import DabaError, DabaWarning
from daba.partition.partition import partition_from_arrays
from daba.runtime.checkpoint import Checkpoints
from daba.runtime.result import Result
from daba.solver.lm import make, renewed
from helpers import make_solver, random_problem, synthetic

pytestmark = pytest.mark.usefixtures("compiled")

METHODS: dict[str, dict[str, Any]] = {
    "daba": {"devices": 4},
    "daba, none": {"devices": 4, "refine": "none", "restart_ratio": 1.0, "linear_solver": "pcg"},
    "daba, points": {"devices": 3, "refine": "points", "loss": daba.Huber(4.0)},
    "duba": {"devices": 4, "method": "duba"},
    "lm": {"method": "lm"},
}


def solve(iterations: int, folder: Path | None = None, **options: Any) -> Result:
    problem = daba.generate(synthetic("city", cameras=24, points=200)).start
    checkpoints = Checkpoints(folder, resume=options.pop("resume", None)) if folder else None
    return daba.solve(
        problem,
        checkpoints=checkpoints,
        iterations=iterations,
        function_tolerance=0.0,
        threads=1,
        **options,
    )


@pytest.mark.parametrize("method", ["daba", "lm"])
def test_a_resumed_solve_under_constraints_is_as_one_that_never_stopped(
    method: str, tmp_path: Path
) -> None:
    """In daba groups across devices take turns, and whose turn it is has to be remembered. One
    camera is no other's."""
    problem = random_problem(1, cameras=20, points=120)
    cameras = problem.cameras.copy()
    cameras[:, 12:] = [1.0, 0.0, 0.0]
    shared = np.arange(20, dtype=np.int32) % 6
    shared[0] = 6
    problem = replace(problem, cameras=cameras, shared=shared)
    problem = daba.constrain(problem, fix="gauge", intrinsics_prior=0.1)
    partition = partition_from_arrays(problem, np.arange(20) // 10)

    def go(iterations: int, **checkpoints: Any) -> Result:
        return daba.solve(
            problem,
            method=method,
            partition=partition,
            checkpoints=Checkpoints(**checkpoints),
            iterations=iterations,
            function_tolerance=0.0,
            threads=1,
        )

    whole = go(7)
    go(4, folder=tmp_path / "saved")
    resumed = go(7, resume=tmp_path / "saved")
    assert facts(resumed) == facts(whole)
    assert np.array_equal(resumed.problem.cameras, whole.problem.cameras)
    other = daba.constrain(problem, fix="points")
    with pytest.raises(DabaError, match="another problem"):
        daba.solve(
            other, method=method, partition=partition,
            checkpoints=Checkpoints(resume=tmp_path / "saved"),
        )  # fmt: skip


def facts(result: Result) -> list[dict[str, Any]]:
    return [
        {k: v for k, v in asdict(entry).items() if not k.endswith("seconds")}
        for entry in result.history
    ]


@pytest.mark.parametrize("method", METHODS)
def test_all_that_counts_is_saved_and_put_back(method: str) -> None:
    problem, options = random_problem(1, cameras=8, points=60), METHODS[method]
    solver, fresh = make_solver(problem, **options), make_solver(problem, **options)
    for _ in range(4):
        solver.iterate()
    fresh.put_back(solver.device_states(), solver.common_state())
    assert fresh.common_state() == solver.common_state()
    for _ in range(2):
        for device, arrays in solver.device_states().items():
            for name, array in arrays.items():
                assert fresh.device_states()[device][name].tobytes() == array.tobytes(), name
        for here, there in zip(fresh.device_objective(), solver.device_objective(), strict=True):
            assert here.tobytes() == there.tobytes()
        solver.iterate()
        fresh.iterate()


@pytest.mark.parametrize("method", METHODS)
def test_a_resumed_solve_is_as_one_that_never_stopped(method: str, tmp_path: Path) -> None:
    options = METHODS[method] | {"check": True}
    whole = solve(8, **options)
    solve(5, tmp_path / "saved", **options)
    resumed = solve(8, tmp_path / "saved", resume=tmp_path / "saved", **options)
    assert facts(resumed) == facts(whole)
    assert resumed.problem.cameras.tobytes() == whole.problem.cameras.tobytes()
    assert resumed.problem.points.tobytes() == whole.problem.points.tobytes()
    assert resumed.reason == whole.reason
    assert (np.diff([entry.seconds for entry in resumed.history]) >= 0).all()


@pytest.mark.parametrize("error", ["ray", "pixel"])
def test_what_was_factored_before_a_checkpoint_is_factored_again(
    error: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On two cameras for all, in pixels; there factors of S are of a step before the last."""
    monkeypatch.setattr(make, "SMALL", 0)
    monkeypatch.setattr(make, "LEAST_WORTH", 0.0)
    monkeypatch.setattr(renewed, "FREE", 0)
    monkeypatch.setattr(make, "CPU", make.CPU._replace(product=1e-7))
    if error == "ray":
        problem = daba.generate(synthetic("city", cameras=24, points=200)).start
    else:
        from colmap_models import perturbed
        from colmap_models import synthetic as model

        problem = daba.load(perturbed(model(), rotation=2.0, share=0.02))

    def go(iterations: int, **checkpoints: Any) -> Result:
        return daba.solve(
            problem, method="lm", error=error, checkpoints=Checkpoints(**checkpoints),
            iterations=iterations, function_tolerance=0.0, threads=1,
        )  # fmt: skip

    whole = go(7)
    assert "S factored" in whole.linear_solver
    assert "never" not in whole.linear_solver
    go(5, folder=tmp_path / "saved")
    saved = np.load(next((tmp_path / "saved" / "iteration-00000005").glob("*.npz")))
    assert "factored_points" in saved
    assert not np.array_equal(saved["factored_points"], saved["points"])
    resumed = go(7, resume=tmp_path / "saved")
    assert facts(resumed) == facts(whole)
    assert resumed.problem.points.tobytes() == whole.problem.points.tobytes()
    assert resumed.linear_solver == whole.linear_solver


def test_a_finished_solve_resumes_to_itself(tmp_path: Path) -> None:
    done = solve(3, tmp_path / "saved", devices=2)
    again = solve(3, tmp_path / "other", resume=tmp_path / "saved", devices=2)
    assert facts(again) == facts(done)
    assert again.problem.points.tobytes() == done.problem.points.tobytes()
    assert [path.name for path in (tmp_path / "other").iterdir()] == ["iteration-00000003"]


def rewrite(path: Path, manifest: dict[str, Any]) -> None:
    """Another manifest, with a checksum that matches."""
    body = json.dumps(manifest, indent=1)
    path.write_text(f'{{"crc32": {zlib.crc32(body.encode())}, "checkpoint": {body}}}')


def test_a_checkpoint_of_version_0_1(tmp_path: Path) -> None:
    """It has the checksums under another name."""
    whole = solve(5, devices=2)
    solve(3, tmp_path / "saved", devices=2)
    path = tmp_path / "saved" / "iteration-00000003" / "manifest.json"
    manifest = json.loads(path.read_text())["checkpoint"]
    manifest["problem"]["marks"] = manifest["problem"].pop("checksums")
    rewrite(path, manifest)
    resumed = solve(5, tmp_path / "other", resume=tmp_path / "saved", devices=2)
    assert facts(resumed) == facts(whole)
    manifest["problem"]["marks"][0] += 1
    rewrite(path, manifest)
    with pytest.raises(DabaError, match="a checkpoint of another problem or partition"):
        solve(5, tmp_path / "third", resume=tmp_path / "saved", devices=2)


@pytest.mark.parametrize(
    "key", ["iteration", "idle", "seconds", "history", "problem", "options", "common", "files"]
)
def test_a_manifest_that_lacks_something(key: str, tmp_path: Path) -> None:
    """Its checksum matches, and it is refused all the same."""
    solve(3, tmp_path / "saved", devices=2)
    path = tmp_path / "saved" / "iteration-00000003" / "manifest.json"
    manifest = json.loads(path.read_text())["checkpoint"]
    del manifest[key]
    rewrite(path, manifest)
    with pytest.raises(DabaError, match=rf"manifest.json is not complete: '{key}'"):
        solve(4, tmp_path / "other", resume=tmp_path / "saved", devices=2)


@pytest.mark.parametrize(
    ("method", "table", "key"),
    [("lm", None, "seconds"), ("daba", "common", "eta"), ("lm", "common", "radius")],
)
def test_numbers_that_no_float_can_hold(
    method: str, table: str | None, key: str, tmp_path: Path
) -> None:
    solve(3, tmp_path / "saved", devices=2, method=method)
    path = tmp_path / "saved" / "iteration-00000003" / "manifest.json"
    manifest = json.loads(path.read_text())["checkpoint"]
    (manifest if table is None else manifest[table])[key] = 10**400
    rewrite(path, manifest)
    with pytest.raises(DabaError, match=r"manifest.json .*int too large to convert to float"):
        solve(4, tmp_path / "other", resume=tmp_path / "saved", devices=2, method=method)


def test_what_a_killed_solve_was_writing_is_removed(tmp_path: Path) -> None:
    solve(3, tmp_path, devices=4)
    half = tmp_path / ".iteration-00000004.0a1b2c3d.tmp"
    half.mkdir()
    (half / "device-0000.npz").write_bytes(b"half of it")
    (tmp_path / "notes.txt").write_text("not ours")
    solve(5, tmp_path, devices=4, resume=tmp_path)
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["iteration-00000003", "iteration-00000005", "notes.txt"]


def test_a_solve_goes_on_when_it_cannot_be_saved(tmp_path: Path) -> None:
    def remove(_: daba.Iteration) -> None:
        (tmp_path / "saved").write_text("in the way")

    problem = random_problem()
    with pytest.warns(DabaWarning, match=r"no checkpoint at iteration 4: cannot write .*saved"):
        result = daba.solve(
            problem,
            devices=2,
            iterations=4,
            threads=1,
            callback=remove,
            checkpoints=Checkpoints(tmp_path / "saved"),
        )
    assert result.history[-1].iteration == 4


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"every": 0, "folder": "saved"}, "at least 1 iteration apart, not 0"),
        ({"minutes": 0.0, "folder": "saved"}, "must be positive, not 0"),
        ({"every": 5}, "checkpoints need a folder"),
        ({"folder": "file/saved"}, "file is a file, not a folder"),
        ({"resume": "saved"}, "saved: there is no checkpoint here"),
    ],
)
def test_wishes_that_cannot_be_met(
    wrong: dict[str, Any], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file").touch()
    with pytest.raises(DabaError, match=words):
        Checkpoints(**wrong)
