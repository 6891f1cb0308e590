"""What a decoder wrote, as values."""

from __future__ import annotations

from dataclasses import dataclass

from clearhead.notebook import figure, table_html


@dataclass(frozen=True, kw_only=True)
class Hypothesis:
    """One answer."""

    text: str
    ids: tuple[int, ...]  # the prefix and the new tokens, the end symbol with them
    score: float  # sum of log probabilities / length ** length_penalty
    stopped: str  # "end" symbol, "length", a "stop" text, "blocked" (every word is forbidden), "empty" (no input)

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, kw_only=True)
class Generated(Hypothesis):
    """The best answer to one text, and the others that were asked for."""

    source: str
    best: tuple[Hypothesis, ...]  # best first, this one too
    truncated: int = 0  # tokens of the source that were cut off

    def _repr_html_(self) -> str:
        rows = [(one.text, figure(one.score), len(one.ids), one.stopped) for one in self.best]
        notes = [f"{self.truncated} tokens of the source were cut off."] if self.truncated else []
        return table_html(self.source, ("answer", "score", "tokens", "stopped by"), rows, notes)
