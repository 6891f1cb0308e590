"""Draw a beam tree: a column per step, with the path of the answer in blue."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from clearhead.errors import InputError
from clearhead.explain.beams import BeamTree
from clearhead.explain.figure import figure_page, write_figure
from clearhead.explain.svg import (
    Element,
    add_curve,
    add_group,
    add_rect,
    add_text,
    add_tooltip,
    finish_picture,
    shorten,
    start_picture,
    text_width,
    typeset_minus,
)
from clearhead.explain.svg.colors import BLUE, GRAY, GREEN, INK, PALE_BLUE, PALE_GRAY, PALE_GREEN, SOFT, WHITE

MAX_NODES = 1200  # a larger picture is not readable
MAX_WIDTH = 1180.0
BOX_HEIGHT, MIN_BOX_WIDTH = 34.0, 70.0
ROW_GAP, STEP_GAP = 10.0, 30.0  # between boxes of a step, between steps
ANSWER_COLOR, FINISHED_COLOR, DROPPED_COLOR = BLUE, GREEN, GRAY
CAPTION = (
    "Each column is a step. All hypotheses of the beam are extended by every token, and the best extensions form the "
    "next beam. A box shows the token, its probability and the sum of log probabilities. Blue: path of the answer; "
    "green: finished; gray: not continued."
)


@dataclass(frozen=True, kw_only=True)
class BoxPosition:
    """The position of a box."""

    x: float
    width: float
    y: float  # its middle
    offset: float  # from the first box of its column
    line: int  # long trees continue on the next line


def beams_svg(tree: BeamTree) -> str:
    """Draw the tree as SVG: a column per step, best hypotheses on top, the path of the answer in blue."""
    if len(tree.nodes) > MAX_NODES:
        raise InputError(
            f"The tree has {len(tree.nodes):,} nodes, but at most {MAX_NODES:,} are drawn. Use a shorter text, a "
            "smaller num_beams or max_length, or save it as .json."
        )
    columns: list[list[int]] = [[] for _ in range(tree.steps)]
    for number, node in enumerate(tree.nodes):
        columns[node.step - 1].append(number)
    for column in columns:
        column.sort(key=lambda number: -tree.nodes[number].score)
    root = start_picture(MAX_WIDTH, f"Beam search with {tree.num_beams} beams", _describe_tree(tree))
    edges, boxes = add_group(root), add_group(root)
    first = 78.0 + BOX_HEIGHT / 2
    positions = {-1: BoxPosition(x=24, width=14 * text_width(tree.opening) + 18, y=first, offset=0.0, line=0)}
    _draw_box(boxes, positions[-1], tree.opening, "", ANSWER_COLOR, bold=True)
    x, top, band, band_height, total_width = 24 + positions[-1].width + STEP_GAP, first, 0, 0.0, 0.0
    for step, column in enumerate(columns, 1):
        column_width = max(MIN_BOX_WIDTH, *(13 * text_width(tree.nodes[number].token.label) + 18 for number in column))
        if x + column_width > MAX_WIDTH - 24:  # continue on the next line
            x, top, band, band_height = 24 + STEP_GAP, top + band_height + 44, band + 1, 0.0
        add_text(
            root,
            str(step),
            x=x + column_width / 2,
            y=top - BOX_HEIGHT / 2 - 8,
            font_size=11,
            fill=SOFT,
            text_anchor="middle",
        )
        for rank, number in enumerate(column):
            row = rank * (BOX_HEIGHT + ROW_GAP)
            positions[number] = BoxPosition(x=x, width=column_width, y=top + row, offset=row, line=band)
            _draw_edge(
                edges, positions[tree.nodes[number].parent], positions[number], in_answer=tree.nodes[number].in_answer
            )
            _draw_node(boxes, tree, number, positions[number])
        x += column_width + STEP_GAP
        band_height, total_width = (
            max(band_height, len(column) * (BOX_HEIGHT + ROW_GAP)),
            max(total_width, x - STEP_GAP + 24),
        )
    total_width = max(560.0, total_width)
    y = top + band_height + 12
    for rank, (text, score, _) in enumerate(tree.answers, 1):
        line = f"{rank}.  {_format_score(score, 3)}   {shorten(text, (total_width - 130) / 13.5)}"
        style = {"font_weight": "700", "fill": ANSWER_COLOR} if rank == 1 else {"fill": INK}
        add_text(root, line, x=24, y=y, font_size=13, **style)
        y += 20
    return finish_picture(root, total_width, y + 12, CAPTION)


def _draw_node(group: Element, tree: BeamTree, number: int, position: BoxPosition) -> None:
    node = tree.nodes[number]
    color = (
        ANSWER_COLOR
        if node.in_answer
        else FINISHED_COLOR
        if node.finished_score is not None
        else INK
        if _has_continuation(tree, number)
        else DROPPED_COLOR
    )
    sentence = " ".join(node_before.token.label for node_before in tree.path_to(number))
    title = f"{sentence}: {_format_score(node.score, 3)}"
    if node.finished_score is not None:
        title += f", finished with {_format_score(node.finished_score, 3)}"
    probability = f"{node.probability:.2f}" if node.probability >= 0.005 else "<.01"
    subtitle = f"{probability} · {_format_score(node.score, 2)}"
    _draw_box(
        group,
        position,
        node.token.label,
        subtitle,
        color,
        bold=node.in_answer,
        filled=node.finished_score is not None,
        title=title,
    )


def _format_score(value: float, digits: int) -> str:
    return typeset_minus(f"{value:.{digits}f}")


def _has_continuation(tree: BeamTree, number: int) -> bool:
    return any(node.parent == number for node in tree.nodes[number + 1 :])


def _draw_edge(group: Element, a: BoxPosition, b: BoxPosition, *, in_answer: bool) -> None:
    style: dict[str, str | float] = {"fill": "none", "stroke": ANSWER_COLOR if in_answer else PALE_GRAY}
    style["stroke_width"] = 3 if in_answer else 1.2
    x1, y1, x2, y2 = a.x + a.width, a.y, b.x, b.y
    if a.line != b.line:  # leave at the right edge, enter at the left
        end = x1 + STEP_GAP / 2
        add_curve(group, (x1, y1), (x1, y1), (end, y1), (end, y1), **style)
        x1, y1 = 16.0, b.y - b.offset + a.offset
    bend = (x2 - x1) / 2
    add_curve(group, (x1, y1), (x1 + bend, y1), (x2 - bend, y2), (x2, y2), **style)


def _draw_box(
    group: Element,
    position: BoxPosition,
    label: str,
    subtitle: str,
    color: str,
    *,
    bold: bool = False,
    filled: bool = False,
    title: str = "",
) -> None:
    fill = {ANSWER_COLOR: PALE_BLUE, FINISHED_COLOR: PALE_GREEN}.get(color, WHITE) if filled or bold else WHITE
    x, y, width = position.x, position.y, position.width
    box = add_rect(
        group,
        class_="beginning",
        x=x,
        y=y - BOX_HEIGHT / 2,
        width=width,
        height=BOX_HEIGHT,
        rx=6,
        fill=fill,
        stroke=color,
        stroke_width=2 if bold or filled else 1,
    )
    if title:
        add_tooltip(box, title)
    style = {"fill": color if color in (ANSWER_COLOR, DROPPED_COLOR, FINISHED_COLOR) else INK} | (
        {"font_weight": "700"} if bold else {}
    )
    baseline = y - 1 if subtitle else y + 5
    add_text(group, label, x=x + width / 2, y=baseline, font_size=13, text_anchor="middle", class_="token", **style)
    if subtitle:
        add_text(group, subtitle, x=x + width / 2, y=y + 12, font_size=9, text_anchor="middle", fill=SOFT)


def _describe_tree(tree: BeamTree) -> str:
    best = "; ".join(f"{shorten(text, 40)} with {score:.3f}" for text, score, _ in tree.answers[:4])
    return f"A tree of {len(tree.nodes)} hypotheses in {tree.steps} steps. Answers: {best}."


def save_beams(tree: BeamTree, path: str | os.PathLike[str], *, source_note: str = "") -> Path:
    """Write the tree to .svg, .png, .html (with a table of answers) or .json."""
    return write_figure(
        path,
        svg=lambda: beams_svg(tree),
        page=lambda: figure_page(
            f"Beam search for “{shorten(tree.source, 60)}”",
            beams_svg(tree),
            tables={"Answers": tree.table()},
            source_note=source_note,
        ),
        data=tree.to_json,
    )
