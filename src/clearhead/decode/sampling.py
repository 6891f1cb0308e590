"""One word after the other: the likeliest each time (greedy), or one drawn by its probability (sampling).

The word that was chosen is fed back, and the decoder is asked for the next one, until it says the end symbol.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from clearhead.decode.candidates import draw, likely, log_total
from clearhead.decode.generation_config import Plan
from clearhead.decode.logits_processors import Rules
from clearhead.decode.prompt import Given, Opened
from clearhead.decode.stopping_criteria import Stops

Array = np.ndarray[Any, Any]


@dataclass(kw_only=True)
class Answer:
    """New words, how they are judged, and why there are no more."""

    ids: list[int] = field(default_factory=list)  # without the prompt, the start symbol and the prefix
    score: float = 0.0  # sum of log probabilities / length ** length_penalty
    stopped: str = "length"  # "end" symbol, "length", a "stop" text, or "blocked": every word is forbidden


def walk(
    begun: Opened, plan: Plan, stops: Stops, draws: Sequence[np.random.Generator] = (), *, scored: bool = True
) -> Iterator[list[Answer]]:
    """The answers of all rows after each word; those that are finished leave the batch."""
    answers = [Answer() for _ in begun.history]
    rows = np.arange(len(answers))
    ends = np.array(plan.ends, np.int64)
    rules = Rules(plan, begun.limit)
    for new in range(begun.limit):
        logits = begun.logits
        own = logits.copy() if scored and rules.changes(new) else logits
        total = log_total(own)[:, 0] if scored else np.zeros(len(own))
        rules.change(logits, begun.history, new)
        # argmax over the vocabulary, or one draw from its probabilities
        ids = logits.argmax(1) if not draws else _drawn(logits, plan, [draws[row] for row in rows.tolist()])
        scores = own[np.arange(len(ids)), ids] - total
        blocked = ~(logits[np.arange(len(ids)), ids] > -np.inf)
        ended = np.isin(ids, ends) & ~blocked
        for place, row in enumerate(rows.tolist()):
            answer = answers[row]
            if blocked[place]:
                answer.stopped = "blocked"
                continue
            answer.ids.append(int(ids[place]))
            answer.score += float(scores[place])
            if ended[place]:
                answer.stopped = "end"
            elif stops.reached(answer.ids):
                answer.stopped, ended[place] = "stop", True
        yield answers
        stay = np.flatnonzero(~(ended | blocked))
        if not len(stay) or new + 1 == begun.limit:
            break
        rows = rows[stay]
        begun.reorder(stay)
        begun.feed(ids[stay])
    for answer in answers:
        answer.score /= max(len(answer.ids), 1) ** plan.settings.length_penalty


def _drawn(logits: Array, plan: Plan, draws: Sequence[np.random.Generator]) -> Array:
    """One word for each row; the first where none is left, which is then seen to be forbidden."""
    made = np.zeros(len(logits), np.int64)
    for row, chance in enumerate(draws):
        places, probs = likely(logits[row], plan)
        if len(places):
            made[row] = draw(places, probs, chance.random())
    return made


def generator(seed: int, given: Given, number: int) -> np.random.Generator:
    """The chance of one sample of a text: its seed, its number and the text's own words, never its neighbours."""
    return np.random.default_rng(np.random.SeedSequence([seed, number, *given.real]))
