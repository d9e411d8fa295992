"""Where compiled kernels are kept: the first place that can be written to, and is ours alone."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from daba.backends.cpu import cache
from daba.backends.cpu.cache import stamp


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine whose user has no cache folder, only temporary ones."""
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.setenv("NUMBA_CACHE_DIR", "")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    monkeypatch.delenv(cache.TREE, raising=False)
    (tmp_path / "file").write_text("no folder")
    return folder


def test_another_installation_is_another_stamp(tmp_path: Path) -> None:
    """Numba compiles anew for sources of another place or time, whatever is in them."""
    names = ("one.py", "two.py")
    for name in names:
        (tmp_path / name).write_text("x = 1\n")
    one, two = ([tmp_path / name] for name in names)
    first = stamp(one)
    assert stamp(one) == first
    assert stamp(two) != first
    os.utime(one[0], ns=(1, 1))
    assert stamp(one) != first


def test_the_sources_are_all_that_kernels_are_made_of() -> None:
    """A formula that is bound anew by the backends must be among them."""
    core = {path.stem: path for path in cache.SOURCES if path.parent.name == "core"}
    folder = core["formulas"].parent
    found = {path.stem for path in folder.glob("*.py") if "globals()" in path.read_text()}
    assert found | {"camera_models", "lm"} == set(core)
    assert cache.digest(cache.SOURCES) != cache.digest(cache.SOURCES[1:])


def test_the_users_own_cache_comes_first(
    temporary: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "user"))
    found = cache._find_folder()
    assert found is not None
    assert found.is_relative_to(tmp_path / "user" / "daba")


def test_without_it_kernels_are_kept_among_temporary_files(temporary: Path) -> None:
    """In a folder that all processes of this user find, and nobody else can write to."""
    found = cache._find_folder()
    assert found is not None
    own = temporary / f"daba-{os.getuid()}"
    assert found.is_relative_to(own)
    assert own.stat().st_mode & 0o777 == 0o700
    assert cache._find_folder() == found


@pytest.mark.parametrize("spoilt", ["open to all", "a link", "a file"])
def test_a_folder_that_others_have_made_is_not_used(
    temporary: Path, tmp_path: Path, spoilt: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process and those it starts have one of their own."""
    own = temporary / f"daba-{os.getuid()}"
    if spoilt == "open to all":
        own.mkdir()
        own.chmod(0o777)
    elif spoilt == "a link":
        (tmp_path / "theirs").mkdir()
        own.symlink_to(tmp_path / "theirs")
    else:
        own.write_text("")
    monkeypatch.setenv(cache.TREE, "")  # so that it is put back after the test
    found = cache._find_folder()
    assert found is not None
    assert found.is_relative_to(temporary)
    assert not found.is_relative_to(own)
    assert cache._find_folder() == found  # as a child would find it


def test_where_nothing_can_be_written_there_is_no_cache(
    temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(temporary / "nothing" / "here"))
    assert cache._find_folder() is None
