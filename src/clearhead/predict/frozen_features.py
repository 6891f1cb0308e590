"""Vectors of windows, words and pairs of texts that linear models on frozen features read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from clearhead.batch import Batch
from clearhead.data.columns import Columns
from clearhead.data.examples import TextRow
from clearhead.data.row_codec import LengthPolicy
from clearhead.data.table import TokenTable, encode_rows
from clearhead.errors import InputError
from clearhead.model.embedding import Embedder
from clearhead.model.layers import Layer, choose_layer
from clearhead.progress import Progress, no_progress
from clearhead.tasks.packed import PackedDataset, concat_ranges, pack_table
from clearhead.tasks.task import average_windows

if TYPE_CHECKING:
    import numpy as np

    from clearhead.model import Model

    Array = np.ndarray[Any, Any]


PACKED_TOKENS = 4096  # per batch: enough work for each core


def encode_unlabeled(table: TokenTable, model: Model) -> PackedDataset:
    """Pack a table without labels as input of a model."""
    return pack_table(table, segments=model.shape.stack.segments > 1, labeled=False)


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
        raise InputError("There are no rows to compute features for.")
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
        raise InputError("There are no rows to compute features for.")
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
