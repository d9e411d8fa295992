"""The documentation site: it builds without a warning, and what it names exists."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from places import ROOT

import daba

DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
SOURCES = ROOT / "src" / "daba"
LAYERS = "core|problem|partition|io|distributed|backends|solver|runtime|tools"
PATH = re.compile(rf"`((?:{LAYERS})/[\w/]*(?:\.py)?|(?:tests|benchmarks)/[\w/.]+)`")
"""A file or folder of the package, or of the repository, as pages name it."""


@pytest.mark.slow
def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    pytest.importorskip("mkdocs")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir"]
    done = subprocess.run(
        [*command, str(tmp_path)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    for page in PAGES:
        name = "index.html" if page.name == "README.md" else f"{page.stem}.html"
        text = (tmp_path / page.parent.relative_to(DOCS) / name).read_text("utf-8")
        assert "arithmatex" not in text, "a formula that has not become MathML"
        assert "<math" in text or page.parent.name != "method"


def test_the_reference_has_every_public_name() -> None:
    text = "\n".join(path.read_text("utf-8") for path in (DOCS / "reference").glob("*.md"))
    names = re.findall(r"^::: daba\.(\w+)$", text, re.M)
    assert sorted(names) == [name for name in daba.__all__ if name != "__version__"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(DOCS)))
def test_what_a_page_names_exists(page: Path) -> None:
    named = PATH.findall(page.read_text("utf-8"))
    assert [n for n in named if not ((SOURCES / n).exists() or (ROOT / n).exists())] == []
