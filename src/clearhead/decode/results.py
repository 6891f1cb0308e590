"""What a decoder wrote, as values."""

from __future__ import annotations

from dataclasses import dataclass

from clearhead.html import format_number, render_table, short_repr


@dataclass(frozen=True, kw_only=True)
class Hypothesis:
    """One answer of a decoder: what every search returns, and what users, alignment and pictures get."""

    text: str = ""  # empty without a tokenizer, and where ids alone are asked for
    ids: tuple[int, ...]  # the prefix and the new tokens, the end symbol with them
    score: float  # sum of log probabilities / length ** length_penalty
    stopped: str  # "end" symbol, "length", a "stop" text, "blocked" (every word is forbidden), "empty" (no input)

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return short_repr(type(self).__name__, repr(self.text), f"score {self.score:.4f}", f"stopped by {self.stopped}")


@dataclass(frozen=True, kw_only=True)
class Generated(Hypothesis):
    """The best answer to one text, and the others that were asked for."""

    source: str
    best: tuple[Hypothesis, ...]  # best first, this one too
    truncated: int = 0  # tokens of the source that were cut off

    def __repr__(self) -> str:
        others = f"{len(self.best)} answers" if len(self.best) > 1 else None
        cut = f"{self.truncated} tokens of the source cut off" if self.truncated else None
        score, stopped = f"score {self.score:.4f}", f"stopped by {self.stopped}"
        return short_repr("Generated", repr(self.text), score, stopped, others, cut)

    def _repr_html_(self) -> str:
        rows = [(one.text, format_number(one.score), len(one.ids), one.stopped) for one in self.best]
        notes = [f"{self.truncated} tokens of the source were cut off."] if self.truncated else []
        return render_table(self.source, ("answer", "score", "tokens", "stopped by"), rows, notes)
