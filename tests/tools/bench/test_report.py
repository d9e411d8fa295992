"""The report says what the results hold, and needs nothing but itself."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from made_up import failed, one_problem, run

from daba.tools.bench.measures import Kind
from daba.tools.bench.report import write_report
from daba.tools.bench.results import Results


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    results = Results([*one_problem().all, failed("toy", "dr", 8, "the disk <is> full")])
    paths = write_report(results, folder)
    assert all(path.is_file() for path in paths)
    return folder


def test_everything_is_there(written: Path) -> None:
    assert sorted(path.name for path in written.iterdir()) == [
        "bytes.png", "bytes.svg", "convergence.png", "convergence.svg", "profiles.png",
        "profiles.svg", "report.html", "resources.png", "resources.svg", "rounds.png",
        "rounds.svg", "tables.md",
    ]  # fmt: skip
    for path in written.glob("*.svg"):
        ElementTree.parse(path)


def test_both_hold_every_final_value(written: Path) -> None:
    page, tables = ((written / n).read_text("utf-8") for n in ("report.html", "tables.md"))
    for run_ in one_problem().runs:
        value = f"{run_.final:.6g}"
        assert f">{value}</td>" in page, run_.method
        assert re.search(rf"\| \**{re.escape(value)}†?\** \|", tables), run_.method


def test_the_page_needs_nothing_else(written: Path) -> None:
    page = (written / "report.html").read_text("utf-8")
    assert not re.search(r"<(script|link|img|iframe|object)\b|@import|url\(\s*['\"]?(?!#)", page)
    addresses = re.findall(r'(?:href|src)="([^"]*)"', page)
    assert addresses
    assert all(address.startswith("#") for address in addresses)
    assert page.count("<svg") == 5
    names = re.findall(r'<a href="#(s\d+)"', page)
    assert all(f'id="{name}"' in page for name in names)


def test_a_failed_run_is_told(written: Path) -> None:
    assert "the disk &lt;is&gt; full" in (written / "report.html").read_text("utf-8")
    assert "the disk <is> full" in (written / "tables.md").read_text("utf-8")


def test_the_same_results_give_the_same_files(written: Path, tmp_path: Path) -> None:
    results = Results([*one_problem().all, failed("toy", "dr", 8, "the disk <is> full")])
    for path in write_report(results, tmp_path):
        assert path.read_bytes() == (written / path.name).read_bytes(), path.name


@pytest.fixture
def no_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Drawing takes longer than all the rest."""
    monkeypatch.setattr("daba.tools.bench.report.draw_figures", lambda *_: {})


@pytest.mark.usefixtures("no_figures")
@pytest.mark.parametrize("kind", ["paper", "best"])
def test_which_reference_is_said(kind: Kind, tmp_path: Path) -> None:
    write_report(Results([run("p", "daba", 4, [2.0, 1.0])]), tmp_path, kind)
    said = "lowest of all runs" if kind == "best" else "lowest of Ceres"
    assert said in (tmp_path / "tables.md").read_text("utf-8")


def test_nothing_to_report(tmp_path: Path) -> None:
    write_report(Results([]), tmp_path)
    write_report(Results([failed("p", "daba", 4, "no luck")]), tmp_path)
    assert "no luck" in (tmp_path / "report.html").read_text("utf-8")


def test_seconds_of_a_gpu_are_told_and_not_compared_with_those_of_a_cpu(tmp_path: Path) -> None:
    runs = list(one_problem().all)
    machine = {"gpu": "Some GPU", "date": "2026-01-01", "load": None}
    runs[0] = run("toy", "daba", 4, [10.0, 6.0, 3.0, 2.5], machine=machine)
    runs[0].case["options"] = {"backend": "gpu"}
    write_report(Results(runs), tmp_path)
    tables = (tmp_path / "tables.md").read_text("utf-8")
    assert "DABA on toy ran on a GPU (Some GPU)" in tables
    assert "DABA, GPU" in tables
    (order,) = re.findall(r"\| 4, trivial \| 2\.5 \| .*", tables)
    assert order.endswith("| – |")
    (why,) = re.findall(r".*ADMM ended below DABA: DABA .*", tables)
    assert "times as long" not in why
    write_report(one_problem(), tmp_path)
    tables = (tmp_path / "tables.md").read_text("utf-8")
    assert "ran on a GPU" not in tables
    (why,) = re.findall(r".*ADMM ended below DABA: DABA .*", tables)
    assert "times as long" in why
