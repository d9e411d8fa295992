"""Formulas of the pages as MathML, made when the site is built: every browser shows it, without a
script and without the network."""

from __future__ import annotations

import re
from html import unescape
from typing import Any
from xml.etree import ElementTree

from latex2mathml.converter import convert
from mkdocs.exceptions import PluginError

FORMULA = re.compile(
    r'<(?P<tag>span|div) class="arithmatex">\\(?P<open>[(\[])(?P<text>.*?)\\[)\]]</(?P=tag)>',
    re.S,
)
"""How pymdownx.arithmatex leaves them, in its generic form."""


def on_page_content(html: str, page: Any, **_: Any) -> str:
    """Called by MkDocs for each page."""
    return FORMULA.sub(lambda found: _mathml(found, page.file.src_uri), html)


def _mathml(found: re.Match[str], where: str) -> str:
    text = unescape(found["text"]).strip()
    made = convert(text, display="block" if found["open"] == "[" else "inline")
    try:
        ElementTree.fromstring(made)
    except ElementTree.ParseError as error:  # what latex2mathml does not know it passes on
        raise PluginError(f"{where}: this formula cannot be shown ({error}): {text}") from error
    return made
