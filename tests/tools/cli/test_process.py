"""What only a process of its own can show: signals, pipes, and what is imported."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import names, small_scene, start, write_bal

import daba

NOT_NEEDED = (
    "numba", "scipy", "matplotlib", "torch", "pymetis", "numpy.ma", "numpy.polynomial", "hashlib",
    "subprocess", "multiprocessing", "zipfile", "importlib.metadata", "csv", "argparse",
    "daba.io.store.store", "daba.io.bal", "daba.tools.cli.help", "daba.runtime.checkpoint",
)  # fmt: skip
"""What the solve of a small model would only wait for."""


def test_a_small_solve_loads_what_it_needs(tmp_path: Path) -> None:
    pytest.importorskip("pycolmap")
    from colmap_models import synthetic, written

    model = str(written(synthetic(cameras=1, points=50), tmp_path / "model"))
    script = f"""
import sys
from daba.tools.cli import main
sys.argv[1:] = ["solve", {model!r}, "-o", {model + "-better"!r}]
code = main()
print('FOUND', code, [name for name in {NOT_NEEDED!r} if name in sys.modules])
"""
    found = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60
    )
    assert found.stdout.splitlines()[-1] == "FOUND 0 []"


def test_exit_codes(tmp_path: Path) -> None:
    path = write_bal(tmp_path / "a.txt")
    for argv, code in ((["--version"], 0), (["info", path], 0), (["info", tmp_path / "b.txt"], 2)):
        process = start(*argv)
        _, err = process.communicate(timeout=60)
        assert process.returncode == code, err
        assert "Traceback" not in err


@pytest.mark.usefixtures("compiled")
def test_an_interrupted_solve_writes_what_it_reached(tmp_path: Path) -> None:
    problem = small_scene(20, 2000)
    daba.save(problem, tmp_path / "a.npz")
    process = start(
        "solve", tmp_path / "a.npz", "--devices", "4", "--iterations", "1000000",
        "--function-tolerance", "0", "--output", tmp_path / "s.npz", "--history",
        tmp_path / "h.json",
    )  # fmt: skip
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("0/"):
            break
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert err == ""
    assert "interrupted" in out
    history = json.loads((tmp_path / "h.json").read_text())
    assert history["result"]["reason"] == "interrupted"
    solution = daba.load(tmp_path / "s.npz")
    assert solution.objective() <= problem.objective()


@pytest.mark.parametrize("argv", [["info"], ["partition", "--devices", "2"], ["info", "--json"]])
def test_a_closed_pipe_is_no_error(argv: list[str], tmp_path: Path) -> None:
    path = write_bal(tmp_path / "a.txt")
    process = start(argv[0], path, *argv[1:])
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    err = process.stderr.read()
    process.stderr.close()
    assert process.wait(timeout=60) == 141
    assert err == ""


@pytest.mark.usefixtures("compiled")
def test_a_solve_goes_on_when_nobody_watches(tmp_path: Path) -> None:
    daba.save(small_scene(), tmp_path / "a.npz")
    argv = ("solve", tmp_path / "a.npz", "--iterations", "5", "--output", tmp_path / "s.npz")
    process = start(*argv)
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    err = process.stderr.read()
    process.stderr.close()
    process.wait(timeout=60)
    assert err == ""
    assert names(tmp_path) == ["a.npz", "s.npz"]


def shell(tmp_path: Path, command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """`daba solve` of a small scene, with whatever stands behind it in a shell."""
    daba.save(small_scene(), tmp_path / "a.npz")
    solve = f"{sys.executable} -m daba solve a.npz --iterations 2 -o s.npz"
    source = str(Path(daba.__file__).parents[1])
    return subprocess.run(
        ["bash", "-c", f"{solve} {command}"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "PYTHONPATH": source, **environment},
    )


@pytest.mark.parametrize("command", [">&-", "2>&-", "<&-", ">&- 2>&-"])
def test_streams_that_are_closed(command: str, tmp_path: Path) -> None:
    done = shell(tmp_path, command)
    assert done.returncode == 0, done.stderr
    assert names(tmp_path) == ["a.npz", "s.npz"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_printing_to_a_full_disk_costs_no_solution(tmp_path: Path) -> None:
    done = shell(tmp_path, "> /dev/full", PYTHONUNBUFFERED="")
    words = "what is printed cannot be written: No space left on device"
    assert (done.returncode, done.stderr) == (2, f"daba: error: {words}\n")
    assert names(tmp_path) == ["a.npz", "s.npz"]


def test_a_terminal_that_knows_few_characters(tmp_path: Path) -> None:
    done = shell(tmp_path, "", PYTHONIOENCODING="ascii")
    assert done.returncode == 0, done.stderr
    assert "pixel error, rms" in done.stdout
    assert names(tmp_path) == ["a.npz", "s.npz"]


HEAVY = ("numba", "scipy", "matplotlib", "torch", "pymetis")


@pytest.mark.parametrize(
    ("code", "absent"),
    [
        ("import daba", (*HEAVY, "numpy")),
        ("import daba; daba.load; daba.Options; daba.Huber; daba.Problem", HEAVY),
        ("import daba.tools.cli; daba.tools.cli.main(['--help'])", (*HEAVY, "numpy")),
        ("import daba.tools.cli; daba.tools.cli.main(['solve', '--help'])", HEAVY),
        ("import daba.tools.cli; daba.tools.cli.main(['synth', '--help'])", HEAVY),
    ],
)
def test_nothing_heavy_is_imported_before_it_is_needed(code: str, absent: tuple[str, ...]) -> None:
    source = str(Path(daba.__file__).parents[1])
    script = f"import sys; sys.path.insert(0, {source!r}); {code}\n"
    script += f"print('FOUND', [name for name in {absent!r} if name in sys.modules])"
    found = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60
    )
    assert found.stdout.splitlines()[-1] == "FOUND []"
