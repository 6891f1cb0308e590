"""Texts out of a model: what `Model.generate`, `generate_ids` and `generate_stream` do."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from clearhead.batch import pad_rows, to_integer_array
from clearhead.decode import Generated, Hypothesis, resolve_plan
from clearhead.decode.settings import FORMER_NAMES, Decoding
from clearhead.errors import InputError
from clearhead.model.embedding import TruncationWarning
from clearhead.model.inputs import MAX_TOKENS, check_batch
from clearhead.progress import Progress, no_progress

if TYPE_CHECKING:
    import numpy as np

    from clearhead.decode import DecodingInput, StepCallback
    from clearhead.model.model import Model

    Array = np.ndarray[Any, Any]


class TextGenerator:
    """One way to write: a model, and a plan made of settings and what the folder says."""

    def __init__(self, model: Model, **choices: Any) -> None:
        from clearhead.decode import Decoder

        self.model, self.settings = model, make_settings(choices)
        tokenizer = model.target_tokenizer or model.source_tokenizer
        self.plan = resolve_plan(self.settings, model.shape, model.config, model.generation, tokenizer)
        runner = model.core if self.settings.coverage_penalty else model.runner
        self.decoder = Decoder(runner, self.plan, None if tokenizer is None else tokenizer.decode)

    def generate(self, texts: Iterable[str], progress: Progress = no_progress) -> list[Generated]:
        """Texts in, texts out."""
        if isinstance(texts, str):
            raise InputError("generate takes a list of texts, and it was given one text; put it in a list.")
        rows = list(texts)
        every, cut = self._read(rows)
        made = []
        for text, lost, answers in zip(rows, cut, self.decoder.generate(every, progress), strict=True):
            best = tuple(answers) or (Hypothesis(ids=(), score=0.0, stopped="empty"),)
            made.append(Generated(**vars(best[0]), source=text, best=best, truncated=lost))
        return made

    def stream(self, text: str) -> Iterator[str]:
        """One text in, its answer in pieces."""
        if not isinstance(text, str):
            raise InputError(f"generate_stream takes one text, and it was given {type(text).__name__}.")
        return self.decoder.stream(self._read([text])[0][0])

    def ids(self, ids: Any, mask: Any) -> list[Array]:
        """Ids in, ids out."""
        import numpy as np

        made: list[Array] = []
        for answers in self.decoder.generate(self._given(ids, mask), scored=False, texts=False):
            found = [np.array(answer.ids, np.int64) for answer in answers]
            made += found + [np.zeros(0, np.int64)] * (self.settings.num_return_sequences - len(found))
        return made

    def generate_hypotheses(self, text: str, watch: StepCallback | None) -> list[Hypothesis]:
        """The answers to one text, best first; `watch` sees every step of the search."""
        return self.decoder.generate(self._read([text])[0], watch=watch)[0]

    def new_ids(self, hypothesis: Hypothesis) -> list[int]:
        """The ids of an answer without the prefix, which the model did not choose."""
        return list(hypothesis.ids[len(self.plan.prefix_ids) :])

    def teacher_force(self, text: str, ids: Sequence[int]) -> Iterator[tuple[Array, Array]]:
        """What the decoder thought before each of these words of an answer: its logits, and what it may say."""
        return self.decoder.teacher_force(self._read([text])[0][0], ids)

    def _read(self, texts: Sequence[str]) -> tuple[list[DecodingInput], list[int]]:
        """Texts as tokens; sources that are too long are cut, and prompts, whose end matters, are refused."""
        from clearhead.decode import DecodingInput

        for place, text in enumerate(texts):
            if not isinstance(text, str):
                raise InputError(f"texts[{place}] is {type(text).__name__}, expected a text.")
        tokenizer, stack = self.model.tokenizer, self.model.shape.stack
        if self.model.shape.decoder is None:
            most = stack.max_length if stack.positions == "learned" and stack.max_length is not None else MAX_TOKENS
            prompts = tokenizer.encode_ids(texts, max_length=most)
            for place, one in enumerate(prompts):
                if one.truncated:
                    raise InputError(
                        f"The prompt of row {place} has {most + one.truncated} tokens, and the model numbers {most}; "
                        "shorten it to leave room for an answer."
                    )
            return [DecodingInput(ids=tuple(one.ids)) for one in prompts], [0] * len(texts)
        known = (self.model.max_length(), None if stack.positions == "none" else stack.max_length)
        limit = min((one for one in known if one is not None), default=None)
        limit = MAX_TOKENS if limit is None else limit
        found = tokenizer.encode_ids(texts, max_length=limit)
        every = [DecodingInput(ids=tuple(one.ids)) for one in found]
        cut = [one.truncated for one in found]
        if any(cut):
            warnings.warn(
                f"{sum(map(bool, cut))} of {len(cut)} texts are longer than {limit} tokens: {sum(cut)} tokens were "
                "left out.",
                TruncationWarning,
                stacklevel=4,
            )
        return every, cut

    def _given(self, ids: Any, mask: Any) -> list[DecodingInput]:
        """Rows as they were handed over, checked; padding behind a source is left out."""
        import numpy as np

        from clearhead.decode import DecodingInput

        if mask is None and _has_ragged_rows(ids):
            ids, mask = pad_rows([to_integer_array(row, f"ids[{place}]").tolist() for place, row in enumerate(ids)], 0)
        words = to_integer_array(ids, "ids")
        if words.ndim == 2 and 0 in words.shape:
            return [DecodingInput(ids=()) for _ in words]
        batch, _ = check_batch(self.model.shape, words, mask, None, None, None)
        real = batch.mask
        pad_id, paired = self.plan.pad_id, self.model.shape.decoder is not None
        if real is None and not paired and pad_id is not None and pad_id not in self.plan.end_ids:
            real = words != pad_id
        if real is None:
            return [DecodingInput(ids=tuple(row)) for row in words.tolist()]
        made = []
        for row, own in zip(words, real, strict=True):
            last = int(np.flatnonzero(own)[-1]) + 1 if own.any() else 0
            made.append(DecodingInput(ids=tuple(row[:last].tolist()), mask=tuple(own[:last].tolist())))
        return made


def _has_ragged_rows(ids: Any) -> bool:
    """Whether these are rows of different length."""
    rows = ids if isinstance(ids, list | tuple) and all(hasattr(row, "__len__") for row in ids) else ()
    return len({len(row) for row in rows}) > 1


def make_settings(choices: dict[str, Any]) -> Decoding:
    """Choices as settings; one that does not exist is named."""
    names = [field.name for field in fields(Decoding)]
    if unknown := [name for name in choices if name not in names and name not in FORMER_NAMES]:
        raise InputError(f"Unknown decoding setting {unknown[0]!r}, expected one of: {', '.join(names)}.")
    return Decoding(**choices)
