"""Text from files is shown as text, wherever it is shown."""

from __future__ import annotations

import html
import json
import os

import pytest

from daba.core.text import as_html, printable, safe_json

WILD = "a\x1b[31mred\x07 \x9b2J \u202egpj.exe <b onload='x'> & \udc80 end\x7f\r\u2028"


def test_nothing_commands_a_terminal() -> None:
    shown = printable(WILD)
    assert shown == (
        "a\\x1b[31mred\\x07 \\x9b2J \\u202egpj.exe <b onload='x'> & \\x80 end\\x7f\\x0d\\u2028"
    )
    shown.encode()
    assert printable("ñandú 東京 −½²\tand a\nnewline") == "ñandú 東京 −½²\tand a\nnewline"


@pytest.mark.parametrize("code", [*range(0x20), *range(0x7F, 0xA0)])
def test_every_control_character(code: int) -> None:
    assert printable(chr(code)) == (chr(code) if chr(code) in "\t\n" else f"\\x{code:02x}")


def test_bytes_that_are_no_text_show_as_bytes() -> None:
    assert printable(os.fsdecode(b"im\xe4ge.jpg")) == "im\\xe4ge.jpg"


def test_html_is_text() -> None:
    shown = as_html(WILD)
    assert not set("<>\"'") & set(shown)
    assert html.unescape(shown) == printable(WILD)


def test_json_means_the_same() -> None:
    text = safe_json(json.dumps({WILD: [WILD]}, ensure_ascii=False))
    text.encode()
    assert printable(text) == text
    assert json.loads(text) == {WILD: [WILD]}
