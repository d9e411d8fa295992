"""Which way imports point: each layer imports only those before it, and no modules import each
other in a circle.

Every import counts, at the top of a module or inside a function or under TYPE_CHECKING. A cycle is
one of imports that run when a module is loaded: those inside functions run later and those for type
checkers never, so that they may lead back to a module of the same layer, but not of a later one.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from scene_text import scene

import daba

ROOT = Path(daba.__file__).parent
LAYERS = (
    "core", "problem", "partition", "io", "distributed", "backends", "solver", "runtime", "tools",
)  # fmt: skip
LATER = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
"""What stands in these is not run when a module is loaded."""


class Import(NamedTuple):
    source: str
    target: str
    line: int
    at_load: bool
    """Whether it runs when the module is loaded."""

    def __str__(self) -> str:
        return f"{self.source} imports {self.target} (line {self.line})"


def module_of(path: Path) -> str:
    parts = ("daba", *path.relative_to(ROOT).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_of(path): path for path in sorted(ROOT.rglob("*.py"))}


def imports_of(module: str) -> Iterator[Import]:
    tree = ast.parse(MODULES[module].read_text("utf-8"))
    package = module if MODULES[module].name == "__init__.py" else module.rpartition(".")[0]
    yield from _walk(tree, module, package, True)


def _walk(node: ast.AST, module: str, package: str, at_load: bool) -> Iterator[Import]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            for name in child.names:
                yield from _found(module, name.name, child.lineno, at_load)
        elif isinstance(child, ast.ImportFrom):
            base = child.module or ""
            if child.level:
                up = package.split(".")[: len(package.split(".")) - child.level + 1]
                base = ".".join([*up, base] if base else up)
            for name in child.names:
                inner = f"{base}.{name.name}"
                target = inner if inner in MODULES else base
                yield from _found(module, target, child.lineno, at_load)
        else:
            later = isinstance(child, LATER) or (
                isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test)
            )
            yield from _walk(child, module, package, at_load and not later)


def _found(module: str, target: str, line: int, at_load: bool) -> Iterator[Import]:
    if target.split(".")[0] == "daba" and target in MODULES:
        yield Import(module, target, line, at_load)


IMPORTS = [found for module in MODULES for found in imports_of(module)]


def layer(module: str) -> int | None:
    """Its number among the layers; None for what stands at the top."""
    parts = module.split(".")
    return LAYERS.index(parts[1]) if len(parts) > 1 and parts[1] in LAYERS else None


def test_the_walk_finds_imports_of_every_kind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = """
from typing import TYPE_CHECKING
import daba.core.errors
from daba.core import errors, options as o
if TYPE_CHECKING:
    from daba.runtime.loop import Loop
class A:
    from daba.core.losses import Loss
    def f(self):
        from daba.tools.cli import main
        from . import types
"""
    (tmp_path / "probe.py").write_text(text)
    monkeypatch.setitem(MODULES, "daba.core.probe", tmp_path / "probe.py")
    found = {(i.target, i.line, i.at_load) for i in imports_of("daba.core.probe")}
    assert found == {
        ("daba.core.errors", 3, True),
        ("daba.core.errors", 4, True),
        ("daba.core.options", 4, True),
        ("daba.runtime.loop", 6, False),
        ("daba.core.losses", 8, True),
        ("daba.tools.cli", 10, False),
        ("daba.core.types", 11, False),
    }


def test_every_module_is_in_a_layer() -> None:
    top = {path.stem for path in ROOT.glob("*.py")}
    assert len(top) <= 5
    folders = {path.name for path in ROOT.iterdir() if path.is_dir() and any(path.rglob("*.py"))}
    assert folders == set(LAYERS)


def test_imports_point_to_earlier_layers() -> None:
    """And none to the package itself, whose public names are for users."""
    wrong = []
    for found in IMPORTS:
        here, there = layer(found.source), layer(found.target)
        if here is not None and (there is None or there > here):
            wrong.append(found)
    assert [str(found) for found in wrong] == []


def test_no_cycles() -> None:
    """Of imports that run when modules are loaded; a module loads the packages it lies in, too."""
    needs: dict[str, set[str]] = {module: set() for module in MODULES}
    for found in IMPORTS:
        if found.at_load and found.target != found.source:
            needs[found.source].add(found.target)
    cycles = []
    done: set[str] = set()

    def visit(module: str, path: tuple[str, ...]) -> None:
        if module in path:
            cycles.append(" → ".join((*path[path.index(module) :], module)))
            return
        if module not in done:
            for other in sorted(needs[module]):
                visit(other, (*path, module))
            done.add(module)

    for module in MODULES:
        visit(module, ())
    assert cycles == []


SOLVE = (
    scene(cameras=6, points=40)
    + """
import sys

daba.solve(problem, method=sys.argv[1], devices=int(sys.argv[2]), iterations=2)
print(*(name for name in sys.modules if name.split(".")[0] == "daba"))
"""
)
MOST_MODULES = 45
"""Modules that one solve may load, packages without code left out, and `daba` itself, which is but
the list of public names."""


@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize(
    ("method", "devices"), [("lm", 1), ("lm", 6), ("daba", 2), ("admm", 2), ("dr", 2)]
)
def test_how_many_modules_a_solve_crosses(method: str, devices: int) -> None:
    command = [sys.executable, "-c", SOLVE, method, str(devices)]
    loaded = _loaded(command)
    if "daba.backends.cpu.compiler" in loaded:  # now that kernels are compiled
        loaded = _loaded(command)
    print(f"{method} on {devices} devices loads {len(loaded)} modules")
    assert len(loaded) <= MOST_MODULES


def _loaded(command: list[str]) -> list[str]:
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return [name for name in done.stdout.split() if name != "daba" and _has_code(MODULES[name])]


def _has_code(path: Path) -> bool:
    """Whether there is more in a module than a docstring."""
    return any(not isinstance(node, ast.Expr) for node in ast.parse(path.read_text("utf-8")).body)
