"""The traced texts as a heading of pictures and pages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clearhead.explain.svg import escape_invisible, shorten, text_width
from clearhead.explain.tokens import label_tokens, spell_text

if TYPE_CHECKING:
    from clearhead.core.trace import Trace

MAX_HEADING_LINES = 2  # of one text above a picture


def heading_texts(trace: Trace) -> list[str]:
    """Return the texts of a trace: one, a pair, or a source and its target."""
    target = trace.target
    if target is None and trace.target_tokens is not None:
        target = spell_text(label_tokens(trace.next_tokens or trace.target_tokens))
    texts = [trace.text if trace.text is not None else spell_text(label_tokens(trace.tokens))]
    texts += [] if trace.second is None else [trace.second]
    texts += [f"→ {target}"] if target else []
    return [
        text for text in (" ".join(escape_invisible(" ".join(str(text).split())).split()) for text in texts) if text
    ]


def join_heading(trace: Trace, max_width: float = 200.0) -> str:
    """Join the texts in one line; several texts are shortened equally."""
    texts = heading_texts(trace)
    joined = " | ".join(shorten(text, max_width / len(texts)) for text in texts) if texts else ""
    return joined.replace(" | →", " →")


def wrap_heading(trace: Trace, max_width: float) -> list[str]:
    """Break the texts into lines of at most `max_width` em: one text in up to two lines, several in one line each."""
    texts = heading_texts(trace)
    if len(texts) != 1 or text_width(texts[0]) <= max_width:
        return [shorten(text, max_width) for text in texts]
    lines: list[str] = []
    remaining = texts[0]
    while remaining and len(lines) < MAX_HEADING_LINES - 1 and text_width(remaining) > max_width:
        line = shorten(remaining, max_width + 0.9).removesuffix("…")
        line_break = line.rfind(" ")
        line = (
            line[:line_break] if line_break > len(line) // 2 and remaining[len(line) : len(line) + 1] != " " else line
        )
        lines.append(line.strip())
        remaining = remaining[len(line) :].strip()
    return [*lines, shorten(remaining, max_width)]
