"""Writes api.md, the reference of everything that `daba` exports, from its docstrings.

python docs/make_api.py           write it
python docs/make_api.py --check   fail if it is not what would be written
"""

from __future__ import annotations

import dataclasses
import inspect
import re
import sys
from pathlib import Path
from typing import Any

import daba
from daba.tools.cli.arguments import _attribute_docs

PAGE = Path(__file__).with_name("api.md")
HEAD = """\
# API reference

Everything that `import daba` gives, made from the docstrings by `make docs`. How it is used:
[python.md](../tutorials/python.md).
"""


def main(check: bool) -> int:
    text = reference()
    if check:
        return 0 if PAGE.read_text("utf-8") == text else 1
    PAGE.write_text(text, "utf-8")
    return 0


def reference() -> str:
    """The whole page."""
    parts = [HEAD]
    links = []
    for module, names in daba._HOME.items():
        for name in names:
            links.append(f"[{name}](#{name.lower()})")
            parts.append(entry(name, getattr(daba, name), module))
    parts.insert(1, " · ".join(sorted(links, key=str.lower)) + "\n")
    return "\n".join(parts)


def entry(name: str, value: Any, module: str) -> str:
    """One name: signature, docstring, fields and methods."""
    lines = [f"## {name}\n"]
    about = inspect.cleandoc(value.__doc__ or "")
    if not inspect.isclass(value):
        lines += [fenced(f"daba.{name}{signature(value)}"), document(about), source(module)]
        return "\n".join(lines)
    lines += [document(about), source(module)]
    if issubclass(value, Exception):
        return "\n".join(lines)
    if (rows := fields(value)) and not inherited(value):
        lines += ["| field | default | |", "| --- | --- | --- |", *rows, ""]
    for attribute, member in vars(value).items():
        if attribute.startswith("_") or attribute in getattr(value, "__dataclass_fields__", ()):
            continue
        lines += method(f"{name}.{attribute}", member)
    return "\n".join(lines)


def inherited(value: type) -> bool:
    """Whether the fields are those of a class that is told on its own, as with losses."""
    return any(dataclasses.is_dataclass(base) for base in value.__bases__)


def fields(value: type) -> list[str]:
    """Rows of a table: name, default, what it means."""
    if not dataclasses.is_dataclass(value):
        return []
    texts = _attribute_docs(value)
    rows = []
    for field in dataclasses.fields(value):
        if not field.name.startswith("_"):
            text = texts.get(field.name, "").replace("|", "\\|")
            rows.append(f"| `{field.name}` | {default(field)} | {text} |")
    return rows


def default(field: Any) -> str:
    if field.default is not dataclasses.MISSING:
        return f"`{field.default!r}`"
    made = field.default_factory
    if made is dataclasses.MISSING:
        return ""
    return f"`{getattr(made, '__name__', made)}()`"


def method(name: str, member: Any) -> list[str]:
    """A method or property that says what it is for."""
    if isinstance(member, staticmethod):
        member = member.__func__
    inner = getattr(member, "fget", None) or getattr(member, "func", None) or member
    about = inspect.cleandoc(inner.__doc__ or "") if callable(inner) else ""
    if not about:
        return []
    called = "" if inner is not member else signature(member)
    return [fenced(f"{name}{called}"), document(about)]


def signature(value: Any) -> str:
    """Without addresses, and with types as they are written in the source."""
    text = str(inspect.signature(value))
    text = re.sub(r"\(self(?:, )?", "(", text)
    text = re.sub(r"(: |-> )'([^']*)'", r"\1\2", text)  # annotations are kept as text
    if len(text) > 80:
        inside, _, back = text[1:].rpartition(")")
        text = "(\n    " + ",\n    ".join(split(inside)) + ",\n)" + back
    return text


def split(text: str) -> list[str]:
    """At commas that are in no bracket."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter in "[(") - (letter in ")]")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts]


def document(about: str) -> str:
    """A docstring as it stands, if it is laid out in columns; else as prose."""
    first, _, rest = about.partition("\n\n")
    prose = " ".join(first.split())
    if not rest:
        return f"{prose}\n"
    laid_out = re.search(r"^ +\S|^\w+ {2,}\S", rest, re.M)
    return f"{prose}\n\n{fenced(rest, 'text') if laid_out else rest}\n"


def fenced(text: str, language: str = "text") -> str:
    return f"```{language}\n{text}\n```\n"


def source(module: str) -> str:
    return f"*from `{module}`*\n"


if __name__ == "__main__":
    sys.exit(main("--check" in sys.argv[1:]))
