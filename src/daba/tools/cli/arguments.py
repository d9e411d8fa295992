"""Flags made from dataclasses: options, defaults and documentation are written once."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, redirect_stderr
from dataclasses import MISSING, fields, make_dataclass
from functools import cache
from io import StringIO
from itertools import pairwise
from typing import (
    Annotated,
    Any,
    Literal,
    NamedTuple,
    TypeVar,
    get_args,
    get_origin,
    get_type_hints,
)

import tyro

from daba.core.errors import DabaError
from daba.distributed.comm.launcher import launched_rank
from daba.tools.cli.hints import names_the_input, unknown_argument

Intrinsics = Annotated[
    Literal["auto", "paper", "standard"],
    tyro.conf.arg(
        help="How k1 and k2 of a file are read: paper, as the paper's authors do; standard, as BAL "
        "and Bundler define them and as daba writes them; auto is paper for BAL, unless it is "
        "adjusted in pixels, and standard for Bundler. Other formats have only one reading."
    ),
]
Rigs = Annotated[
    Literal["keep", "free"],
    tyro.conf.arg(
        help="COLMAP models with rigs of several cameras: keep lets the images of a frame move "
        "only together; free adjusts every image for itself, and a model that is written has none."
    ),
]
Kind = Annotated[
    Literal["same", "binary", "text"],
    tyro.conf.arg(help="How a COLMAP model is written; same is as it was read."),
]
Overwrite = Annotated[
    bool,
    tyro.conf.arg(
        help="Allow a COLMAP model to be written over the one that was read.",
        help_behavior_hint="",
    ),
]
Quiet = Annotated[
    bool, tyro.conf.arg(help="Print nothing but warnings and errors.", help_behavior_hint="")
]
Json = Annotated[
    bool, tyro.conf.arg(help="Print JSON, for other programs to read.", help_behavior_hint="")
]

T = TypeVar("T")


class Flag(NamedTuple):
    """One option: its name as in the dataclass, its type, default and documentation."""

    name: str
    type: Any
    default: Any
    help: str


def flags_of(source: type, replaced: Mapping[str, Sequence[Flag]] | None = None) -> dict[str, Flag]:
    """The fields of a dataclass as flags; a field in `replaced` becomes the flags given there."""
    replaced = replaced or {}
    hints, texts = get_type_hints(source), _attribute_docs(source)
    found: dict[str, Flag] = {}
    for f in fields(source):
        if f.name in replaced:
            found |= {flag.name: flag for flag in replaced[f.name]}
            continue
        if f.default is MISSING:
            raise TypeError(f"{source.__name__}.{f.name} needs a default to become a flag")
        found[f.name] = Flag(f.name, hints[f.name], f.default, texts.get(f.name, ""))
    return found


def parse(
    command: type[T],
    argv: Sequence[str],
    flags: Mapping[str, Flag] | None = None,
    groups: Mapping[str, Sequence[str]] | None = None,
    research: Mapping[str, Sequence[str]] | None = None,
    rare: Collection[str] = (),
) -> tuple[T, dict[str, Any]]:
    """Fill `command`, a dataclass, and the flags beside it from the command line.

    groups     title -> names of the flags under it; flags in no group come last, under "more"
    research   more of them, which only --help-all shows
    rare       fields of the command that only --help-all shows
    """
    flags, groups = dict(flags or {}), {**(groups or {}), **(research or {})}
    rest = [name for name in flags if not any(name in names for names in groups.values())]
    if rest:
        groups["more"] = rest
    if "--help-all" in argv:
        argv, rare, research = ["--help"], (), None
    hidden: set[str] = set()
    if {"-h", "--help"} & {*argv}:  # tyro would not parse what it does not show
        hidden = {*rare, *(name for names in (research or {}).values() for name in names)}
    members = _own_fields(command, hidden)
    for title, names in groups.items():
        kind = make_dataclass(
            title, [_field(flags[name], name in hidden) for name in names], frozen=True
        )
        kind.__doc__ = ""  # or tyro would show the signature
        members.append((title.replace(" ", "_"), kind, kind()))
    name = command.__name__.removesuffix("Command").lower()
    options = [*_options(command), *flags]
    if slip := next((one for one in argv if names_the_input(one)), None):
        raise DabaError(unknown_argument(name, argv, slip, options))
    others = launched_rank()
    quiet: AbstractContextManager[Any] = redirect_stderr(StringIO()) if others else nullcontext()
    with quiet:  # under MPI rank 0 prints
        cli: Any = tyro.cli
        filled, unknown = cli(
            make_dataclass("arguments", members, bases=(command,), frozen=True),
            prog=f"daba {name}",
            description=_description(command, f"daba {name} --help-all" if hidden else None),
            args=list(argv),
            return_unknown_args=True,
            config=(
                tyro.conf.OmitArgPrefixes,
                tyro.conf.FlagCreatePairsOff,
                tyro.conf.HelptextFromCommentsOff,
            ),
        )
    if unknown:
        raise DabaError(unknown_argument(name, argv, unknown[0], options))
    values: dict[str, Any] = {}
    for title in groups:
        values |= vars(getattr(filled, title.replace(" ", "_")))
    return filled, values


def _description(command: type, more: str | None) -> str:
    """The docstring, with lines kept as they are: tyro joins those that begin with a letter."""
    about, _, examples = inspect.cleandoc(command.__doc__ or "").partition("\n\nexamples:\n")
    first, *rest = (line for line in about.splitlines() if line)
    lines = [first, *(f"  {line}" for line in rest), "", "examples:", examples]
    lines += ["", f"all options, those of research too: {more}"] if more else []
    return "\n".join(lines)


def _options(command: type) -> list[str]:
    """Fields that are given by name."""
    hints = get_type_hints(command, include_extras=True)
    return [n for n, hint in hints.items() if tyro.conf.Positional not in get_args(hint)]


def _own_fields(command: type, hidden: Collection[str]) -> list[Any]:
    """The fields of a command with their documentation on one line, so that it is wrapped once."""
    hints, texts = get_type_hints(command, include_extras=True), _attribute_docs(command)
    found: list[Any] = []
    for f in fields(command):
        more: list[Any] = [tyro.conf.arg(help=texts[f.name])] if f.name in texts else []
        more += [tyro.conf.Suppress] if f.name in hidden else []
        annotated = hints[f.name]
        for one in more:
            annotated = Annotated[annotated, one]
        found.append((f.name, annotated, *(() if f.default is MISSING else (f.default,))))
    return found


def _field(flag: Flag, hidden: bool = False) -> tuple[str, Any, Any]:
    # the texts say what None stands for
    silent = flag.default is None or flag.default is False or flag.default == ()
    hint = "" if silent else f"(default: {_show(flag)})"
    metavar = None
    if type(None) in get_args(flag.type):
        known = next(one for one in get_args(flag.type) if one is not type(None))
        metavar = known.__name__.upper()
    again = get_origin(flag.type) is tuple  # is given again for more
    about = tyro.conf.arg(
        help=flag.help, help_behavior_hint=hint, metavar="WHAT" if again else metavar
    )
    kind: Any = Annotated[flag.type, about]
    if again:
        kind = Annotated[kind, tyro.conf.UseAppendAction]
    if hidden:
        kind = Annotated[kind, tyro.conf.Suppress]
    return flag.name, kind, flag.default


def _show(flag: Flag) -> str:
    if get_origin(flag.type) is Literal or not isinstance(flag.default, float):
        return str(flag.default)
    return f"{flag.default:g}"


@cache
def _attribute_docs(source: type) -> dict[str, str]:
    """The string under each field of a class, on one line."""
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
