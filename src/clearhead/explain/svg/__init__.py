"""The SVG toolkit: elements, text measurement, axes, colors, plots, and conversion to PNG.

Every SVG element of `explain` and `report` is created here in a tree of elements, so that every text is escaped.
Callers decide what is drawn where; they never name elements.
"""

from __future__ import annotations

from clearhead.explain.svg.axes import Axis, format_tick, index_axis, index_ticks, linear_axis, log_axis, unit_axis
from clearhead.explain.svg.colors import head_color, prob_to_opacity
from clearhead.explain.svg.elements import (
    Element,
    Point,
    add_circle,
    add_curve,
    add_group,
    add_image,
    add_label,
    add_line,
    add_polygon,
    add_polyline,
    add_rect,
    add_text,
    add_tooltip,
    inline_svg,
    rotation,
)
from clearhead.explain.svg.frame import finish_embedded, finish_picture, start_embedded, start_picture
from clearhead.explain.svg.numbers import format_exponent, format_number, typeset_minus
from clearhead.explain.svg.plot import Plot, RowPlot
from clearhead.explain.svg.raster import png, require_matplotlib
from clearhead.explain.svg.text import escape_invisible, shorten, text_width

__all__ = [
    "Axis",
    "Element",
    "Plot",
    "Point",
    "RowPlot",
    "add_circle",
    "add_curve",
    "add_group",
    "add_image",
    "add_label",
    "add_line",
    "add_polygon",
    "add_polyline",
    "add_rect",
    "add_text",
    "add_tooltip",
    "escape_invisible",
    "finish_embedded",
    "finish_picture",
    "format_exponent",
    "format_number",
    "format_tick",
    "head_color",
    "index_axis",
    "index_ticks",
    "inline_svg",
    "linear_axis",
    "log_axis",
    "png",
    "prob_to_opacity",
    "require_matplotlib",
    "rotation",
    "shorten",
    "start_embedded",
    "start_picture",
    "text_width",
    "typeset_minus",
    "unit_axis",
]
