"""Results of decoding: hypotheses and generated texts."""

from __future__ import annotations

from dataclasses import dataclass

from clearhead.html import format_number, pluralize, render_table, short_repr


@dataclass(frozen=True, kw_only=True)
class Hypothesis:
    """One answer of a decoder."""

    text: str = ""  # empty without a tokenizer, and if only ids are requested
    ids: tuple[int, ...]  # the prefix and the new tokens, including the end token
    score: float  # sum of log probabilities / length ** length_penalty
    stopped: str  # "end" token, "length", "stop" text, "blocked" (every token is forbidden), "empty" (no input)

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return short_repr(type(self).__name__, repr(self.text), f"score {self.score:.4f}", f"stopped by {self.stopped}")


@dataclass(frozen=True, kw_only=True)
class GeneratedText(Hypothesis):
    """The best answer to a text, and the other requested answers."""

    source: str
    best: tuple[Hypothesis, ...]  # all answers, best first
    truncated: int = 0  # number of truncated source tokens

    def __repr__(self) -> str:
        answer_count = f"{len(self.best)} answers" if len(self.best) > 1 else None
        truncation = f"{pluralize(self.truncated, 'source token')} truncated" if self.truncated else None
        score, stopped = f"score {self.score:.4f}", f"stopped by {self.stopped}"
        return short_repr("GeneratedText", repr(self.text), score, stopped, answer_count, truncation)

    def _repr_html_(self) -> str:
        rows = [(answer.text, format_number(answer.score), len(answer.ids), answer.stopped) for answer in self.best]
        notes = [f"{pluralize(self.truncated, 'source token', ('was', 'were'))} truncated."] if self.truncated else []
        return render_table(self.source, ("answer", "score", "tokens", "stopped by"), rows, notes)
