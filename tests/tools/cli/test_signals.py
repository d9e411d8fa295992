"""Signals at bad times: outputs are written to their end, and other commands leave nothing behind.

A pipe that nobody reads or writes holds a command at a known place.
"""

from __future__ import annotations

import importlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from command_line import names, small_scene, start

import daba
from daba.io import folders
from daba.io.store import writing
from daba.io.store.store import Store
from daba.runtime.observers import Interrupt, Terminated, unwinding

LONG = 60.0
"""Seconds after which something has gone wrong."""


def wait_for(process: subprocess.Popen[str], folder: Path, pattern: str) -> None:
    """Until it is there."""
    end = time.monotonic() + LONG
    while not list(folder.glob(pattern)):
        if time.monotonic() > end:
            process.kill()
            pytest.fail(f"{pattern} did not appear")
        time.sleep(0.01)


def ended(process: subprocess.Popen[str]) -> tuple[int, str]:
    _, err = process.communicate(timeout=LONG)
    return process.returncode, err


@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_outputs_are_written_to_their_end(number: signal.Signals, tmp_path: Path) -> None:
    daba.save(small_scene(), tmp_path / "a.npz")
    pipe = tmp_path / "pipe.txt"
    os.mkfifo(pipe)
    process = start(
        "solve", tmp_path / "a.npz", "--iterations", "2", "--output", tmp_path / "first.npz",
        "--output", pipe, "--output", tmp_path / "last.npz", "--history", tmp_path / "h.json",
    )  # fmt: skip
    wait_for(process, tmp_path, "first.npz")
    process.send_signal(number)
    with open(pipe) as stream:  # what held it up
        assert stream.read().startswith("8 80 ")
    code, err = ended(process)
    assert code == 128 + number
    assert err.endswith("while outputs were written; they are complete\n")
    assert names(tmp_path) == ["a.npz", "first.npz", "h.json", "last.npz", "pipe.txt"]


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (signal.SIGINT, "interrupted"),
        (signal.SIGTERM, "terminated (SIGTERM)"),
        (signal.SIGHUP, "terminated (SIGHUP)"),
    ],
)
@pytest.mark.parametrize("command", ["partition", "convert"])
def test_nothing_is_left_behind(
    command: str, number: signal.Signals, words: str, tmp_path: Path
) -> None:
    pipe = tmp_path / "a.txt"
    os.mkfifo(pipe)
    out = tmp_path / "out.daba"
    last = ["--devices", "2", "--output", out] if command == "partition" else [out]
    process = start(command, pipe, *last)
    assert process.stderr is not None
    said = process.stderr.readline()
    assert said.endswith("a.txt is a pipe: waiting for what is written into it\n")
    assert list(tmp_path.glob(".out.daba.*.tmp/scratch"))
    process.send_signal(number)
    assert ended(process) == (128 + number, f"daba: error: {words}\n")
    assert names(tmp_path) == ["a.txt"]


def test_a_store_that_is_being_replaced_keeps_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A signal between the two renames."""
    path = tmp_path / "a.daba"
    writing.save(small_scene(), path, 2)
    real, calls = os.replace, 0

    def replace(*arguments: Path) -> None:
        nonlocal calls
        calls += 1
        real(*arguments)
        if calls == 1:
            raise KeyboardInterrupt

    monkeypatch.setattr(folders.os, "replace", replace)
    with pytest.raises(KeyboardInterrupt):
        writing.save(small_scene(), path, 3)
    assert Store(path).devices == 2
    assert names(tmp_path) == ["a.daba"]


def test_only_the_first_signal_unwinds() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with unwinding():
        with pytest.raises(Terminated, match="SIGTERM"):
            os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGTERM)  # while cleaning up
    assert signal.getsignal(signal.SIGTERM) == before


@pytest.mark.parametrize(
    ("number", "error"), [(signal.SIGTERM, Terminated), (signal.SIGINT, KeyboardInterrupt)]
)
def test_a_signal_waits_until_a_module_is_imported(
    number: signal.Signals,
    error: type[BaseException],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Python drops exceptions that come while it compiles a module."""
    source = f"import os\nos.kill(os.getpid(), {int(number)})\nbegun = True\n"
    (tmp_path / f"signalled{int(number)}.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    with unwinding():
        assert importlib.import_module(f"signalled{int(number)}").begun
        with pytest.raises(error):
            time.sleep(LONG)


@pytest.mark.parametrize("context", [unwinding, Interrupt])
def test_a_signal_that_is_ignored_stays_ignored(
    context: Callable[[], AbstractContextManager[object]],
) -> None:
    """As nohup asks for SIGHUP, and a shell for SIGINT of what runs in the background."""
    numbers = (signal.SIGHUP, signal.SIGINT)
    before = {number: signal.signal(number, signal.SIG_IGN) for number in numbers}
    try:
        with context():
            for number in numbers:
                os.kill(os.getpid(), number)
                assert signal.getsignal(number) == signal.SIG_IGN
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def test_there_is_nothing_to_lose_before_a_solve_has_begun() -> None:
    with Interrupt(patient=False) as interrupt:
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
        interrupt.wait()
        os.kill(os.getpid(), signal.SIGINT)
        assert interrupt.reason == "interrupted"
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)


def test_pycolmap_does_not_take_sigterm(tmp_path: Path) -> None:
    """Its logging would end the process at once, and leave what is half written."""
    pytest.importorskip("pycolmap")
    script = """
import os, signal
from daba.io.colmap.theirs import pycolmap
from daba.runtime.observers import Terminated, unwinding
try:
    with unwinding():
        pycolmap()
        os.kill(os.getpid(), signal.SIGTERM)
except Terminated as stop:
    print("cleaned up after", stop.number)
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "cleaned up after 15\n", "")


def test_two_signals_at_once() -> None:
    """The second is on its way while the first is handled: nothing is said of it."""
    script = """
import os, signal
from daba.runtime.observers import Terminated, unwinding
both = {signal.SIGTERM, signal.SIGHUP}
try:
    with unwinding():
        signal.pthread_sigmask(signal.SIG_BLOCK, both)
        for number in both:
            os.kill(os.getpid(), number)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, both)
except Terminated:
    print("once")
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "once\n", "")
