"""References, targets, profiles and reasons against examples worked out by hand."""

from __future__ import annotations

import pytest
from made_up import history, one_problem, run

from daba.tools.bench.measures import (
    iterations_to,
    profile,
    reached,
    reference,
    reference_run,
    target,
)
from daba.tools.bench.order import comparisons, order_table, reasons_table, trend
from daba.tools.bench.results import Curve, Results
from daba.tools.bench.summary import big_numbers, lows, verdict, wins


def test_target() -> None:
    assert target(1.0, 11.0, 1e-2) == pytest.approx(1.1)


def test_profile_by_hand() -> None:
    """Three problems, solved at iterations 3 and 7, and never."""
    assert profile([3, None, 7], [1, 3, 6, 7, 99]) == pytest.approx([0, 1 / 3, 1 / 3, 2 / 3, 2 / 3])
    assert profile([], [1, 2]) == [0, 0]


def test_when_a_value_is_first_reached() -> None:
    daba = run("p", "daba", 4, [10.0, 3.0, 5.0, 2.0], seconds=0.5)
    assert reached(daba, 3.0, "iterations") == 1
    assert reached(daba, 2.9, "iterations") == 3
    assert reached(daba, 2.9, "seconds") == pytest.approx(1.5)
    assert reached(daba, 1.9, "seconds") is None


def test_of_several_configurations_the_first_to_arrive_counts() -> None:
    slow, fast = history([9.0, 1.0], 8.0, "slow"), history([9.0, 5.0, 1.5], 2.0, "fast")
    ceres = run("p", "ceres", 1, [9.0], histories=[slow, fast])
    assert reached(ceres, 1.5, "seconds") == pytest.approx(4.0)
    assert reached(ceres, 1.0, "seconds") == pytest.approx(8.0)
    assert ceres.final == 1.0


def test_the_reference_is_ceres_and_lm_only_without_it() -> None:
    lm, ceres = run("p", "lm", 1, [9.0, 0.5]), run("p", "ceres", 1, [9.0, 1.0])
    daba = run("p", "daba", 4, [9.0, 0.25])
    assert reference(Results([lm, ceres, daba]), "p", "trivial") == 1.0
    assert reference(Results([lm, daba]), "p", "trivial") == 0.5
    assert reference(Results([daba]), "p", "trivial") is None
    assert reference(Results([lm, ceres, daba]), "p", "trivial", "best") == 0.25
    assert reference_run(Results([lm, ceres]), "p", "huber") is None


def test_iterations_to_the_target_of_the_profiles() -> None:
    results = one_problem()
    assert iterations_to(results, "toy", "daba-sweep", 4, "trivial", 1e-4) == 2
    assert iterations_to(results, "toy", "daba", 4, "trivial", 1e-4) is None
    assert iterations_to(results, "toy", "daba", 4, "trivial", 0.23) == 2  # 1 + 0.23 · 9 = 3.07
    assert iterations_to(results, "toy", "daba", 8, "trivial", 0.23) is None


def test_wins_count_where_anybody_arrives() -> None:
    results = one_problem()
    assert wins(results, "paper", "daba-sweep") == (1, 1)
    assert wins(results, "paper", "daba") == (0, 0)
    more = [run("toy", "daba-sweep", 8, [10.0, 1.0]), run("toy", "admm", 8, [10.0, 1.0])]
    assert wins(Results([*results.all, *more]), "paper", "daba-sweep") == (1, 1)  # DR is missing


def test_the_verdict_names_the_best_and_what_is_against_the_paper() -> None:
    results = one_problem()
    assert lows(results) == {"daba-sweep": 1}
    assert "reached by: DABA sweep 1 (of 1)" in verdict(results)
    assert "**ADMM ended below DABA in 1 of 1 comparisons**" in verdict(results)
    assert verdict(Results([])) == ""
    assert big_numbers(results, "paper")[0][0] == "0 of 1"


def test_the_order_and_what_the_runs_say_where_it_is_broken() -> None:
    results = one_problem()
    (comparison,) = comparisons(results)
    assert [(a.method, b.method) for a, b in comparison.broken] == [("daba", "admm")]
    table = order_table(results)
    assert "**0 of 1**" in table.about
    assert "on **1** when each has made as many accepted LM steps" in table.about
    words = reasons_table(results).markdown()
    # from 3.0 to 2.5 in its last tenth
    assert "ADMM ended below DABA: DABA was still falling (20 %)" in words
    assert "in an iteration ADMM made 2.00 LM steps on a device, DABA 1.00" in words
    assert "an iteration of ADMM took 3 times as long" in words
    # DABA took 3 s and 3 steps; by then ADMM, at 3 s and 2 steps a round, had made one round
    # DR makes 3 rounds of one step, in 6 s: after 3 s it has made one
    assert comparison.values("steps") == (2.5, 4.0, 4.5)
    assert comparison.values("seconds") == (2.5, 4.0, 5.0)
    assert comparison.holds("steps")
    assert "**2.5 / 4 / 4.5**" in table.markdown()


def test_runs_that_do_not_tell_their_steps_are_not_compared_by_them() -> None:
    runs = [run("p", m, 4, [9.0, v], steps=0) for m, v in (("daba", 2.0), ("admm", 1.0), ("dr", 3))]
    (comparison,) = comparisons(Results(runs))
    assert comparison.values("steps") is None
    assert not comparison.holds("steps")
    assert "LM steps on a device" not in reasons_table(Results(runs)).markdown()


def test_where_the_order_holds_it_is_said() -> None:
    runs = [run("p", m, 4, [9.0, v]) for m, v in (("daba", 1.0), ("admm", 2.0), ("dr", 3.0))]
    table = order_table(Results(runs))
    assert "1 of 1" in table.about
    assert table.rows[0][5].text == "yes"  # type: ignore[union-attr]
    assert not reasons_table(Results(runs)).rows
    tie = [run("p", m, 4, [9.0, 2.0]) for m in ("daba", "admm", "dr")]
    assert len(comparisons(Results(tie))[0].broken) == 2


def test_trends() -> None:
    def curve(values: list[float]) -> str:
        return trend(Curve.of(history(values)))

    assert curve([9.0, 4.0, 2.0, 2.5]) == "has risen from 2 at 2"
    assert curve([9.0, 2.0] + [2.0] * 30) == "had settled"
    assert curve([9.0 - 0.1 * k for k in range(41)]) == "was still falling (8 %)"
