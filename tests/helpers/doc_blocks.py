"""The commands and Python of the documentation, found and run.

Blocks fenced as ```bash, ```sh or ```python are run, page by page, one after the other, in a folder
of their own that holds the small problem `problem.txt.bz2`. A comment before a block changes that:

    <!-- not run: REASON -->                 the next block is not run
    <!-- nothing here is run: REASON -->     nor any other of the page
    <!-- needs MODULE -->                    the next block is run where the module can be imported
    <!-- file NAME -->                       the next block is not run but written to that file
    <!-- setup                               commands that a reader need not see
    daba synth city.txt --cameras 12
    -->
    <!-- setup python                        or Python
    import shutil
    -->
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import os
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from small_machine import SMALL_MACHINE

from daba.tools.cli import main

LANGUAGES = {"bash": "bash", "sh": "bash", "python": "python"}
COMMANDS = ("daba", "mpiexec", "make", "pip", "python")
"""What a line of commands begins with, in blocks that are indented rather than fenced."""
MARK = re.compile(
    r"<!-- *(?:(?P<page>nothing here is run)|not run|(?P<needs>needs +(?P<module>[\w.]+)))"
    r"(?:: *(?P<reason>[^>]*?))? *-->"
)
FILE = re.compile(r"<!-- *file +(?P<name>[\w.]+) *-->")
SETUP = {"<!-- setup": "bash", "<!-- setup python": "python"}
LIMIT = 120.0
"""Seconds that a block of commands may take."""


@dataclass(frozen=True)
class Block:
    """One piece of a page."""

    page: str
    line: int
    """Of its first line."""
    language: str
    text: str
    skip: str = ""
    """Why it is not run."""
    file: str = ""
    """Where it is written instead."""

    @property
    def place(self) -> str:
        return f"{self.page}, line {self.line}"


def blocks(path: Path) -> list[Block]:
    """Everything on a page that could be run, in order."""
    found: list[Block] = []
    lines = path.read_text("utf-8").splitlines()
    whole, skip, file, at = "", "", "", 0
    while at < len(lines):
        line = lines[at].strip()
        mark = MARK.fullmatch(line)
        if mark is not None:
            reason = _reason(mark, path, at + 1)
            whole, skip = (reason, skip) if mark["page"] else (whole, reason)
        elif named := FILE.fullmatch(line):
            file = named["name"]
        elif line in SETUP:
            end = lines.index("-->", at)
            text = "\n".join(lines[at + 1 : end])
            found.append(Block(path.name, at + 2, SETUP[line], text, whole or skip))
            at = end
        elif line.startswith("```"):
            end = next(n for n in range(at + 1, len(lines)) if lines[n].strip() == "```")
            language = line.removeprefix("```").strip()
            if language in LANGUAGES:
                indent = len(lines[at]) - len(lines[at].lstrip())
                text = "\n".join(each[indent:] for each in lines[at + 1 : end])
                kind = LANGUAGES[language]
                found.append(Block(path.name, at + 2, kind, text, whole or skip, file))
            skip, file, at = "", "", end
        at += 1
    return found


def _reason(mark: re.Match[str], path: Path, line: int) -> str:
    if mark["needs"]:
        there = importlib.util.find_spec(mark["module"]) is not None
        return "" if there else f"{mark['module']} is not installed"
    assert mark["reason"], f"{path.name}, line {line}: say why it is not run"
    return str(mark["reason"])


def unfenced_commands(path: Path) -> list[str]:
    """Commands in blocks that are only indented: nobody would run them."""
    inside, found = False, []
    for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
        if line.strip().startswith("```"):
            inside = not inside
        words = line.split()
        if not inside and line.startswith("    ") and words[:1] and words[0] in COMMANDS:
            found.append(f"{path.name}, line {number}: {line.strip()}")
    return found


def run_block(block: Block, names: dict[str, Any]) -> None:
    """Run a block in the current folder; `names` are those of the page's Python so far."""
    if block.file:
        Path(block.file).write_text(block.text + "\n", "utf-8")
        return
    if block.language == "python":
        program = compile("\n" * (block.line - 1) + block.text, block.page, "exec")
        with contextlib.redirect_stdout(io.StringIO()):
            exec(program, names)
        return
    commands = plain_commands(block.text)
    if commands is None:
        _run_by_shell(block)
        return
    for argv in commands:
        told = io.StringIO()
        with contextlib.redirect_stdout(told), contextlib.redirect_stderr(told):
            code = main(argv)
        assert code == 0, f"{block.place}: daba {' '.join(argv)}\n{told.getvalue()}"


def plain_commands(text: str) -> list[list[str]] | None:
    """The arguments of each command, if all are daba's and need no shell; else None."""
    found = []
    for line in text.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        if not words:
            continue
        if words[0] != "daba" or re.search(r"[|&;<>$`*?]", line.partition(" #")[0]):
            return None
        found.append(words[1:])
    return found


def _run_by_shell(block: Block) -> None:
    folder = Path.cwd() / ".bin"
    folder.mkdir(exist_ok=True)
    for name, rest in (("daba", "-m daba "), ("python", "")):
        (folder / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" {rest}"$@"\n')
        (folder / name).chmod(0o755)
    path = f"{folder}{os.pathsep}{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", block.text],
        env={**os.environ, "PATH": path, **SMALL_MACHINE},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=LIMIT,
    )
    assert done.returncode == 0, f"{block.place}\n{done.stdout}"
