"""Bad BAL files: every message names the file and, where there is one, the line."""

from __future__ import annotations

import bz2
import gzip
from pathlib import Path

import pytest
from command_line import BAL

import daba.io
from daba.core.errors import DabaError


def message(path: Path, lines: list[str]) -> str:
    path.write_text("\n".join(lines) + "\n")
    with pytest.raises(DabaError) as caught:
        daba.io.load(path)
    return str(caught.value)


@pytest.mark.parametrize(
    ("line", "text", "expected"),
    [
        (3, "0 1 -30", "line 3: expected 4 values 'camera point x y', got 3"),
        (3, "0 1 -30 40 50", "line 3: expected 4 values 'camera point x y', got 5"),
        (4, "1 0 5 six", "line 4: 'six' is not a number"),
        (4, "1 0 5 1_0", "line 4: '1_0' is not a number"),
        (4, "1 0 5 1.2.3", "line 4: '1.2.3' is not a number"),
        (2, "2 0 10 20", "line 2: camera index 2 is out of range: there are 2 cameras"),
        (2, "-1 0 10 20", "line 2: camera index -1 is out of range"),
        (5, "1 7 7 8", "line 5: point index 7 is out of range: there are 2 points"),
        (5, "1 0.5 7 8", "line 5: the point index must be a whole number, not '0.5'"),
        (5, "1 nan 7 8", "line 5: NaN or infinite value 'nan'"),
        (5, "1 1 7 nan", "line 5: NaN or infinite value 'nan'"),
        (5, "1 1 1e999 8", "line 5: NaN or infinite value '1e999'"),
        (6, "0 0 0 0 0 0 0 0 0", "line 6: camera 0: the focal length must be positive, not 0"),
        (7, "0.1 0 0 0 0 0.5 -600 0 0", "line 7: camera 1: the focal length must be positive"),
        (7, "0.1 0 0 0 0 0.5 600 0 inf", "line 7: NaN or infinite value 'inf'"),
        (9, "-0.3 0.4 nan", "line 9: NaN or infinite value 'nan'"),
        (9, "-0.3 0.4 -6 1", "line 9: '1' follows after the last point"),
        (9, "-0.3 0.4 -6\nand so on", "line 10: 'and' follows after the last point"),
        (9, "-0.3 0.4 -6\n# fine\nnot fine", "line 11: 'not' follows after the last point"),
        (9, "-0.3 0.4", "the file ends too early, after line 9: 24 numbers must follow"),
        (1, "2 2 -4", "line 1: the number of observations must be positive, not -4"),
        (1, "0 2 4", "line 1: the number of cameras must be positive, not 0"),
        (1, "2 2", "line 1: a BAL file begins with three whole numbers"),
        (1, "2 2 4 4", "line 1: a BAL file begins with three whole numbers"),
        (1, "two cameras here", "line 1: a BAL file begins with three whole numbers"),
        (1, "2 2 5", "line 6: expected 4 values 'camera point x y', got 9"),
        (1, "2 2 3", "line 9: '-0.3' follows"),
        (1, "2 3 4", "the file ends too early, after line 9: 27 numbers must follow"),
        (1, "2 1 4", "line 3: point index 1 is out of range"),
        (1, "9999999999 2 4", "line 1: 9999999999 cameras are more than the supported"),
        (1, "2 2 999999999999", "line 6: expected 4 values"),
    ],
)
def test_the_line_is_named(line: int, text: str, expected: str, tmp_path: Path) -> None:
    lines = BAL.copy()
    lines[line - 1] = text
    found = message(tmp_path / "bad.txt", lines)
    assert found.startswith("bad.txt")
    if text != "2 2 3":  # counts that are too small may show in more than one way
        assert expected in found


def test_cut_short(tmp_path: Path) -> None:
    found = message(tmp_path / "cut.txt", BAL[:4])
    assert found.startswith("cut.txt: the file ends after 3 of the 4 observations")
    text = "\n".join(BAL)
    for end in range(len(text) - 2):  # wherever it is cut, it is noticed
        message(tmp_path / "cut.txt", [text[:end]])


def test_empty(tmp_path: Path) -> None:
    assert message(tmp_path / "empty.txt", []) == "empty.txt: the file is empty"
    assert message(tmp_path / "empty.txt", ["", "  "]) == "empty.txt: the file is empty"


@pytest.mark.parametrize(
    "junk", [b"\x89PNG\r\n\x1a\n\0\0\0" * 50, bytes(range(256)) * 40, b"\0" * 5000, b"7" * 5000]
)
def test_not_a_bal_file(junk: bytes, tmp_path: Path) -> None:
    path = tmp_path / "junk.txt"
    path.write_bytes(junk)
    with pytest.raises(DabaError, match=r"junk\.txt, line 1: .*is this a BAL file") as caught:
        daba.io.load(path)
    assert len(str(caught.value)) < 400
    assert str(caught.value).isprintable()


def test_binary_after_a_good_header(tmp_path: Path) -> None:
    path = tmp_path / "junk.txt"
    path.write_bytes(b"2 2 4\n" + bytes(range(256)) * 40)
    with pytest.raises(DabaError, match=r"junk\.txt, line \d"):
        daba.io.load(path)


@pytest.mark.parametrize(("suffix", "pack"), [(".bz2", bz2.compress), (".gz", gzip.compress)])
def test_damaged_compression(suffix, pack, tmp_path) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / f"bad.txt{suffix}"
    data = bytearray(pack(("\n".join(BAL)).encode() * 50))
    path.write_bytes(data[: len(data) // 2])
    with pytest.raises(DabaError, match="compressed file is damaged"):
        daba.io.load(path)
    data[len(data) // 2] ^= 0x55
    path.write_bytes(data)
    with pytest.raises(DabaError, match=r"bad\.txt"):
        daba.io.load(path)
    path.write_bytes(b"1 2 3\n")  # not compressed at all
    with pytest.raises(DabaError, match="compressed file is damaged"):
        daba.io.load(path)


def test_a_point_on_a_camera_centre(tmp_path: Path) -> None:
    lines = BAL.copy()
    lines[7] = "0 0 0"
    found = message(tmp_path / "bad.txt", lines)
    assert found.startswith("bad.txt: observation 0: point 0 lies on the centre of camera 0")


def test_overflow_in_the_paper_reading(tmp_path: Path) -> None:
    lines = BAL.copy()
    lines[6] = "0.1 0 0 0 0 0.5 1e100 1e200 0"
    assert message(tmp_path / "bad.txt", lines).startswith("bad.txt: camera 1: NaN or infinite")
