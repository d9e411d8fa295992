"""Mutated files against every command that reads them: `make fuzz`, and a little in `make test`.

    python tests/fuzz/campaign.py [--count 200] [--seed 0] [--seconds 3600] [FORMAT …]

Whatever is in a file, a command ends with exit code 0, 2 or 3 (worse
than the start); with 2 it says so in a line that names
the file; it leaves nothing behind, takes no memory that the file does not account for, and ends
soon. Every mutant follows from seed, format and number, which a violation is reported with, so that
`--only NUMBER` makes it again. Mutants are tried in a process of their own: one that crashes costs
no other.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from subjects import Subject

HERE = Path(__file__).resolve().parent
PATIENCE = 60.0
"""Seconds that one mutant may take, on a busy machine."""
MEMORY = 400 << 20
"""Bytes that one mutant of a small file may take beside what others have taken before it."""


class Violation(NamedTuple):
    """A mutant that was not handled as it must be."""

    subject: str
    number: int
    what: str

    def __str__(self) -> str:
        return f"{self.subject} {self.number}: {self.what}"


def campaign(name: str, count: int, seed: int, first: int = 0) -> list[Violation]:
    """Try the mutants of a format."""
    violations = []
    at = first
    while at < first + count:
        last, why = at - 1, ""
        for number, why in _worker(name, at, first + count - at, seed):
            last = number
            if why:
                violations.append(Violation(name, number, why))
        at = last + 1 if last >= at else at + 1
    return violations


def _worker(name: str, first: int, count: int, seed: int) -> Iterator[tuple[int, str]]:
    """What a process of its own says of mutant after mutant, until the last or until it dies."""
    argv = [sys.executable, str(HERE / "campaign.py"), "--worker", "--seed", str(seed)]
    argv += ["--first", str(first), "--count", str(count), name]
    expected = first
    with (
        tempfile.TemporaryFile() as errors,
        subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=errors, text=True) as process,
    ):
        assert process.stdout is not None
        for line in process.stdout:
            number, why = json.loads(line)
            expected = number + 1
            yield number, why
        code = process.wait()
        errors.seek(0)
        said = errors.read().decode(errors="replace")  # libraries print what is in a file
    if expected < first + count:
        yield expected, f"the process died ({code}): {said[-600:]}"


def work(name: str, first: int, count: int, seed: int) -> None:
    """Try mutants in this process, and say what became of each."""
    import signal

    from subjects import SUBJECTS

    say = sys.stdout
    signal.signal(signal.SIGALRM, _too_long)
    with tempfile.TemporaryDirectory() as folder:
        example = Path(folder) / "example"
        example.mkdir()
        with contextlib.redirect_stdout(io.StringIO()):
            made = SUBJECTS[name].make(example).relative_to(example)
        for number in range(first, first + count):
            why = attempt(name, number, seed, example, made, Path(folder) / "mutant")
            print(json.dumps([number, why]), file=say, flush=True)


def _too_long(*_: object) -> None:
    raise TimeoutError("it took too long")


def attempt(name: str, number: int, seed: int, example: Path, made: Path, folder: Path) -> str:
    """Make one mutant and give it to a command; what is wrong with what that did."""
    import signal

    from subjects import SUBJECTS, fresh

    subject = SUBJECTS[name]
    draw = random.Random(f"{seed} {name} {number}")
    shutil.rmtree(folder, ignore_errors=True)
    fresh(example, folder)
    named = subject.mutate(folder / made, draw)
    words = {
        "IN": str(folder / made),
        "BESIDE": str((folder / made).parent),
        "OUT": str(folder / "out"),
    }
    argv = [_filled(word, words) for word in draw.choice(subject.commands)]
    before = {path.name for path in folder.iterdir()}
    held = _peak()
    out, err = io.StringIO(), io.StringIO()
    signal.alarm(int(PATIENCE))
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = perform(argv)
    finally:
        signal.alarm(0)
    taken = _peak() - held
    why = ""
    if code not in (0, 2, 3):
        why = f"exit code {code}: {err.getvalue()[-1500:]}"
    elif "Traceback" in err.getvalue() or "Error:" in err.getvalue():
        why = f"a traceback: {err.getvalue()[-1500:]}"
    elif code == 2 and "daba: error: " not in err.getvalue():
        why = f"exit code 2 without a word: {err.getvalue()}"
    elif code == 2 and Path(named).stem not in err.getvalue().replace(str(folder.parent), ""):
        why = f"an error that does not name {named}: {err.getvalue()}"
    elif taken > MEMORY:
        why = f"{taken >> 20} MB of memory"
    elif left := [p.name for p in folder.iterdir() if p.name not in before and p.name[0] == "."]:
        why = f"left behind: {left}"
    return f"{' '.join(argv)}: {why}" if why else ""


def command_line(subject: Subject, given: Path, folder: Path, draw: random.Random) -> list[str]:
    """One of the commands that read the format, given a file and where to write."""
    words = {"IN": str(given), "BESIDE": str(given.parent), "OUT": str(folder / "out")}
    return [_filled(word, words) for word in draw.choice(subject.commands)]


def _filled(word: str, words: dict[str, str]) -> str:
    for name, value in words.items():
        word = word.replace(name, value) if word.startswith(name) or f":{name}" in word else word
    return word


def perform(argv: list[str]) -> int:
    """`daba ARGV`, and what there is no command for that ends by itself."""
    from daba.core.errors import DabaError
    from daba.tools.cli import main

    if argv[0] != "read-recording":
        return main(argv)
    from daba.runtime.recording import read_recording
    from daba.tools.viewer.subject import subject_of_recording

    try:
        subject_of_recording(*read_recording(argv[1]))
    except DabaError as error:
        print(f"daba: error: {error}", file=sys.stderr)
        return 2
    return 0


def _peak() -> int:
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def run() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("formats", nargs="*")
    parser.add_argument("--count", type=int, default=200, help="mutants of each format")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="number of the first mutant")
    parser.add_argument("--only", type=int, help="make this one mutant again")
    parser.add_argument("--seconds", type=float, default=0.0, help="go on with more for so long")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.worker:
        work(given.formats[0], given.first, given.count, given.seed)
        return 0
    from subjects import SUBJECTS

    if given.only is not None:
        given.first, given.count = given.only, 1
    found, end = 0, time.monotonic() + given.seconds
    while True:
        for name in given.formats or SUBJECTS:
            violations = campaign(name, given.count, given.seed, given.first)
            print(
                f"{name}: {given.count} mutants from {given.first}, {len(violations)} violations",
                flush=True,
            )
            for violation in violations:
                print(f"  {violation}", flush=True)
            found += len(violations)
        given.first += given.count
        if time.monotonic() >= end:
            return 1 if found else 0


if __name__ == "__main__":
    sys.path.insert(0, str(HERE.parent / "helpers"))
    sys.path.insert(0, str(HERE))
    sys.exit(run())
