"""Scorers turn rows into logits: a network, a linear model on features, or TF-IDF."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from clearhead.batch import Batch, check_finite, group_by_budget
from clearhead.data.columns import Columns
from clearhead.data.examples import TextRow
from clearhead.data.row_codec import LengthPolicy
from clearhead.data.table import TokenTable, encode_rows
from clearhead.errors import InputError
from clearhead.model.embedding import Embedder
from clearhead.model.layers import Layer, choose_layer
from clearhead.progress import Progress, no_progress
from clearhead.runner import Runner
from clearhead.tasks.packed import PackedDataset, concat_ranges, pack_table
from clearhead.tasks.task import Task, average_windows

if TYPE_CHECKING:
    import numpy as np

    from clearhead.classic import ClassicModel
    from clearhead.model import Model
    from clearhead.words import WordVectors

    Array = np.ndarray[Any, Any]

PACKED_TOKENS = 4096  # per batch: enough work for each core


class Scores(NamedTuple):
    """The logits of rows, and how the rows were read."""

    logits: Any  # (rows, outputs), or what the task collects
    truncated: Array  # (rows,) truncated tokens
    windows: Array  # (rows,) windows that a row was split into


class Scorer(Protocol):
    """Computes logits of rows."""

    def score(self, rows: Sequence[TextRow], columns: Columns) -> Scores:
        """Compute one row of logits per row of texts, in order."""
        ...


@dataclass(frozen=True, kw_only=True)
class NetworkScorer:
    """A network with a head; either all weights or only the head were fine-tuned."""

    model: Model
    length_policy: LengthPolicy
    task: Task

    def score(self, rows: Sequence[TextRow], columns: Columns) -> Scores:
        """Compute the head's logits; the task merges the windows of a text."""
        table = encode_rows(rows, columns, self.model.tokenizer, policy=self.length_policy, codec=self.task.rows)
        dataset = encode_unlabeled(table, self.model)
        logits = compute_network_logits(self.model.runner, dataset, self.task)
        return Scores(logits, table.truncated, count_row_windows(dataset) // self.task.rows.passes_per_row)


@dataclass(frozen=True, kw_only=True)
class FeatureScorer:
    """A linear model on features of a frozen encoder."""

    model: Model
    length_policy: LengthPolicy
    classic: ClassicModel
    layer: Layer | None = None
    pooling: tuple[str, ...] | None = None
    task: Task
    separate: bool = False  # the texts of a pair are encoded separately, and their vectors compared

    def score(self, rows: Sequence[TextRow], columns: Columns) -> Scores:
        """Pool the encoder's layers (per word for taggers) and apply the linear model."""
        if self.separate:
            pair_features = compute_pair_features(
                self.model, rows, self.length_policy, layer=self.layer, pooling=self.pooling
            )
            return Scores(
                self.classic.logits(features=pair_features.features), pair_features.truncated, pair_features.windows
            )
        table = encode_rows(rows, columns, self.model.tokenizer, policy=self.length_policy, codec=self.task.rows)
        dataset = encode_unlabeled(table, self.model)
        if self.task.head.collect_words is not None:
            word_states = compute_word_states(self.model, dataset, layer=self.layer)
            return Scores(
                self.task.head.collect_words(self.classic.logits(features=word_states), dataset),
                table.truncated,
                dataset.row_windows,
            )
        features = compute_table_features(self.model, dataset, layer=self.layer, pooling=self.pooling)
        return Scores(self.classic.logits(features=features), table.truncated, dataset.row_windows)


@dataclass(frozen=True, kw_only=True)
class ClassicScorer:
    """TF-IDF with a linear model, or the majority class."""

    classic: ClassicModel

    def score(self, rows: Sequence[TextRow], columns: Columns) -> Scores:
        """Score whole texts; nothing is truncated."""
        import numpy as np

        second_texts = None if columns.text_b is None else [row.text_b or "" for row in rows]
        logits = self.classic.logits([row.text for row in rows], second_texts)
        return Scores(logits, np.zeros(len(rows), np.int32), np.ones(len(rows), np.int64))


@dataclass(frozen=True, kw_only=True)
class VectorScorer:
    """A linear model on the mean of a text's static word vectors."""

    vectors: WordVectors
    classic: ClassicModel

    def score(self, rows: Sequence[TextRow], columns: Columns) -> Scores:
        """Score whole texts; words without a vector are skipped."""
        import numpy as np

        second_texts = None if columns.text_b is None else [row.text_b or "" for row in rows]
        features = self.vectors.features([row.text for row in rows], second_texts)
        return Scores(
            self.classic.logits(features=features), np.zeros(len(rows), np.int32), np.ones(len(rows), np.int64)
        )


def encode_unlabeled(table: TokenTable, model: Model) -> PackedDataset:
    """Pack a table without labels as input of a model."""
    return pack_table(table, segments=model.shape.stack.segments > 1, labeled=False)


def count_row_windows(dataset: PackedDataset) -> Array:
    """Count the windows of each row, (rows,); for rows with options, the maximum over the options."""
    import numpy as np

    counts = getattr(dataset.annotations, "window_counts", None)
    if counts is None:
        return dataset.row_windows
    return np.maximum.reduceat(counts, dataset.annotations.bounds[:-1])[dataset.table_rows]


def compute_network_logits(
    runner: Runner, dataset: PackedDataset, task: Task, *, budget: int | None = None, progress: Progress = no_progress
) -> Any:
    """Compute logits in batches of windows of similar length, and collect them as the task requires."""
    import numpy as np

    windows, window_rows = _list_windows(dataset)
    lengths = dataset.starts[windows + 1] - dataset.starts[windows]
    order = np.argsort(lengths, kind="stable")
    outputs: list[Array] = []
    processed = 0
    for group in group_by_budget(lengths[order].tolist(), budget or runner.packed_tokens):
        selected = order[group.start : group.stop]
        batch = dataset.pack_windows(windows[selected], window_rows[selected], dataset.targets[:0])
        outputs.append(runner.run_packed(batch.ids, batch.segments, batch.lengths))
        processed += len(selected)
        progress("scoring", processed, len(order))
    if not outputs:
        raise InputError("There are no rows to predict.")
    logits = np.concatenate(outputs)
    check_finite(logits)
    if len(logits) == len(order):
        return task.head.collect(logits[np.argsort(order, kind="stable")], dataset)
    window_starts = np.cumsum(lengths) - lengths  # one output per token: restore the order of the windows
    token_logits = np.empty_like(logits)
    token_logits[np.repeat(window_starts[order], lengths[order]) + concat_ranges(lengths[order])] = logits
    return task.head.collect(token_logits, dataset)


def compute_table_features(
    model: Model,
    dataset: PackedDataset,
    *,
    layer: Layer | None = None,
    pooling: Sequence[str] | None = None,
    budget: int = PACKED_TOKENS,
    progress: Progress = no_progress,
) -> Array:
    """Compute the vectors that `Model.embed` returns, (rows, width), averaged over the windows of a row."""
    embedder = Embedder(model, layer, pooling, None, "")
    return compute_window_features(
        model, dataset, lambda *batch: [embedder.vectors(*batch)], budget=budget, progress=progress
    )[0]


class PairFeatures(NamedTuple):
    """Features of pairs of texts, and how the texts were read."""

    features: Array  # (rows, 2 * width)
    cosine: Array  # (rows,)
    truncated: Array  # (rows,) truncated tokens of both texts
    windows: Array  # (rows,) maximum number of windows of the two texts


def compute_pair_features(
    model: Model,
    rows: Sequence[TextRow],
    length_policy: LengthPolicy,
    *,
    layer: Layer | None = None,
    pooling: Sequence[str] | None = None,
    progress: Progress = no_progress,
) -> PairFeatures:
    """Encode the two texts of each row separately, as sentence encoders are trained, and compare the vectors."""
    import numpy as np

    table = encode_texts_separately(rows, model, length_policy)
    dataset = encode_unlabeled(table, model)
    vectors = compute_table_features(model, dataset, layer=layer, pooling=pooling, progress=progress)
    count, truncated, windows = len(rows), table.truncated, dataset.row_windows
    max_windows = np.maximum(windows[:count], windows[count:])
    first, second = np.split(vectors.astype(np.float64), 2)
    norms = np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=1)
    cosine = (first * second).sum(1) / np.maximum(norms, 1e-30)
    return PairFeatures(compare_vectors(vectors), cosine, truncated[:count] + truncated[count:], max_windows)


def encode_texts_separately(rows: Sequence[TextRow], model: Model, length_policy: LengthPolicy) -> TokenTable:
    """Tokenize the first texts of all rows, then the second texts, each as a separate row."""
    first_texts = [replace(row, text_b=None) for row in rows]
    second_texts = [replace(row, text=row.text_b or "", text_b=None) for row in rows]
    return encode_rows([*first_texts, *second_texts], Columns(text="text"), model.tokenizer, policy=length_policy)


def compare_vectors(vectors: Array) -> Array:
    """Turn vectors of first and second texts, (2 * rows, width), into |a - b| and a * b, (rows, 2 * width).

    A linear model can weight each dimension of both. For unit vectors, the sum of a * b is the cosine similarity, so
    the features contain it.
    """
    import numpy as np

    first, second = np.split(vectors, 2)
    return np.concatenate([np.abs(first - second), first * second], axis=1)


def compute_window_features(
    model: Model,
    dataset: PackedDataset,
    compute: Callable[[Array, Array, Array | None], Sequence[Array]],
    *,
    budget: int = PACKED_TOKENS,
    progress: Progress = no_progress,
) -> list[Array]:
    """Compute arrays (rows, width) in one pass; `compute` receives ids, mask and segments of a batch of windows."""
    import numpy as np

    windows, _ = _list_windows(dataset)
    lengths = dataset.starts[windows + 1] - dataset.starts[windows]
    batches = list(model.runner.batches(lengths, budget))
    features: list[Array] = []
    processed = 0

    def compute_batch(batch: Array) -> tuple[Array, Sequence[Array]]:
        return batch, compute(*_pad_windows(dataset, windows[batch], model))

    for batch, arrays in model.runner.map_jobs(compute_batch, batches):
        features = features or [np.zeros((len(windows), array.shape[1]), np.float32) for array in arrays]
        for target, array in zip(features, arrays, strict=True):
            target[batch] = array
        processed += len(batch)
        progress("features", processed, len(windows))
    if not features:
        raise InputError("There are no rows to make features of.")
    return [average_windows(target, dataset) for target in features]


def compute_word_states(
    model: Model, dataset: PackedDataset, *, layer: Layer | None = None, progress: Progress = no_progress
) -> Array:
    """Compute the states of one or several layers at the token that represents each word, (words, width)."""
    selected_layer: Layer = "last" if layer is None else layer
    return compute_word_arrays(
        model, dataset, lambda hidden: [choose_layer(hidden, selected_layer)], progress=progress
    )[0]


def compute_word_arrays(
    model: Model,
    dataset: PackedDataset,
    compute: Callable[[Sequence[Array]], Sequence[Array]],
    *,
    budget: int = PACKED_TOKENS,
    progress: Progress = no_progress,
) -> list[Array]:
    """Compute arrays (words, width) in one pass; `compute` receives the hidden states of a batch of windows.

    Words without a token are left out (`pack_annotations`).
    """
    import numpy as np

    windows, _ = _list_windows(dataset)
    lengths = dataset.starts[windows + 1] - dataset.starts[windows]
    window_starts = np.cumsum(lengths) - lengths
    token_indices = dataset.pack_annotations(np.arange(len(dataset)))["token_indices"]
    word_windows = np.searchsorted(window_starts, token_indices, side="right") - 1  # window of each word
    words_by_window = np.argsort(word_windows, kind="stable")
    bounds = np.searchsorted(word_windows[words_by_window], np.arange(len(windows) + 1))
    batches = list(model.runner.batches(lengths, budget))
    word_arrays: list[Array] = []
    processed = 0

    def compute_batch(selected: Array) -> tuple[Array, Sequence[Array]]:
        ids, mask, segments = _pad_windows(dataset, windows[selected], model)
        batch = Batch(ids=ids, mask=None if mask.all() else mask, segments=segments)
        return selected, compute(
            model.runner.encode(batch, layers=True, pooled=False, is_only_batch=len(batches) == 1).hidden
        )

    for batch_windows, arrays in model.runner.map_jobs(compute_batch, batches):
        word_arrays = word_arrays or [np.zeros((len(token_indices), array.shape[-1]), np.float32) for array in arrays]
        for batch_index, window in enumerate(batch_windows.tolist()):
            words = words_by_window[bounds[window] : bounds[window + 1]]
            for target, array in zip(word_arrays, arrays, strict=True):
                target[words] = array[batch_index, token_indices[words] - window_starts[window]]
        processed += len(batch_windows)
        progress("features", processed, len(windows))
    if not word_arrays:
        raise InputError("There are no rows to make features of.")
    return word_arrays


def _pad_windows(dataset: PackedDataset, windows: Array, model: Model) -> tuple[Array, Array, Array | None]:
    """Pad windows to a rectangle: ids, mask and segments."""
    import numpy as np

    lengths = dataset.starts[windows + 1] - dataset.starts[windows]
    positions = np.arange(int(lengths.max()))
    mask = positions < lengths[:, None]
    ids = np.full(mask.shape, model.shape.stack.pad_id or 0, np.int64)
    packed = dataset.pack_windows(windows, windows, dataset.targets[:0])
    ids[mask] = packed.ids
    segments = None
    if packed.segments is not None:
        segments = np.zeros(mask.shape, np.int64)
        segments[mask] = packed.segments
    return ids, mask, segments


def _list_windows(dataset: PackedDataset) -> tuple[Array, Array]:
    """List the windows of all rows, and the row of each window."""
    import numpy as np

    window_rows = np.repeat(np.arange(len(dataset)), dataset.row_windows)
    return np.repeat(dataset.first_windows, dataset.row_windows) + concat_ranges(dataset.row_windows), window_rows
