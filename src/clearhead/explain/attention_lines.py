"""Draw attention as lines from query tokens to key tokens; the darker, the larger the probability."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from clearhead.errors import InputError
from clearhead.explain.focus import (
    describe_hidden_share,
    find_informative_word,
    find_requested_word,
    needs_special_tokens,
    select_tokens,
    sum_hidden_probs,
)
from clearhead.explain.headings import wrap_heading
from clearhead.explain.svg import (
    Element,
    add_group,
    add_label,
    add_line,
    add_rect,
    add_text,
    add_tooltip,
    finish_picture,
    head_color,
    prob_to_opacity,
    start_picture,
)
from clearhead.explain.svg.colors import INK, SOFT
from clearhead.explain.svg.frame import HEADING_EM, LINE_HEIGHT
from clearhead.explain.tokens import Token, spell_words
from clearhead.explain.trace_view import (
    MIN_DRAWN_PROB,
    AttentionView,
    check_any_head,
    check_head,
    check_layer,
    find_informative_layer,
    view_part,
)

if TYPE_CHECKING:
    import numpy as np

    from clearhead.core.trace import Trace

WIDTH, LEFT, RIGHT, ROW_HEIGHT = 640.0, 200.0, 440.0, 22.0
SWATCH_WIDTH, SWATCHES_PER_ROW = 46.0, 12
HEAD_SPREAD = 14.0  # heads are drawn side by side, so that none hides another


@dataclass(frozen=True, kw_only=True)
class LineDiagram:
    """The contents of a picture: layer, heads, queries and keys."""

    attention: AttentionView
    layer: int
    heads: list[int]
    shown_queries: list[int]  # left column
    shown_keys: list[int]  # right column
    selected_queries: list[int] | None  # queries with lines; None: all shown queries
    word_requested: bool  # whether the caller selected the word
    heading: list[str]

    @property
    def queries(self) -> list[int]:
        """The queries with lines."""
        return self.shown_queries if self.selected_queries is None else self.selected_queries

    @property
    def probs(self) -> np.ndarray[Any, Any]:
        """(heads of the layer, queries, keys)."""
        return self.attention.probs(self.layer)

    @property
    def top(self) -> float:
        """The top of the columns, below title and legend."""
        rows = -(-len(self.heads) // SWATCHES_PER_ROW) if len(self.heads) > 1 else 0
        return 62.0 + ROW_HEIGHT * rows + LINE_HEIGHT * len(self.heading)

    def y(self, row: int) -> float:
        """Return the vertical center of a row."""
        return self.top + ROW_HEIGHT * (row + 1)


def attention_svg(
    trace: Trace,
    *,
    layer: int | None = None,
    head: int | None = None,
    word: int | str | None = None,
    part: str = "encoder",
    special: bool = False,
    all_words: bool = False,
) -> str:
    """Draw the attention of one layer as SVG: one head or all heads, from one word or all words.

    Without `word`, lines start at the most informative word; `all_words` draws the lines of all words. Special tokens
    such as [CLS] are hidden and the caption reports their share of the attention; `special=True` shows them.
    """
    check_words(word, all_words=all_words)
    attention = view_part(trace, part)
    words = find_requested_word(attention, word)
    special = needs_special_tokens(attention, special, words)
    if words is None and not all_words:
        words = find_informative_word(attention)
    if head is not None and layer is None:
        check_any_head(attention, head)
    layer_index = check_layer(attention, layer) if layer is not None else find_informative_layer(attention, words, head)
    diagram = LineDiagram(
        attention=attention,
        layer=layer_index,
        heads=list(range(len(attention.probs(layer_index))))
        if head is None
        else [check_head(attention, layer_index, head)],
        shown_queries=select_tokens(attention.queries, special),
        shown_keys=select_tokens(attention.keys, special),
        selected_queries=words,
        word_requested=word is not None,
        heading=wrap_heading(trace, (WIDTH - 30) / HEADING_EM),
    )
    root = start_picture(WIDTH, _write_title(diagram), _describe_strongest_lines(diagram), diagram.heading)
    _draw_legend(root, diagram)
    add_text(root, "query", x=LEFT, y=diagram.top, font_size=12, fill=SOFT, text_anchor="end")
    add_text(root, "key", x=RIGHT, y=diagram.top, font_size=12, fill=SOFT)
    if words is not None:
        _draw_stripes(root, diagram)
    _draw_lines(root, diagram)
    _draw_column(root, diagram, [attention.queries[index] for index in diagram.shown_queries], LEFT - 6, "end")
    _draw_column(root, diagram, [attention.keys[index] for index in diagram.shown_keys], RIGHT + 6, "start")
    end = diagram.y(max(len(diagram.shown_queries), len(diagram.shown_keys))) + 16
    return finish_picture(root, WIDTH, end, _write_caption(diagram, layer_given=layer is not None))


def check_words(word: int | str | None, *, all_words: bool) -> None:
    """Raise InputError if both `word` and `all_words` are set."""
    if word is not None and all_words:
        raise InputError("word and all_words exclude each other; set only one of them.")


def _draw_column(root: Element, choice: LineDiagram, tokens: list[Token], x: float, anchor: str) -> None:
    column = add_group(root, font_size=14, text_anchor=anchor)
    bold = {choice.shown_queries.index(index) for index in choice.selected_queries or ()} if anchor == "end" else set()
    for row, token in enumerate(tokens):
        style = {"font_weight": "700"} if row in bold else {}
        fill = SOFT if token.special else INK
        add_label(column, token.label, token.tooltip, class_="token", x=x, y=choice.y(row) + 5, fill=fill, **style)


def _draw_lines(root: Element, diagram: LineDiagram) -> None:
    attention = diagram.attention
    for lane, head in enumerate(diagram.heads):
        shift = HEAD_SPREAD * ((lane + 0.5) / len(diagram.heads) - 0.5)
        group = add_group(root, stroke=head_color(head), data_head=head)
        for query in diagram.queries:
            start = diagram.y(diagram.shown_queries.index(query)) + shift
            for row, key in enumerate(diagram.shown_keys):
                prob = float(diagram.probs[head, query, key])
                if prob < MIN_DRAWN_PROB:
                    continue
                line = add_line(
                    group,
                    class_="look",
                    data_query=query,
                    data_key=key,
                    data_prob=prob,
                    x1=LEFT,
                    y1=start,
                    x2=RIGHT,
                    y2=diagram.y(row) + shift,
                    stroke_opacity=prob_to_opacity(prob),
                    stroke_width=1 + 2 * prob,
                )
                if diagram.selected_queries is not None:
                    add_tooltip(
                        line,
                        f"head {head}: {attention.queries[query].tooltip} → {attention.keys[key].tooltip}: {prob:.3f}",
                    )


def _draw_stripes(root: Element, diagram: LineDiagram) -> None:
    """Draw a stripe per head behind each key that gets attention."""
    stripe_width = (WIDTH - 16 - RIGHT) / len(diagram.heads)
    group = add_group(root, class_="stripes")
    for lane, head in enumerate(diagram.heads):
        for row, key in enumerate(diagram.shown_keys):
            prob = float(diagram.probs[head, diagram.queries, key].max())
            if prob >= MIN_DRAWN_PROB:
                add_rect(
                    group,
                    x=RIGHT + stripe_width * lane,
                    y=diagram.y(row) - 10,
                    width=stripe_width,
                    height=20,
                    fill=head_color(head),
                    fill_opacity=0.5 * prob_to_opacity(prob),
                )


def _draw_legend(root: Element, diagram: LineDiagram) -> None:
    if len(diagram.heads) == 1:
        return
    for start in range(0, len(diagram.heads), SWATCHES_PER_ROW):
        row = diagram.heads[start : start + SWATCHES_PER_ROW]
        left = (WIDTH - SWATCH_WIDTH * len(row)) / 2
        y = 54.0 + LINE_HEIGHT * len(diagram.heading) + ROW_HEIGHT * (start // SWATCHES_PER_ROW)
        for column, head in enumerate(row):
            add_rect(
                root, x=left + SWATCH_WIDTH * column + 6, y=y - 10, width=12, height=12, rx=2, fill=head_color(head)
            )
            add_text(root, str(head), x=left + SWATCH_WIDTH * column + 22, y=y, font_size=12, fill=SOFT)


def _write_title(diagram: LineDiagram) -> str:
    heads = f"head {diagram.heads[0]}" if len(diagram.heads) == 1 else f"all {len(diagram.heads)} heads"
    title = f"{diagram.attention.name}, layer {diagram.layer}, {heads}"
    if not diagram.selected_queries:
        return title
    texts = spell_words(diagram.attention.queries, diagram.selected_queries)
    return f"{title}, from " + " ".join(f"“{text}”" for text in texts[:3]) + (" …" if len(texts) > 3 else "")


def _describe_strongest_lines(diagram: LineDiagram) -> str:
    """Describe the strongest lines in words."""
    queries, keys = diagram.attention.queries, diagram.attention.keys
    links = []
    for head in diagram.heads:
        for query in diagram.queries:
            key = max(diagram.shown_keys, key=lambda k: float(diagram.probs[head, query, k]), default=None)
            if key is not None:
                links.append((float(diagram.probs[head, query, key]), head, query, key))
    sentences = [
        f"{queries[query].label} attends to {keys[key].label} with {prob:.2f} (head {head})"
        for prob, head, query, key in sorted(links, key=lambda link: -link[0])[:8]
    ]
    return "Strongest lines: " + "; ".join(sentences) + "." if sentences else "No lines."


def _write_caption(diagram: LineDiagram, *, layer_given: bool) -> str:
    attention, count = diagram.attention, len(diagram.attention.layers)
    layer_name = f"layer {diagram.layer} of 0 to {count - 1}" if count > 1 else "the only layer"
    reason = "" if layer_given or count == 1 else ", chosen because its attention is the most focused"
    colors = f"head {diagram.heads[0]}" if len(diagram.heads) == 1 else "one color per head"
    direction = " Target tokens attend to source tokens." if attention.part == "cross" else ""
    hidden_note = ""
    if len(diagram.shown_keys) < len(attention.keys):
        hidden_share = float(
            sum_hidden_probs(diagram.probs[diagram.heads][:, diagram.queries], diagram.shown_keys).mean()
        )
        hidden_note = " " + describe_hidden_share(hidden_share)
    elif len(diagram.shown_queries) < len(attention.queries):
        hidden_note = " Special tokens are hidden."
    start_note = (
        ""
        if diagram.word_requested or diagram.selected_queries is None
        else " The lines start at the most informative word."
    )
    return (
        f"{attention.name}: {layer_name}{reason}; {colors}.{direction}{start_note}{hidden_note} "
        f"The darker the line, the larger the probability; lines below {MIN_DRAWN_PROB} are not drawn."
    )
