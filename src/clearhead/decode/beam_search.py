"""Beam search: the best few beginnings go on together, for the likeliest first word need not begin the likeliest text.

Each step asks for the continuations of all of them and keeps the best; a hypothesis that says the end symbol is set
aside with its score. The bookkeeping is that of `transformers`, one sentence at a time: which continuations are looked
at, when a sentence is finished, how a finished one is judged.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from clearhead.decode.candidates import log_sum_exp, select_top
from clearhead.decode.generation_config import DecodingPlan
from clearhead.decode.logits_processors import LogitsProcessor
from clearhead.decode.prompt import DecodingState
from clearhead.decode.results import Hypothesis
from clearhead.decode.stopping_criteria import StopTexts

Array = np.ndarray[Any, Any]
MIN_COVERAGE = 1e-9  # of attention, so that its logarithm is a number


@dataclass(frozen=True, kw_only=True)
class BeamStep:
    """What one group of one sentence found in one step, the best first, for those who watch the search."""

    sentence: int
    group: int
    length: int  # words that were said before
    parents: list[int]  # which of the group's hypotheses each continues
    token_ids: list[int]
    scores: list[float]  # sums of log probabilities
    finished: dict[int, float]  # places in these lists that were set aside, and how they are judged
    continued: list[int]  # places of those that go on, in the order that the next step calls them by


StepCallback = Callable[[BeamStep], None]


class BeamSearch:
    """The search of some sentences together; those that are finished leave the batch."""

    def __init__(
        self, begun: DecodingState, plan: DecodingPlan, stops: StopTexts, watch: StepCallback | None = None
    ) -> None:
        settings = plan.settings
        self.begun, self.plan, self.stops, self.watch = begun, plan, stops, watch
        self.rules = LogitsProcessor(plan, begun.max_new_tokens)
        self.groups, self.width = settings.num_beam_groups, settings.num_beams // settings.num_beam_groups
        # enough continuations that so many are left when every end symbol is among them
        self.keep = max(2, 1 + len(plan.end_ids)) * self.width
        self.ends = np.array(plan.end_ids, np.int64)
        self.prompt = begun.history.shape[1]
        count = len(begun.history)
        self.each = 1  # hypotheses in a group: all begin with the same one
        self.sums = np.zeros((count, self.groups, 1))  # their log probabilities
        self.finished: list[list[list[Hypothesis]]] = [[[] for _ in range(self.groups)] for _ in range(count)]
        self.open = np.ones((count, self.groups), np.bool_)  # groups that may still find a better one

    def search(self) -> list[list[Hypothesis]]:
        """The hypotheses of each sentence, the best first."""
        begun, groups = self.begun, self.groups
        active = np.arange(len(self.finished))  # sentences that are not finished
        begun.repeat(groups)
        scores = self.sums  # (sentences, groups, hypotheses)
        for new in range(begun.max_new_tokens):
            scores, beams, words = self._step(active, scores, new)
            going = self.open[active].any(1)
            if new + 1 == begun.max_new_tokens or not going.any():
                break
            firsts = np.arange(len(active) * groups).reshape(len(active), groups, 1) * self.each
            begun.reorder((firsts + beams)[going].reshape(-1))
            begun.feed(words[going].reshape(-1))
            active, scores = active[going], scores[going]
        return [self._best(groups_of) for groups_of in self.finished]

    def _step(self, active: Array, scores: Array, new: int) -> tuple[Array, Array, Array]:
        """One more word for each hypothesis: scores, the hypothesis it continues, and the word."""
        begun, self.sums, self.each = self.begun, scores, scores.shape[2]
        shape = (len(active), self.groups, self.each)
        total = np.zeros((len(begun.logits), 1)) if begun.log_probs else log_sum_exp(begun.logits)
        self.rules.apply(begun.logits, begun.history, new, total)
        if self.plan.renormalize:
            total = log_sum_exp(begun.logits)
        logits, total = begun.logits.reshape(*shape, -1), np.where(np.isfinite(total), total, 0.0).reshape(*shape, 1)
        made = np.full((len(active), self.groups, self.width), -np.inf)
        beams, words = np.zeros(made.shape, np.int64), np.zeros(made.shape, np.int64)
        taken: list[Array] = []  # words that groups have chosen in this step
        for group in range(self.groups):
            own = logits[:, group]
            self._avoid(own, taken)
            found, ids = (one.reshape(*shape[::2], -1) for one in select_top(own.reshape(-1, own.shape[-1]), self.keep))
            # log p(words so far) + log p(next word)
            joint = scores[:, group, :, None] + (found - total[:, group])
            taken.append(self._choose(active, group, new, joint, ids, (made, beams, words)))
        return made, beams, words

    def _choose(
        self, active: Array, group: int, new: int, joint: Array, ids: Array, into: tuple[Array, Array, Array]
    ) -> Array:
        """The best continuations of one group: those that end are set aside, the others go on; which words it took."""
        size = joint.shape[2]
        joint = np.where(np.isfinite(joint), joint, -np.inf).reshape(len(active), -1)
        order = np.argsort(-joint, axis=1, kind="stable")[:, : self.keep]
        best = np.take_along_axis(joint, order, 1)
        word, beam = np.take_along_axis(ids.reshape(len(active), -1), order, 1), order // size
        ended = np.isin(word, self.ends)
        why = np.where(ended, "end", "length")
        if self.stops.texts:
            self._stop(active, group, beam, word, ended, why)
        still, top_few = self.open[active, group], slice(self.width)
        over = (ended | (new + 1 == self.begun.max_new_tokens)) & np.isfinite(best) & still[:, None]
        ended |= ~np.isfinite(best)
        judged: dict[tuple[int, int], float] = {}
        for place, rank in np.argwhere(over[:, top_few]):
            row = self._row(place, group, int(beam[place, rank]))
            score = float(best[place, rank]) / (new + 1) ** self.plan.settings.length_penalty + self._cover(row)
            tokens = (*self.plan.prefix_ids, *self._said(row), int(word[place, rank]))
            hypothesis = Hypothesis(ids=tokens, score=score, stopped=str(why[place, rank]))
            self.finished[active[place]][group].append(hypothesis)
            judged[int(place), int(rank)] = score
        onward = np.argsort(ended, axis=1, kind="stable")[:, : self.width]
        count = onward.shape[1]  # fewer where the vocabulary is small
        for array, values in zip(into, (np.where(ended, -np.inf, best), beam, word), strict=True):
            array[:, group, :count] = np.take_along_axis(values, onward, 1)
        if self.watch is not None:
            for place in np.flatnonzero(still).tolist():
                going = [rank for rank in onward[place].tolist() if not ended[place, rank]]
                self.watch(
                    BeamStep(
                        sentence=int(active[place]),
                        group=group,
                        length=new,
                        parents=beam[place].tolist(),
                        token_ids=word[place].tolist(),
                        scores=best[place].tolist(),
                        continued=going,
                        finished={rank: score for (row, rank), score in judged.items() if row == place},
                    )
                )
        for place, sentence in enumerate(active.tolist()):
            running = float(into[0][place, group, 0])
            found = self.finished[sentence][group]
            if still[place] and running == -np.inf and not found:  # every word is forbidden
                score = float(self.sums[place, group, 0]) / max(new, 1) ** self.plan.settings.length_penalty
                tokens = (*self.plan.prefix_ids, *self._said(self._row(place, group, 0)))
                found.append(Hypothesis(ids=tokens, score=score, stopped="blocked"))
            if still[place]:
                self._close(sentence, group, running, new + 1)
        return np.where(ended | ~still[:, None], -1, word)[:, top_few]

    def _close(self, sentence: int, group: int, running: float, length: int) -> None:
        """Keep the best that are finished, and see whether those that go on could still be among them."""
        found = self.finished[sentence][group]
        found.sort(key=lambda hypothesis: -hypothesis.score)
        del found[self.width :]
        if running == -np.inf:  # nothing goes on
            self.open[sentence, group] = False
        if len(found) < self.width:
            return
        early, penalty = self.plan.early_stopping, self.plan.settings.length_penalty
        longest = self.begun.max_new_tokens if early == "never" and penalty > 0 else length
        if early is True or running / longest**penalty <= found[-1].score:
            self.open[sentence, group] = False

    def _stop(self, active: Array, group: int, beam: Array, word: Array, ended: Array, why: Array) -> None:
        for place, rank in np.argwhere(~ended):
            if self.open[active[place], group]:
                said = self._said(self._row(place, group, int(beam[place, rank])))
                if self.stops.is_reached([*said, int(word[place, rank])]):
                    ended[place, rank], why[place, rank] = True, "stop"

    def _avoid(self, logits: Array, taken: list[Array]) -> None:
        """Words that the groups before have chosen lose log probability, once for each time."""
        if not taken or not self.plan.settings.diversity_penalty:
            return
        for place, words in enumerate(np.concatenate(taken, 1)):
            ids, times = np.unique(words[words >= 0], return_counts=True)
            logits[place][:, ids] -= np.float32(self.plan.settings.diversity_penalty) * times.astype(np.float32)

    def _row(self, place: int, group: int, beam: int) -> int:
        """Where a hypothesis stands in the batch."""
        return (int(place) * self.groups + group) * self.each + beam

    def _said(self, row: int) -> list[int]:
        said: list[int] = self.begun.history[row, self.prompt :].tolist()
        return said

    def _cover(self, row: int) -> float:
        """beta * sum over source words of log min(attention they got, 1), as in Wu et al. 2016."""
        if self.begun.coverage is None or self.begun.source_mask is None:
            return 0.0
        got = self.begun.coverage[row][self.begun.source_mask[row]]
        return self.plan.settings.coverage_penalty * float(np.log(np.clip(got, MIN_COVERAGE, 1.0)).sum())

    def _best(self, groups: list[list[Hypothesis]]) -> list[Hypothesis]:
        """All groups' hypotheses in one row, none twice."""
        every = sorted((one for group in groups for one in group), key=lambda hypothesis: -hypothesis.score)
        return list({hypothesis.ids: hypothesis for hypothesis in reversed(every)}.values())[::-1]
