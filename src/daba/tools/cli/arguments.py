"""Flags made from dataclasses: options, defaults and documentation are written once."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Mapping, Sequence
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

from daba.distributed.comm.launcher import launched_rank

Intrinsics = Annotated[
    Literal["auto", "paper", "standard"],
    tyro.conf.arg(
        help="How k1 and k2 of a file are read: paper, as the paper's authors do; standard, as BAL "
        "and Bundler define them and as daba writes them; auto is paper for BAL and standard for "
        "Bundler. Other formats have only one reading."
    ),
]
Rigs = Annotated[
    Literal["keep", "free"],
    tyro.conf.arg(
        help="COLMAP models with rigs of several cameras: keep refuses them, because the images of "
        "a frame must not move relative to each other; free adjusts every image for itself, and a "
        "model that is written has no rigs."
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
) -> tuple[T, dict[str, Any]]:
    """Fill `command`, a dataclass, and the flags beside it from the command line.

    groups   title -> names of the flags under it; flags in no group come last, under "more"
    """
    flags, groups = dict(flags or {}), dict(groups or {})
    rest = [name for name in flags if not any(name in names for names in groups.values())]
    if rest:
        groups["more"] = rest
    members: list[Any] = []
    for title, names in groups.items():
        kind = make_dataclass(title, [_field(flags[name]) for name in names], frozen=True)
        kind.__doc__ = ""  # or tyro would show the signature
        members.append((title.replace(" ", "_"), kind, kind()))
    others = launched_rank()
    quiet: AbstractContextManager[Any] = redirect_stderr(StringIO()) if others else nullcontext()
    with quiet:  # under MPI rank 0 prints
        filled: Any = tyro.cli(
            make_dataclass("arguments", members, bases=(command,), frozen=True),
            prog=f"daba {command.__name__.lower()}",
            description=_description(command),
            args=list(argv),
            config=(
                tyro.conf.OmitArgPrefixes,
                tyro.conf.FlagCreatePairsOff,
                tyro.conf.HelptextFromCommentsOff,
            ),
        )
    values: dict[str, Any] = {}
    for title in groups:
        values |= vars(getattr(filled, title.replace(" ", "_")))
    return filled, values


def _description(command: type) -> str:
    """The docstring, with lines kept as they are: tyro joins those that begin with a letter."""
    about, _, examples = inspect.cleandoc(command.__doc__ or "").partition("\n\nexamples:\n")
    first, *rest = (line for line in about.splitlines() if line)
    return "\n".join([first, *(f"  {line}" for line in rest), "", "examples:", examples])


def _field(flag: Flag) -> tuple[str, Any, Any]:
    # the texts say what None stands for
    silent = flag.default is None or flag.default is False or flag.default == ()
    hint = "" if silent else f"(default: {_show(flag)})"
    metavar = None
    if type(None) in get_args(flag.type):
        kind = next(kind for kind in get_args(flag.type) if kind is not type(None))
        metavar = kind.__name__.upper()
    again = get_origin(flag.type) is tuple  # is given again for more
    about = tyro.conf.arg(
        help=flag.help, help_behavior_hint=hint, metavar="WHAT" if again else metavar
    )
    if again:
        return flag.name, Annotated[flag.type, about, tyro.conf.UseAppendAction], flag.default
    return flag.name, Annotated[flag.type, about], flag.default


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
