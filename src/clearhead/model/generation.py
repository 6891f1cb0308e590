"""Text generation: the implementation of `Model.generate`, `generate_ids` and `generate_stream`."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from clearhead.batch import pad_rows, to_integer_array
from clearhead.decode import GeneratedText, Hypothesis, resolve_plan
from clearhead.decode.settings import FORMER_NAMES, Decoding
from clearhead.errors import InputError
from clearhead.html import pluralize
from clearhead.model.embedding import TruncationWarning
from clearhead.model.inputs import MAX_TOKENS, check_batch
from clearhead.progress import Progress, no_progress

if TYPE_CHECKING:
    import numpy as np

    from clearhead.decode import DecodingInput, StepCallback
    from clearhead.model.model import Model

    Array = np.ndarray[Any, Any]


class TextGenerator:
    """Generates texts with a model and a decoding plan, resolved from settings and the model folder."""

    def __init__(self, model: Model, **choices: Any) -> None:
        from clearhead.decode import Decoder

        self.model, self.settings = model, make_settings(choices)
        tokenizer = model.target_tokenizer or model.source_tokenizer
        self.plan = resolve_plan(self.settings, model.shape, model.config, model.generation, tokenizer)
        runner = model.core if self.settings.coverage_penalty else model.runner
        self.decoder = Decoder(runner, self.plan, None if tokenizer is None else tokenizer.decode)

    def generate(self, texts: Iterable[str], progress: Progress = no_progress) -> list[GeneratedText]:
        """Generate an answer to each text."""
        if isinstance(texts, str):
            raise InputError("generate expects a list of texts, got a single text; put it in a list.")
        rows = list(texts)
        sources, truncated = self._tokenize(rows)
        generated = []
        for text, lost, answers in zip(rows, truncated, self.decoder.generate(sources, progress), strict=True):
            hypotheses = tuple(answers) or (Hypothesis(ids=(), score=0.0, stopped="empty"),)
            generated.append(GeneratedText(**vars(hypotheses[0]), source=text, best=hypotheses, truncated=lost))
        return generated

    def stream(self, text: str) -> Iterator[str]:
        """Generate the answer to one text in pieces."""
        if not isinstance(text, str):
            raise InputError(f"generate_stream expects a single text, got {type(text).__name__}.")
        return self.decoder.stream(self._tokenize([text])[0][0])

    def ids(self, ids: Any, mask: Any) -> list[Array]:
        """Generate ids for each row of ids."""
        import numpy as np

        rows: list[Array] = []
        for answers in self.decoder.generate(self._check_rows(ids, mask), compute_scores=False, decode_texts=False):
            answer_ids = [np.array(answer.ids, np.int64) for answer in answers]
            rows += answer_ids + [np.zeros(0, np.int64)] * (self.settings.num_return_sequences - len(answer_ids))
        return rows

    def generate_hypotheses(self, text: str, watch: StepCallback | None) -> list[Hypothesis]:
        """Return the answers to one text, best first; `watch` is called with every step of the search."""
        return self.decoder.generate(self._tokenize([text])[0], on_step=watch)[0]

    def new_ids(self, hypothesis: Hypothesis) -> list[int]:
        """Return the ids of an answer without the forced prefix."""
        return list(hypothesis.ids[len(self.plan.prefix_ids) :])

    def teacher_force(self, text: str, ids: Sequence[int]) -> Iterator[tuple[Array, Array]]:
        """Yield the logits before each token of an answer, and which tokens were allowed."""
        return self.decoder.teacher_force(self._tokenize([text])[0][0], ids)

    def _tokenize(self, texts: Sequence[str]) -> tuple[list[DecodingInput], list[int]]:
        """Tokenize texts; sources that are too long are truncated, prompts that are too long are an error."""
        from clearhead.decode import DecodingInput

        for row, text in enumerate(texts):
            if not isinstance(text, str):
                raise InputError(f"texts[{row}] is {type(text).__name__}, expected a text.")
        tokenizer, stack = self.model.tokenizer, self.model.shape.stack
        if self.model.shape.decoder is None:
            positions = (
                stack.max_length if stack.positions == "learned" and stack.max_length is not None else MAX_TOKENS
            )
            prompts = tokenizer.encode_ids(texts, max_length=positions)
            for row, tokens in enumerate(prompts):
                if tokens.truncated:
                    raise InputError(
                        f"The prompt of row {row} has {positions + tokens.truncated} tokens, but the model has "
                        f"{positions} positions; shorten it to leave room for an answer."
                    )
            return [DecodingInput(ids=tuple(tokens.ids)) for tokens in prompts], [0] * len(texts)
        limits = (self.model.max_length(), None if stack.positions == "none" else stack.max_length)
        limit = min((length for length in limits if length is not None), default=None)
        limit = MAX_TOKENS if limit is None else limit
        encoded = tokenizer.encode_ids(texts, max_length=limit)
        sources = [DecodingInput(ids=tuple(tokens.ids)) for tokens in encoded]
        truncated = [tokens.truncated for tokens in encoded]
        if any(truncated):
            warnings.warn(
                f"{sum(map(bool, truncated))} of {len(truncated)} texts are longer than {limit} tokens: "
                f"{pluralize(sum(truncated), 'token', ('was', 'were'))} truncated.",
                TruncationWarning,
                stacklevel=4,
            )
        return sources, truncated

    def _check_rows(self, ids: Any, mask: Any) -> list[DecodingInput]:
        """Check rows of ids, and remove padding after the source."""
        import numpy as np

        from clearhead.decode import DecodingInput

        if mask is None and _has_ragged_rows(ids):
            ids, mask = pad_rows([to_integer_array(row, f"ids[{index}]").tolist() for index, row in enumerate(ids)], 0)
        token_ids = to_integer_array(ids, "ids")
        if token_ids.ndim == 2 and 0 in token_ids.shape:
            return [DecodingInput(ids=()) for _ in token_ids]
        batch, _ = check_batch(self.model.shape, token_ids, mask, None, None, None)
        mask_array = batch.mask
        pad_id, has_decoder = self.plan.pad_id, self.model.shape.decoder is not None
        if mask_array is None and not has_decoder and pad_id is not None and pad_id not in self.plan.end_ids:
            mask_array = token_ids != pad_id
        if mask_array is None:
            return [DecodingInput(ids=tuple(row)) for row in token_ids.tolist()]
        sources = []
        for row, row_mask in zip(token_ids, mask_array, strict=True):
            length = int(np.flatnonzero(row_mask)[-1]) + 1 if row_mask.any() else 0
            sources.append(DecodingInput(ids=tuple(row[:length].tolist()), mask=tuple(row_mask[:length].tolist())))
        return sources


def _has_ragged_rows(ids: Any) -> bool:
    """Whether the rows have different lengths."""
    rows = ids if isinstance(ids, list | tuple) and all(hasattr(row, "__len__") for row in ids) else ()
    return len({len(row) for row in rows}) > 1


def make_settings(choices: dict[str, Any]) -> Decoding:
    """Convert keyword arguments to decoding settings; unknown names are an error."""
    names = [field.name for field in fields(Decoding)]
    if unknown := [name for name in choices if name not in names and name not in FORMER_NAMES]:
        raise InputError(f"Unknown decoding setting {unknown[0]!r}, expected one of: {', '.join(names)}.")
    return Decoding(**choices)
