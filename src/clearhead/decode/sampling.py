"""One word after the other: the likeliest each time (greedy), or one drawn by its probability (sampling).

The word that was chosen is fed back, and the decoder is asked for the next one, until it says the end symbol.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from clearhead.decode.candidates import filter_candidates, log_sum_exp, sample_token
from clearhead.decode.generation_config import DecodingPlan
from clearhead.decode.logits_processors import LogitsProcessor
from clearhead.decode.prompt import DecodingInput, DecodingState
from clearhead.decode.results import Hypothesis
from clearhead.decode.stopping_criteria import StopTexts

Array = np.ndarray[Any, Any]


class Sampler:
    """Greedy or sampled answers of some rows together; those that are finished leave the batch."""

    def __init__(
        self,
        begun: DecodingState,
        plan: DecodingPlan,
        stops: StopTexts,
        draws: Sequence[np.random.Generator] = (),
        *,
        scored: bool = True,
    ) -> None:
        self.begun, self.plan, self.stops, self.draws, self.scored = begun, plan, stops, draws, scored
        count = len(begun.history)
        self.ids: list[list[int]] = [[] for _ in range(count)]  # without the prompt, the start symbol and the prefix
        self.scores = [0.0] * count  # sums of log probabilities
        self.stopped = ["length"] * count

    def search(self) -> list[Hypothesis]:
        """The answer of each row."""
        for _ in self.steps():
            pass
        penalty = self.plan.settings.length_penalty
        return [
            Hypothesis(ids=(*self.plan.prefix_ids, *ids), score=score / max(len(ids), 1) ** penalty, stopped=stopped)
            for ids, score, stopped in zip(self.ids, self.scores, self.stopped, strict=True)
        ]

    def steps(self) -> Iterator[list[list[int]]]:
        """The new ids of all rows after each word."""
        begun, plan, draws = self.begun, self.plan, self.draws
        rows = np.arange(len(self.ids))
        ends = np.array(plan.end_ids, np.int64)
        rules = LogitsProcessor(plan, begun.max_new_tokens)
        for new in range(begun.max_new_tokens):
            logits = begun.logits
            own = logits.copy() if self.scored and rules.changes_scores(new) else logits
            total = log_sum_exp(own)[:, 0] if self.scored else np.zeros(len(own))
            rules.apply(logits, begun.history, new)
            # argmax over the vocabulary, or one draw from its probabilities
            ids = logits.argmax(1) if not draws else _sample_tokens(logits, plan, [draws[row] for row in rows.tolist()])
            scores = own[np.arange(len(ids)), ids] - total
            blocked = ~(logits[np.arange(len(ids)), ids] > -np.inf)
            ended = np.isin(ids, ends) & ~blocked
            for place, row in enumerate(rows.tolist()):
                if blocked[place]:
                    self.stopped[row] = "blocked"
                    continue
                self.ids[row].append(int(ids[place]))
                self.scores[row] += float(scores[place])
                if ended[place]:
                    self.stopped[row] = "end"
                elif self.stops.is_reached(self.ids[row]):
                    self.stopped[row], ended[place] = "stop", True
            yield self.ids
            stay = np.flatnonzero(~(ended | blocked))
            if not len(stay) or new + 1 == begun.max_new_tokens:
                break
            rows = rows[stay]
            begun.reorder(stay)
            begun.feed(ids[stay])


def _sample_tokens(logits: Array, plan: DecodingPlan, draws: Sequence[np.random.Generator]) -> Array:
    """One word for each row; the first where none is left, which is then seen to be forbidden."""
    made = np.zeros(len(logits), np.int64)
    for row, chance in enumerate(draws):
        places, probs = filter_candidates(logits[row], plan)
        if len(places):
            made[row] = sample_token(places, probs, chance.random())
    return made


def random_generator(seed: int, given: DecodingInput, number: int) -> np.random.Generator:
    """The chance of one sample of a text: its seed, its number and the text's own words, never its neighbours."""
    return np.random.default_rng(np.random.SeedSequence([seed, number, *given.real_ids]))
