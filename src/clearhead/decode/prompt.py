"""Starting to decode: texts are grouped into batches, and a decoder reads their sources or prompts."""

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
BATCH_TOKENS = 4096  # source or prompt tokens decoded together, times the number of beams
BATCH_ROWS = 128  # hypotheses decoded together; more do not make matrix products faster
MAX_PROMPT_LOGITS_SIZE = 1 << 25  # logits held in memory while reading a prompt


@dataclass(frozen=True, kw_only=True)
class DecodingInput:
    """The tokens of a source or a prompt, and a mask of those that are not padding."""

    ids: tuple[int, ...]
    mask: tuple[bool, ...] | None = None  # None: all

    @property
    def real_ids(self) -> tuple[int, ...]:
        """The tokens without padding."""
        if self.mask is None:
            return self.ids
        return tuple(token_id for token_id, is_real in zip(self.ids, self.mask, strict=True) if is_real)


@dataclass(kw_only=True)
class DecodingState:
    """A batch of texts and the state of their decoder, which has read everything before the next token."""

    runner: Runner
    runner_state: Any
    logits: Array  # (rows, vocab), of the next token
    history: Array  # (rows, length): every token that the decoder was fed, -1 for padding
    max_new_tokens: int
    coverage: Array | None = None  # (rows, source): attention that each source token received so far, if required
    source_mask: Array | None = None  # (rows, source): False for padding
    log_probs: bool = False  # logits are log probabilities

    def reorder(self, rows: Array) -> None:
        """Keep only these rows, in this order."""
        if len(rows) == len(self.history) and bool((rows == np.arange(len(rows))).all()):
            return
        self.runner_state = self.runner_state.reorder(rows)
        self.history = self.history[rows]
        if self.coverage is not None and self.source_mask is not None:
            self.coverage, self.source_mask = self.coverage[rows], self.source_mask[rows]

    def repeat(self, times: int) -> None:
        """Repeat each row, before the first new token."""
        if times > 1:
            self.reorder(np.repeat(np.arange(len(self.history)), times))
            self.logits = np.repeat(self.logits, times, 0)

    def feed(self, ids: Array) -> None:
        """Feed the next token of each row, (rows,)."""
        self.history = np.concatenate([self.history, ids[:, None]], 1)
        self.logits = self._step(ids[:, None], None)

    def feed_prompt(self, ids: Array, mask: Array | None) -> None:
        """Feed the tokens before the first new one, in chunks that bound the memory of their logits."""
        vocab_size = self.runner.shape.top.vocab_size
        chunk_size = max(1, MAX_PROMPT_LOGITS_SIZE // (len(ids) * vocab_size))
        for start in range(0, ids.shape[1], chunk_size):
            chunk_mask = None if mask is None else mask[:, start : start + chunk_size]
            self.logits = self._step(ids[:, start : start + chunk_size], chunk_mask)

    def _step(self, ids: Array, mask: Array | None) -> Array:
        if self.coverage is None:
            logits, self.runner_state = self.runner.step(self.runner_state, ids, mask, log=self.log_probs, last=True)
        else:
            runner = cast("AttentionRunner", self.runner)  # `start_decoding` rejects others
            logits, self.runner_state, attention = runner.step_with_attention(self.runner_state, ids, mask)
            self.coverage = self.coverage + attention.sum(1)
        last_logits = np.asarray(logits[:, -1], np.float32)
        check_finite(last_logits.max(1))  # single tokens may have minus infinity
        if self.coverage is not None and self.log_probs:
            last_logits = last_logits - log_sum_exp(last_logits).astype(np.float32)
        return last_logits if last_logits.flags.writeable else last_logits.copy()


def compute_max_new_tokens(plan: DecodingPlan, shape: ModelShape, length: int, subject: str = "The prompt") -> int:
    """Limit the new tokens after `length` others to the learned positions; the last token needs no position."""
    stack, max_length = shape.top, plan.settings.max_length
    if stack.positions != "learned" or stack.max_length is None:
        return max_length
    if length > stack.max_length:
        raise InputError(
            f"{subject} has {length} tokens, but the model has {stack.max_length} positions; shorten it to leave room "
            "for an answer."
        )
    return min(max_length, stack.max_length - length + 1)


def group_inputs(plan: DecodingPlan, shape: ModelShape, inputs: Sequence[DecodingInput]) -> Iterator[list[int]]:
    """Group row indices into batches of similar length.

    Prompts of different length share a batch only if the positions suffice for all of them, padding included.
    """
    has_source = shape.decoder is not None
    hypotheses_per_row = max(plan.settings.num_beams, plan.settings.num_return_sequences)
    if has_source:
        lengths = np.array([len(decoding_input.ids) for decoding_input in inputs], np.int64)
    else:
        prompt_lengths = [len(decoding_input.real_ids) + len(plan.prefix_ids) for decoding_input in inputs]
        lengths = np.array(prompt_lengths, np.int64)
    order = np.argsort(lengths, kind="stable")
    max_rows = max(1, BATCH_ROWS // hypotheses_per_row)
    for group in group_by_budget(lengths[order].tolist(), BATCH_TOKENS // hypotheses_per_row):
        for start in range(group.start, group.stop, max_rows):
            rows = order[start : min(start + max_rows, group.stop)]
            if has_source or compute_max_new_tokens(plan, shape, int(lengths[rows[-1]])) == plan.settings.max_length:
                yield rows.tolist()
            else:
                for length in np.unique(lengths[rows]):
                    yield rows[lengths[rows] == length].tolist()


def start_decoding(runner: Runner, plan: DecodingPlan, inputs: Sequence[DecodingInput]) -> DecodingState:
    """Read a batch of texts: an encoder reads the source, a decoder the start token or the prompt."""
    has_source = runner.shape.decoder is not None
    if has_source:
        source, source_mask = pad_rows(
            [decoding_input.ids for decoding_input in inputs], runner.shape.stack.pad_id or 0
        )
        for row, decoding_input in enumerate(inputs):
            if decoding_input.mask is not None:
                source_mask[row, : len(decoding_input.mask)] = decoding_input.mask
        prompts = [(*plan.start_ids, *plan.prefix_ids)] * len(inputs)
    else:
        prompts = [(*decoding_input.real_ids, *plan.prefix_ids) for decoding_input in inputs]
    prompt_length = max(len(prompt) for prompt in prompts)
    ids, mask = np.zeros((len(prompts), prompt_length), np.int64), np.zeros((len(prompts), prompt_length), np.bool_)
    for row, prompt in enumerate(prompts):  # left padding: the last token of every row is in the last column
        ids[row, prompt_length - len(prompt) :], mask[row, prompt_length - len(prompt) :] = prompt, True
    batch = Batch(ids=source, mask=None if source_mask.all() else source_mask) if has_source else Batch(ids=ids)
    state = DecodingState(
        runner=runner,
        runner_state=runner.start(batch),
        logits=np.zeros((0, 0), np.float32),
        history=np.where(mask, ids, -1),
        max_new_tokens=compute_max_new_tokens(plan, runner.shape, prompt_length),
        log_probs=plan.settings.num_beams > 1,
    )
    if plan.settings.coverage_penalty:
        if not has_source or not runner.capabilities.source_attention:
            raise InputError(
                "coverage_penalty needs a source and a runtime with source attention; use the core runtime."
            )
        state.coverage, state.source_mask = np.zeros(source.shape, np.float32), source_mask
    state.feed_prompt(ids, None if mask.all() else mask)
    return state
