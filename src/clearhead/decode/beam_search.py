"""Beam search: several hypotheses are extended together, since the most likely text may start with an unlikely token.

Each step extends all hypotheses of a sentence and keeps the best; hypotheses that end are stored with their score. The
rules are those of `transformers`: which continuations are considered, when a sentence is finished, and how finished
hypotheses are scored.
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
MIN_ATTENTION = 1e-9  # keeps the logarithm finite


@dataclass(frozen=True, kw_only=True)
class BeamStep:
    """The candidates of one group of one sentence in one step, best first, as passed to `on_step`."""

    sentence: int
    group: int
    length: int  # new tokens before this step
    parents: list[int]  # index of the hypothesis that each candidate continues
    token_ids: list[int]
    scores: list[float]  # sums of log probabilities
    finished: dict[int, float]  # index in these lists -> final score, of candidates that ended
    continued: list[int]  # indices of candidates that continue, in the order of `parents` of the next step


StepCallback = Callable[[BeamStep], None]


class BeamSearch:
    """Beam search of a batch of sentences; finished sentences leave the batch."""

    def __init__(
        self, state: DecodingState, plan: DecodingPlan, stop_texts: StopTexts, on_step: StepCallback | None = None
    ) -> None:
        settings = plan.settings
        self.state, self.plan, self.stop_texts, self.on_step = state, plan, stop_texts, on_step
        self.processor = LogitsProcessor(plan, state.max_new_tokens)
        self.group_count, self.group_width = settings.num_beam_groups, settings.num_beams // settings.num_beam_groups
        # enough candidates to fill the group even if every end token is among them
        self.candidate_count = max(2, 1 + len(plan.end_ids)) * self.group_width
        self.end_ids = np.array(plan.end_ids, np.int64)
        self.prompt_length = state.history.shape[1]
        sentence_count = len(state.history)
        self.beams_per_group = 1  # a group starts with a single hypothesis
        self.beam_scores = np.zeros((sentence_count, self.group_count, 1))  # sums of log probabilities
        self.finished: list[list[list[Hypothesis]]] = [
            [[] for _ in range(self.group_count)] for _ in range(sentence_count)
        ]
        self.is_open = np.ones((sentence_count, self.group_count), np.bool_)  # groups that may still improve

    def search(self) -> list[list[Hypothesis]]:
        """Search the hypotheses of each sentence, best first."""
        state, group_count = self.state, self.group_count
        active = np.arange(len(self.finished))  # unfinished sentences
        state.repeat(group_count)
        scores = self.beam_scores  # (sentences, groups, hypotheses)
        for step in range(state.max_new_tokens):
            scores, parents, token_ids = self._step(active, scores, step)
            is_active = self.is_open[active].any(1)
            if step + 1 == state.max_new_tokens or not is_active.any():
                break
            group_indices = np.arange(len(active) * group_count).reshape(len(active), group_count, 1)
            state.reorder((group_indices * self.beams_per_group + parents)[is_active].reshape(-1))
            state.feed(token_ids[is_active].reshape(-1))
            active, scores = active[is_active], scores[is_active]
        return [self._rank_hypotheses(groups) for groups in self.finished]

    def _step(self, active: Array, scores: Array, step: int) -> tuple[Array, Array, Array]:
        """Extend every hypothesis by one token: scores, parents and token ids, each (sentences, groups, width)."""
        state, self.beam_scores, self.beams_per_group = self.state, scores, scores.shape[2]
        shape = (len(active), self.group_count, self.beams_per_group)
        log_sums = np.zeros((len(state.logits), 1)) if state.log_probs else log_sum_exp(state.logits)
        self.processor.apply(state.logits, state.history, step, log_sums)
        if self.plan.renormalize:
            log_sums = log_sum_exp(state.logits)
        logits = state.logits.reshape(*shape, -1)
        log_sums = np.where(np.isfinite(log_sums), log_sums, 0.0).reshape(*shape, 1)
        next_scores = np.full((len(active), self.group_count, self.group_width), -np.inf)
        parents, token_ids = np.zeros(next_scores.shape, np.int64), np.zeros(next_scores.shape, np.int64)
        chosen_ids: list[Array] = []  # tokens chosen by the previous groups in this step
        for group in range(self.group_count):
            group_logits = logits[:, group]
            self._penalize_repeated_choices(group_logits, chosen_ids)
            top_logits, top_ids = (
                array.reshape(*shape[::2], -1)
                for array in select_top(group_logits.reshape(-1, group_logits.shape[-1]), self.candidate_count)
            )
            # log p(tokens so far) + log p(next token)
            joint_scores = scores[:, group, :, None] + (top_logits - log_sums[:, group])
            outputs = next_scores, parents, token_ids
            chosen_ids.append(self._select_continuations(active, group, step, joint_scores, top_ids, outputs))
        return next_scores, parents, token_ids

    def _select_continuations(
        self,
        active: Array,
        group: int,
        step: int,
        joint_scores: Array,
        top_ids: Array,
        outputs: tuple[Array, Array, Array],
    ) -> Array:
        """Select the best candidates of a group: store those that end, continue the others, and return their tokens."""
        n_beams, length_penalty = joint_scores.shape[2], self.plan.settings.length_penalty
        joint_scores = np.where(np.isfinite(joint_scores), joint_scores, -np.inf).reshape(len(active), -1)
        order = np.argsort(-joint_scores, axis=1, kind="stable")[:, : self.candidate_count]
        best_scores = np.take_along_axis(joint_scores, order, 1)
        token_ids, parents = np.take_along_axis(top_ids.reshape(len(active), -1), order, 1), order // n_beams
        is_ended = np.isin(token_ids, self.end_ids)
        stop_reasons = np.where(is_ended, "end", "length")
        if self.stop_texts.texts:
            self._apply_stop_texts(active, group, parents, token_ids, is_ended, stop_reasons)
        is_open, first_ranks = self.is_open[active, group], slice(self.group_width)
        is_finished = (is_ended | (step + 1 == self.state.max_new_tokens)) & np.isfinite(best_scores) & is_open[:, None]
        is_ended |= ~np.isfinite(best_scores)
        finished_scores: dict[tuple[int, int], float] = {}
        for index, rank in np.argwhere(is_finished[:, first_ranks]):
            row = self._batch_row(index, group, int(parents[index, rank]))
            score = float(best_scores[index, rank]) / (step + 1) ** length_penalty + self._coverage_score(row)
            answer_ids = (*self.plan.prefix_ids, *self._new_ids(row), int(token_ids[index, rank]))
            hypothesis = Hypothesis(ids=answer_ids, score=score, stopped=str(stop_reasons[index, rank]))
            self.finished[active[index]][group].append(hypothesis)
            finished_scores[int(index), int(rank)] = score
        continued = np.argsort(is_ended, axis=1, kind="stable")[:, : self.group_width]
        n_continued = continued.shape[1]  # fewer if the vocabulary is small
        for array, values in zip(outputs, (np.where(is_ended, -np.inf, best_scores), parents, token_ids), strict=True):
            array[:, group, :n_continued] = np.take_along_axis(values, continued, 1)
        if self.on_step is not None:
            for index in np.flatnonzero(is_open).tolist():
                self.on_step(
                    BeamStep(
                        sentence=int(active[index]),
                        group=group,
                        length=step,
                        parents=parents[index].tolist(),
                        token_ids=token_ids[index].tolist(),
                        scores=best_scores[index].tolist(),
                        continued=[rank for rank in continued[index].tolist() if not is_ended[index, rank]],
                        finished={rank: score for (row, rank), score in finished_scores.items() if row == index},
                    )
                )
        for index, sentence in enumerate(active.tolist()):
            best_running = float(outputs[0][index, group, 0])
            finished = self.finished[sentence][group]
            if is_open[index] and best_running == -np.inf and not finished:  # every token is forbidden
                score = float(self.beam_scores[index, group, 0]) / max(step, 1) ** length_penalty
                answer_ids = (*self.plan.prefix_ids, *self._new_ids(self._batch_row(index, group, 0)))
                finished.append(Hypothesis(ids=answer_ids, score=score, stopped="blocked"))
            if is_open[index]:
                self._update_finished(sentence, group, best_running, step + 1)
        return np.where(is_ended | ~is_open[:, None], -1, token_ids)[:, first_ranks]

    def _update_finished(self, sentence: int, group: int, best_running: float, length: int) -> None:
        """Keep the best finished hypotheses, and close the group if no running hypothesis can improve on them."""
        finished = self.finished[sentence][group]
        finished.sort(key=lambda hypothesis: -hypothesis.score)
        del finished[self.group_width :]
        if best_running == -np.inf:  # no hypothesis continues
            self.is_open[sentence, group] = False
        if len(finished) < self.group_width:
            return
        early_stopping, penalty = self.plan.early_stopping, self.plan.settings.length_penalty
        final_length = self.state.max_new_tokens if early_stopping == "never" and penalty > 0 else length
        if early_stopping is True or best_running / final_length**penalty <= finished[-1].score:
            self.is_open[sentence, group] = False

    def _apply_stop_texts(
        self, active: Array, group: int, parents: Array, token_ids: Array, is_ended: Array, stop_reasons: Array
    ) -> None:
        for index, rank in np.argwhere(~is_ended):
            if self.is_open[active[index], group]:
                new_ids = self._new_ids(self._batch_row(index, group, int(parents[index, rank])))
                if self.stop_texts.is_reached([*new_ids, int(token_ids[index, rank])]):
                    is_ended[index, rank], stop_reasons[index, rank] = True, "stop"

    def _penalize_repeated_choices(self, logits: Array, chosen_ids: list[Array]) -> None:
        """Subtract the diversity penalty from tokens for each previous group that chose them in this step."""
        if not chosen_ids or not self.plan.settings.diversity_penalty:
            return
        for index, row_ids in enumerate(np.concatenate(chosen_ids, 1)):
            ids, counts = np.unique(row_ids[row_ids >= 0], return_counts=True)
            logits[index][:, ids] -= np.float32(self.plan.settings.diversity_penalty) * counts.astype(np.float32)

    def _batch_row(self, index: int, group: int, beam: int) -> int:
        """The row of a hypothesis in the batch."""
        return (int(index) * self.group_count + group) * self.beams_per_group + beam

    def _new_ids(self, row: int) -> list[int]:
        new_ids: list[int] = self.state.history[row, self.prompt_length :].tolist()
        return new_ids

    def _coverage_score(self, row: int) -> float:
        """beta * sum over source tokens of log min(attention received, 1), as in Wu et al. 2016."""
        if self.state.coverage is None or self.state.source_mask is None:
            return 0.0
        attention = self.state.coverage[row][self.state.source_mask[row]]
        return self.plan.settings.coverage_penalty * float(np.log(np.clip(attention, MIN_ATTENTION, 1.0)).sum())

    def _rank_hypotheses(self, groups: list[list[Hypothesis]]) -> list[Hypothesis]:
        """Merge the hypotheses of all groups, best first, without duplicates."""
        hypotheses = [hypothesis for group in groups for hypothesis in group]
        ranked = sorted(hypotheses, key=lambda hypothesis: -hypothesis.score)
        return list({hypothesis.ids: hypothesis for hypothesis in reversed(ranked)}.values())[::-1]
