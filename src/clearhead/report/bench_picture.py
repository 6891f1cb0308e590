"""Draw runtimes as bars: throughput, latency, memory and load time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from clearhead.explain.svg import Element, add_line, add_rect, add_text, finish_picture, shorten, start_picture
from clearhead.explain.svg.colors import SAND, SOFT, TEAL
from clearhead.report.formatting import finite_number

WIDTH = 640.0
NAMES_END, BARS_END = 200.0, 510.0
ROW_HEIGHT = 24.0
OWN_COLOR, PEER_COLOR = TEAL, SAND
PANELS = (  # key of the bar, key of its thin line, heading, number format
    ("texts_per_second", None, "texts per second (higher is better)", "{:,.0f}"),
    ("p50_ms", "p99_ms", "milliseconds for one text, median to 99th percentile (lower is better)", "{:,.2f}"),
    ("resident_mb", None, "megabytes of memory (lower is better)", "{:,.0f}"),
    ("load_seconds", None, "seconds to load and answer once, including imports (lower is better)", "{:,.2f}"),
)
CAPTION = "Each runtime has its own process; all take turns on the same texts. Medians over rounds."


def speeds_picture(title: str, rows: Sequence[Mapping[str, Any]]) -> str:
    """Draw a standalone picture; each row has a title, a name and figures, which may be None."""
    summary = "; ".join(f"{row['title']}: {_describe_runtime(row)}" for row in rows)
    root = start_picture(WIDTH, title, f"{summary}.")
    y = 62.0
    for value, line, heading, number_format in PANELS:
        measured_rows = [row for row in rows if finite_number(row.get(value)) is not None]
        if not measured_rows:
            continue
        add_text(root, heading, x=20, y=y, font_size=13, font_weight="600")
        y += 12
        ends = [finite_number(row.get(key)) or 0.0 for row in measured_rows for key in (value, line) if key is not None]
        limit = max(*ends, 1e-9)
        for row in measured_rows:
            _draw_bar(root, row, (value, line), number_format, y, limit)
            y += ROW_HEIGHT
        y += 22
    return finish_picture(root, WIDTH, y, CAPTION)


def _draw_bar(
    root: Element, row: Mapping[str, Any], keys: tuple[str, str | None], number_format: str, y: float, limit: float
) -> None:
    def to_x(value: float) -> float:
        return NAMES_END + (BARS_END - NAMES_END) * value / limit

    value, end = float(row[keys[0]]), None if keys[1] is None else finite_number(row.get(keys[1]))
    middle = y + ROW_HEIGHT / 2
    name = shorten(str(row["title"]), 16.0)
    add_text(root, name, x=NAMES_END - 8, y=middle + 4, font_size=12, text_anchor="end")
    is_own = row["name"] in ("engine", "int8", "core")
    width = max(to_x(value) - NAMES_END, 1.0)
    add_rect(root, x=NAMES_END, y=y + 4, width=width, height=ROW_HEIGHT - 8, fill=OWN_COLOR if is_own else PEER_COLOR)
    right_end = to_x(value)
    if end is not None and end > value:
        right_end = to_x(end)
        add_line(root, x1=to_x(value), x2=right_end, y1=middle, y2=middle, stroke=SOFT, stroke_width=1.5)
    label = (
        number_format.format(value) if end is None else f"{number_format.format(value)} – {number_format.format(end)}"
    )
    add_text(root, label, x=right_end + 6, y=middle + 4, font_size=12)


def _describe_runtime(row: Mapping[str, Any]) -> str:
    values = ((finite_number(row.get(key)), number_format, heading) for key, _, heading, number_format in PANELS)
    return ", ".join(
        f"{number_format.format(value)} {heading.split(' (')[0]}"
        for value, number_format, heading in values
        if value is not None
    )
