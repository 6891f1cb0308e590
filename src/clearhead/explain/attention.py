"""The lecture's picture: lines from the word that looks to the words it looks at, darker where it looks harder."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from clearhead.explain.drawing import INK, SOFT, Element, add, finish, picture
from clearhead.explain.tokens import Token, find_word
from clearhead.explain.view import FAINTEST, View, check_head, check_layer, colour, darkness, telling_layer, view

if TYPE_CHECKING:
    import numpy as np

    from clearhead.core.trace import Trace

WIDTH, LEFT, RIGHT, ROW = 640.0, 200.0, 440.0, 22.0
SWATCH, SWATCHES = 46.0, 12
FAN = 14.0  # heads leave and arrive side by side, so that no head hides another


@dataclass(frozen=True, kw_only=True)
class Choice:
    """What is drawn: one layer of a view, some heads, lines from some queries to some keys."""

    seen: View
    layer: int
    heads: list[int]
    queries: list[int]
    keys: list[int]
    words: list[int] | None  # the words that were asked for

    @property
    def probs(self) -> np.ndarray[Any, Any]:
        """(heads of the layer, queries, keys)."""
        return self.seen.probs(self.layer)

    @property
    def top(self) -> float:
        """Where the columns begin, below the title and the rows of the legend."""
        rows = -(-len(self.heads) // SWATCHES) if len(self.heads) > 1 else 0
        return 62.0 + ROW * rows

    def y(self, place: int) -> float:
        """The middle of a token's row."""
        return self.top + ROW * (place + 1)


def attention_svg(
    trace: Trace,
    *,
    layer: int | None = None,
    head: int | None = None,
    word: int | str | None = None,
    part: str = "encoder",
    special: bool = True,
) -> str:
    """Who looks at whom in one layer, as SVG: one head or all together, from every word or from one.

    `special=False` leaves out the lines from and to [CLS], [SEP] and their like; the caption says what share that is.
    """
    seen = view(trace, part)
    words = None if word is None else find_word(seen.queries, word)
    if head is not None and layer is None:
        check_head(seen, max(range(len(seen.layers)), key=lambda i: len(seen.probs(i))), head)
    at = check_layer(seen, layer) if layer is not None else telling_layer(seen, words, head)
    choice = Choice(
        seen=seen,
        layer=at,
        heads=list(range(len(seen.probs(at)))) if head is None else [check_head(seen, at, head)],
        queries=words if words is not None else _shown(seen.queries, special),
        keys=_shown(seen.keys, special),
        words=words,
    )
    root = picture(WIDTH, _title(choice), _description(choice))
    _legend(root, choice)
    add(root, "text", "looks (query)", x=LEFT, y=choice.top, font_size=12, fill=SOFT, text_anchor="end")
    add(root, "text", "at (key)", x=RIGHT, y=choice.top, font_size=12, fill=SOFT)
    if words is not None:
        _stripes(root, choice)
    _lines(root, choice)
    _column(root, choice, seen.queries, LEFT - 6, "end", words or [])
    _column(root, choice, seen.keys, RIGHT + 6, "start", [])
    end = choice.y(max(len(seen.queries), len(seen.keys))) + 16
    return finish(root, WIDTH, end, _caption(choice, given=layer is not None))


def _shown(tokens: list[Token], special: bool) -> list[int]:
    return [place for place, token in enumerate(tokens) if special or not token.special]


def _column(root: Element, choice: Choice, tokens: list[Token], x: float, anchor: str, bold: list[int]) -> None:
    column = add(root, "g", font_size=14, text_anchor=anchor)
    for place, token in enumerate(tokens):
        style = {"font_weight": "700"} if place in bold else {}
        fill = SOFT if token.special else INK
        text = add(column, "text", token.label, class_="token", x=x, y=choice.y(place) + 5, fill=fill, **style)
        if token.whole != token.label:
            add(text, "title", token.whole)


def _lines(root: Element, choice: Choice) -> None:
    seen = choice.seen
    for lane, head in enumerate(choice.heads):
        shift = FAN * ((lane + 0.5) / len(choice.heads) - 0.5)
        group = add(root, "g", stroke=colour(head), data_head=head)
        for query in choice.queries:
            for key in choice.keys:
                prob = float(choice.probs[head, query, key])
                if prob < FAINTEST:
                    continue
                line = add(
                    group, "line", class_="look", data_query=query, data_key=key, data_prob=prob,
                    x1=LEFT, y1=choice.y(query) + shift, x2=RIGHT, y2=choice.y(key) + shift,
                    stroke_opacity=darkness(prob), stroke_width=1 + 2 * prob,
                )  # fmt: skip
                if choice.words is not None:
                    add(line, "title", f"head {head}: {seen.queries[query].whole} → {seen.keys[key].whole}: {prob:.3f}")


def _stripes(root: Element, choice: Choice) -> None:
    """Behind each key, a stripe per head: who of them looks there."""
    across = (WIDTH - 16 - RIGHT) / len(choice.heads)
    group = add(root, "g", class_="stripes")
    for lane, head in enumerate(choice.heads):
        for key in choice.keys:
            prob = float(choice.probs[head, choice.queries, key].max())
            if prob >= FAINTEST:
                add(
                    group, "rect", x=RIGHT + across * lane, y=choice.y(key) - 10, width=across, height=20,
                    fill=colour(head), fill_opacity=0.5 * darkness(prob),
                )  # fmt: skip


def _legend(root: Element, choice: Choice) -> None:
    if len(choice.heads) == 1:
        return
    for start in range(0, len(choice.heads), SWATCHES):
        row = choice.heads[start : start + SWATCHES]
        left, y = (WIDTH - SWATCH * len(row)) / 2, 54.0 + ROW * (start // SWATCHES)
        for place, head in enumerate(row):
            add(root, "rect", x=left + SWATCH * place + 6, y=y - 10, width=12, height=12, rx=2, fill=colour(head))
            add(root, "text", str(head), x=left + SWATCH * place + 22, y=y, font_size=12, fill=SOFT)


def _title(choice: Choice) -> str:
    heads = f"head {choice.heads[0]}" if len(choice.heads) == 1 else f"all {len(choice.heads)} heads"
    title = f"{choice.seen.name}, layer {choice.layer}, {heads}"
    if not choice.words:
        return title
    texts = list(dict.fromkeys(choice.seen.queries[place].label for place in choice.words))
    return f"{title}, from " + " ".join(f"“{text}”" for text in texts[:3]) + (" …" if len(texts) > 3 else "")


def _description(choice: Choice) -> str:
    """The strongest lines in words."""
    queries, keys = choice.seen.queries, choice.seen.keys
    looks = []
    for head in choice.heads:
        for query in choice.queries:
            key = max(choice.keys, key=lambda k: float(choice.probs[head, query, k]), default=None)
            if key is not None:
                looks.append((float(choice.probs[head, query, key]), head, query, key))
    told = [
        f"{queries[query].label} looks at {keys[key].label} with {prob:.2f} (head {head})"
        for prob, head, query, key in sorted(looks, key=lambda look: -look[0])[:8]
    ]
    return "The strongest: " + "; ".join(told) + "." if told else "No line is drawn."


def _caption(choice: Choice, *, given: bool) -> str:
    seen, count = choice.seen, len(choice.seen.layers)
    which = f"layer {choice.layer} of 0 to {count - 1}" if count > 1 else "the only layer"
    why = "" if given or count == 1 else ", chosen because its heads look most firmly at the most different words"
    each = f"head {choice.heads[0]}" if len(choice.heads) == 1 else "one colour per head"
    who = " The target looks at the source." if seen.part == "cross" else ""
    hidden = [place for place in range(len(seen.keys)) if place not in choice.keys]
    share = float(choice.probs[choice.heads][:, choice.queries][:, :, hidden].sum(-1).mean()) if choice.queries else 0.0
    left = f" Lines to special tokens are left out; they have {share:.0%} of the attention." if hidden else ""
    return (
        f"{seen.name}: {which}{why}; {each}.{who}{left} "
        f"The darker the line, the larger the probability; below {FAINTEST} no line is drawn."
    )
