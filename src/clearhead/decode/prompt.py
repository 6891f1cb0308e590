"""Before the first word: which texts go together, and a decoder that has read what it is given."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from clearhead.batch import Batch, check_finite, group_by_budget, pad_rows
from clearhead.decode.candidates import log_sum_exp
from clearhead.decode.generation_config import DecodingPlan
from clearhead.errors import InputError
from clearhead.runner import AttentionRunner, Runner
from clearhead.shape import ModelShape

Array = np.ndarray[Any, Any]
BATCH_TOKENS = 4096  # of sources or prompts that are decoded together, times the beam
BATCH_ROWS = 128  # hypotheses that are decoded together: more make no matrix product faster
MAX_PROMPT_LOGITS = 1 << 25  # numbers that reading a prompt may hold at a time


@dataclass(frozen=True, kw_only=True)
class DecodingInput:
    """One text as it goes in: the tokens of a source or a prompt, and which of them are real."""

    ids: tuple[int, ...]
    mask: tuple[bool, ...] | None = None  # None: all

    @property
    def real_ids(self) -> tuple[int, ...]:
        """The tokens that count."""
        return self.ids if self.mask is None else tuple(i for i, m in zip(self.ids, self.mask, strict=True) if m)


@dataclass(kw_only=True)
class DecodingState:
    """Some texts together, their decoder fed with all but the first new word."""

    runner: Runner
    state: Any
    logits: Array  # (rows, vocab), of the first new word
    history: Array  # (rows, length): every word that the decoder was fed, -1 where a row is shorter
    max_new_tokens: int  # new words, at most
    coverage: Array | None = None  # (rows, source): how much was looked at each word so far, where that is asked
    source_mask: Array | None = None  # (rows, source): which words of the source there are
    log_probs: bool = False  # logits are log probabilities

    def reorder(self, rows: Array) -> None:
        """Go on with these rows, in this order."""
        if len(rows) == len(self.history) and bool((rows == np.arange(len(rows))).all()):
            return
        self.state = self.state.reorder(rows)
        self.history = self.history[rows]
        if self.coverage is not None and self.source_mask is not None:
            self.coverage, self.source_mask = self.coverage[rows], self.source_mask[rows]

    def repeat(self, times: int) -> None:
        """Each row so many times, before the first new word."""
        if times > 1:
            self.reorder(np.repeat(np.arange(len(self.history)), times))
            self.logits = np.repeat(self.logits, times, 0)

    def feed(self, ids: Array) -> None:
        """One more word for each row, (rows,)."""
        self.history = np.concatenate([self.history, ids[:, None]], 1)
        self.logits = self._step(ids[:, None], None)

    def feed_prompt(self, ids: Array, mask: Array | None) -> None:
        """The words before the first new one, some at a time, so that their logits never fill the memory."""
        vocab = self.runner.shape.top.vocab_size
        size = max(1, MAX_PROMPT_LOGITS // (len(ids) * vocab))
        for begin in range(0, ids.shape[1], size):
            part = None if mask is None else mask[:, begin : begin + size]
            self.logits = self._step(ids[:, begin : begin + size], part)

    def _step(self, ids: Array, mask: Array | None) -> Array:
        if self.coverage is None:
            logits, self.state = self.runner.step(self.state, ids, mask, log=self.log_probs, last=True)
        else:
            runner = cast("AttentionRunner", self.runner)  # `opened` refuses others
            logits, self.state, seen = runner.step_with_attention(self.state, ids, mask)
            self.coverage = self.coverage + seen.sum(1)
        last = np.asarray(logits[:, -1], np.float32)
        check_finite(last.max(1))  # a word that is never said may have minus infinity
        if self.coverage is not None and self.log_probs:
            last = last - log_sum_exp(last).astype(np.float32)
        return last if last.flags.writeable else last.copy()


def max_new_tokens(plan: DecodingPlan, shape: ModelShape, length: int, what: str = "The prompt") -> int:
    """How many words may follow `length` others: learned positions end somewhere, and the last word needs none."""
    top, most = shape.top, plan.settings.max_length
    if top.positions != "learned" or top.max_length is None:
        return most
    if length > top.max_length:
        raise InputError(
            f"{what} has {length} tokens, but the model has {top.max_length} positions; shorten it to leave room for "
            "an answer."
        )
    return min(most, top.max_length - length + 1)


def group_inputs(plan: DecodingPlan, shape: ModelShape, every: Sequence[DecodingInput]) -> Iterator[list[int]]:
    """Numbers of texts that are decoded together: of like length.

    Prompts of different length share a batch only where the positions suffice for all of them, padding included.
    """
    paired, beam = shape.decoder is not None, max(plan.settings.num_beams, plan.settings.num_return_sequences)
    lengths = np.array(
        [len(one.ids) if paired else len(one.real_ids) + len(plan.prefix_ids) for one in every], np.int64
    )
    order = np.argsort(lengths, kind="stable")
    most = max(1, BATCH_ROWS // beam)
    for group in group_by_budget(lengths[order].tolist(), BATCH_TOKENS // beam):
        for begin in range(group.start, group.stop, most):
            rows = order[begin : min(begin + most, group.stop)]
            if paired or max_new_tokens(plan, shape, int(lengths[rows[-1]])) == plan.settings.max_length:
                yield rows.tolist()
            else:
                for length in np.unique(lengths[rows]):
                    yield rows[lengths[rows] == length].tolist()


def start_decoding(runner: Runner, plan: DecodingPlan, every: Sequence[DecodingInput]) -> DecodingState:
    """Read some texts: an encoder takes the source, a decoder the start symbol or the prompt."""
    paired = runner.shape.decoder is not None
    if paired:
        source, real = pad_rows([one.ids for one in every], runner.shape.stack.pad_id or 0)
        for row, one in enumerate(every):
            if one.mask is not None:
                real[row, : len(one.mask)] = one.mask
        prompts = [(*plan.start_ids, *plan.prefix_ids)] * len(every)
    else:
        prompts = [(*one.real_ids, *plan.prefix_ids) for one in every]
    size = max(len(prompt) for prompt in prompts)
    ids, mask = np.zeros((len(prompts), size), np.int64), np.zeros((len(prompts), size), np.bool_)
    for row, prompt in enumerate(prompts):  # padding stands before, so that every row's last word is in one column
        ids[row, size - len(prompt) :], mask[row, size - len(prompt) :] = prompt, True
    batch = Batch(ids=source, mask=None if real.all() else real) if paired else Batch(ids=ids)
    begun = DecodingState(
        runner=runner,
        state=runner.start(batch),
        logits=np.zeros((0, 0), np.float32),
        history=np.where(mask, ids, -1),
        max_new_tokens=max_new_tokens(plan, runner.shape, size),
        log_probs=plan.settings.num_beams > 1,
    )
    if plan.settings.coverage_penalty:
        if not paired or not runner.capabilities.source_attention:
            raise InputError("coverage_penalty needs a source, and a runtime that tells where it looks: the core.")
        begun.coverage, begun.source_mask = np.zeros(source.shape, np.float32), real
    begun.feed_prompt(ids, None if mask.all() else mask)
    return begun
