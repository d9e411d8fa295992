"""What a report shows of a solution: against plain counting, and the same from a store."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import daba
from daba.problem.pixel_errors import pixel_errors
from daba.problem.problem import Problem
from daba.runtime.result import Result
from daba.tools.cli.console import to_json
from daba.tools.report.overview import EDGES, record, unpack


@pytest.fixture(scope="module")
def start() -> Problem:
    problem = daba.generate(daba.SceneOptions(cameras=20, points=400, seed=2)).start
    problem.info["images"] = [f"image-{n}.jpg 0 500" for n in range(20)]
    return problem


@pytest.fixture(scope="module")
def result(start: Problem) -> Result:
    return daba.solve(start, method="daba", devices=4, iterations=5)


@pytest.fixture(scope="module")
def shown(result: Result) -> dict[str, Any]:
    recorded = record(result)
    assert recorded is not None
    return dict(recorded["overview"])


def test_the_partition_of_a_result_is_that_of_the_solve(result: Result, start: Problem) -> None:
    expected = daba.make_partition(start, 4)
    assert result.partition is not None
    np.testing.assert_array_equal(result.partition.camera_device, expected.camera_device)
    np.testing.assert_array_equal(result.partition.point_device, expected.point_device)


def test_histogram_and_means(shown: dict[str, Any], result: Result) -> None:
    for when, problem in (("start", result.start), ("solution", result.problem)):
        errors = pixel_errors(problem)
        counts = shown["errors"][when]["counts"]
        assert sum(counts) == len(errors)
        assert counts[0] == np.count_nonzero(errors < EDGES[0])
        assert counts[-1] == np.count_nonzero(errors >= EDGES[-1])
        expected, _ = np.histogram(errors, EDGES)
        assert np.abs(np.array(counts[1:-1]) - expected).sum() <= 1  # its last bin is closed
        assert shown["errors"][when]["mean"] == pytest.approx(errors.mean())
        assert shown["errors"][when]["rms"] == pytest.approx(daba.pixel_error(problem).rms)


def test_worst_cameras(shown: dict[str, Any], result: Result) -> None:
    errors, camera = pixel_errors(result.problem), result.start.camera_index
    mean = [errors[camera == i].mean() for i in range(20)]
    assert [w["camera"] for w in shown["worst_cameras"]] == np.argsort(mean)[::-1][:12].tolist()
    worst = shown["worst_cameras"][0]
    assert worst["solution"] == pytest.approx(max(mean))
    assert worst["image"] == f"image-{worst['camera']}.jpg"
    assert worst["observations"] == np.count_nonzero(camera == worst["camera"])


def test_devices(shown: dict[str, Any], result: Result) -> None:
    assert result.partition is not None
    a = result.partition.camera_device[result.start.camera_index]
    b = result.partition.point_device[result.start.point_index]
    counts = shown["devices"]
    assert sum(counts["cameras"]) == 20
    assert sum(counts["points"]) == 400
    for device in range(4):
        assert counts["observations"][device] == np.count_nonzero(a == device)
        assert counts["inter"][device] == np.count_nonzero((a == device) & (b != device))


def test_map_is_seen_from_above(shown: dict[str, Any], result: Result) -> None:
    """Distances along the ground are kept, and height is not seen."""
    assert result.partition is not None
    xy, device = unpack(shown["map"]["cameras"])
    assert len(xy) == 20
    np.testing.assert_array_equal(device, result.partition.camera_device)
    at, size = xy * shown["map"]["size"], max(shown["map"]["size"])
    up = -result.problem.rotations[:, :, 1].mean(axis=0)
    up /= np.linalg.norm(up)
    centers = result.problem.centers
    ground = centers - np.outer(centers @ up, up)
    np.testing.assert_allclose(
        np.linalg.norm(at[:, None] - at, axis=-1),
        np.linalg.norm(ground[:, None] - ground, axis=-1),
        atol=1e-4 * size,
    )


def test_it_stays_small() -> None:
    problem = daba.generate(daba.SceneOptions(cameras=30, points=9000, seed=1)).start
    recorded = record(daba.solve(problem, devices=2, iterations=1))
    text = to_json(recorded)
    assert len(text) < 120_000
    places, _ = unpack(json.loads(text)["overview"]["map"]["points"])
    assert 4000 < len(places) <= 9000


def test_of_a_store_it_is_the_same(start: Problem, shown: dict[str, Any], tmp_path: Path) -> None:
    from daba.io.store.writing import save

    save(start, tmp_path / "a.daba", devices=4)
    recorded = record(daba.solve(daba.Store(tmp_path / "a.daba"), method="daba", iterations=5))
    assert recorded is not None
    same_overview(recorded["overview"], shown)


def test_observations_may_have_been_dropped(result: Result) -> None:
    """The start is told with all of them, the solution with those that are left."""
    from dataclasses import replace

    p = result.problem
    keep = np.arange(p.num_observations) % 7 > 0
    left = replace(p, camera_index=p.camera_index[keep], point_index=p.point_index[keep],
                   u=p.u[keep], weights=p.weights[keep])  # fmt: skip
    recorded = record(replace(result, solution=left))
    assert recorded is not None
    shown = recorded["overview"]
    assert sum(shown["errors"]["start"]["counts"]) == p.num_observations
    assert sum(shown["errors"]["solution"]["counts"]) == keep.sum()
    assert shown["errors"]["solution"]["rms"] == pytest.approx(daba.pixel_error(left).rms)
    assert sum(shown["devices"]["observations"]) == keep.sum()


def test_names_of_images() -> None:
    from daba.problem.images import image_name

    for line, name in (
        ("a.jpg 0 532.5", "a.jpg"), ("my photo 3.jpg", "my photo 3.jpg"), ("b.png", "b.png"),
        ("c 1.jpg 0 1.2e+03", "c 1.jpg"),
    ):  # fmt: skip
        assert image_name(line) == name


def same_overview(a: dict[str, Any], b: dict[str, Any]) -> None:
    """But for rounding, and the order of what is on the map."""
    assert a["devices"] == b["devices"]
    for when in ("start", "solution"):
        assert a["errors"][when]["rms"] == pytest.approx(b["errors"][when]["rms"], rel=1e-12)
        off = np.subtract(a["errors"][when]["counts"], b["errors"][when]["counts"])
        assert np.abs(off).sum() <= 4
    names = [[w["camera"] for w in each["worst_cameras"]] for each in (a, b)]
    assert names[0] == names[1]
    mine, theirs = (np.sort(unpack(each["map"]["cameras"])[0], axis=0) for each in (a, b))
    np.testing.assert_allclose(mine, theirs, atol=1e-3)
