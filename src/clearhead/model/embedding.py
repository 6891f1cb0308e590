"""Text embeddings: batches of similar length, results in input order, and a warning about truncated texts."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

from clearhead.batch import pad_rows
from clearhead.errors import InputError
from clearhead.html import pluralize
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
BATCH_TOKENS = 2048  # enough work for each core, small enough for its cache
FIRST_CHUNK_TEXTS, CHUNK_TEXTS = 512, 4096  # texts that are tokenized, sorted by length and embedded together


class TruncationWarning(UserWarning):
    """Texts were longer than the maximum length of the model and were truncated."""


class Embedder:
    """Computes text vectors with a model, a layer, a pooling and a prompt."""

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
        self.plan, is_folder_pooling = _resolve_pooling(model.pooling, layer, pooling)
        self.dense = model.dense if is_folder_pooling else ()
        self.normalize = self.plan.normalize if normalize is None else normalize
        self.text_count = self.truncated_texts = self.truncated_tokens = (
            0  # number of texts, of truncated texts, and of truncated tokens
        )

    def embed(self, texts: Iterable[str], batch_tokens: int, progress: Progress = no_progress) -> Array:
        """Compute one float32 vector per text, in input order."""
        import numpy as np

        check_texts(texts)
        rows = list(texts)
        embeddings = np.zeros((len(rows), self.width), np.float32)
        done = 0
        for vectors in self.stream(rows, batch_tokens):
            embeddings[done : done + len(vectors)] = vectors
            done += len(vectors)
            progress("embedding", done, len(rows))
        return embeddings

    def stream(self, texts: Iterable[str], batch_tokens: int, *, skip: int = 0) -> Iterator[Array]:
        """Yield the vectors of some texts at a time, in input order; the next texts are tokenized in the background.

        The first `skip` texts, as many as an earlier stream embedded, are read but not embedded. The vectors of the
        remaining texts have the same bits as without `skip`.
        """
        check_texts(texts)
        prompt_tokens = self._prompt_tokens()
        is_single_chunk = (
            isinstance(texts, list) and len(texts) <= FIRST_CHUNK_TEXTS
        )  # there is no second chunk to prefetch
        chunks = (self._tokenize(chunk) for chunk in iter_chunks(texts, skip))
        for encoded in chunks if is_single_chunk else prefetch(chunks):
            truncated = [tokens.truncated for tokens in encoded if tokens.truncated]
            self.text_count += len(encoded)
            self.truncated_texts += len(truncated)
            self.truncated_tokens += sum(truncated)
            yield self._vectors(encoded, prompt_tokens, batch_tokens)
        if self.truncated_texts:
            warnings.warn(
                f"{self.truncated_texts} of {self.text_count} texts are longer than {self._limit} tokens: "
                f"{pluralize(self.truncated_tokens, 'token', ('was', 'were'))} truncated.",
                TruncationWarning,
                stacklevel=4,
            )

    def _vectors(self, encoded: Sequence[TokenIds], skip: int, batch_tokens: int) -> Array:
        """Compute the final vectors of encoded texts; a text without tokens has a zero vector."""
        import numpy as np

        embeddings = np.zeros((len(encoded), self.width), np.float32)
        lengths = np.array([len(tokens) for tokens in encoded])
        non_empty = np.flatnonzero(lengths)
        runner = self.model.runner
        jobs = [non_empty[rows] for rows in runner.batches(lengths[non_empty], batch_tokens)]

        def work(rows: Array) -> tuple[Array, Array]:
            return rows, self._pool_encoded([encoded[row] for row in rows.tolist()], skip, alone=len(jobs) == 1)

        for rows, vectors in runner.map_jobs(work, jobs):
            embeddings[rows] = features.finish_vectors(vectors, self.plan, self.dense, normalize=self.normalize)
        return embeddings

    @property
    def width(self) -> int:
        """Number of dimensions of a text vector."""
        stack = self.model.shape.stack
        if self.dense:
            return self.plan.dense[-1].outputs
        layer_count = 4 if self.plan.layer == "concat_last_four" else 1
        layer_numbers: dict[str | int, int] = {"first": 0, "second_to_last": stack.layers - 1}
        is_embedding_layer = layer_numbers.get(self.plan.layer, self.plan.layer) in (
            0,
            -stack.layers - 1,
        )  # the embedding layer
        is_token_width = (
            stack.recurrent is not None and not stack.recurrent.independent_directions and is_embedding_layer
        )  # ELMo has them twice
        layer_width = stack.token_width if is_token_width else stack.width
        return layer_width * layer_count * len(self.plan.modes)

    def _tokenize(self, rows: Sequence[str]) -> list[TokenIds]:
        """Tokenize texts, truncated to the maximum length."""
        texts = [self.prompt + text for text in rows]
        if self.plan.lowercase:
            texts = [text.lower() for text in texts]
        return self.model.tokenizer.encode_ids(texts, max_length=self._limit)

    @property
    def _limit(self) -> int:
        """Maximum number of tokens per text: of the folder, or a limit for memory."""
        limit = self.model.max_length(self.plan)
        return MAX_TOKENS if limit is None else limit

    def _prompt_tokens(self) -> int:
        """Count the leading tokens of the prompt, which are excluded from pooling."""
        if not self.prompt or self.plan.include_prompt:
            return 0
        prompt = self.model.tokenizer.encode(self.prompt)
        return len(prompt) - (1 if prompt.special and prompt.special[-1] else 0)

    def vectors(self, ids: Array, mask: Array, segments: Array | None) -> Array:
        """Compute the final vectors of texts that are already encoded and padded."""
        pooled = self._pool_tokens(ids, mask, segments, 0, alone=False)
        return features.finish_vectors(pooled, self.plan, self.dense, normalize=self.normalize)

    def _pool_encoded(self, encoded: Sequence[TokenIds], skip: int, *, alone: bool) -> Array:
        stack = self.model.shape.stack
        ids, mask = pad_rows([tokens.ids for tokens in encoded], stack.pad_id or 0)
        segments = pad_rows([tokens.segments for tokens in encoded], 0)[0] if stack.segments > 1 else None
        return self._pool_tokens(ids, mask, segments, skip, alone=alone)

    def _pool_tokens(self, ids: Array, mask: Array, segments: Array | None, skip: int, *, alone: bool) -> Array:
        needs_all_layers = self.plan.layer != "last"
        batch, _ = check_batch(self.model.shape, ids, None if mask.all() else mask, segments, None, None)
        out = self.model.runner.encode(
            batch, layers=needs_all_layers, pooled="pooler" in self.plan.modes, is_only_batch=alone
        )
        tokens = features.choose_layer(out.hidden, self.plan.layer) if needs_all_layers else out.last
        mask[:, :skip] = False
        return features.pool(tokens, mask, out.pooled, self.plan.modes)  # type: ignore[arg-type]


def _resolve_pooling(
    folder: Pooling, layer: features.Layer | None, pooling: str | Sequence[str] | None
) -> tuple[Pooling, bool]:
    """Resolve the pooling: of the folder, or a custom one without the dense layers trained for the folder's pooling."""
    if layer is None and pooling is None:
        return folder, True
    modes = folder.modes if pooling is None else features.pooling_modes(pooling)
    chosen_layer: Any = folder.layer if layer is None else layer
    if "pooler" in modes and chosen_layer != "last":
        raise InputError("The pooler reads the last layer; use mean, first or max pooling for other layers.")
    return replace(folder, modes=modes, layer=chosen_layer, dense=(), normalize=False), False


def check_texts(texts: object) -> None:
    """Check that texts are a list or another iterable of strings."""
    if isinstance(texts, str):
        raise InputError("embed expects a list of texts, got a single text; put it in a list.")
    if not isinstance(texts, Iterable):
        raise InputError(f"embed expects a list of texts, got {type(texts).__name__}.")


def iter_chunks(texts: Iterable[str], skip: int = 0) -> Iterator[list[str]]:
    """Split texts into chunks, a small one first so that work starts at once, and check that each is a string.

    Chunks within the first `skip` texts are left out.
    """
    text_count, size = 0, FIRST_CHUNK_TEXTS
    rows = iter(texts)
    while chunk := list(islice(rows, size)):
        for index, text in enumerate(chunk):
            if not isinstance(text, str):
                raise InputError(f"texts[{text_count + index}] is {type(text).__name__}, expected a text.")
        text_count, size = text_count + len(chunk), CHUNK_TEXTS
        if text_count > skip:
            yield chunk


def prefetch(items: Iterator[T]) -> Iterator[T]:
    """Iterate over items while a thread computes the next one."""
    with ThreadPoolExecutor(1, thread_name_prefix="clearhead-ahead") as executor:
        following = executor.submit(next, items, None)
        while (item := following.result()) is not None:
            following = executor.submit(next, items, None)
            yield item
