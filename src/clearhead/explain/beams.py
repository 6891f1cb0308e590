"""Draw the tree of a beam search: the hypotheses of each step and the path of the answer."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clearhead.decode import BeamStep, Hypothesis
from clearhead.deprecation import renamed_fields, renamed_parameters
from clearhead.errors import InputError
from clearhead.explain.decoder_tokens import describe_opening, label_token_ids, require_text
from clearhead.explain.figure import Table, figure_page, write_figure
from clearhead.explain.svg import (
    Element,
    add_curve,
    add_group,
    add_rect,
    add_text,
    add_tooltip,
    escape_invisible,
    finish_picture,
    shorten,
    start_picture,
    text_width,
    typeset_minus,
)
from clearhead.explain.svg.colors import BLUE, GRAY, GREEN, INK, PALE_BLUE, PALE_GRAY, PALE_GREEN, SOFT, WHITE
from clearhead.explain.tokens import Token
from clearhead.html import short_repr
from clearhead.model.generation import TextGenerator

if TYPE_CHECKING:
    from clearhead.model import Model

MAX_NODES = 1200  # a larger picture is not readable
MAX_WIDTH = 1180.0  # as wide as a picture gets
BOX_HEIGHT, ROW_GAP, STEP_GAP, MIN_BOX_WIDTH = (
    34.0,
    10.0,
    30.0,
    70.0,
)  # height of a box, between boxes, between steps, narrowest box
ANSWER_COLOR, FINISHED_COLOR, DROPPED_COLOR = BLUE, GREEN, GRAY
CAPTION = (
    "Each column is a step. All hypotheses of the beam are extended by every token, and the best extensions form the "
    "next beam. A box shows the token, its probability and the sum of log probabilities. Blue: path of the answer; "
    "green: finished; gray: not continued."
)


@renamed_fields(won="in_answer", kept="is_continued", finished="finished_score")
@dataclass(frozen=True, kw_only=True)
class BeamNode:
    """A hypothesis of the search after one step."""

    parent: int  # node index; -1: none
    step: int  # from 1
    group: int
    id: int
    token: Token
    score: float  # sum of log probabilities
    probability: float  # of this token, including penalties
    finished_score: float | None  # normalized score, if the hypothesis ended here
    is_continued: bool  # whether it stayed in the beam
    in_answer: bool  # whether it is on the path of the answer


@renamed_fields(beam="num_beams", said="path_to")
@dataclass(frozen=True, kw_only=True)
class BeamTree:
    """All hypotheses of a beam search over one text."""

    source: str
    num_beams: int
    opening: str  # text before the first token
    nodes: list[BeamNode]
    hypotheses: list[Hypothesis]  # finished, best first

    @property
    def answers(self) -> list[tuple[str, float, str]]:
        """The text, score and stop reason of each answer."""
        return [(hypothesis.text, hypothesis.score, hypothesis.stopped) for hypothesis in self.hypotheses]

    @property
    def steps(self) -> int:
        """The number of tokens of the longest hypothesis."""
        return max((node.step for node in self.nodes), default=0)

    def path_to(self, number: int) -> list[BeamNode]:
        """Return the nodes of a hypothesis from the first to node `number`."""
        path: list[BeamNode] = []
        while number >= 0:
            path.append(self.nodes[number])
            number = self.nodes[number].parent
        return path[::-1]

    def __repr__(self) -> str:
        best = repr(self.hypotheses[0].text) if self.hypotheses else "no answer"
        return short_repr("BeamTree", f"beam {self.num_beams}", f"{len(self.nodes)} hypotheses", best)

    def table(self) -> Table:
        """Return columns and rows: the answers with their scores."""
        rows = [
            (str(rank), escape_invisible(text), f"{score:.3f}", why)
            for rank, (text, score, why) in enumerate(self.answers, 1)
        ]
        return ("", "answer", "score", "stopped by"), rows

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        nodes = [
            {
                "number": number,
                "parent": None if node.parent < 0 else node.parent,
                "step": node.step,
                "group": node.group,
                "id": node.id,
                "token": node.token.raw,
                "score": round(node.score, 5),
                "probability": round(node.probability, 5),
                "kept": node.is_continued,
                "won": node.in_answer,
                "finished": None if node.finished_score is None else round(node.finished_score, 5),
            }
            for number, node in enumerate(self.nodes)
        ]
        answers = [{"text": text, "score": round(score, 5), "stopped": why} for text, score, why in self.answers]
        return {"source": self.source, "beam": self.num_beams, "answers": answers, "nodes": nodes}


@dataclass(frozen=True, kw_only=True)
class BoxPosition:
    """The position of a box."""

    x: float
    width: float
    y: float  # its middle
    offset: float  # from the first box of its column
    line: int  # long trees continue on the next line


@renamed_parameters(beam="num_beams")
def beam_tree(model: Model, text: str, *, num_beams: int = 4, **choices: Any) -> BeamTree:
    """Run a beam search on one text and record every step; `choices` are fields of `clearhead.decode.Decoding`."""
    require_text(text)
    writer = TextGenerator(model, num_beams=num_beams, **({"num_return_sequences": num_beams} | choices))
    if num_beams < 2:
        raise InputError(
            "num_beams must be at least 2 to draw a tree, got 1; for greedy decoding, use decoding_steps()."
        )
    nodes_so_far: list[dict[str, Any]] = []
    ways: dict[int, list[int]] = {}  # of each group: node indices of the beam, in search order

    def watch(step: BeamStep) -> None:
        before = ways.get(step.group, [-1])
        numbers = {}
        for rank in sorted({*step.finished, *step.continued}):
            parent, score = before[step.parents[rank]], step.scores[rank]
            numbers[rank] = len(nodes_so_far)
            nodes_so_far.append(
                {
                    "parent": parent,
                    "step": step.length + 1,
                    "group": step.group,
                    "id": step.token_ids[rank],
                    "score": score,
                    "probability": math.exp(score - (nodes_so_far[parent]["score"] if parent >= 0 else 0.0)),
                    "finished_score": step.finished.get(rank),
                    "is_continued": rank in step.continued,
                }
            )
        ways[step.group] = [numbers[rank] for rank in step.continued]

    answers = writer.generate_hypotheses(text, watch)
    if not answers:
        raise InputError("The text has no tokens to decode.")
    words = label_token_ids(model, [node["id"] for node in nodes_so_far])
    nodes = [BeamNode(**node, token=words[node["id"]], in_answer=False) for node in nodes_so_far]
    tree = BeamTree(
        source=text, num_beams=num_beams, opening=describe_opening(model, text), nodes=nodes, hypotheses=answers
    )
    return replace(tree, nodes=_mark_answer(tree, writer.new_ids(answers[0])))


def _mark_answer(tree: BeamTree, ids: list[int]) -> list[BeamNode]:
    """Mark the nodes on the path of the answer."""
    way: set[int] = set()
    for last, node in enumerate(tree.nodes):
        if (
            node.step == len(ids)
            and node.finished_score is not None
            and [step.id for step in tree.path_to(last)] == ids
        ):
            number = last
            while number >= 0:
                way.add(number)
                number = tree.nodes[number].parent
            break
    return [replace(node, in_answer=number in way) for number, node in enumerate(tree.nodes)]


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
    at = {-1: BoxPosition(x=24, width=14 * text_width(tree.opening) + 18, y=first, offset=0.0, line=0)}
    _draw_box(boxes, at[-1], tree.opening, "", ANSWER_COLOR, bold=True)
    x, top, band, tall, across = 24 + at[-1].width + STEP_GAP, first, 0, 0.0, 0.0
    for step, column in enumerate(columns, 1):
        wide = max(MIN_BOX_WIDTH, *(13 * text_width(tree.nodes[number].token.label) + 18 for number in column))
        if x + wide > MAX_WIDTH - 24:  # continue on the next line
            x, top, band, tall = 24 + STEP_GAP, top + tall + 44, band + 1, 0.0
        add_text(
            root, str(step), x=x + wide / 2, y=top - BOX_HEIGHT / 2 - 8, font_size=11, fill=SOFT, text_anchor="middle"
        )
        for rank, number in enumerate(column):
            row = rank * (BOX_HEIGHT + ROW_GAP)
            at[number] = BoxPosition(x=x, width=wide, y=top + row, offset=row, line=band)
            _draw_edge(edges, at[tree.nodes[number].parent], at[number], won=tree.nodes[number].in_answer)
            _draw_node(boxes, tree, number, at[number])
        x += wide + STEP_GAP
        tall, across = max(tall, len(column) * (BOX_HEIGHT + ROW_GAP)), max(across, x - STEP_GAP + 24)
    across = max(560.0, across)
    y = top + tall + 12
    for rank, (text, score, _) in enumerate(tree.answers, 1):
        line = f"{rank}.  {_format_score(score, 3)}   {shorten(text, (across - 130) / 13.5)}"
        style = {"font_weight": "700", "fill": ANSWER_COLOR} if rank == 1 else {"fill": INK}
        add_text(root, line, x=24, y=y, font_size=13, **style)
        y += 20
    return finish_picture(root, across, y + 12, CAPTION)


def _draw_node(group: Element, tree: BeamTree, number: int, spot: BoxPosition) -> None:
    node = tree.nodes[number]
    tone = (
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
    share = f"{node.probability:.2f}" if node.probability >= 0.005 else "<.01"
    under = f"{share} · {_format_score(node.score, 2)}"
    _draw_box(
        group,
        spot,
        node.token.label,
        under,
        tone,
        bold=node.in_answer,
        filled=node.finished_score is not None,
        title=title,
    )


def _format_score(value: float, digits: int) -> str:
    return typeset_minus(f"{value:.{digits}f}")


def _has_continuation(tree: BeamTree, number: int) -> bool:
    return any(node.parent == number for node in tree.nodes[number + 1 :])


def _draw_edge(group: Element, a: BoxPosition, b: BoxPosition, *, won: bool) -> None:
    style: dict[str, str | float] = {"fill": "none", "stroke": ANSWER_COLOR if won else PALE_GRAY}
    style["stroke_width"] = 3 if won else 1.2
    x1, y1, x2, y2 = a.x + a.width, a.y, b.x, b.y
    if a.line != b.line:  # leave at the right edge, enter at the left
        end = x1 + STEP_GAP / 2
        add_curve(group, (x1, y1), (x1, y1), (end, y1), (end, y1), **style)
        x1, y1 = 16.0, b.y - b.offset + a.offset
    bend = (x2 - x1) / 2
    add_curve(group, (x1, y1), (x1 + bend, y1), (x2 - bend, y2), (x2, y2), **style)


def _draw_box(
    group: Element,
    spot: BoxPosition,
    label: str,
    under: str,
    tone: str,
    *,
    bold: bool = False,
    filled: bool = False,
    title: str = "",
) -> None:
    fill = {ANSWER_COLOR: PALE_BLUE, FINISHED_COLOR: PALE_GREEN}.get(tone, WHITE) if filled or bold else WHITE
    x, y, wide = spot.x, spot.y, spot.width
    box = add_rect(
        group,
        class_="beginning",
        x=x,
        y=y - BOX_HEIGHT / 2,
        width=wide,
        height=BOX_HEIGHT,
        rx=6,
        fill=fill,
        stroke=tone,
        stroke_width=2 if bold or filled else 1,
    )
    if title:
        add_tooltip(box, title)
    style = {"fill": tone if tone in (ANSWER_COLOR, DROPPED_COLOR, FINISHED_COLOR) else INK} | (
        {"font_weight": "700"} if bold else {}
    )
    low = y - 1 if under else y + 5
    add_text(group, label, x=x + wide / 2, y=low, font_size=13, text_anchor="middle", class_="token", **style)
    if under:
        add_text(group, under, x=x + wide / 2, y=y + 12, font_size=9, text_anchor="middle", fill=SOFT)


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
