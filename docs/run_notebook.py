"""The notebook of the documentation: run its cells, and write what they show into it.

    python docs/run_notebook.py

A notebook is a list of cells; the last line of one with code is shown if it is an expression. No
Jupyter is needed for that, so that the tests can run it anywhere.
"""

from __future__ import annotations

import ast
import base64
import contextlib
import io
import json
import os
import sys
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Any

WIDTH = 760
"""Pixels of a picture in it."""
NOTEBOOK = Path(__file__).parent / "tutorials" / "notebook.ipynb"


def run_notebook(path: Path = NOTEBOOK) -> dict[str, Any]:
    """The notebook with the outputs of all its cells, run one after the other in this folder."""
    notebook: dict[str, Any] = json.loads(path.read_text("utf-8"))
    names: dict[str, Any] = {"__name__": "__main__"}
    with _display():
        for count, cell in enumerate(_code(notebook), start=1):
            cell["execution_count"] = count
            cell["outputs"] = _outputs("".join(cell["source"]), names, count)
    return notebook


def _code(notebook: dict[str, Any]) -> list[dict[str, Any]]:
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def _outputs(source: str, names: dict[str, Any], count: int) -> list[dict[str, Any]]:
    tree = ast.parse(source)
    last = tree.body[-1] if tree.body else None
    if isinstance(last, ast.Expr):
        tree.body.pop()
    printed, value = io.StringIO(), None
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, "notebook", "exec"), names)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), "notebook", "eval"), names)
    shown: list[dict[str, Any]] = []
    if printed.getvalue():
        text = printed.getvalue().splitlines(keepends=True)
        shown.append({"output_type": "stream", "name": "stdout", "text": text})
    if value is not None:
        data = {"text/plain": repr(value)}
        for kind, method in (("text/html", "_repr_html_"), ("image/png", "_repr_png_")):
            if hasattr(value, method):
                data[kind] = getattr(value, method)()
        result = {"output_type": "execute_result", "execution_count": count, "metadata": {}}
        shown.append(result | {"data": data})
    return shown


class _Image:
    """As `IPython.display.Image`, where that is not installed."""

    def __init__(self, filename: str) -> None:
        self.filename = filename

    def __repr__(self) -> str:
        return f"<Image {self.filename}>"

    def _repr_png_(self) -> str:
        """Small enough for a repository."""
        from PIL import Image

        memory = io.BytesIO()
        picture = Image.open(self.filename).convert("RGB")
        picture.thumbnail((WIDTH, WIDTH))
        picture.quantize(32).save(memory, "PNG", optimize=True)
        return base64.b64encode(memory.getvalue()).decode()


@contextlib.contextmanager
def _display() -> Any:
    module: Any = ModuleType("IPython.display")
    parent: Any = ModuleType("IPython")
    module.Image, parent.version_info = _Image, (9, 0)  # matplotlib asks for that
    before = {name: sys.modules.get(name) for name in ("IPython", "IPython.display")}
    sys.modules |= {"IPython": parent, "IPython.display": module}
    try:
        yield
    finally:
        for name, known in before.items():
            if known is None:
                del sys.modules[name]
            else:
                sys.modules[name] = known


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        notebook = run_notebook()
        os.chdir(NOTEBOOK.parent)
    NOTEBOOK.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", "utf-8")


if __name__ == "__main__":
    main()
