"""Greedy decoding and sampling: each token is the most likely one, or is drawn by its probability.

The chosen token is fed back to the decoder until it generates an end token.
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
    """Greedy or sampled answers of a batch; finished rows leave it."""

    def __init__(
        self,
        state: DecodingState,
        plan: DecodingPlan,
        stop_texts: StopTexts,
        generators: Sequence[np.random.Generator] = (),
        *,
        compute_scores: bool = True,
    ) -> None:
        self.state, self.plan, self.stop_texts = state, plan, stop_texts
        self.generators, self.computes_scores = generators, compute_scores
        row_count = len(state.history)
        # new token ids, without the prompt, the start token and the prefix
        self.ids: list[list[int]] = [[] for _ in range(row_count)]
        self.scores = [0.0] * row_count  # sums of log probabilities
        self.stopped = ["length"] * row_count

    def search(self) -> list[Hypothesis]:
        """Decode the answer of each row."""
        for _ in self.steps():
            pass
        penalty = self.plan.settings.length_penalty
        return [
            Hypothesis(ids=(*self.plan.prefix_ids, *ids), score=score / max(len(ids), 1) ** penalty, stopped=stopped)
            for ids, score, stopped in zip(self.ids, self.scores, self.stopped, strict=True)
        ]

    def steps(self) -> Iterator[list[list[int]]]:
        """Yield the new token ids of all rows after each step."""
        state, plan, generators = self.state, self.plan, self.generators
        rows = np.arange(len(self.ids))
        end_ids = np.array(plan.end_ids, np.int64)
        processor = LogitsProcessor(plan, state.max_new_tokens)
        for step in range(state.max_new_tokens):
            logits = state.logits
            scored_logits = logits.copy() if self.computes_scores and processor.changes_scores(step) else logits
            log_sums = log_sum_exp(scored_logits)[:, 0] if self.computes_scores else np.zeros(len(scored_logits))
            processor.apply(logits, state.history, step)
            if generators:
                ids = _sample_tokens(logits, plan, [generators[row] for row in rows.tolist()])
            else:
                ids = logits.argmax(1)
            scores = scored_logits[np.arange(len(ids)), ids] - log_sums
            is_blocked = ~(logits[np.arange(len(ids)), ids] > -np.inf)
            is_ended = np.isin(ids, end_ids) & ~is_blocked
            for index, row in enumerate(rows.tolist()):
                if is_blocked[index]:
                    self.stopped[row] = "blocked"
                    continue
                self.ids[row].append(int(ids[index]))
                self.scores[row] += float(scores[index])
                if is_ended[index]:
                    self.stopped[row] = "end"
                elif self.stop_texts.is_reached(self.ids[row]):
                    self.stopped[row], is_ended[index] = "stop", True
            yield self.ids
            continuing = np.flatnonzero(~(is_ended | is_blocked))
            if not len(continuing) or step + 1 == state.max_new_tokens:
                break
            rows = rows[continuing]
            state.reorder(continuing)
            state.feed(ids[continuing])


def _sample_tokens(logits: Array, plan: DecodingPlan, generators: Sequence[np.random.Generator]) -> Array:
    """Draw a token for each row; token 0, which is then forbidden, if there is no candidate."""
    token_ids = np.zeros(len(logits), np.int64)
    for row, generator in enumerate(generators):
        candidate_ids, probs = filter_candidates(logits[row], plan)
        if len(candidate_ids):
            token_ids[row] = sample_token(candidate_ids, probs, generator.random())
    return token_ids


def random_generator(seed: int, decoding_input: DecodingInput, sample_index: int) -> np.random.Generator:
    """Seed a generator by the seed, the sample index and the text, so that samples do not depend on the batch."""
    return np.random.default_rng(np.random.SeedSequence([seed, sample_index, *decoding_input.real_ids]))
