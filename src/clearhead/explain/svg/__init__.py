"""The drawing kit: shapes, text measuring, axes, colors, plots, and the painter that turns a picture into PNG.

Every SVG element of `explain` and `report` is written here, from a tree of elements, so that every text is escaped.
A view decides what is drawn and where; it never names an element.
"""

from __future__ import annotations

from clearhead.explain.svg.axes import Axis, axis, index_axis, index_ticks, power_axis, tick_text, unit_axis
from clearhead.explain.svg.colors import darkness, head_color
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
from clearhead.explain.svg.frame import embedded_picture, finish_embedded, finish_picture, picture
from clearhead.explain.svg.numbers import exponent, number, typeset_minus
from clearhead.explain.svg.plot import Plot, RowPlot
from clearhead.explain.svg.raster import check_paint, png
from clearhead.explain.svg.text import shorten, visible, width

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
    "axis",
    "check_paint",
    "darkness",
    "embedded_picture",
    "exponent",
    "finish_embedded",
    "finish_picture",
    "head_color",
    "index_axis",
    "index_ticks",
    "inline_svg",
    "number",
    "picture",
    "png",
    "power_axis",
    "rotation",
    "shorten",
    "tick_text",
    "typeset_minus",
    "unit_axis",
    "visible",
    "width",
]
