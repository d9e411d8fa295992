"""However many processes share the devices: the same solution and history, to the last bit."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from colmap_models import perturbed, synthetic, written
from jobs import Job, bits, constrained, needs_mpi, read_history, run_all, scene, side_by_side
from odd_problems import mirrored
from places import HELPERS

import daba
from daba.io.store.writing import write_store
from daba.partition.ordering import lay_out
from daba.partition.partition import make_partition, partition_from_arrays
from daba.problem.problem import Problem
from daba.solver.consensus.consensus import RENEWED

pytestmark = [needs_mpi, pytest.mark.usefixtures("compiled")]

ITERATIONS = 6
SECONDS = 0.3
OLDER = HELPERS / "older.py"
RANKS = (1, 2, 3, 4, 8)


class Case(NamedTuple):
    source: str
    options: str = ""
    output: str = "npz"
    devices: int = 8
    most: int = 4
    """Ranks to try it on; eight take long on a small machine."""
    iterations: int = ITERATIONS
    solves: int = 1
    """How often it solves on."""


HUBER = "--loss huber --loss-radius 2"
FRONT_LM = "--points-in-front True --finish lm"
CASES = {
    "sweep": Case("scene.npz", "--method daba", most=8),
    "none": Case("scene.npz", f"--method daba --refine none {HUBER} --linear-solver pcg", most=8),
    "points": Case(
        "scene.npz", f"--method daba --refine points {HUBER} --linear-solver direct", most=8
    ),
    "duba": Case("scene.npz", "--method duba --refine none"),
    "admm": Case("scene.npz", f"--method admm {HUBER}", iterations=RENEWED + 2),
    "dr": Case("scene.daba", "--method dr", output="daba"),
    "store": Case("scene.daba", "--method daba", output="daba", most=8),
    "store, none": Case("scene.daba", f"--method daba --refine none {HUBER} --linear-solver pcg"),
    "filtered": Case(
        "scene.npz", "--method daba --filter 1 --points-in-front True", most=3, solves=2
    ),
    "in front": Case("mirrored.npz", "--method daba --points-in-front True", most=3),
    "in front, store": Case("mirrored.daba", "--method daba --points-in-front True", most=3),
    "in front, lm": Case("mirrored.npz", "--points-in-front True", most=3),
    "in front, lm, store": Case("mirrored.daba", "--points-in-front True", most=3),
    "every third": Case("scene.npz", "--method daba --report-every 3"),
    "two scenes": Case("two.daba", "--method daba", output="daba", devices=4),
    "two scenes, none": Case("two.daba", "--method daba --refine none --check", devices=4),
    "uneven": Case("uneven.daba", "--method daba", output="daba", devices=3, most=3),
    "uneven, none": Case(
        "uneven.daba", "--method daba --refine none --gradient-tolerance 1e-99", devices=3, most=3
    ),
    "asked": Case(
        "asked.npz", "--method daba --check --linear-solver direct --gradient-tolerance 1e-99"
    ),
    "asked, store": Case("asked.daba", "--method daba", output="daba"),
    "asked, none": Case(
        "asked.daba",
        f"--method daba --refine none {HUBER} --linear-solver pcg --restart-ratio 1 --eta 1",
    ),
    "lm": Case("scene.npz", "--check", most=8),
    "lm, clusters": Case("scene.npz", f"{HUBER} --linear-solver pcg"),
    "lm, store": Case("scene.daba", output="daba"),
    "lm, two scenes": Case("two.daba", output="daba", devices=4),
    "lm, uneven": Case("uneven.daba", "--gradient-tolerance 1e-99", devices=3, most=3),
    "lm, asked": Case("asked.npz", f"--check {HUBER} --gradient-tolerance 1e-99"),
    "lm, asked, store": Case("asked.daba", "--linear-solver pcg", output="daba"),
    "pixels, rigs": Case("rigs.npz", f"--check {HUBER} --gradient-tolerance 1e-99", most=3),
    "pixels, rigs, store": Case("rigs.daba", "--linear-solver pcg", output="daba", most=3),
    "lm, finishing": Case("scene.npz", "--method daba --finish lm", most=3, solves=2),
    "lm, finishing, store": Case(
        "scene.daba", "--method daba --finish lm", output="daba", most=3, solves=2
    ),
    "pixels after rays": Case("rigs.npz", "--method daba", most=3, solves=2),
    "pixels after rays, store": Case("rigs.daba", "--method daba", most=3, solves=2),
    "in front, finishing": Case("mirrored.npz", f"--method daba {FRONT_LM}", most=3, solves=2),
    "in front, finishing, store": Case(
        "mirrored.daba", f"--method daba {FRONT_LM}", most=3, solves=2
    ),
}
COUNTS = {name: [r for r in RANKS if r <= case.most] for name, case in CASES.items()}

Solved = Callable[[int], Path]


@pytest.fixture(scope="module")
def problem() -> Problem:
    return scene()


@pytest.fixture(scope="module")
def folder(problem: Problem, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The problems to solve."""
    folder = tmp_path_factory.mktemp("bits")
    daba.save(problem, folder / "scene.npz")
    write_store(lay_out(problem, make_partition(problem, 8)), folder / "scene.daba")
    behind = mirrored(problem, range(0, 60, 7))
    daba.save(behind, folder / "mirrored.npz")
    write_store(lay_out(behind, make_partition(behind, 8)), folder / "mirrored.daba")
    asked = constrained(problem)
    daba.save(asked, folder / "asked.npz")
    write_store(lay_out(asked, make_partition(asked, 8)), folder / "asked.daba")
    rigs = perturbed(synthetic(cameras=2, sensors=2, images=8, points=60), rotation=0.1)
    written(rigs, folder / "rigs")
    pixels = daba.constrain(daba.load(folder / "rigs"), fix="gauge", intrinsics_prior=0.1)
    daba.save(pixels, folder / "rigs.npz")
    write_store(lay_out(pixels, make_partition(pixels, 8)), folder / "rigs.daba")
    # the last device has a scene of its own, and no neighbours
    small = scene(10, 80, seed=1)
    two = side_by_side(problem, small)
    device = np.concatenate([make_partition(problem, 3).camera_device, np.full(10, 3)])
    write_store(lay_out(two, partition_from_arrays(two, device)), folder / "two.daba")
    # one device has nearly everything, one a camera and a point, one a camera and no point
    cameras, points = np.zeros(40, int), np.zeros(300, int)
    cameras[7], cameras[30], points[100] = 1, 2, 1
    uneven = partition_from_arrays(problem, cameras, points)
    write_store(lay_out(problem, uneven), folder / "uneven.daba")
    return folder


@pytest.fixture(scope="module")
def solved(folder: Path) -> Solved:
    """The folder with all cases solved on so many ranks; 0 is without MPI."""
    done: dict[int, Path] = {}

    def solve(ranks: int) -> Path:
        if ranks not in done:
            results = folder / f"ranks-{ranks}"
            results.mkdir()
            commands = [
                [
                    "solve", folder / case.source, *case.options.split(), "--quiet",
                    "--threads", 1, "--iterations", case.iterations, "--function-tolerance", 0,
                    "--output", results / f"{name}.{case.output}",
                    "--history", results / f"{name}.json",
                    *(["--devices", 8] if case.source.endswith(".npz") else []),
                ]
                for name, case in CASES.items()
                if ranks <= case.most
            ]  # fmt: skip
            if ranks == 2:
                limited = [
                    "solve", folder / "scene.daba", "--quiet", "--max-seconds", SECONDS,
                    "--method", "daba",
                    "--iterations", 10**6, "--function-tolerance", 0,
                    "--history", results / "limited.json",
                ]  # fmt: skip
                commands.append(limited)
            run_all(ranks, commands)
            done[ranks] = results
        return done[ranks]

    return solve


def solution(results: Path, name: str) -> tuple[bytes, bytes]:
    return bits(results / f"{name}.{CASES[name].output}")


@pytest.mark.parametrize(("name", "ranks"), [(n, r) for n in CASES for r in COUNTS[n]])
def test_any_number_of_processes_finds_the_same(name: str, ranks: int, solved: Solved) -> None:
    alone, shared = solved(0), solved(ranks)
    assert solution(shared, name) == solution(alone, name)
    entries = read_history(shared / f"{name}.json")
    assert entries == read_history(alone / f"{name}.json")
    assert entries[-1]["iteration"] == CASES[name].solves * CASES[name].iterations
    assert entries[-1]["objective"] < entries[0]["objective"]
    told = json.loads((shared / f"{name}.json").read_text())["ranks"]
    dealt = [device for rank in told for device in rank["devices"]]
    assert len(told) == ranks
    assert dealt == list(range(CASES[name].devices))


def test_an_older_mpi_without_persistent_collectives_will_do(folder: Path, solved: Solved) -> None:
    alone = solved(0)
    job = Job(3, [OLDER, "solve", folder / "scene.npz", *CASES["sweep"].options.split(), "--quiet",
                  "--devices", 8, "--threads", 1, "--iterations", ITERATIONS,
                  "--function-tolerance", 0, "--output", folder / "older.npz"])  # fmt: skip
    outcome = job.wait()
    assert outcome.code == 0, outcome.err
    assert bits(folder / "older.npz") == solution(alone, "sweep")


@pytest.mark.parametrize(
    ("file", "store"),
    [
        ("sweep", "store"),
        ("none", "store, none"),
        ("in front", "in front, store"),
        ("pixels after rays", "pixels after rays, store"),
        ("in front, finishing", "in front, finishing, store"),
    ],
)
def test_a_store_gives_what_its_file_gives(file: str, store: str, solved: Solved) -> None:
    for ranks in (0, 3):
        assert solution(solved(ranks), store) == solution(solved(ranks), file)
        histories = [read_history(solved(ranks) / f"{name}.json") for name in (store, file)]
        assert histories[0] == histories[1]


def test_reports_now_and_then_change_nothing_but_the_history(solved: Solved) -> None:
    results = solved(4)
    assert solution(results, "every third") == solution(results, "sweep")
    often, seldom = (read_history(results / f"{name}.json") for name in ("sweep", "every third"))
    assert [entry["iteration"] for entry in seldom] == [0, 3, 6]
    for entry in seldom:
        same = often[entry["iteration"]]
        assert entry["objective"] == same["objective"]
    counted = [sum(entry["pcg_iterations"] for entry in h) for h in (often, seldom)]
    assert counted[0] == counted[1]


def test_a_time_limit_stops_all_processes(solved: Solved) -> None:
    told = json.loads((solved(2) / "limited.json").read_text())
    assert told["result"]["reason"] == f"reached the time limit of {SECONDS} s"
    *before, last = (entry["seconds"] for entry in told["iterations"])
    assert last >= SECONDS
    assert all(seconds < SECONDS for seconds in before)


def boundary_bytes(problem: Problem, devices: int) -> np.ndarray:
    """Bytes from each device to each other, if everything the other sees is sent once."""
    partition = make_partition(problem, devices)
    a = partition.camera_device[problem.camera_index]
    b = partition.point_device[problem.point_index]
    sent = np.zeros((devices, devices), np.int64)
    for one, other in product(range(devices), repeat=2):
        between = (a == one) & (b == other) & (one != other)
        sent[one, other] += 8 * 15 * len(np.unique(problem.camera_index[between]))
        sent[other, one] += 8 * 3 * len(np.unique(problem.point_index[between]))
    return sent


@pytest.mark.parametrize(
    ("name", "times"), [("none", 1), ("points", 1), ("sweep", 2), ("store", 2)]
)
def test_neighbours_are_sent_what_they_see_and_nothing_else(
    name: str, times: int, problem: Problem, solved: Solved
) -> None:
    once = boundary_bytes(problem, 8)
    told = json.loads((solved(8) / f"{name}.json").read_text())
    sent = [entry["bytes_sent"] for entry in told["iterations"]]
    assert sent == [0] + ITERATIONS * [times * once.sum()]
    for rank in told["ranks"]:
        row = once[rank["rank"]]
        expected = {str(n): ITERATIONS * times * int(row[n]) for n in np.flatnonzero(row)}
        assert rank["bytes_sent"] == expected
    paper = 2 * once.sum()  # x and x̄
    assert sent[-1] <= (paper if name in ("sweep", "store") else paper / 2)


def test_a_process_without_neighbours_sends_nothing(solved: Solved) -> None:
    ranks = json.loads((solved(4) / "two scenes.json").read_text())["ranks"]
    assert [bool(rank["bytes_sent"]) for rank in ranks] == [True, True, True, False]
