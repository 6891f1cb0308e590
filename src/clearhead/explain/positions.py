"""Draw the position encoding of a model, and the similarity of its positions."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from clearhead.deprecation import renamed_fields, renamed_parameters
from clearhead.errors import InputError
from clearhead.explain.figure import figure_page, write_figure
from clearhead.explain.svg import (
    Element,
    add_image,
    add_rect,
    add_text,
    finish_picture,
    index_ticks,
    rotation,
    start_picture,
    typeset_minus,
)
from clearhead.explain.svg.colors import FRAME, SOFT, map_diverging_colors
from clearhead.explain.svg.pixels import encode_png
from clearhead.html import short_repr

if TYPE_CHECKING:
    from clearhead.model import Model
    from clearhead.shape import Shape

    Array = np.ndarray[Any, Any]

MAX_POSITIONS = 512  # drawn
FORMULA = "PE(pos, 2i) = sin(pos / 10000^(2i/d)), PE(pos, 2i+1) = cos(pos / 10000^(2i/d))"


@renamed_fields(likeness="similarity")
@dataclass(frozen=True, kw_only=True)
class Positions:
    """A position table: rows are positions (or distances), columns are dimensions (or heads)."""

    kind: str  # sinusoidal, sinusoidal_halves, learned, rotary or buckets
    title: str
    note: str  # a sentence or two of explanation
    table: Array  # (positions, columns)
    first: int  # the number of the first row
    axes: tuple[str, str]  # what rows and columns are

    def __repr__(self) -> str:
        return short_repr("Positions", self.kind, f"table {tuple(self.table.shape)}", self.title)

    @property
    def similarity(self) -> Array | None:
        """Cosine similarity of all pairs of positions; None for bucketed distances."""
        if self.kind == "buckets":
            return None
        rows = self.table.astype(np.float64)
        rows = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
        cosines: Array = rows @ rows.T
        return cosines

    def to_json(self) -> dict[str, Any]:
        """Return plain values, rounded to five digits."""
        return {
            "kind": self.kind,
            "note": self.note,
            "rows": self.axes[0],
            "columns": self.axes[1],
            "first": self.first,
            "table": np.round(self.table.astype(np.float64), 5).tolist(),
        }


def sinusoids(count: int, width: int, *, halves: bool = False) -> Array:
    """Return the sinusoidal table (positions, width): sines and cosines interleaved, or in two halves."""
    position_column, even_dimensions = np.arange(count)[:, None], np.arange(0, width, 2)
    # PE(pos, 2i) = sin(pos / 10000^(2i/d)), PE(pos, 2i+1) = cos(the same)
    angles = position_column / 10000.0 ** (even_dimensions / width)
    sin, cos = np.sin(angles), np.cos(angles)[:, : width // 2]
    if halves:
        return np.concatenate([sin, cos], 1)
    waves = np.empty((count, width))
    waves[:, 0::2], waves[:, 1::2] = sin, cos
    return waves


def positions(model: Model, count: int = 64) -> Positions:
    """Return the first `count` positions of a model: sinusoidal, learned, rotary or bucketed distances."""
    if isinstance(count, bool) or not isinstance(count, int) or not 2 <= count <= MAX_POSITIONS:
        raise InputError(f"count must be an integer from 2 to {MAX_POSITIONS}, got {count!r:.40}.")
    shape = model.shape.stack
    if shape.recurrent is not None:
        raise InputError("A recurrent network has no position table, because it reads in order.")
    if shape.positions.startswith("sinusoidal"):
        return _sinusoidal_positions(shape, count)
    if shape.positions == "learned":
        return _learned_positions(model, count)
    if shape.relative == "rotary":
        return _rotary_positions(shape, count)
    if shape.relative == "buckets":
        return _bucket_positions(model, count)
    raise InputError(
        f"Positions of this kind ({shape.relative}) cannot be drawn; expected sinusoidal, learned or rotary positions, "
        "or the distance buckets of T5."
    )


def _sinusoidal_positions(shape: Shape, count: int) -> Positions:
    halves = shape.positions == "sinusoidal_halves"
    layout = "all sines precede all cosines" if halves else "sines and cosines alternate"
    return Positions(
        kind=shape.positions,
        title=f"Sinusoidal positions, width {shape.width}",
        first=0,
        table=sinusoids(count, shape.width, halves=halves),
        axes=("position", "dimension"),
        note=(
            f"{FORMULA}; {layout}. Each position has a pattern of waves of decreasing frequency that is added to the "
            "token embedding; the nearer two positions are, the more similar their patterns."
        ),
    )


def _learned_positions(model: Model, count: int) -> Positions:
    shape = model.shape.stack
    rows = model.tensor("stack.positions.table.weight")[shape.position_offset :][:count]
    return Positions(
        kind="learned",
        title=f"Learned positions, width {rows.shape[1]}",
        first=0,
        table=rows,
        axes=("position", "dimension"),
        note=(
            "Each position has a learned vector that is added to the token embedding. Similarity of near positions is "
            "learned, not built in."
        ),
    )


def _rotary_positions(shape: Shape, count: int) -> Positions:
    even_dimensions = np.arange(0, shape.head_width, 2)
    angles = np.arange(count)[:, None] / shape.rope_theta ** (even_dimensions / shape.head_width)
    return Positions(
        kind="rotary",
        title=f"Rotary positions, {len(even_dimensions)} pairs of dimensions",
        first=0,
        table=np.concatenate([np.sin(angles), np.cos(angles)], 1),
        axes=("position", "sines, then cosines"),
        note=(
            "Queries and keys are rotated by an angle that grows with the position "
            f"(base {shape.rope_theta:g}), so that their dot product depends on the distance. The table has the sines "
            "and cosines of the angles."
        ),
    )


def _bucket_positions(model: Model, count: int) -> Positions:
    shape = model.shape.stack
    table = model.tensor("stack.relative.table.weight")  # (buckets, heads)
    max_distance = min(count, 128)
    distances = np.arange(-max_distance, max_distance + 1)
    return Positions(
        kind="buckets",
        title=f"Distances in buckets, {table.shape[1]} heads",
        first=-max_distance,
        table=table[_find_buckets(distances, shape)],
        axes=("distance", "head"),
        note=(
            "Each head adds a learned bias to its attention scores that depends on the distance between query "
            "and key. Small distances have their own bias, large ones share a bucket."
        ),
    )


def _find_buckets(distances: Array, shape: Shape) -> Array:
    """Return the bucket of each distance, for a bidirectional stack."""
    half = shape.buckets // 2
    exact, magnitudes = half // 2, np.abs(distances)
    ratio = np.log(np.maximum(magnitudes, 1) / exact) / np.log(shape.bucket_max_distance / exact)
    far_buckets = np.minimum(exact + (ratio * (half - exact)).astype(np.int64), half - 1)
    buckets: Array = (distances > 0) * half + np.where(magnitudes < exact, magnitudes, far_buckets)
    return buckets


@renamed_parameters(found="model_positions")
def positions_svg(model_positions: Positions) -> str:
    """Draw the table as a heat map, next to the similarity of all pairs of positions."""
    similarity = model_positions.similarity
    rows, columns = model_positions.table.shape
    height = 300.0
    width = height * (1.6 if columns > 2 * rows else 1.0) if similarity is not None else height
    left = 64.0 if similarity is not None else 110.0
    total_width = left + width + (88 + height + 32 if similarity is not None else left)
    root = start_picture(total_width, model_positions.title, model_positions.note)
    top = 84.0
    limit = float(np.abs(model_positions.table).max()) or 1.0
    if model_positions.kind == "learned":  # a few large dimensions would hide the others
        limit = float(np.quantile(np.abs(model_positions.table), 0.98)) or limit
    _draw_heatmap(
        root, model_positions.table / limit, (left, top, width, height), model_positions.axes, model_positions.first
    )
    if similarity is not None:
        _draw_heatmap(
            root,
            similarity,
            (left + width + 88, top, height, height),
            (model_positions.axes[0], model_positions.axes[0]),
            model_positions.first,
        )
        names = ("position table", "cosine similarity of positions")
        for name, x in zip(names, (left + width / 2, left + width + 88 + height / 2), strict=True):
            add_text(root, name, x=x, y=top - 14, font_size=13, text_anchor="middle", font_weight="600")
    _draw_color_scale(root, total_width / 2, top + height + 60, limit)
    return finish_picture(root, total_width, top + height + 104, model_positions.note)


def _draw_heatmap(
    root: Element, values: Array, area: tuple[float, float, float, float], axes: tuple[str, str], first: int
) -> None:
    x, y, w, h = area
    sharp = "image-rendering:pixelated"
    pixels = encode_png(map_diverging_colors(values))
    add_image(root, pixels, x=x, y=y, width=w, height=h, preserveAspectRatio="none", style=sharp)
    add_rect(root, x=x, y=y, width=w, height=h, fill="none", stroke=FRAME)
    rows, columns = values.shape
    for index in index_ticks(rows):
        middle = y + h * (index + 0.5) / rows + 4
        add_text(root, str(index + first), x=x - 6, y=middle, font_size=11, fill=SOFT, text_anchor="end")
    start = first if axes[0] == axes[1] else 0
    for index in index_ticks(columns):
        middle = x + w * (index + 0.5) / columns
        add_text(root, str(index + start), x=middle, y=y + h + 15, font_size=11, fill=SOFT, text_anchor="middle")
    add_text(root, axes[1], x=x + w / 2, y=y + h + 32, font_size=12, fill=SOFT, text_anchor="middle")
    low, mid = x - 38, y + h / 2
    add_text(
        root,
        axes[0],
        x=low,
        y=mid,
        font_size=12,
        fill=SOFT,
        text_anchor="middle",
        transform=rotation(-90, low, mid),
    )


def _draw_color_scale(root: Element, middle: float, y: float, limit: float) -> None:
    """Draw the color scale."""
    pixels = encode_png(map_diverging_colors(np.linspace(-1, 1, 91)[None]))
    add_image(root, pixels, x=middle - 90, y=y, width=180, height=10, preserveAspectRatio="none")
    for offset, value in ((-90, -limit), (0, 0.0), (90, limit)):
        label = typeset_minus(f"{value:.2g}", exponents=True)
        add_text(root, label, x=middle + offset, y=y + 22, font_size=11, fill=SOFT, text_anchor="middle")


@renamed_parameters(found="model_positions")
def save_positions(model_positions: Positions, path: str | os.PathLike[str], *, source_note: str = "") -> Path:
    """Write the picture to .svg, .png or .html, or the table to .json."""
    return write_figure(
        path,
        svg=lambda: positions_svg(model_positions),
        page=lambda: figure_page("Position encoding", positions_svg(model_positions), source_note=source_note),
        data=model_positions.to_json,
    )
