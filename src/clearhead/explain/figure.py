"""Write figures to files: SVG, PNG, a standalone page with tables, or JSON, by suffix."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from clearhead.errors import InputError
from clearhead.explain.svg import escape_invisible, inline_svg, png, require_matplotlib
from clearhead.files import atomic_file
from clearhead.html import write_cell, write_row, write_table

SUFFIXES = (".svg", ".png", ".html", ".htm", ".json")
Table = tuple[Sequence[str], Sequence[Sequence[str]]]
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
STYLE = (
    "body{font:1rem/1.5 system-ui,-apple-system,'Segoe UI',Roboto,'Noto Sans',Arial,sans-serif;max-width:80rem;"
    "margin:0 auto;padding:1rem;color:#1f2328;background:#f4f3ef}h1{font-size:1.5rem;line-height:1.25;"
    "margin:0 0 .25rem;overflow-wrap:anywhere}.note{color:#57606a;overflow-wrap:anywhere}"
    ".picture{overflow-x:auto;border:1px solid #d5d3cb;"
    "border-radius:.6rem;background:#fbfaf6;padding:.5rem;text-align:center}svg{max-width:none;height:auto}"
    ".table{overflow-x:auto}table{border-collapse:collapse;margin:1rem 0;background:#fffefb}caption{text-align:left;"
    "font-weight:600;padding:.3rem 0}th,td{text-align:left;padding:.2rem .8rem;border-bottom:1px solid #d8d4c8;"
    "font-variant-numeric:tabular-nums}"
)


def check_figure_path(path: str | os.PathLike[str]) -> Path:
    """Raise InputError if a figure cannot be written to this path, before anything is computed."""
    file = Path(path)
    kind = file.suffix.lower()
    if kind not in SUFFIXES:
        raise InputError(f"{file.name} must end in .svg, .png, .html or .json.")
    if file.is_dir():
        raise InputError(f"{file} is a folder; pass a file name.")
    if kind == ".png":
        require_matplotlib()
    return file


def write_figure(
    path: str | os.PathLike[str],
    *,
    svg: Callable[[], str],
    page: Callable[[], str],
    data: Callable[[], Mapping[str, Any]],
) -> Path:
    """Write the format given by the suffix; only this one is computed."""
    target = check_figure_path(path)
    kind = target.suffix.lower()
    if kind == ".png":
        content = png(svg())
    elif kind == ".json":
        content = (json.dumps(data(), separators=(",", ":")).replace("<", "\\u003c") + "\n").encode()
    else:
        content = (svg() if kind == ".svg" else page()).encode()
    with atomic_file(target) as file:
        file.write(content)
    return target


def figure_page(
    title: str, svg: str, *, note: str = "", tables: Mapping[str, Table] | None = None, source_note: str = ""
) -> str:
    """Render a standalone page without scripts: a picture, notes and tables."""
    parts = [
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<meta name="referrer" content="no-referrer">',
        f"<title>{_escape_text(title)}</title><style>{STYLE}</style></head><body>",
        f'<h1 dir="auto">{_escape_text(title)}</h1>',
        *(f'<p class="note">{_escape_text(text)}</p>' for text in (source_note, note) if text),
        f'<div class="picture">{inline_svg(svg)}</div>',
    ]
    parts += [
        f'<div class="table">{write_captioned_table(caption, *table, direction="auto")}</div>'
        for caption, table in (tables or {}).items()
    ]
    return "\n".join([*parts, "</body></html>\n"])


def write_captioned_table(
    caption: str, columns: Sequence[str], rows: Sequence[Sequence[str]], *, direction: str | None = None
) -> str:
    """Render a table with a caption; `direction` is the text direction of its cells."""
    lines = (write_row(write_cell(_escape_text(cell), dir=direction) for cell in row) for row in rows)
    return write_table(
        lines, [write_cell(_escape_text(column), "col") for column in columns], caption=_escape_text(caption)
    )


def _escape_text(text: str) -> str:
    return escape(escape_invisible(text))
