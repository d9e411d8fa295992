"""Every command and every line of Python in the documentation runs."""

from __future__ import annotations

from pathlib import Path

import pytest
from doc_blocks import Block, blocks, plain_commands, run_block, unfenced_commands
from places import ROOT

import daba

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


@pytest.fixture(scope="session")
def problem(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("docs") / "problem.txt.bz2"
    options = daba.SceneOptions(scene="orbit", cameras=12, points=150, seed=1)
    daba.save(daba.generate(options).start, path)
    return path.read_bytes()


@pytest.fixture
def folder(problem: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "problem.txt.bz2").write_bytes(problem)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr("daba.tools.viewer.serve.wait", lambda: None)
    return tmp_path


@pytest.mark.filterwarnings("ignore::daba.DabaWarning")
@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_can_be_followed(page: Path, folder: Path) -> None:
    names: dict[str, object] = {"__name__": "__main__"}
    for block in blocks(page):
        if not block.skip:
            run_block(block, names)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_are_fenced(page: Path) -> None:
    assert unfenced_commands(page) == []


PAGE = """\
<!-- setup
daba synth a.txt
-->
```bash
daba info a.txt  # a comment
daba solve a.txt \\
    --devices 2
```

<!-- not run: needs a GPU -->
```sh
daba solve a.txt --backend gpu
```
<!-- needs no_such_module -->
```python
import no_such_module
```
<!-- file other.py -->
```python
z = 3
```

<!-- setup python
y = 2
-->

- in a list:
  ```python
  x = 1
  ```

```text
daba is not run here
```
"""


def test_blocks_are_found(tmp_path: Path) -> None:
    path = tmp_path / "page.md"
    path.write_text(PAGE)
    found = blocks(path)
    assert [(b.line, b.language) for b in found] == [
        (2, "bash"), (5, "bash"), (12, "bash"), (16, "python"), (20, "python"), (24, "python"),
        (29, "python"),
    ]  # fmt: skip
    assert [b.skip for b in found] == [
        "",
        "",
        "needs a GPU",
        "no_such_module is not installed",
        "",
        "",
        "",
    ]
    assert [b.file for b in found] == ["", "", "", "", "other.py", "", ""]
    assert plain_commands(found[1].text) == [
        ["info", "a.txt"],
        ["solve", "a.txt", "--devices", "2"],
    ]
    assert [b.text for b in found[4:]] == ["z = 3", "y = 2", "x = 1"]
    path.write_text("<!-- nothing here is run: needs a cluster -->\n" + PAGE)
    assert {b.skip for b in blocks(path)} == {"needs a cluster"}
    path.write_text("<!-- not run -->\n```bash\ndaba\n```\n")
    with pytest.raises(AssertionError, match="say why"):
        blocks(path)


def test_what_fails_is_told_with_its_place(folder: Path) -> None:
    with pytest.raises(AssertionError, match=r"page\.md, line 7: daba info none\.txt"):
        run_block(Block("page.md", 7, "bash", "daba info none.txt"), {})
    with pytest.raises(AssertionError, match=r"page\.md, line 9"):
        run_block(Block("page.md", 9, "bash", "true | false"), {})
    with pytest.raises(ZeroDivisionError):
        run_block(Block("page.md", 9, "python", "1 / 0"), {})


def test_indented_commands_are_noticed(tmp_path: Path) -> None:
    path = tmp_path / "page.md"
    path.write_text("text\n\n    daba info a.txt\n\n```bash\n    daba info b.txt\n```\n")
    assert unfenced_commands(path) == ["page.md, line 3: daba info a.txt"]
