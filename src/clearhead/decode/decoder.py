"""The Decoder: a runner and a plan, from token ids to answers, many texts at a time or one as it is written."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from clearhead.caller import setting
from clearhead.decode.beam_search import BeamSearch, StepCallback
from clearhead.decode.generation_config import DecodingPlan
from clearhead.decode.logits_processors import LogitsProcessor
from clearhead.decode.prompt import BATCH_ROWS, DecodingInput, group_inputs, max_new_tokens, start_decoding
from clearhead.decode.results import Hypothesis
from clearhead.decode.sampling import Sampler, random_generator
from clearhead.decode.stopping_criteria import StopTexts
from clearhead.errors import InputError
from clearhead.progress import Progress, no_progress
from clearhead.runner import Runner

Array = np.ndarray[Any, Any]
INCOMPLETE = "\ufffd"  # what stands for bytes that are no letter yet


class Decoder:
    """Answers of one model under one plan; `decode` turns ids into text where stop texts or streams need it."""

    def __init__(
        self, runner: Runner, plan: DecodingPlan, decode: Callable[[Sequence[int]], str] | None = None
    ) -> None:
        self.runner, self.plan, self.decode = runner, plan, decode
        if plan.settings.stop and decode is None:
            raise InputError("stop holds texts, and this model has no tokenizer that could write any.")
        self.stops = StopTexts(plan.settings.stop, self._decode)

    def generate(
        self,
        every: Sequence[DecodingInput],
        progress: Progress = no_progress,
        *,
        scored: bool = True,
        texts: bool = True,
        watch: StepCallback | None = None,
    ) -> list[list[Hypothesis]]:
        """The answers to each text, best first; an empty list where there is nothing to answer.

        Not `scored`: greedy answers, of which there is one, save the time to judge it. Not `texts`: ids alone. `watch`
        is called with every step of a beam search.
        """
        made: list[list[Hypothesis]] = [[] for _ in every]
        some = [self._fill_empty(one, row) for row, one in enumerate(every)]
        rows = [row for row, one in enumerate(some) if one is not None]
        done = len(every) - len(rows)
        for group in group_inputs(self.plan, self.runner.shape, [one for one in some if one is not None]):
            numbers = [rows[place] for place in group]
            found = self._generate_batch([one for row in numbers if (one := some[row]) is not None], scored, watch)
            for row, answers in zip(numbers, found, strict=True):
                best = answers[: self.plan.settings.num_return_sequences]
                made[row] = [replace(one, text=self.to_text(one.ids)) for one in best] if texts else best
            done += len(numbers)
            progress("generating", done, len(every))
        return made

    def _generate_batch(
        self, every: Sequence[DecodingInput], scored: bool, watch: StepCallback | None
    ) -> list[list[Hypothesis]]:
        """Those of texts that are decoded together."""
        begun, settings = start_decoding(self.runner, self.plan, every), self.plan.settings
        if settings.num_beams > 1:
            return BeamSearch(begun, self.plan, self.stops, watch).search()
        made: list[list[Hypothesis]] = [[] for _ in every]
        size = max(1, BATCH_ROWS // len(every))  # samples of each text that are drawn together
        for first in range(0, settings.num_return_sequences, size):
            numbers = range(first, min(first + size, settings.num_return_sequences))
            part = replace(begun, logits=begun.logits.copy()) if settings.num_return_sequences > size else begun
            part.repeat(len(numbers))
            draws = [
                random_generator(settings.seed, one, number) for one in every if settings.sample for number in numbers
            ]
            answers = Sampler(
                part, self.plan, self.stops, draws, scored=scored or settings.num_return_sequences > 1
            ).search()
            for row, found in enumerate(made):
                found += answers[row * len(numbers) : (row + 1) * len(numbers)]
        return [sorted(found, key=lambda hypothesis: -hypothesis.score) for found in made]

    def teacher_force(self, given: DecodingInput, ids: Sequence[int]) -> Iterator[tuple[Array, Array]]:
        """Before each of these words: the decoder's own logits, (vocab,), and which words it may say there."""
        one = self._fill_empty(given, 0)
        if one is None:
            return
        begun = start_decoding(self.runner, self.plan, [one])
        if len(ids) > begun.max_new_tokens:
            raise InputError(f"The answer has {len(ids)} tokens, and there is room for {begun.max_new_tokens}.")
        rules = LogitsProcessor(self.plan, begun.max_new_tokens)
        for new, word in enumerate(ids):
            own = begun.logits.copy()
            rules.apply(begun.logits, begun.history, new)
            yield own[0], begun.logits[0] > -np.inf
            if new + 1 < len(ids):
                begun.feed(np.array([word], np.int64))

    def stream(self, given: DecodingInput) -> Iterator[str]:
        """The answer to one text in pieces, each as soon as no later word can change it."""
        settings = self.plan.settings
        if settings.num_beams > 1 or settings.num_return_sequences > 1:
            raise InputError(f"Streaming requires {setting('num_beams', 1)} and {setting('num_return_sequences', 1)}.")
        one = self._fill_empty(given, 0)
        return iter(()) if one is None else self._stream(one)

    def _stream(self, one: DecodingInput) -> Iterator[str]:
        settings = self.plan.settings
        draws = [random_generator(settings.seed, one, 0)] if settings.sample else ()
        told, text = "", ""
        begun = start_decoding(self.runner, self.plan, [one])
        for ids in Sampler(begun, self.plan, self.stops, draws, scored=False).steps():
            text = self.to_text((*self.plan.prefix_ids, *ids[0]))
            sure = text.rstrip(INCOMPLETE)
            sure = sure[: len(sure) - self.stops.partial_length(sure)]
            if sure.startswith(told) and sure != told:
                yield sure[len(told) :]
                told = sure
        if text.startswith(told) and text != told:
            yield text[len(told) :]

    def to_text(self, ids: Sequence[int]) -> str:
        """The ids of an answer, the prefix with them, as a text that ends before the first stop text."""
        whole = self._decode(ids)
        return self.stops.truncate(whole, len(self._decode(self.plan.prefix_ids))) if self.stops.texts else whole

    def _fill_empty(self, given: DecodingInput, row: int) -> DecodingInput | None:
        """The text as it is read: an empty prompt is the folder's first symbol, an empty source has no answer."""
        if not self.plan.start_ids:
            max_new_tokens(
                self.plan,
                self.runner.shape,
                len(given.real_ids) + len(self.plan.prefix_ids),
                f"The prompt of row {row}",
            )
        if given.real_ids or (not self.plan.start_ids and self.plan.prefix_ids):
            return given
        if self.plan.start_ids:
            return None
        if self.plan.empty_prompt_id is None:
            raise InputError("The prompt is empty, and the model has no symbol that could stand for its beginning.")
        return DecodingInput(ids=(self.plan.empty_prompt_id,))

    def _decode(self, ids: Sequence[int]) -> str:
        return "" if self.decode is None else self.decode(ids)
