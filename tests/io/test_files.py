"""Opening and writing: clear errors, and whole files or none."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import IO

import plain_bal
import pytest

import daba.io
from daba.core.errors import DabaError
from daba.io import files

SUFFIXES = [".txt", ".txt.gz", ".txt.bz2", ".npz", ".ply"]


def test_missing_folder_and_unknown_files_to_read(tmp_path: Path) -> None:
    with pytest.raises(DabaError, match=r"cannot read .*none\.txt: there is no such file"):
        daba.io.load(tmp_path / "none.txt")
    with pytest.raises(DabaError, match="it is a folder"):
        daba.io.load(tmp_path, format="bal")
    with pytest.raises(DabaError, match=r"unknown kind of file '\.xyz'; known are \.txt"):
        daba.io.load(tmp_path / "a.xyz")
    with pytest.raises(DabaError, match=r"unknown kind of file '\.npz\.gz'"):
        daba.io.load(tmp_path / "a.npz.gz")
    with pytest.raises(DabaError, match="unknown format 'obj'; known are bal, bundler, colmap,"):
        daba.io.load(tmp_path / "a.obj", format="obj")
    with pytest.raises(DabaError, match="written, never read"):
        daba.io.load(tmp_path / "a.ply")


def test_no_permission(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(*_: object) -> None:  # root may do everything, so the system is played
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(files, "open", denied, raising=False)
    with pytest.raises(DabaError, match=r"cannot read .*: permission denied"):
        daba.io.load(tmp_path / "a.txt")
    with pytest.raises(DabaError, match=r"cannot write .*: permission denied"):
        daba.io.save(plain_bal.scene(), tmp_path / "a.txt")


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_no_folder_to_write_to(suffix: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(DabaError, match="file is a file, not a folder"):
        daba.io.save(plain_bal.scene(), tmp_path / "file" / "b" / f"a{suffix}")
    daba.io.save(plain_bal.scene(), tmp_path / "new" / "b" / f"a{suffix}")  # folders are made
    assert (tmp_path / "new" / "b" / f"a{suffix}").exists()
    (tmp_path / f"b{suffix}").mkdir()
    with pytest.raises(DabaError, match="it is a folder"):
        daba.io.save(plain_bal.scene(), tmp_path / f"b{suffix}")


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("when", ["write", "fsync", "replace"])
def test_a_full_disk_leaves_nothing_behind(
    suffix: str, when: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / f"a{suffix}"
    path.write_text("the older file")

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    if when == "write":

        def open_full(*_: object) -> IO[bytes]:  # /dev/full takes no byte
            return open("/dev/full", "wb")

        monkeypatch.setattr(files, "open", open_full, raising=False)
    else:
        monkeypatch.setattr(files.os, when, full)
    with pytest.raises(DabaError, match=r"cannot write .*: the disk is full"):
        daba.io.save(plain_bal.scene(cameras=20, points=500), path)
    assert os.listdir(tmp_path) == [path.name]
    assert path.read_text() == "the older file"


def test_an_interrupt_leaves_nothing_behind(tmp_path: Path) -> None:
    def interrupted() -> None:
        with files.open_output(tmp_path / "a.txt") as out:
            out.write(b"half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert os.listdir(tmp_path) == []


def test_devices_and_links_are_written_through(tmp_path: Path) -> None:
    daba.io.save(plain_bal.scene(), "/dev/null", format="bal")
    with pytest.raises(DabaError, match="the disk is full"):
        daba.io.save(plain_bal.scene(), "/dev/full", format="bal")
    link, target = tmp_path / "link.txt", tmp_path / "target.txt"
    link.symlink_to(target)
    daba.io.save(plain_bal.scene(), link)
    assert link.is_symlink()
    assert daba.io.load(target, intrinsics="standard").num_cameras == 6


def test_written_files_have_ordinary_permissions(tmp_path: Path) -> None:
    (tmp_path / "plain").touch()
    daba.io.save(plain_bal.scene(), tmp_path / "a.txt")
    assert (tmp_path / "a.txt").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_every_format_is_reached_by_name_and_suffix() -> None:
    suffixes = [suffix for form in daba.io.FORMATS for suffix in form.suffixes]
    assert len(suffixes) == len(set(suffixes))
    assert [form.name for form in daba.io.FORMATS] == [
        "bal",
        "bundler",
        "colmap",
        "npz",
        "ply",
        "store",
    ]
