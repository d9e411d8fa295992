"""One HTML page that needs nothing but itself."""

from __future__ import annotations

import re

from daba.core.text import as_html
from daba.tools.report.tables import prose

STYLE = """
:root { --ink: #1e293b; --soft: #64748b; --line: #e2e8f0; --tint: #f8fafc; --blue: #2563eb;
  --green: #15803d; --red: #b91c1c; --paper: #ffffff; }
@media (prefers-color-scheme: dark) { :root { --ink: #e2e8f0; --soft: #94a3b8; --line: #334155;
  --tint: #172033; --blue: #7aa2f7; --green: #4ade80; --red: #f87171; --paper: #0f172a; }
  figure svg { filter: invert(1) hue-rotate(180deg); mix-blend-mode: screen; } }
* { box-sizing: border-box; }
html { scroll-behavior: smooth; }
body { margin: 0; background: var(--paper); color: var(--ink); line-height: 1.55; font-size: 16px;
  font-family: ui-sans-serif, system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue",
  "DejaVu Sans", sans-serif; }
main { max-width: 1180px; margin: 0 auto; padding: 3.2rem 1.5rem 5rem; }
p, ul { max-width: 78ch; }
header { border-bottom: 1px solid var(--line); padding-bottom: 1.6rem; margin-bottom: 2rem; }
h1 { font-size: 2.1rem; line-height: 1.15; letter-spacing: -0.02em; margin: 0 0 .6rem; }
h2 { font-size: 1.4rem; letter-spacing: -0.01em; margin: 3.4rem 0 .4rem; }
h3 { font-size: 1.05rem; margin: 2.4rem 0 .3rem; }
.lead { font-size: 1.1rem; color: var(--soft); margin: 0; }
.meta { color: var(--soft); font-size: .88rem; margin: .9rem 0 0; }
nav { display: flex; flex-wrap: wrap; gap: .35rem 1.1rem; font-size: .92rem; margin-top: 1.1rem; }
nav a { color: var(--blue); text-decoration: none; }
nav a:hover { text-decoration: underline; }
.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(235px, 1fr)); gap: 1rem;
  margin: 1.6rem 0 0; }
.card { background: var(--tint); border: 1px solid var(--line); border-radius: 10px;
  padding: 1rem 1.1rem; }
.card b { display: block; font-size: 1.75rem; line-height: 1.2; letter-spacing: -0.02em;
  color: var(--blue); }
.card span { font-size: .9rem; color: var(--soft); }
.wide { overflow-x: auto; margin: .9rem 0; }
table { border-collapse: collapse; font-size: .87rem; font-variant-numeric: tabular-nums;
  min-width: 60%; }
th { text-align: right; font-weight: 600; padding: .45rem .65rem; vertical-align: bottom;
  border-bottom: 2px solid var(--line); white-space: nowrap; }
td { text-align: right; padding: .3rem .65rem; white-space: nowrap; }
th:first-child, td:first-child { text-align: left; padding-left: 0; }
th.words, td.words { text-align: left; }
td:first-child { font-weight: 600; }
tr.new td { border-top: 1px solid var(--line); }
tbody tr:hover { background: var(--tint); }
td.bold { font-weight: 700; }
td.better { color: var(--green); }
td.worse { color: var(--red); font-weight: 600; }
.card.worse b { color: var(--red); }
td.better::after { content: " †"; font-weight: 400; }
td.faint { color: var(--soft); font-style: italic; }
td.prose { text-align: left; white-space: normal; min-width: 30rem; color: var(--soft); }
.notes { color: var(--soft); font-size: .92rem; }
figure { margin: 1.2rem 0 .6rem; }
figure svg { width: 100%; height: auto; display: block; }
.caption { color: var(--soft); font-size: .92rem; margin-top: .4rem; }
.panels { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(330px, 100%), 1fr));
  gap: .6rem 1.6rem; margin: 1rem 0 .4rem; }
.panels.pairs { grid-template-columns: repeat(auto-fit, minmax(min(420px, 100%), 1fr)); }
.panels figure, .panel figure { margin: .4rem 0; }
.beside { display: flex; flex-wrap: wrap; gap: 0 3rem; }
.beside > div { max-width: 100%; }
.key { display: flex; flex-wrap: wrap; gap: .3rem 1.4rem; font-size: .92rem; max-width: none; }
.key i { display: inline-block; width: 1.5em; height: .28em; border-radius: .14em;
  vertical-align: .25em; margin-right: .5em; }
details { border: 1px solid var(--line); border-radius: 10px; padding: .2rem 1rem; margin: 1rem 0; }
details > summary { cursor: pointer; font-weight: 600; padding: .5rem 0; }
details h3 { display: none; }
code { font-family: ui-monospace, "DejaVu Sans Mono", Menlo, monospace; font-size: .9em;
  background: var(--tint); padding: .05em .3em; border-radius: 4px; }
@media (max-width: 640px) { main { padding: 1.8rem 1rem 3rem; } h1 { font-size: 1.6rem; }
  .card b { font-size: 1.4rem; } td.prose { min-width: 16rem; } }
@media print { details { border: 0; } nav { display: none; } }
"""


def page(title: str, lead: str, meta: str, sections: list[tuple[str, str]]) -> str:
    """Sections are (heading, HTML); the first is not listed above."""
    parts, links = [], []
    for number, (heading, body) in enumerate(sections):
        name = f"s{number}"
        parts.append(f'<section id="{name}"><h2>{as_html(heading)}</h2>{body}</section>')
        links.append(f'<a href="#{name}">{as_html(heading)}</a>')
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{as_html(title)}</title><style>{STYLE}</style></head><body><main>"
        f'<header><h1>{as_html(title)}</h1><p class="lead">{lead}</p>'
        f'<p class="meta">{meta}</p><nav>{"".join(links)}</nav></header>'
        f"{''.join(parts)}</main></body></html>\n"
    )


def cards(entries: list[tuple[str, str]], worse: int | None = None) -> str:
    """Large numbers, each with what it means; the one with the number `worse` is bad news."""
    whole = [(big, text.replace("Δ = 1e-", "Δ\u00a0=\u00a01e\u2011")) for big, text in entries]
    inside = "".join(
        f'<div class="card{" worse" if n == worse else ""}"><b>{as_html(big)}</b>'
        f"<span>{as_html(text)}</span></div>"
        for n, (big, text) in enumerate(whole)
    )
    return f'<div class="cards">{inside}</div>'


def figure(svg: str, text: str) -> str:
    """A wide figure and what it shows."""
    return _inline(svg) + caption(text)


def panels(shown: list[tuple[str, str]], kind: str = "panels") -> str:
    """Figures, each with its caption: as many beside each other as there is room for, "panels
    pairs" by two, or one below the other, "panel"."""
    inside = "".join(
        f"<div>{_inline(svg)}{caption(text) if text else ''}</div>" for svg, text in shown
    )
    return f'<div class="{kind}">{inside}</div>'


def caption(text: str) -> str:
    return f'<p class="caption">{prose(text)}</p>'


def key(entries: list[tuple[str, str]]) -> str:
    """Which colour is which: (name, colour)."""
    inside = "".join(
        f'<span><i style="background: {colour}"></i>{as_html(name)}</span>'
        for name, colour in entries
    )
    return f'<p class="key">{inside}</p>'


def _inline(svg: str) -> str:
    """An SVG within the page: without its own head, as wide as there is room."""
    body = svg[svg.index("<svg") :]
    body = re.sub(r"<metadata>.*?</metadata>", "", body, flags=re.S)
    width = re.search(r'<svg[^>]*? width="([\d.]+)pt"', body)
    most = f' style="max-width: {1.25 * float(width[1]):.0f}px"' if width else ""
    body = re.sub(r'(<svg[^>]*?) (?:width|height)="[^"]*"', r"\1", body, count=1)
    body = re.sub(r'(<svg[^>]*?) (?:width|height)="[^"]*"', r"\1", body, count=1)
    return f"<figure{most}>{body}</figure>"


def folded(summary: str, body: str) -> str:
    """What only some will want to read."""
    return f"<details><summary>{as_html(summary)}</summary>{body}</details>"
