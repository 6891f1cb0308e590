"""The lecture's picture: lines from the word that looks to the words it looks at, darker where it looks harder."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from clearhead.errors import InputError
from clearhead.explain.focus import (
    hidden_note,
    hidden_share,
    informative_word,
    requested_word,
    show_special,
    shown_tokens,
)
from clearhead.explain.headings import heading_lines
from clearhead.explain.svg import (
    Element,
    add_group,
    add_label,
    add_line,
    add_rect,
    add_text,
    add_tooltip,
    darkness,
    finish_picture,
    head_color,
    picture,
)
from clearhead.explain.svg.colors import INK, SOFT
from clearhead.explain.svg.frame import HEADING_EM, LINE
from clearhead.explain.tokens import Token, spelled_words
from clearhead.explain.trace_view import FAINTEST, View, check_any_head, check_head, check_layer, telling_layer, view

if TYPE_CHECKING:
    import numpy as np

    from clearhead.core.trace import Trace

WIDTH, LEFT, RIGHT, ROW = 640.0, 200.0, 440.0, 22.0
SWATCH, SWATCHES = 46.0, 12
FAN = 14.0  # heads leave and arrive side by side, so that no head hides another


@dataclass(frozen=True, kw_only=True)
class Choice:
    """What is drawn: one layer of a view, some heads, lines from some queries to some keys."""

    attention: View
    layer: int
    heads: list[int]
    shown: list[int]  # the queries that stand on the left
    keys: list[int]  # the keys that stand on the right
    words: list[int] | None  # the only queries with lines; None: all that are shown
    asked: bool  # whether these words were asked for
    heading: list[str]

    @property
    def queries(self) -> list[int]:
        """The queries that lines start from."""
        return self.shown if self.words is None else self.words

    @property
    def probs(self) -> np.ndarray[Any, Any]:
        """(heads of the layer, queries, keys)."""
        return self.attention.probs(self.layer)

    @property
    def top(self) -> float:
        """Where the columns begin, below the title and the rows of the legend."""
        rows = -(-len(self.heads) // SWATCHES) if len(self.heads) > 1 else 0
        return 62.0 + ROW * rows + LINE * len(self.heading)

    def y(self, row: int) -> float:
        """The middle of a row."""
        return self.top + ROW * (row + 1)


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
    """Who looks at whom in one layer, as SVG: one head or all together, from one word or from every word.

    Without `word`, the lines start at the most informative word; `all_words` draws those of every word. [CLS], [SEP]
    and their like are hidden, and the caption says what share of the attention they get; `special=True` shows them.
    """
    check_words(word, all_words=all_words)
    attention = view(trace, part)
    words = requested_word(attention, word)
    special = show_special(attention, special, words)
    if words is None and not all_words:
        words = informative_word(attention)
    if head is not None and layer is None:
        check_any_head(attention, head)
    at = check_layer(attention, layer) if layer is not None else telling_layer(attention, words, head)
    choice = Choice(
        attention=attention,
        layer=at,
        heads=list(range(len(attention.probs(at)))) if head is None else [check_head(attention, at, head)],
        shown=shown_tokens(attention.queries, special),
        keys=shown_tokens(attention.keys, special),
        words=words,
        asked=word is not None,
        heading=heading_lines(trace, (WIDTH - 30) / HEADING_EM),
    )
    root = picture(WIDTH, _title(choice), _description(choice), choice.heading)
    _legend(root, choice)
    add_text(root, "looks (query)", x=LEFT, y=choice.top, font_size=12, fill=SOFT, text_anchor="end")
    add_text(root, "at (key)", x=RIGHT, y=choice.top, font_size=12, fill=SOFT)
    if words is not None:
        _stripes(root, choice)
    _lines(root, choice)
    _column(root, choice, [attention.queries[index] for index in choice.shown], LEFT - 6, "end")
    _column(root, choice, [attention.keys[index] for index in choice.keys], RIGHT + 6, "start")
    end = choice.y(max(len(choice.shown), len(choice.keys))) + 16
    return finish_picture(root, WIDTH, end, _caption(choice, layer_given=layer is not None))


def check_words(word: int | str | None, *, all_words: bool) -> None:
    """Refuse one word and all words at once."""
    if word is not None and all_words:
        raise InputError("word and all_words exclude each other: draw the lines of one word, or those of all.")


def _column(root: Element, choice: Choice, tokens: list[Token], x: float, anchor: str) -> None:
    column = add_group(root, font_size=14, text_anchor=anchor)
    bold = {choice.shown.index(index) for index in choice.words or ()} if anchor == "end" else set()
    for row, token in enumerate(tokens):
        style = {"font_weight": "700"} if row in bold else {}
        fill = SOFT if token.special else INK
        add_label(column, token.label, token.whole, class_="token", x=x, y=choice.y(row) + 5, fill=fill, **style)


def _lines(root: Element, choice: Choice) -> None:
    attention = choice.attention
    for lane, head in enumerate(choice.heads):
        shift = FAN * ((lane + 0.5) / len(choice.heads) - 0.5)
        group = add_group(root, stroke=head_color(head), data_head=head)
        for query in choice.queries:
            start = choice.y(choice.shown.index(query)) + shift
            for row, key in enumerate(choice.keys):
                prob = float(choice.probs[head, query, key])
                if prob < FAINTEST:
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
                    y2=choice.y(row) + shift,
                    stroke_opacity=darkness(prob),
                    stroke_width=1 + 2 * prob,
                )
                if choice.words is not None:
                    add_tooltip(
                        line, f"head {head}: {attention.queries[query].whole} → {attention.keys[key].whole}: {prob:.3f}"
                    )


def _stripes(root: Element, choice: Choice) -> None:
    """Behind each key, a stripe per head: who of them looks there."""
    across = (WIDTH - 16 - RIGHT) / len(choice.heads)
    group = add_group(root, class_="stripes")
    for lane, head in enumerate(choice.heads):
        for row, key in enumerate(choice.keys):
            prob = float(choice.probs[head, choice.queries, key].max())
            if prob >= FAINTEST:
                add_rect(
                    group,
                    x=RIGHT + across * lane,
                    y=choice.y(row) - 10,
                    width=across,
                    height=20,
                    fill=head_color(head),
                    fill_opacity=0.5 * darkness(prob),
                )


def _legend(root: Element, choice: Choice) -> None:
    if len(choice.heads) == 1:
        return
    for start in range(0, len(choice.heads), SWATCHES):
        row = choice.heads[start : start + SWATCHES]
        left = (WIDTH - SWATCH * len(row)) / 2
        y = 54.0 + LINE * len(choice.heading) + ROW * (start // SWATCHES)
        for column, head in enumerate(row):
            add_rect(root, x=left + SWATCH * column + 6, y=y - 10, width=12, height=12, rx=2, fill=head_color(head))
            add_text(root, str(head), x=left + SWATCH * column + 22, y=y, font_size=12, fill=SOFT)


def _title(choice: Choice) -> str:
    heads = f"head {choice.heads[0]}" if len(choice.heads) == 1 else f"all {len(choice.heads)} heads"
    title = f"{choice.attention.name}, layer {choice.layer}, {heads}"
    if not choice.words:
        return title
    texts = spelled_words(choice.attention.queries, choice.words)
    return f"{title}, from " + " ".join(f"“{text}”" for text in texts[:3]) + (" …" if len(texts) > 3 else "")


def _description(choice: Choice) -> str:
    """The strongest lines in words."""
    queries, keys = choice.attention.queries, choice.attention.keys
    looks = []
    for head in choice.heads:
        for query in choice.queries:
            key = max(choice.keys, key=lambda k: float(choice.probs[head, query, k]), default=None)
            if key is not None:
                looks.append((float(choice.probs[head, query, key]), head, query, key))
    sentences = [
        f"{queries[query].label} looks at {keys[key].label} with {prob:.2f} (head {head})"
        for prob, head, query, key in sorted(looks, key=lambda strongest: -strongest[0])[:8]
    ]
    return "The strongest: " + "; ".join(sentences) + "." if sentences else "No line is drawn."


def _caption(choice: Choice, *, layer_given: bool) -> str:
    attention, count = choice.attention, len(choice.attention.layers)
    which = f"layer {choice.layer} of 0 to {count - 1}" if count > 1 else "the only layer"
    why = "" if layer_given or count == 1 else ", chosen because its heads look most firmly at the most different words"
    colors = f"head {choice.heads[0]}" if len(choice.heads) == 1 else "one colour per head"
    who = " The target looks at the source." if attention.part == "cross" else ""
    left = ""
    if len(choice.keys) < len(attention.keys):
        share = float(hidden_share(choice.probs[choice.heads][:, choice.queries], choice.keys).mean())
        left = " " + hidden_note(share)
    elif len(choice.shown) < len(attention.queries):
        left = " Special tokens are hidden."
    start = "" if choice.asked or choice.words is None else " The lines start at the most informative word."
    return (
        f"{attention.name}: {which}{why}; {colors}.{who}{start}{left} "
        f"The darker the line, the larger the probability; below {FAINTEST} no line is drawn."
    )
