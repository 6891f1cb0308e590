"""Draw how the time of each layer grows with sequence length, with a panel per width."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from html import escape
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from clearhead.errors import InputError, MissingExtraError
from clearhead.explain.figure import Table, write_captioned_table
from clearhead.explain.svg import inline_svg
from clearhead.explain.svg.colors import ORANGE, PALE_TEAL, RED, SOFT, TEAL
from clearhead.files import atomic_file

SUFFIXES = (".svg", ".png", ".html")
COLORS = {"attention": TEAL, "projected": PALE_TEAL, "recurrent": RED, "convolution": ORANGE}
PANELS_PER_ROW = 4  # panels side by side
CAPTION = "Solid: measured. Dashed: theoretical growth through the last measured point."
STYLE = (
    "body{font-family:system-ui,sans-serif;max-width:70rem;margin:2rem auto;padding:0 1rem;color:#1f2328;"
    "background:#fbfaf6}table{border-collapse:collapse;margin:1rem 0}th,td{text-align:left;padding:.2rem .8rem;"
    "border-bottom:1px solid #d8d4c8;font-variant-numeric:tabular-nums}svg{max-width:100%;height:auto}"
)


def check_picture(path: Path) -> None:
    """Raise an error if the chart cannot be written, before anything is measured."""
    if path.suffix.lower() not in SUFFIXES:
        raise InputError(f"{path.name} must end in {', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]}.")
    if path.is_dir():
        raise InputError(f"{path} is a folder; pass a file name.")
    if find_spec("matplotlib") is None:
        raise MissingExtraError("Drawing charts", "train")


def save_growth(
    path: Path, title: str, curves: Sequence[Mapping[str, Any]], tables: Mapping[str, Table], notes: Sequence[str]
) -> Path:
    """Write the chart; a curve has a width, a layer, a title, a cost, lengths, ms and theory."""
    check_picture(path)
    kind = path.suffix.lower()
    if kind == ".html":
        content = _write_page(title, _draw_picture(title, curves, "svg").decode(), tables, notes).encode()
    else:
        content = _draw_picture(title, curves, kind[1:])
    with atomic_file(path) as file:
        file.write(content)
    return path


def _draw_picture(title: str, curves: Sequence[Mapping[str, Any]], kind: str) -> bytes:
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    widths = sorted({curve["width"] for curve in curves})
    # keep text as text in SVG, and equal charts equal bytes
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "clearhead", "font.size": 9}):
        columns = min(len(widths), PANELS_PER_ROW)
        rows = -(-len(widths) // columns)
        figure = Figure(figsize=(4.2 * columns, 0.6 + 3.8 * rows), layout="constrained")
        panels = figure.subplots(rows, columns, sharey=True, squeeze=False).flatten()
        for panel, width in zip(panels, widths, strict=False):
            _draw_panel(panel, [curve for curve in curves if curve["width"] == width], width)
        for panel in panels[len(widths) :]:
            panel.set_axis_off()
        panels[0].set_ylabel("milliseconds")
        panels[0].legend(frameon=False, fontsize=8)
        figure.suptitle(title, fontsize=10)
        figure.supxlabel(CAPTION, fontsize=8)
        file = io.BytesIO()
        figure.savefig(file, format=kind, dpi=160, metadata={"Date": None} if kind == "svg" else None)
    return file.getvalue()


def _draw_panel(panel: Any, curves: Sequence[Mapping[str, Any]], width: int) -> None:
    """Draw one width with log-log axes and a line at n = d."""
    for curve in curves:
        color = COLORS.get(curve["layer"], SOFT)
        label = f"{curve['title']}: {curve['cost']}"
        panel.plot(curve["lengths"], curve["ms"], "o-", color=color, label=label, markersize=3, linewidth=1.6)
        panel.plot(curve["lengths"], curve["theory"], "--", color=color, linewidth=0.9)
    lengths = curves[0]["lengths"]
    panel.set_xscale("log", base=2)
    panel.set_yscale("log")
    panel.set_xticks(lengths, [f"{length:,}" for length in lengths], rotation=45)
    panel.minorticks_off()
    if min(lengths) <= width <= max(lengths):
        panel.axvline(width, color=SOFT, linewidth=0.7, linestyle=":")
    panel.set_title(f"d = {width:,}", fontsize=9)
    panel.set_xlabel("length n (dotted: n = d)")
    panel.grid(alpha=0.25, linewidth=0.5)


def _write_page(title: str, svg: str, tables: Mapping[str, Table], notes: Sequence[str]) -> str:
    """Render a standalone page."""
    parts = [
        '<!doctype html><html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width">',
        f"<title>{escape(title)}</title><style>{STYLE}</style></head><body>",
        "<h1>Attention, recurrence and convolution</h1>",
        inline_svg(svg),
    ]
    parts += [write_captioned_table(caption, *table) for caption, table in tables.items()]
    parts += [f"<p>{escape(note)}</p>" for note in notes]
    return "\n".join([*parts, "</body></html>\n"])
