"""What the tables mark, and that they say what the runs hold."""

from __future__ import annotations

import pytest
from made_up import SIZES, failed, footprint, one_problem, run

from daba.core.text import size
from daba.tools.bench.accuracy import accuracy_table, problems_table
from daba.tools.bench.communication import communication_table, winner_words, winners_table
from daba.tools.bench.counts import counts_table
from daba.tools.bench.paper import paper, published
from daba.tools.bench.pixels import pixels_table
from daba.tools.bench.refinement import gains, gains_table, refinement_table
from daba.tools.bench.resources import resource_words, resources_table
from daba.tools.bench.results import Results
from daba.tools.bench.times import times_table
from daba.tools.report.tables import Cell, Table, number, seconds, small


def cells(table: Table, row: int) -> dict[str, Cell]:
    entries = [e if isinstance(e, Cell) else Cell(e) for e in table.rows[row]]
    return dict(zip(table.head, entries, strict=True))


def test_best_decentralized_is_bold_and_better_than_ceres_is_marked() -> None:
    row = cells(accuracy_table(one_problem(), "trivial"), 0)
    assert row["DABA sweep"] == Cell("0.9", bold=True, better=True)
    assert row["DABA points"] == Cell("1.1")
    assert row["LM"] == Cell("1")  # as good as Ceres, and not decentralized
    assert [name for name, cell in row.items() if cell.bold] == ["DABA sweep"]
    assert [name for name, cell in row.items() if cell.better] == ["DABA sweep"]
    assert "| **0.9†** |" in accuracy_table(one_problem(), "trivial").markdown()
    assert '<td class="bold better">0.9</td>' in accuracy_table(one_problem(), "trivial").html()


def test_a_centralized_method_is_never_bold() -> None:
    results = Results([run("p", "daba", 4, [9.0, 3.0]), run("p", "lm", 1, [9.0, 1.0])])
    row = cells(accuracy_table(results, "trivial"), 0)
    assert row["DABA"] == Cell("3", bold=True)
    assert row["LM"] == Cell("1")


def test_counts() -> None:
    runs = []
    for problem, sweep, plain in (("a", 0.5, 2.0), ("b", 1.5, 0.9), ("c", 0.9, 3.0)):
        runs += [run(problem, "daba", 4, [9.0, plain]), run(problem, "daba-sweep", 4, [9.0, sweep])]
    runs += [run(problem, "ceres", 1, [9.0, 1.0]) for problem in "ab"]
    table = counts_table(Results(runs))
    assert cells(table, 0)["4 devices"].text == "1/2"  # c has no reference
    assert cells(table, 1)["4 devices"].text == "1/2"
    assert cells(table, 2)["4 devices"].text == "18/20"  # the paper's
    assert len(table.rows) == 3
    large = [run("d", "daba", 4, [9.0, 0.5], sizes=SIZES | {"cameras": 701}),
             run("d", "ceres", 1, [9.0, 1.0])]  # fmt: skip
    table = counts_table(Results([*runs, *large]))
    assert cells(table, 0)["4 devices"].text == "2/3"
    assert cells(table, 3)["loss"].text == "trivial, over 700 cameras"
    assert cells(table, 3)["4 devices"].text == "1/1"
    assert cells(table, 5)["4 devices"].text == "9/9"


def test_the_papers_numbers_stand_beside_ours_where_the_problem_is_the_same() -> None:
    sizes = {"cameras": 1723, "points": 156502, "observations": 678718}
    ladybug = run("my-file", "daba", 4, [10.0, 0.7], sizes=sizes)
    results = Results([ladybug, run("my-file", "ceres", 1, [10.0, 0.71], sizes=sizes)])
    table = accuracy_table(results, "trivial")
    ours, theirs = cells(table, 0), cells(table, 1)
    assert (ours["devices"].text, theirs["devices"].text) == ("4", "4, paper")
    assert theirs["DABA"] == Cell("0.69", bold=True, better=True, faint=True)
    assert theirs["Ceres"].text == "0.707"
    assert "DABA, 4 devices, paper" in times_table(results, "trivial").markdown()
    assert "575.1×" in times_table(results, "trivial").markdown()
    assert cells(problems_table(results), 0)["in the paper"].text == "Ladybug"
    assert published(sizes | {"points": 156503}) is None


def test_the_papers_numbers_come_with_the_package() -> None:
    assert len(paper()["problems"]) == 20


def test_times_and_speedups() -> None:
    """F_ref = 1, F_Δ = 1 + 2.5e-4 · 9: Ceres is there after 8 s, sweeps after 2."""
    table = times_table(one_problem(), "trivial")
    rows = {str(row[2]): row for row in table.rows}
    assert rows["Ceres"][3:] == ["8 s", "8 s", Cell("1×"), Cell("1×")]
    sweep = rows["DABA sweep"]
    assert sweep[1] == "1.0023 / 1"  # 1.00225
    assert sweep[3:5] == ["2 s", "2 s"]
    assert sweep[5] == Cell("4×", better=True)
    assert rows["DABA"][3:5] == ["–", "–"]
    assert rows["DABA"][5] == Cell("–")
    assert table.head[3] == "T_Δ on 4"


def test_refinement() -> None:
    """To 1 + 0.01 · 9 = 1.09: never, after 3 (1.1 is too much), after 2 iterations."""
    table = refinement_table(one_problem(), "trivial")
    row = cells(table, 0)
    assert row["Δ"].text == "1e-2"
    assert row["iterations"].text == "– / – / 2"
    assert row["rounds"].text == "– / – / 8"
    assert row["bytes"].text == "– / – / 4 kB"
    assert row["seconds"].text == "– / – / 2 s"


def test_who_wins_where() -> None:
    """To 1 + 0.001 · 9 = 1.009: sweeps after two iterations of four rounds, LM after two of seven,
    the others never."""
    table = communication_table(one_problem(), "trivial", "paper")
    row = cells(table, 1)
    assert row["Δ"].text == "1e-3"
    assert row["DABA sweep"] == Cell("8 / 4 kB / 2 s", bold=True, better=True)
    assert row["LM on devices"] == Cell("14 / 7 kB / 2 s")
    assert row["DABA"] == Cell("–")
    winners = winners_table(one_problem(), "paper")
    assert [cell.text if isinstance(cell, Cell) else cell for cell in winners.rows[0]] == [
        "fewest rounds of exchange", "DABA sweep", "1", "toy on 4",
    ]  # fmt: skip
    assert "fewest bytes: DABA sweep 1 (of 1)" in winner_words(one_problem(), "paper")
    assert winner_words(Results([run("p", "daba", 4, [1.0])]), "paper") == ""


def test_gains_count_what_the_plain_method_has_spent() -> None:
    results = one_problem()
    assert gains(results, "daba-sweep", 1e-2) == [1.5]  # three iterations, and not there, over two
    assert gains(results, "daba-points", 1e-2) == []  # neither gets there
    assert gains(results, "daba-points", 0.23) == [2.0]
    lost = Results([
        run("p", "daba", 4, [9.0, 1.0]), run("p", "daba-sweep", 4, [9.0, 5.0]),
        run("p", "ceres", 1, [9.0, 1.0]),
    ])  # fmt: skip
    assert gains(lost, "daba-sweep", 1e-2) == [0.0]
    assert cells(gains_table(lost), 0)["never more"].text == "0 of 1"


def test_memory_and_bytes() -> None:
    table = resources_table(one_problem())
    row = cells(table, 1)
    assert (row["devices"].text, row["memory DABA"].text) == ("4", "100 B")
    assert row["memory ADMM / DABA"].text == "1.60"
    assert row["bytes ADMM / DABA"] == Cell("0.40", better=True)
    words = resource_words(one_problem())
    assert "fewer bytes per iteration than DABA on 1 of 1" in words
    assert "1.60 to 1.60 times DABA's, within 1.5× on 0 of 1" in words
    assert resource_words(Results([run("p", "daba", 4, [1.0])])) == ""


def test_a_footprint_of_one_device_sends_nothing() -> None:
    zero = dict.fromkeys(("daba", "daba_sweep", "admm", "dr", "lm_devices"), (9, 0))
    results = Results([run("p", "daba", 4, [1.0]), footprint("p", 1, **zero)])
    assert cells(resources_table(results), 0)["bytes ADMM / DABA"].text == "–"


def test_pixel_errors_only_where_pycolmap_has_run() -> None:
    results = one_problem()
    assert pixels_table(results, "trivial") is None
    theirs = run("toy", "pycolmap", 1, [1.0], histories=[], pixels=1.125, solving=0.5,
                 median_pixels=0.75)  # fmt: skip
    table = pixels_table(Results([*results.all, theirs]), "trivial")
    assert table is not None
    assert cells(table, 0)["pycolmap, rms"].text == "1.125"
    assert cells(table, 0)["pycolmap, median"].text == "0.75"
    assert cells(table, 0)["LM, median"].text == "–"
    assert cells(table, 0)["pycolmap, time"].text == "500 ms"
    assert cells(table, 0)["LM, rms"].text == "1.25"


def test_failed_runs_leave_a_gap() -> None:
    results = Results([failed("p", "admm", 4, "no"), run("p", "daba", 4, [9.0, 3.0])])
    assert cells(accuracy_table(results, "trivial"), 0)["ADMM"].text == "–"


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (number(0.5646337, 6), "0.564634"), (number(None), "–"), (small(2.5e-4), "2.5e-4"),
        (small(0.01), "1e-2"), (seconds(0.0312), "31.2 ms"), (seconds(2.0), "2 s"),
        (size(999), "999 B"), (size(123456), "123 kB"), (size(None), "–"),
    ],
)  # fmt: skip
def test_words(made: str, said: str) -> None:
    assert made == said


def test_html_and_markdown_are_escaped() -> None:
    table = Table("<T>", "a **b** <c>", ["x|y", "n"], [["<p>", Cell("1|2")]])
    assert "<h3>&lt;T&gt;</h3><p>a <strong>b</strong> &lt;c&gt;</p>" in table.html()
    assert '<td class="words">&lt;p&gt;</td><td>1|2</td>' in table.html()
    assert "| <p> | 1\\|2 |" in table.markdown()
    assert "| --- | ---: |" in table.markdown()
