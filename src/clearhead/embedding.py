"""Texts to vectors in small batches of like length: nothing is cut without a word, nothing comes out of order."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from clearhead import features
from clearhead.batch import pad
from clearhead.errors import InputError
from clearhead.shape import Pooling

if TYPE_CHECKING:
    import numpy as np

    from clearhead.model import Model
    from clearhead.text import Encoding

    Array = np.ndarray[Any, Any]


class TruncationWarning(UserWarning):
    """Some texts were longer than the model takes, and their ends were left out."""


class Embedder:
    """One way to turn texts into vectors: a model, a layer, a pooling, a prompt."""

    def __init__(
        self,
        model: Model,
        layer: str | int | None,
        pooling: str | Sequence[str] | None,
        normalize: bool | None,
        prompt: str,
    ) -> None:
        self.model = model
        self.prompt = prompt
        self.plan, own = _plan(model.pooling, layer, pooling)
        self.dense = model.dense if own else ()
        self.normalize = self.plan.normalize if normalize is None else normalize

    def embed(
        self, texts: Iterable[str], batch_tokens: int, progress: Callable[[int, int], None] | None = None
    ) -> Array:
        """One float32 vector per text, in the order given."""
        import numpy as np

        rows = _texts(texts)
        encoded = self._encoded(rows)
        skip = self._prompt_tokens()
        order = sorted(range(len(rows)), key=lambda i: len(encoded[i]))
        made = np.zeros((len(rows), self.width), np.float32)
        done = 0
        for group in groups([len(encoded[i]) for i in order], batch_tokens):
            chosen = [order[place] for place in group if len(encoded[order[place]])]
            if chosen:
                vectors = self._pooled([encoded[i] for i in chosen], skip)
                made[chosen] = features.finish(vectors, self.plan, self.dense, normalize=self.normalize)
            done += len(group)
            if progress is not None:
                progress(done, len(rows))
        return made

    @property
    def width(self) -> int:
        """How wide a text's vector is."""
        stack = self.model.shape.stack
        if self.dense:
            return self.plan.dense[-1].outputs
        wide = 4 if self.plan.layer == "concat_last_four" else 1
        return stack.width * wide * len(self.plan.modes)

    def _encoded(self, rows: list[str]) -> list[Encoding]:
        """Tokens of each text, cut at the longest that the folder allows, and said so."""
        texts = [self.prompt + text for text in rows]
        if self.plan.lower:
            texts = [text.lower() for text in texts]
        limit = self.model.max_length(self.plan)
        encoded = self.model.tokenizer.encode_batch(texts, max_length=limit)
        cut = [encoding.truncated for encoding in encoded if encoding.truncated]
        if cut:
            warnings.warn(
                f"{len(cut)} of {len(rows)} texts are longer than {limit} tokens: {sum(cut)} tokens were left out.",
                TruncationWarning,
                stacklevel=4,
            )
        return encoded

    def _prompt_tokens(self) -> int:
        """How many tokens at the beginning are the prompt's and are left out of the pooled ones."""
        if not self.prompt or self.plan.include_prompt:
            return 0
        alone = self.model.tokenizer.encode(self.prompt)
        return len(alone) - (1 if alone.special and alone.special[-1] else 0)

    def vectors(self, ids: Array, mask: Array, segments: Array | None) -> Array:
        """Finished vectors of texts that are encoded and padded already."""
        pooled = self._token_pool(ids, mask, segments, 0)
        return features.finish(pooled, self.plan, self.dense, normalize=self.normalize)

    def _pooled(self, encoded: list[Encoding], skip: int) -> Array:
        stack = self.model.shape.stack
        ids, mask = pad([encoding.ids for encoding in encoded], stack.pad or 0)
        segments = pad([encoding.segments for encoding in encoded], 0)[0] if stack.segments > 1 else None
        return self._token_pool(ids, mask, segments, skip)

    def _token_pool(self, ids: Array, mask: Array, segments: Array | None, skip: int) -> Array:
        every = self.plan.layer != "last"
        out = self.model.run(ids, mask, segments, hidden=every)
        tokens = features.choose_layer(out.hidden, self.plan.layer) if every else out.last
        mask[:, :skip] = False
        return features.pool(tokens, mask, out.pooled, self.plan.modes)  # type: ignore[arg-type]


def _plan(folder: Pooling, layer: str | int | None, pooling: str | Sequence[str] | None) -> tuple[Pooling, bool]:
    """The folder's pooling, or another one without what was trained for the folder's."""
    if layer is None and pooling is None:
        return folder, True
    modes = folder.modes if pooling is None else features.pooling_modes(pooling)
    where: Any = folder.layer if layer is None else layer
    if "pooler" in modes and where != "last":
        raise InputError("The pooler stands on the last layer; pool other layers by mean, first or max.")
    return replace(folder, modes=modes, layer=where, dense=(), normalize=False), False


def _texts(texts: Iterable[str]) -> list[str]:
    if isinstance(texts, str):
        raise InputError("embed takes a list of texts, and it was given one text; put it in a list.")
    rows = list(texts)
    for place, text in enumerate(rows):
        if not isinstance(text, str):
            raise InputError(f"texts[{place}] is {type(text).__name__}, expected a text.")
    return rows


def groups(lengths: Sequence[int], budget: int) -> Iterable[range]:
    """Runs of sorted lengths whose rectangle stays within a budget of tokens."""
    begin = 0
    for place, length in enumerate(lengths):
        if place > begin and (place + 1 - begin) * length > budget:
            yield range(begin, place)
            begin = place
    if begin < len(lengths):
        yield range(begin, len(lengths))
