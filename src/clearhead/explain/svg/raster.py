"""Convert the SVG figures of clearhead to PNG: matplotlib draws the few kinds of elements that they contain."""

from __future__ import annotations

import base64
import io
import re
import warnings
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any
from xml.etree import ElementTree

from clearhead.errors import MissingExtraError

PIXELS_PER_UNIT = 2.0  # pixels for each unit of a picture
MAX_SIDE_PIXELS = 12_000  # along one side; larger pictures are painted less sharply
INHERITED = (
    "fill",
    "fill-opacity",
    "stroke",
    "stroke-width",
    "stroke-opacity",
    "stroke-dasharray",
    "font-size",
    "font-weight",
    "text-anchor",
)
ANCHORS = {"start": "left", "middle": "center", "end": "right"}
# the first holds most letters; the others, where they are installed, what it lacks
FONTS = (
    "DejaVu Sans",
    "Noto Sans CJK SC",
    "Noto Sans CJK JP",
    "Noto Sans",
    "Noto Sans Arabic",
    "Noto Sans Hebrew",
    "Noto Sans Devanagari",
    "Noto Emoji",
    "Hiragino Sans",
    "PingFang SC",
    "Yu Gothic",
    "Microsoft YaHei",
    "Arial Unicode MS",
    "Segoe UI Emoji",
    "Segoe UI Symbol",
)

Styles = Mapping[str, str]


def require_matplotlib() -> None:
    """Raise MissingExtraError if matplotlib is not installed."""
    if find_spec("matplotlib") is None:
        raise MissingExtraError("Writing .png (.svg and .html work without it)", "train")


def png(svg: str) -> bytes:
    """Convert an SVG figure of `clearhead.explain` to PNG."""
    require_matplotlib()
    from matplotlib import rc_context
    from matplotlib.figure import Figure
    from matplotlib.font_manager import fontManager

    root = ElementTree.fromstring(svg)  # noqa: S314 - our own picture, never a file
    width, height = float(root.attrib["width"]), float(root.attrib["height"])
    dpi = 72 * min(PIXELS_PER_UNIT, MAX_SIDE_PIXELS / max(width, height))
    installed = set(fontManager.get_font_names())
    with rc_context({"font.family": [name for name in FONTS if name in installed]}), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # characters without a font become boxes
        figure = Figure(figsize=(width / 72, height / 72), dpi=dpi)
        axes = figure.add_axes((0, 0, 1, 1))
        axes.set(xlim=(0, width), ylim=(height, 0))
        axes.set_axis_off()
        painter = _Painter(axes)
        painter.walk(root, {"fill": "#000000"})
        painter.flush()
        file = io.BytesIO()
        figure.savefig(file, format="png", dpi=dpi, facecolor="#ffffff", metadata={"Software": None})
    return file.getvalue()


class _Painter:
    """Draws elements in order; consecutive squares or lines are drawn together."""

    def __init__(self, axes: Any) -> None:
        self.axes, self.layer = axes, 0
        self.squares: list[tuple[list[tuple[float, float]], Any, Any, float]] = []
        self.lines: list[tuple[list[tuple[float, float]], Any, float]] = []

    def walk(self, element: ElementTree.Element, style: Styles) -> None:
        """Draw an element and its children."""
        style = {**style, **{name: value for name in INHERITED if (value := element.get(name)) is not None}}
        kind = element.tag.split("}")[-1]
        if kind in ("title", "desc"):
            return
        if kind == "rect" and not element.get("rx"):
            self.flush(squares=False)
            x, y, w, h = (float(element.get(name, 0)) for name in ("x", "y", "width", "height"))
            corners = [(x, y), (x + w, y), (x + w, y + h), (x, y + h)]
            self.squares.append((corners, _fill_color(style), _stroke_color(style), _stroke_width(style)))
        elif kind == "line":
            self.flush(lines=False)
            ends = [(float(element.get(f"x{end}", 0)), float(element.get(f"y{end}", 0))) for end in "12"]
            self.lines.append((ends, _stroke_color(style), _stroke_width(style)))
        elif kind in PAINTERS:
            self.flush()
            self.layer += 1
            PAINTERS[kind](self.axes, element, style, self.layer)
        for child in element:
            self.walk(child, style)

    def flush(self, *, squares: bool = True, lines: bool = True) -> None:
        """Draw the collected squares and lines."""
        from matplotlib.collections import LineCollection, PolyCollection

        if squares and self.squares:
            self.layer += 1
            corners, fills, strokes, widths = zip(*self.squares, strict=True)
            self.axes.add_collection(
                PolyCollection(corners, facecolors=fills, edgecolors=strokes, linewidths=widths, zorder=self.layer)
            )
            self.squares = []
        if lines and self.lines:
            self.layer += 1
            ends, strokes, widths = zip(*self.lines, strict=True)
            self.axes.add_collection(LineCollection(ends, colors=strokes, linewidths=widths, zorder=self.layer))
            self.lines = []


def _fill_color(style: Styles) -> Any:
    return _with_opacity(style.get("fill", "none"), style.get("fill-opacity", "1"))


def _stroke_color(style: Styles) -> Any:
    return _with_opacity(style.get("stroke", "none"), style.get("stroke-opacity", "1"))


def _with_opacity(name: str, opacity: str) -> Any:
    return (0.0, 0.0, 0.0, 0.0) if name == "none" else (name, min(1.0, float(opacity)))


def _stroke_width(style: Styles) -> float:
    return 0.0 if style.get("stroke", "none") == "none" else float(style.get("stroke-width", 1))


def _paint_rounded_box(axes: Any, element: ElementTree.Element, style: Styles, layer: int) -> None:
    from matplotlib.patches import FancyBboxPatch

    x, y, w, h, r = (float(element.get(name, 0)) for name in ("x", "y", "width", "height", "rx"))
    if w <= 0 or h <= 0:
        return
    r = min(r, w / 2, h / 2)
    box = FancyBboxPatch(
        (x, y),
        w,
        h,
        boxstyle=f"round,pad=0,rounding_size={r}",
        facecolor=_fill_color(style),
        edgecolor=_stroke_color(style),
        linewidth=_stroke_width(style),
        zorder=layer,
        linestyle="--" if style.get("stroke-dasharray") else "-",
    )
    axes.add_patch(box)


def _paint_text(axes: Any, element: ElementTree.Element, style: Styles, layer: int) -> None:
    if not element.text:
        return
    turned = re.match(r"rotate\((-?[\d.]+)", element.get("transform", ""))
    x, y, size = float(element.get("x", 0)), float(element.get("y", 0)), float(style.get("font-size", 12))
    axes.text(
        x,
        y,
        element.text,
        fontsize=size,
        color=style.get("fill"),
        ha=ANCHORS[style.get("text-anchor", "start")],
        va="baseline",
        rotation_mode="anchor",
        rotation=-float(turned[1]) if turned else 0,
        zorder=layer,
        parse_math=False,
        weight="bold" if style.get("font-weight", "400") >= "600" else "normal",
    )


def _paint_curve(axes: Any, element: ElementTree.Element, style: Styles, layer: int) -> None:
    """Draw a path of the form `M x y C a b, c d, x y`, the only kind in these figures."""
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    coordinates = [float(text) for text in re.findall(r"-?[\d.]+", element.get("d", ""))]
    points = list(zip(coordinates[::2], coordinates[1::2], strict=True))
    codes = [Path.MOVETO, *[Path.CURVE4] * (len(points) - 1)]
    outline = {"edgecolor": _stroke_color(style), "linewidth": _stroke_width(style), "capstyle": "round"}
    axes.add_patch(PathPatch(Path(points, codes), fill=False, zorder=layer, **outline))


def _paint_image(axes: Any, element: ElementTree.Element, style: Styles, layer: int) -> None:  # noqa: ARG001
    from matplotlib.image import imread

    x, y, w, h = (float(element.get(name, 0)) for name in ("x", "y", "width", "height"))
    data = base64.b64decode(element.get("href", "").split(",", 1)[1])
    pixels = imread(io.BytesIO(data), format="png")
    axes.imshow(pixels, extent=(x, x + w, y + h, y), interpolation="nearest", aspect="auto", zorder=layer)


PAINTERS = {"rect": _paint_rounded_box, "text": _paint_text, "path": _paint_curve, "image": _paint_image}
