"""Which method a solve takes, and what it says about it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import daba
from daba.core.options import Options
from daba.runtime.choice import choose_method
from daba.tools.cli import main
from helpers import synthetic


@pytest.mark.parametrize(
    ("options", "error", "processes", "method", "words"),
    [
        ({}, "ray", 1, "lm", ""),
        ({"method": "daba"}, "ray", 1, "lm", "daba needs several"),
        ({"method": "daba", "devices": 8}, "ray", 1, "daba", ""),
        ({"method": "lm", "devices": 8}, "ray", 1, "lm", ""),
        ({"devices": 8}, "ray", 1, "lm", "cost nothing in one process"),
        ({"devices": 8}, "ray", 4, "lm", "use --method daba"),
        ({"devices": 8}, "pixel", 4, "lm", "no other method minimises pixels"),
    ],
)
def test_a_method_is_chosen_for_a_reason(
    options: dict[str, Any], error: str, processes: int, method: str, words: str
) -> None:
    chosen = choose_method(Options(**options), error, processes)
    assert chosen.method == method
    assert words in chosen.why
    assert bool(chosen.why) == bool(words)
    assert chosen.line(options.get("devices", 1)).startswith(f"{method} on ")


@pytest.mark.usefixtures("compiled")
def test_the_reason_and_what_a_network_would_add_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    daba.save(daba.generate(synthetic("city", cameras=30, points=600)).start, tmp_path / "a.npz")
    history = tmp_path / "h.json"
    network = ["--simulate-latency", "2", "--simulate-bandwidth", "1"]
    line = ["solve", f"{tmp_path}/a.npz", "--devices", "4", "--iterations", "3", *network]
    assert main([*line, "--history", f"{history}"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "method: lm on 4 devices, because it ends where one device would" in said
    assert "2 ms and 1 Gbit/s add" in said
    told = json.loads(history.read_text())
    assert told["result"]["method"] == "lm"
    assert told["result"]["chosen"].startswith("it ends where")
    for entry in told["iterations"][1:]:
        bytes_ = entry["boundary_bytes"] / 4 + entry["summed_bytes"] + 8 * 20 * 4
        hops = entry["rounds"] + 2 * (entry["all_reduces"] + 1)
        assert entry["network_seconds"] == pytest.approx(2e-3 * hops + bytes_ / 1.25e8)
