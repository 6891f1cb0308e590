"""Draw attention as a heat map: queries as rows, keys as columns; the darker, the larger the probability."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from clearhead.explain.focus import describe_hidden_share, select_tokens, sum_hidden_probs
from clearhead.explain.headings import wrap_heading
from clearhead.explain.svg import (
    Element,
    add_group,
    add_label,
    add_rect,
    add_tooltip,
    finish_picture,
    head_color,
    prob_to_opacity,
    rotation,
    start_picture,
    text_width,
)
from clearhead.explain.svg.colors import BLUE, FRAME, INK, SOFT, WHITE
from clearhead.explain.svg.frame import HEADING_EM, LINE_HEIGHT
from clearhead.explain.tokens import Token
from clearhead.explain.trace_view import check_head, check_layer, find_informative_layer, is_causal, view_part

if TYPE_CHECKING:
    import numpy as np

    from clearhead.core.trace import Trace

    Array = np.ndarray[Any, Any]

LABEL_ANGLE = 60  # degrees, steep enough that column labels do not overlap
MAX_HEADING_EM = 32.0  # em


def attention_heatmap_svg(
    trace: Trace, layer: int | None = None, head: int | None = None, part: str = "encoder", *, special: bool = False
) -> str:
    """Draw the probabilities of one head, or the mean of all heads, as an SVG matrix of queries by keys.

    Special tokens are hidden, and the caption reports their share of the attention; `special=True` shows them.
    """
    attention = view_part(trace, part)
    layer = find_informative_layer(attention, None, None) if layer is None else check_layer(attention, layer)
    probs = (
        attention.probs(layer).mean(0) if head is None else attention.probs(layer)[check_head(attention, layer, head)]
    )
    who = "mean of all heads" if head is None else f"head {head}"
    title = f"{attention.name}, layer {layer}, {who}"
    causal = " The white triangle is the causal mask." if is_causal(attention) else ""
    rows, columns = select_tokens(attention.queries, special), select_tokens(attention.keys, special)
    caption = (
        f"{title}. Rows: queries; columns: keys; "
        f"{describe_row_sums(probs[rows], columns)} The darker, the larger the probability.{causal}"
    )
    fill = BLUE if head is None else head_color(head)
    return matrix_svg(
        probs,
        attention.queries,
        attention.keys,
        title=title,
        caption=caption,
        fill=fill,
        selection=(rows, columns),
        heading=wrap_heading(trace, MAX_HEADING_EM),
    )


def describe_row_sums(probs: Array, columns: Sequence[int]) -> str:
    """Describe the row sums when only some columns are shown."""
    if len(columns) == probs.shape[1]:
        return "each row sums to 1."
    return describe_hidden_share(float(sum_hidden_probs(probs, columns).mean()), "special tokens are hidden")


def matrix_svg(
    probs: Array,
    queries: list[Token],
    keys: list[Token],
    *,
    title: str,
    caption: str,
    fill: str = BLUE,
    names: tuple[str, str] = ("queries", "keys"),
    marked: bool = False,
    heading: Sequence[str] = (),
    selection: tuple[Sequence[int], Sequence[int]] | None = None,
) -> str:
    """Draw probabilities of (queries, keys) as a heat map; `marked` frames the maximum of each row.

    `selection` contains the rows and columns to draw (default: all).
    """
    row_indices, column_indices = selection or (range(probs.shape[0]), range(probs.shape[1]))
    probs = probs[list(row_indices)][:, list(column_indices)]
    queries, keys = [queries[index] for index in row_indices], [keys[index] for index in column_indices]
    rows, columns = probs.shape
    cell = max(4.0, min(26.0, 720.0 / max(rows, columns)))
    size = min(13.0, max(3.5, cell * 0.72))
    left = 30 + size * max(text_width(token.label) for token in queries)
    above = size * max(text_width(token.label) for token in keys)
    total_width = max(
        420.0, left + cell * columns + 20 + above / 2, 30 + HEADING_EM * max(map(text_width, heading), default=0.0)
    )
    left += max(0.0, total_width - left - cell * columns - 20 - above / 2) / 2  # center small matrices
    top = 56.0 + 0.9 * above + LINE_HEIGHT * len(heading)
    description = f"A matrix of {rows} {names[0]} (rows) by {columns} {names[1]} (columns)."
    root = start_picture(total_width, title, description, heading)
    add_rect(root, x=left, y=top, width=cell * columns, height=cell * rows, fill=WHITE, stroke=FRAME)
    cells = add_group(root, fill=fill)
    for row in range(rows):
        for column in range(columns):
            prob = float(probs[row, column])
            if prob < 5e-4:
                continue
            square = add_rect(
                cells,
                class_="cell",
                data_query=row_indices[row],
                data_key=column_indices[column],
                data_prob=prob,
                x=left + cell * column,
                y=top + cell * row,
                width=cell,
                height=cell,
                fill_opacity=prob_to_opacity(prob),
            )
            if rows * columns <= 2500:
                add_tooltip(square, f"{queries[row].tooltip} → {keys[column].tooltip}: {prob:.3f}")
    if marked and cell >= 8:
        for row, column in enumerate(probs.argmax(1).tolist()):
            add_rect(
                root,
                class_="largest",
                x=left + cell * column + 1,
                y=top + cell * row + 1,
                width=cell - 2,
                height=cell - 2,
                rx=2,
                fill="none",
                stroke=fill,
                stroke_width=1.5,
            )
    _draw_labels(root, queries, keys, (left, top), cell, size)
    return finish_picture(root, total_width, top + cell * rows + 26, caption)


def _draw_labels(
    root: Element, queries: list[Token], keys: list[Token], corner: tuple[float, float], cell: float, size: float
) -> None:
    left, top = corner
    rows = add_group(root, font_size=size, text_anchor="end")
    columns = add_group(root, font_size=size)
    for index, token in enumerate(queries):
        _draw_label(rows, token, x=left - 6, y=top + cell * (index + 0.5) + size * 0.35)
    for index, token in enumerate(keys):
        x, y = left + cell * (index + 0.5) + size * 0.35, top - 6
        _draw_label(columns, token, x=x, y=y, transform=rotation(-LABEL_ANGLE, x, y, 2))


def _draw_label(group: Element, token: Token, **placement: str | float) -> None:
    add_label(group, token.label, token.tooltip, class_="token", fill=SOFT if token.special else INK, **placement)
