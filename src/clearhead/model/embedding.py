"""Texts to vectors in small batches of like length: nothing is cut without a word, nothing comes out of order."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

from clearhead.batch import pad_rows
from clearhead.errors import InputError
from clearhead.model import layers as features
from clearhead.model.inputs import MAX_TOKENS, check_batch
from clearhead.progress import Progress, no_progress
from clearhead.shape import Pooling
from clearhead.text.encoding import TokenIds

if TYPE_CHECKING:
    import numpy as np

    from clearhead.model.model import Model

    Array = np.ndarray[Any, Any]

T = TypeVar("T")
BATCH_TOKENS = 2048  # enough work for each core without running out of its cache
FIRST_CHUNK_TEXTS, CHUNK_TEXTS = 512, 4096  # texts that are read, sorted by length and worked on together


class TruncationWarning(UserWarning):
    """Some texts were longer than the model takes, and their ends were left out."""


class Embedder:
    """One way to turn texts into vectors: a model, a layer, a pooling, a prompt."""

    def __init__(
        self,
        model: Model,
        layer: features.Layer | None,
        pooling: str | Sequence[str] | None,
        normalize: bool | None,
        prompt: str,
    ) -> None:
        self.model = model
        self.prompt = prompt
        self.plan, own = _resolve_pooling(model.pooling, layer, pooling)
        self.dense = model.dense if own else ()
        self.normalize = self.plan.normalize if normalize is None else normalize
        self.seen = self.cut = self.lost = 0  # texts so far, those that were too long, and their tokens left out

    def embed(self, texts: Iterable[str], batch_tokens: int, progress: Progress = no_progress) -> Array:
        """One float32 vector per text, in the order given."""
        import numpy as np

        check_texts(texts)
        rows = list(texts)
        made = np.zeros((len(rows), self.width), np.float32)
        done = 0
        for vectors in self.stream(rows, batch_tokens):
            made[done : done + len(vectors)] = vectors
            done += len(vectors)
            progress("embedding", done, len(rows))
        return made

    def stream(self, texts: Iterable[str], batch_tokens: int, *, skip: int = 0) -> Iterator[Array]:
        """The vectors of some texts at a time, in the order given; the next ones are read while these are worked on.

        `skip` texts, as many as the vectors of an earlier stream, are read and passed over: the rest has the same bits.
        """
        check_texts(texts)
        prompt_tokens = self._prompt_tokens()
        few = isinstance(texts, list) and len(texts) <= FIRST_CHUNK_TEXTS  # nothing follows that could be read ahead
        every = (self._encoded(chunk) for chunk in iter_chunks(texts, skip))
        for encoded in every if few else prefetch(every):
            longer = [one.truncated for one in encoded if one.truncated]
            self.cut, self.lost, self.seen = self.cut + len(longer), self.lost + sum(longer), self.seen + len(encoded)
            yield self._vectors(encoded, prompt_tokens, batch_tokens)
        if self.cut:
            warnings.warn(
                f"{self.cut} of {self.seen} texts are longer than {self._limit} tokens: {self.lost} tokens were left "
                "out.",
                TruncationWarning,
                stacklevel=4,
            )

    def _vectors(self, encoded: Sequence[TokenIds], skip: int, batch_tokens: int) -> Array:
        """Finished vectors of some texts; one without a token is all zeros."""
        import numpy as np

        made = np.zeros((len(encoded), self.width), np.float32)
        lengths = np.array([len(one) for one in encoded])
        some = np.flatnonzero(lengths)
        runner = self.model.runner
        jobs = [some[rows] for rows in runner.batches(lengths[some], batch_tokens)]

        def work(rows: Array) -> tuple[Array, Array]:
            return rows, self._pooled([encoded[row] for row in rows.tolist()], skip, alone=len(jobs) == 1)

        for rows, vectors in runner.map_jobs(work, jobs):
            made[rows] = features.finish_vectors(vectors, self.plan, self.dense, normalize=self.normalize)
        return made

    @property
    def width(self) -> int:
        """How wide a text's vector is."""
        stack = self.model.shape.stack
        if self.dense:
            return self.plan.dense[-1].outputs
        wide = 4 if self.plan.layer == "concat_last_four" else 1
        names: dict[str | int, int] = {"first": 0, "second_to_last": stack.layers - 1}
        words = names.get(self.plan.layer, self.plan.layer) in (0, -stack.layers - 1)  # not yet read by any layer
        narrow = (
            stack.recurrent is not None and not stack.recurrent.independent_directions and words
        )  # ELMo has them twice
        each = stack.token_width if narrow else stack.width
        return each * wide * len(self.plan.modes)

    def _encoded(self, rows: Sequence[str]) -> list[TokenIds]:
        """Tokens of each text, cut at the longest that the folder allows."""
        texts = [self.prompt + text for text in rows]
        if self.plan.lowercase:
            texts = [text.lower() for text in texts]
        return self.model.tokenizer.encode_ids(texts, max_length=self._limit)

    @property
    def _limit(self) -> int:
        """The longest that the folder allows, or that memory does."""
        limit = self.model.max_length(self.plan)
        return MAX_TOKENS if limit is None else limit

    def _prompt_tokens(self) -> int:
        """How many tokens at the beginning are the prompt's and are left out of the pooled ones."""
        if not self.prompt or self.plan.include_prompt:
            return 0
        alone = self.model.tokenizer.encode(self.prompt)
        return len(alone) - (1 if alone.special and alone.special[-1] else 0)

    def vectors(self, ids: Array, mask: Array, segments: Array | None) -> Array:
        """Finished vectors of texts that are encoded and padded already."""
        pooled = self._token_pool(ids, mask, segments, 0, alone=False)
        return features.finish_vectors(pooled, self.plan, self.dense, normalize=self.normalize)

    def _pooled(self, encoded: Sequence[TokenIds], skip: int, *, alone: bool) -> Array:
        stack = self.model.shape.stack
        ids, mask = pad_rows([one.ids for one in encoded], stack.pad_id or 0)
        segments = pad_rows([one.segments for one in encoded], 0)[0] if stack.segments > 1 else None
        return self._token_pool(ids, mask, segments, skip, alone=alone)

    def _token_pool(self, ids: Array, mask: Array, segments: Array | None, skip: int, *, alone: bool) -> Array:
        every = self.plan.layer != "last"
        batch, _ = check_batch(self.model.shape, ids, None if mask.all() else mask, segments, None, None)
        out = self.model.runner.encode(batch, layers=every, pooled="pooler" in self.plan.modes, alone=alone)
        tokens = features.choose_layer(out.hidden, self.plan.layer) if every else out.last
        mask[:, :skip] = False
        return features.pool(tokens, mask, out.pooled, self.plan.modes)  # type: ignore[arg-type]


def _resolve_pooling(
    folder: Pooling, layer: features.Layer | None, pooling: str | Sequence[str] | None
) -> tuple[Pooling, bool]:
    """The folder's pooling, or another one without what was trained for the folder's."""
    if layer is None and pooling is None:
        return folder, True
    modes = folder.modes if pooling is None else features.pooling_modes(pooling)
    where: Any = folder.layer if layer is None else layer
    if "pooler" in modes and where != "last":
        raise InputError("The pooler stands on the last layer; pool other layers by mean, first or max.")
    return replace(folder, modes=modes, layer=where, dense=(), normalize=False), False


def check_texts(texts: object) -> None:
    """One sentence where texts did not come as a list or another row of them."""
    if isinstance(texts, str):
        raise InputError("embed takes a list of texts, and it was given one text; put it in a list.")
    if not isinstance(texts, Iterable):
        raise InputError(f"embed takes a list of texts, and it was given {type(texts).__name__}.")


def iter_chunks(texts: Iterable[str], skip: int = 0) -> Iterator[list[str]]:
    """Texts some at a time, few first so that work begins at once; what is no text is refused with its place.

    The chunks of the first `skip` texts are left out.
    """
    seen, size = 0, FIRST_CHUNK_TEXTS
    rows = iter(texts)
    while some := list(islice(rows, size)):
        for place, text in enumerate(some):
            if not isinstance(text, str):
                raise InputError(f"texts[{seen + place}] is {type(text).__name__}, expected a text.")
        seen, size = seen + len(some), CHUNK_TEXTS
        if seen > skip:
            yield some


def prefetch(items: Iterator[T]) -> Iterator[T]:
    """The same items, the next one made by another thread while this one is used."""
    with ThreadPoolExecutor(1, thread_name_prefix="clearhead-ahead") as one:
        following = one.submit(next, items, None)
        while (item := following.result()) is not None:
            following = one.submit(next, items, None)
            yield item
