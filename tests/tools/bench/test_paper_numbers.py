"""daba/bench/paper.json: complete, true to itself, and to the paper where that is at hand."""

from __future__ import annotations

import re
from typing import Any

import pytest
from places import ROOT

from daba.tools.bench.paper import paper
from daba.tools.datasets import find

PAPER: dict[str, Any] = paper()
PROBLEMS: dict[str, Any] = PAPER["problems"]
TEX = ROOT.parent / "shared" / "docs" / "paper.tex"

METHODS = ("dr", "admm", "daba")
DEVICES = ("4", "8", "16", "32")
COMPARED = {"trivial": ("ceres", "deeplm"), "huber": ("ceres",)}


def test_structure() -> None:
    assert set(PAPER) == {"about", "counts", "problems"}
    assert set(PAPER["about"]) >= {"source", "problems", "accuracy", "counts", "times", "speedup"}
    assert len(PROBLEMS) == 20
    assert sum(p["largest"] for p in PROBLEMS.values()) == 9
    for problem in PROBLEMS.values():
        assert problem["largest"] == (problem["cameras"] > 700)
        assert ("times" in problem) == ("speedup" in problem) == problem["largest"]
        assert set(problem["accuracy"]) == set(COMPARED)
        for loss, errors in problem["accuracy"].items():
            assert tuple(errors["devices"]) == DEVICES
            assert (errors["deeplm"] is None) == (loss == "huber")
            for entry in errors["devices"].values():
                assert tuple(entry) == (*METHODS, "best", "beats_centralized")
        if problem["largest"]:
            for loss, methods in COMPARED.items():
                assert tuple(problem["times"][loss]) == methods
                assert tuple(problem["speedup"][loss]) == ("4", "8")


def test_problems_of_bal_are_those_of_the_collection() -> None:
    ours = [name for name, p in PROBLEMS.items() if p["collection"] == "BAL"]
    assert len(ours) == 5
    for name in ours:
        dataset, problem = find(name), PROBLEMS[name]
        assert dataset.paper == problem["row"]
        counts = dataset.cameras, dataset.points, dataset.observations
        assert counts == (problem["cameras"], problem["points"], problem["observations"])


def test_values_read_by_eye() -> None:
    def error(name: str, loss: str, devices: str, method: str) -> float:
        return float(PROBLEMS[name]["accuracy"][loss]["devices"][devices][method])

    assert error("ladybug-1723", "trivial", "4", "dr") == 0.837
    assert error("venice-1778", "huber", "32", "daba") == 0.473
    assert error("1dsfm-trafalgar", "trivial", "8", "dr") == 5.263
    assert error("1dsfm-yorkminster", "huber", "8", "admm") == 2.272
    assert error("1dsfm-ellis-island", "huber", "16", "daba") == 5.191
    assert error("1dsfm-nyc-library", "trivial", "8", "daba") == 1.840
    assert PROBLEMS["dubrovnik-356"]["accuracy"]["huber"]["init"] == 3.721
    assert PROBLEMS["1dsfm-alamo"]["accuracy"]["trivial"]["deeplm"] == 1.203
    final = PROBLEMS["final-13682"]
    assert final["observations"] == 28987644
    assert final["times"]["huber"]["ceres"] == {
        "error": {"target": 0.817, "reference": 0.815},
        "seconds": {
            "ceres": {"target": 6590, "reference": 7690},
            "daba": {
                "4": {"target": 34.6, "reference": 38.0},
                "8": {"target": 24.0, "reference": 26.3},
            },
        },
    }
    assert final["speedup"]["trivial"]["8"] == {"ceres": 258.2, "deeplm": 32.8}
    square = PROBLEMS["1dsfm-union-square"]["times"]["trivial"]["deeplm"]
    assert square["seconds"]["daba"]["8"] == {"target": 1.16, "reference": 1.18}
    assert PAPER["counts"]["all"]["huber"] == {"4": 19, "8": 19, "16": 16, "32": 17}


def every_entry() -> list[tuple[str, dict[str, Any], dict[str, Any]]]:
    """(loss, errors of a problem, errors on so many devices), all of them."""
    return [
        (loss, errors, entry)
        for problem in PROBLEMS.values()
        for loss, errors in problem["accuracy"].items()
        for entry in errors["devices"].values()
    ]


def test_bold_is_the_best() -> None:
    for _, _, entry in every_entry():
        least = min(entry[method] for method in METHODS)
        assert entry["best"] == [method for method in METHODS if entry[method] == least]


def test_red_is_better_than_the_centralized_methods() -> None:
    for loss, errors, entry in every_entry():
        reference = min(errors[method] for method in COMPARED[loss])
        for method in METHODS:
            if entry[method] != reference:  # else the digits that are not printed decide
                assert (entry[method] < reference) == (method in entry["beats_centralized"])


@pytest.mark.parametrize("which", ["all", "largest"])
@pytest.mark.parametrize("loss", COMPARED)
@pytest.mark.parametrize("devices", DEVICES)
def test_counts(which: str, loss: str, devices: str) -> None:
    chosen = [p for p in PROBLEMS.values() if which == "all" or p["largest"]]
    assert len(chosen) == PAPER["counts"][which]["problems"]
    better = sum(
        "daba" in p["accuracy"][loss]["devices"][devices]["beats_centralized"] for p in chosen
    )
    assert better == PAPER["counts"][which][loss][devices]


def test_times_targets_and_speedups_belong_together() -> None:
    for problem in PROBLEMS.values():
        for loss, compared in problem.get("times", {}).items():
            for method, times in compared.items():
                init, reference = (problem["accuracy"][loss][key] for key in ("init", method))
                assert times["error"]["reference"] == reference
                target = reference + 2.5e-4 * (init - reference)
                assert times["error"]["target"] == pytest.approx(target, abs=1.1e-3)
                seconds = times["seconds"]
                for devices, daba in seconds["daba"].items():
                    assert daba["target"] <= daba["reference"]
                    speedup = seconds[method]["target"] / daba["reference"]
                    printed = problem["speedup"][loss][devices][method]
                    assert printed == pytest.approx(speedup, rel=0.012)  # of rounded seconds


def test_every_number_is_in_the_paper() -> None:
    """Row by row, the numbers of the large table are those of its source, in their order."""
    if not TEX.exists():
        pytest.skip("no paper: ../shared/docs/paper.tex is not beside this checkout")
    table = TEX.read_text("utf-8").partition(r"\label{table::all_accuracy}")[2]
    table = table.partition(r"\end{table}")[0]
    rows = re.findall(r"& \{\\scriptsize\\sf [^}]*\} (&.*)\\\\", table)
    printed = [[float(x) for x in re.findall(r"\d+\.\d+", row)] for row in rows]
    ours = [
        [errors["init"], errors["ceres"], errors["deeplm"]]
        + [entry[method] for entry in errors["devices"].values() for method in METHODS]
        for loss in COMPARED
        for errors in (problem["accuracy"][loss] for problem in PROBLEMS.values())
    ]
    assert printed == [[x for x in row if x is not None] for row in ours]
