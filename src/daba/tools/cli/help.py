"""What `daba COMMAND --help` shows."""

from __future__ import annotations

import ast
import inspect
import shutil
import sys
import textwrap
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import MISSING
from functools import cache
from itertools import pairwise
from typing import Literal, get_args, get_origin

from daba.core.types import frozen
from daba.tools.cli.arguments import Flag
from daba.tools.cli.console import BOLD, styled

COLUMN = 25
"""Where texts begin."""
WIDTH = 100
"""Columns of the widest page; longer lines are hard to read."""


@frozen
class Page:
    """The help of one command; see `arguments.parse` for what its groups are."""

    command: type
    name: str
    own: Mapping[str, Flag]
    flags: Mapping[str, Flag]
    groups: Mapping[str, Sequence[str]]
    research: Mapping[str, Sequence[str]]
    rare: Collection[str]

    def text(self, everything: bool) -> str:
        groups = {**self.groups, **(self.research if everything else {})}
        known = [name for names in (*groups.values(), *self.research.values()) for name in names]
        positional = [flag for flag in self.own.values() if flag.about.positional]
        options = [
            flag
            for flag in self.own.values()
            if flag not in positional and (everything or flag.name not in self.rare)
        ]
        sections = {"positional arguments": positional, "options": options}
        sections |= {title: [self.flags[name] for name in names] for title, names in groups.items()}
        sections["more"] = [f for name, f in self.flags.items() if name not in known]
        usage = " ".join([*map(_metavar, positional), "[options]"])
        lines = [f"usage: daba {self.name} {usage}", "", *self._description(everything)]
        for title, flags in sections.items():
            if flags:
                lines += ["", styled(f"{title}:", BOLD, sys.stdout.isatty()), *_entries(flags)]
        return "\n".join(lines)

    def _description(self, everything: bool) -> list[str]:
        lines = inspect.cleandoc(self.command.__doc__ or "").splitlines()
        if not everything and (self.research or self.rare):
            lines += ["", f"all options, those of research too: daba {self.name} --help-all"]
        return lines


def _entries(flags: Iterable[Flag]) -> list[str]:
    width = min(shutil.get_terminal_size().columns, WIDTH)
    lines: list[str] = []
    for flag in flags:
        head = f"  {_head(flag)}"
        text = textwrap.wrap(
            " ".join([flag.help, *_hints(flag)]), max(width - COLUMN, 30), break_on_hyphens=False
        )
        if len(head) <= COLUMN - 2:
            head = f"{head:<{COLUMN}}{text.pop(0)}"
        lines += [head, *(" " * COLUMN + line for line in text)]
    return lines


def _head(flag: Flag) -> str:
    if flag.about.positional:
        return _metavar(flag)
    value = "" if flag.switch else f" {_metavar(flag)}"
    ways = [one for one in (flag.about.short, flag.option) if one is not None]
    return ", ".join(f"{way}{value}" for way in ways)


def _metavar(flag: Flag) -> str:
    kind = flag.values or flag.type
    name = flag.about.metavar
    if name is None and get_origin(kind) is Literal:
        name = "{" + ",".join(get_args(kind)) + "}"
    elif name is None:
        name = kind.__name__.upper() if flag.values is None or flag.about.row else "WHAT"
    if flag.about.positional and flag.default is not MISSING:
        name = f"[{name}]"
    several = flag.about.row or (flag.about.positional and flag.values is not None)
    return f"{name} ..." if several else name


def _hints(flag: Flag) -> list[str]:
    """What else there is to know; the texts say what None stands for."""
    default = flag.default
    if default is True:
        return ["(default: on)"]
    if default is MISSING:
        return ["(required)"]
    if default is None or default is False or default == ():
        return []
    if isinstance(default, tuple):
        return [f"(default: {' '.join(map(str, default))})"]
    return [f"(default: {default:g})" if isinstance(default, float) else f"(default: {default})"]


@cache
def documentation(source: type | None) -> dict[str, str]:
    """The string under each field of a class, on one line."""
    if source is None:
        return {}
    tree = ast.parse(textwrap.dedent(inspect.getsource(source)))
    body = tree.body[0].body  # type: ignore[attr-defined]
    docs = {}
    for node, after in pairwise(body):
        if (
            isinstance(node, ast.AnnAssign)
            and isinstance(node.target, ast.Name)
            and isinstance(after, ast.Expr)
            and isinstance(after.value, ast.Constant)
        ):
            docs[node.target.id] = " ".join(str(after.value.value).split())
    return docs
