"""A solve that was stopped and resumed, on any number of processes, is as if it never stopped."""

from __future__ import annotations

from pathlib import Path

import pytest
from jobs import SOON, bits, checkpoints, flip, needs_mpi, read_history, run, run_all, scene

import daba
from daba.io.store.writing import save

pytestmark = [needs_mpi, pytest.mark.usefixtures("compiled")]

METHODS = {
    "sweep": ("scene.npz", "--method", "daba", "--devices", "4", "--check"),
    "none": ("scene.npz", "--method", "daba", "--devices", "4", "--refine", "none",
             "--loss", "huber", "--linear-solver", "pcg", "--restart-ratio", "1"),
    "duba": ("scene.npz", "--devices", "4", "--method", "duba", "--refine", "none"),
    "store": ("scene.daba", "--method", "daba"),
    "lm": ("scene.npz", "--devices", "4", "--function-tolerance", "0"),
    "lm, store": ("scene.daba", "--linear-solver", "pcg", "--function-tolerance", "0"),
}  # fmt: skip
STAGES = ((2, 4), (0, 7), (3, 10))
"""Ranks, and the iteration that they reach; 0 is without MPI."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Problems, and solves that were never stopped."""
    folder = tmp_path_factory.mktemp("resuming")
    daba.save(scene(), folder / "scene.npz")
    save(scene(), folder / "scene.daba", 4)
    run_all(0, [solve(folder, method, "whole", 10) for method in METHODS])
    return folder


def solve(folder: Path, method: str, name: str, iterations: int, *more: str) -> list[str]:
    source, *options = METHODS[method]
    return [
        "solve", f"{folder / source}", *options, "--quiet", "--threads", "1",
        "--iterations", f"{iterations}", "--function-tolerance", "0",
        "--output", f"{folder / name}-{method}.npz",
        "--history", f"{folder / name}-{method}.json", *more,
    ]  # fmt: skip


def test_resuming_elsewhere_changes_no_bit(folder: Path) -> None:
    for ranks, iterations in STAGES:
        commands = []
        for method in METHODS:
            saved = folder / f"saved-{method}"
            more = ["--checkpoint", str(saved)] + (
                ["--resume", str(saved)] if saved.exists() else []
            )
            commands.append(solve(folder, method, "resumed", iterations, *more))
        run_all(ranks, commands)
    for method in METHODS:
        assert bits(folder / f"resumed-{method}.npz") == bits(folder / f"whole-{method}.npz")
        histories = [read_history(folder / f"{n}-{method}.json") for n in ("resumed", "whole")]
        assert histories[0] == histories[1]
        kept = ["iteration-00000007", "iteration-00000010"]
        assert checkpoints(folder / f"saved-{method}") == kept


def test_a_damaged_file_is_told_by_who_reads_it_and_ends_all(folder: Path) -> None:
    saved = folder / "damaged"
    run_all(
        0, [solve(folder, "store", "a", 6, "--checkpoint", str(saved), "--checkpoint-every", "3")]
    )
    assert checkpoints(saved) == ["iteration-00000003", "iteration-00000006"]
    flip(saved / "iteration-00000006" / "device-0003.npz", 300)
    outcome = run(2, *solve(folder, "store", "b", 10, "--resume", str(saved)))
    assert outcome.code == 2
    assert outcome.seconds < SOON
    line = next(line for line in outcome.err.splitlines() if line.startswith("daba"))
    assert line.startswith("daba: error on rank 1: the checkpoint is damaged: ")
    assert "iteration-00000006/device-0003.npz its checksum is not" in line
    assert line.endswith(f"the one before it was kept: --resume {saved}/iteration-00000003")
    assert outcome.err.count("daba: error") == 1
