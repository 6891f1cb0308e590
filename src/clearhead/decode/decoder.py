"""The Decoder: generates answers from token ids by a runner and a plan, in batches or as a stream."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from clearhead.caller import setting
from clearhead.decode.beam_search import BeamSearch, StepCallback
from clearhead.decode.generation_config import DecodingPlan
from clearhead.decode.logits_processors import LogitsProcessor
from clearhead.decode.prompt import BATCH_ROWS, DecodingInput, compute_max_new_tokens, group_inputs, start_decoding
from clearhead.decode.results import Hypothesis
from clearhead.decode.sampling import Sampler, random_generator
from clearhead.decode.stopping_criteria import StopTexts
from clearhead.errors import InputError
from clearhead.progress import Progress, no_progress
from clearhead.runner import Runner

Array = np.ndarray[Any, Any]
REPLACEMENT_CHARACTER = "\ufffd"  # stands for bytes of an incomplete character


class Decoder:
    """Generates answers of a model under a plan; `decode` converts ids to text, for stop texts and streams."""

    def __init__(
        self, runner: Runner, plan: DecodingPlan, decode: Callable[[Sequence[int]], str] | None = None
    ) -> None:
        self.runner, self.plan, self.decode = runner, plan, decode
        if plan.settings.stop and decode is None:
            raise InputError("stop requires a tokenizer, but this model has no tokenizer.")
        self.stop_texts = StopTexts(plan.settings.stop, self._decode)

    def generate(
        self,
        inputs: Sequence[DecodingInput],
        progress: Progress = no_progress,
        *,
        compute_scores: bool = True,
        decode_texts: bool = True,
        on_step: StepCallback | None = None,
    ) -> list[list[Hypothesis]]:
        """Generate the answers to each text, best first; an empty list for an empty source.

        Without `compute_scores`, a single greedy answer is faster and has no score. Without `decode_texts`, answers
        have only ids. `on_step` is called with every step of a beam search.
        """
        answers_by_row: list[list[Hypothesis]] = [[] for _ in inputs]
        nonempty_rows: list[int] = []
        nonempty_inputs: list[DecodingInput] = []
        for row, decoding_input in enumerate(inputs):
            filled_input = self._fill_empty(decoding_input, row)
            if filled_input is not None:
                nonempty_rows.append(row)
                nonempty_inputs.append(filled_input)
        done = len(inputs) - len(nonempty_rows)
        for group in group_inputs(self.plan, self.runner.shape, nonempty_inputs):
            group_answers = self._generate_batch([nonempty_inputs[index] for index in group], compute_scores, on_step)
            for index, answers in zip(group, group_answers, strict=True):
                best_answers = answers[: self.plan.settings.num_return_sequences]
                if decode_texts:
                    best_answers = [replace(answer, text=self.to_text(answer.ids)) for answer in best_answers]
                answers_by_row[nonempty_rows[index]] = best_answers
            done += len(group)
            progress("generating", done, len(inputs))
        return answers_by_row

    def _generate_batch(
        self, inputs: Sequence[DecodingInput], compute_scores: bool, on_step: StepCallback | None
    ) -> list[list[Hypothesis]]:
        """Generate the answers of texts that are decoded together."""
        state, settings = start_decoding(self.runner, self.plan, inputs), self.plan.settings
        if settings.num_beams > 1:
            return BeamSearch(state, self.plan, self.stop_texts, on_step).search()
        answers_by_row: list[list[Hypothesis]] = [[] for _ in inputs]
        samples_per_batch = max(1, BATCH_ROWS // len(inputs))  # samples of each text that are decoded together
        for first_sample in range(0, settings.num_return_sequences, samples_per_batch):
            sample_indices = range(first_sample, min(first_sample + samples_per_batch, settings.num_return_sequences))
            batch_state = state
            if settings.num_return_sequences > samples_per_batch:
                batch_state = replace(state, logits=state.logits.copy())
            batch_state.repeat(len(sample_indices))
            generators = [
                random_generator(settings.seed, decoding_input, sample_index)
                for decoding_input in inputs
                if settings.sample
                for sample_index in sample_indices
            ]
            answers = Sampler(
                batch_state,
                self.plan,
                self.stop_texts,
                generators,
                compute_scores=compute_scores or settings.num_return_sequences > 1,
            ).search()
            for row, row_answers in enumerate(answers_by_row):
                row_answers += answers[row * len(sample_indices) : (row + 1) * len(sample_indices)]
        return [sorted(row_answers, key=lambda hypothesis: -hypothesis.score) for row_answers in answers_by_row]

    def teacher_force(self, decoding_input: DecodingInput, ids: Sequence[int]) -> Iterator[tuple[Array, Array]]:
        """Yield, before each token of `ids`, the raw logits (vocab,) and a mask of the allowed tokens."""
        filled_input = self._fill_empty(decoding_input, 0)
        if filled_input is None:
            return
        state = start_decoding(self.runner, self.plan, [filled_input])
        if len(ids) > state.max_new_tokens:
            raise InputError(f"The answer has {len(ids)} tokens, but at most {state.max_new_tokens} are possible.")
        processor = LogitsProcessor(self.plan, state.max_new_tokens)
        for step, token_id in enumerate(ids):
            raw_logits = state.logits.copy()
            processor.apply(state.logits, state.history, step)
            yield raw_logits[0], state.logits[0] > -np.inf
            if step + 1 < len(ids):
                state.feed(np.array([token_id], np.int64))

    def stream(self, decoding_input: DecodingInput) -> Iterator[str]:
        """Stream the answer to one text in parts, each as soon as no later token can change it."""
        settings = self.plan.settings
        if settings.num_beams > 1 or settings.num_return_sequences > 1:
            raise InputError(f"Streaming requires {setting('num_beams', 1)} and {setting('num_return_sequences', 1)}.")
        filled_input = self._fill_empty(decoding_input, 0)
        return iter(()) if filled_input is None else self._stream(filled_input)

    def _stream(self, decoding_input: DecodingInput) -> Iterator[str]:
        settings = self.plan.settings
        generators = [random_generator(settings.seed, decoding_input, 0)] if settings.sample else ()
        sent, text = "", ""
        state = start_decoding(self.runner, self.plan, [decoding_input])
        for ids in Sampler(state, self.plan, self.stop_texts, generators, compute_scores=False).steps():
            text = self.to_text((*self.plan.prefix_ids, *ids[0]))
            settled = text.rstrip(REPLACEMENT_CHARACTER)
            settled = settled[: len(settled) - self.stop_texts.partial_length(settled)]
            if settled.startswith(sent) and settled != sent:
                yield settled[len(sent) :]
                sent = settled
        if text.startswith(sent) and text != sent:
            yield text[len(sent) :]

    def to_text(self, ids: Sequence[int]) -> str:
        """Decode the ids of an answer, including the prefix, to a text that ends before the first stop text."""
        text = self._decode(ids)
        if not self.stop_texts.texts:
            return text
        return self.stop_texts.truncate(text, len(self._decode(self.plan.prefix_ids)))

    def _fill_empty(self, decoding_input: DecodingInput, row: int) -> DecodingInput | None:
        """Replace an empty prompt by the model's first token; None for an empty source, which has no answer."""
        if not self.plan.start_ids:
            compute_max_new_tokens(
                self.plan,
                self.runner.shape,
                len(decoding_input.real_ids) + len(self.plan.prefix_ids),
                f"The prompt of row {row}",
            )
        if decoding_input.real_ids or (not self.plan.start_ids and self.plan.prefix_ids):
            return decoding_input
        if self.plan.start_ids:
            return None
        if self.plan.empty_prompt_id is None:
            raise InputError("The prompt is empty, but the model has no start token that could replace it.")
        return DecodingInput(ids=(self.plan.empty_prompt_id,))

    def _decode(self, ids: Sequence[int]) -> str:
        return "" if self.decode is None else self.decode(ids)
