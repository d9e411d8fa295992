"""Arguments made from dataclasses: options, defaults and documentation are written once.

A field is an option of its name; `Annotated[..., Arg(...)]` says what else there is to say. The
parser is our own because every command waits for it: it takes some milliseconds, where a library
took 0.2 s, and answers slips as a person would (`hints.py`). `--help` is in `help.py`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import MISSING, fields
from pathlib import Path
from types import NoneType
from typing import (
    Annotated,
    Any,
    Literal,
    NamedTuple,
    NoReturn,
    TypeVar,
    get_args,
    get_origin,
    get_type_hints,
)

from daba.core.errors import DabaError

T = TypeVar("T")


class Arg(NamedTuple):
    """What the type and the default of a field do not say."""

    metavar: str | None = None
    """How its value is called; the name of a positional argument."""
    short: str | None = None
    positional: bool = False
    row: bool = False
    """Several values stand in a row, where otherwise the option is given once for each."""
    word: str | None = None
    """The option's name, where it is not that of the field."""
    help: str | None = None
    """Its documentation, where that is not the string under the field."""


Intrinsics = Annotated[
    Literal["auto", "paper", "standard"],
    Arg(
        help="How k1 and k2 of a file are read: paper, as the paper's authors do; standard, as BAL "
        "and Bundler define them and as daba writes them; auto is paper for BAL, unless it is "
        "adjusted in pixels, and standard for Bundler. Other formats have only one reading."
    ),
]
Rigs = Annotated[
    Literal["keep", "free"],
    Arg(
        help="COLMAP models with rigs of several cameras: keep lets the images of a frame move "
        "only together; free adjusts every image for itself, and a model that is written has none."
    ),
]
Kind = Annotated[
    Literal["same", "binary", "text"],
    Arg(help="How a COLMAP model is written; same is as it was read."),
]
Overwrite = Annotated[
    bool, Arg(help="Allow a COLMAP model to be written over the one that was read.")
]
Quiet = Annotated[bool, Arg(help="Print nothing but warnings and errors.")]
Json = Annotated[bool, Arg(help="Print JSON, for other programs to read.")]


class Flag(NamedTuple):
    """One argument: its name as in the dataclass, its type without None, default and the rest."""

    name: str
    type: Any
    default: Any
    about: Arg = Arg()
    source: type | None = None
    """The class that documents it."""

    @property
    def help(self) -> str:
        from daba.tools.cli.help import documentation

        return self.about.help or documentation(self.source).get(self.name, "")

    @property
    def values(self) -> Any:
        """The type of each of several values; None if it takes one."""
        return get_args(self.type)[0] if get_origin(self.type) is tuple else None

    @property
    def switch(self) -> bool:
        """Whether it takes no value."""
        return isinstance(self.default, bool)

    @property
    def option(self) -> str:
        """--as-it-is-written; a switch that is on can only be turned off."""
        word = (self.about.word or self.name).replace("_", "-")
        return f"--no-{word}" if self.default is True else f"--{word}"


def flags_of(source: type, replaced: Mapping[str, Sequence[Flag]] | None = None) -> dict[str, Flag]:
    """The fields of a dataclass as flags; a field in `replaced` becomes the flags given there."""
    replaced = replaced or {}
    hints = get_type_hints(source, include_extras=True)
    found: dict[str, Flag] = {}
    for f in fields(source):
        if f.name in replaced:
            found |= {flag.name: flag for flag in replaced[f.name]}
            continue
        kind, about = hints[f.name], Arg()
        if get_origin(kind) is Annotated:
            kind, about = get_args(kind)
        if NoneType in get_args(kind):
            kind = next(one for one in get_args(kind) if one is not NoneType)
        found[f.name] = Flag(f.name, kind, f.default, about, source)
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
    own, flags = flags_of(command), dict(flags or {})
    name = command.__name__.removesuffix("Command").lower()
    if {"-h", "--help", "--help-all"} & {*argv}:
        from daba.tools.cli.help import Page

        page = Page(command, name, own, flags, groups or {}, research or {}, rare)
        print(page.text("--help-all" in argv))
        raise SystemExit(0)
    given = _Reading(name, argv, [*own.values(), *flags.values()]).read()
    missing = [f for f in own.values() if f.default is MISSING and f.name not in given]
    if missing:
        words = " and ".join(f"{f.about.metavar}" for f in missing)
        raise DabaError(f"{words} is missing: {missing[0].help} See daba {name} --help")
    filled = command(**{one: given[one] for one in own if one in given})
    return filled, {one: given.get(one, flag.default) for one, flag in flags.items()}


class _Reading:
    """One command line, read from left to right."""

    def __init__(self, command: str, argv: Sequence[str], flags: Sequence[Flag]) -> None:
        self.command, self.argv, self.flags = command, list(argv), flags
        named = [flag for flag in flags if not flag.about.positional]
        self.options = {flag.option: flag for flag in named}
        self.options |= {flag.about.short: flag for flag in named if flag.about.short}
        self.given: dict[str, Any] = {}

    def read(self) -> dict[str, Any]:
        tokens = _Tokens(self.argv)
        for token in tokens:
            if not tokens.is_option(token):
                self._place(token)
                continue
            word, equals, value = token.partition("=")
            if not word.startswith("--"):  # -oOUT
                word, equals, value = token[:2], token[2:3], token[2:]
            flag = self.options.get(word) or self.options.get(word.replace("_", "-"))
            if flag is None or (flag.switch and equals):
                self._unknown(token)
            if flag.switch:
                self.given[flag.name] = not flag.default
            else:
                self._take(flag, word, [value] if equals else tokens.values(flag))
        return self.given

    def _take(self, flag: Flag, word: str, texts: list[str]) -> None:
        if not texts:
            raise DabaError(f"{word} needs a value: {_kind(flag)}; see daba {self.command} --help")
        values = [_convert(flag, word, text) for text in texts]
        if flag.values is None:
            self.given[flag.name] = values[0]
        else:
            before = () if flag.about.row else self.given.get(flag.name, ())
            self.given[flag.name] = (*before, *values)

    def _place(self, text: str) -> None:
        """The next positional argument, or one more of the last, which takes several."""
        places = [flag for flag in self.flags if flag.about.positional]
        free = [f for f in places if f.values is not None or f.name not in self.given]
        if not free:
            self._unknown(text)
        flag, before = free[0], self.given.get(free[0].name, ())
        value = _convert(flag, str(flag.about.metavar), text)
        self.given[flag.name] = value if flag.values is None else (*before, value)

    def _unknown(self, token: str) -> NoReturn:
        from daba.tools.cli.hints import unknown_argument

        names = [flag.name for flag in self.flags if not flag.about.positional]
        raise DabaError(unknown_argument(self.command, self.argv, token, names))


class _Tokens:
    """The words of a command line; behind -- none of them is an option."""

    def __init__(self, argv: Sequence[str]) -> None:
        self.argv, self.next, self.plain = argv, 0, False

    def __iter__(self) -> Iterator[str]:
        while self.next < len(self.argv):
            self.next += 1
            if self.argv[self.next - 1] == "--" and not self.plain:
                self.plain = True
            else:
                yield self.argv[self.next - 1]

    def is_option(self, token: str) -> bool:
        return token.startswith("-") and token != "-" and not (self.plain or _is_number(token))

    def values(self, flag: Flag) -> list[str]:
        """What follows an option, as many as it takes."""
        found: list[str] = []
        most = len(self.argv) if flag.about.row else 1
        while len(found) < most and self.next < len(self.argv):
            if self.is_option(self.argv[self.next]):
                break
            found.append(self.argv[self.next])
            self.next += 1
        return found


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _convert(flag: Flag, word: str, text: str) -> Any:
    kind = flag.values or flag.type
    if get_origin(kind) is Literal:
        known = get_args(kind)
        if text not in known:
            raise DabaError(f"{word} is one of {', '.join(known)}, not '{text}'")
        return text
    if kind is bool and text.lower() in ("true", "false"):
        return text.lower() == "true"
    try:
        if (kind is Path and not text) or kind is bool:
            raise ValueError
        return kind(text)
    except ValueError:
        raise DabaError(f"{word} takes {_kind(flag)}, not '{text}'") from None


def _kind(flag: Flag) -> str:
    """What a value is, in words."""
    kind = flag.values or flag.type
    if get_origin(kind) is Literal:
        return f"one of {', '.join(get_args(kind))}"
    return {
        int: "a whole number", float: "a number", bool: "true or false", Path: "a path"
    }.get(kind, "a word")  # fmt: skip
