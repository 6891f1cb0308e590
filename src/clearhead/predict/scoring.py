"""Rows to logits, whatever stands behind them: a network, a linear model on features, or words that were counted."""

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

PACKED_TOKENS = 4096  # of one pass: enough work for each core


class Scores(NamedTuple):
    """What a scorer says of rows."""

    logits: Any  # (rows, outputs), or as the task collects them
    truncated: Array  # (rows,) tokens that were cut off
    windows: Array  # (rows,) windows that it was read in


class Scorer(Protocol):
    """Anything that answers rows with logits."""

    def score(self, rows: Sequence[TextRow], columns: Columns) -> Scores:
        """One row of logits per row of texts, in the order given."""
        ...


@dataclass(frozen=True, kw_only=True)
class NetworkScorer:
    """A network with a head, fine-tuned as a whole or in its head alone."""

    model: Model
    fit: LengthPolicy
    task: Task

    def score(self, rows: Sequence[TextRow], columns: Columns) -> Scores:
        """Read the head's logits; windows of one text are put together as the task does it."""
        table = encode_rows(rows, columns, self.model.tokenizer, fit=self.fit, form=self.task.rows)
        data = encode_unlabeled(table, self.model)
        logits = compute_network_logits(self.model.runner, data, self.task)
        return Scores(logits, table.truncated, count_row_windows(data) // self.task.rows.passes_per_row)


@dataclass(frozen=True, kw_only=True)
class FeatureScorer:
    """A frozen encoder's features under a linear model: the lecture's DistilBERT example."""

    model: Model
    fit: LengthPolicy
    classic: ClassicModel
    layer: Layer | None = None
    pooling: tuple[str, ...] | None = None
    task: Task
    separate: bool = False  # two texts are encoded one by one, and their vectors compared

    def score(self, rows: Sequence[TextRow], columns: Columns) -> Scores:
        """Pool the encoder's layers to features, then one matrix; of a tagger, the features of each word."""
        if self.separate:
            made = compute_pair_features(self.model, rows, self.fit, layer=self.layer, pooling=self.pooling)
            return Scores(self.classic.logits(features=made.features), made.truncated, made.windows)
        table = encode_rows(rows, columns, self.model.tokenizer, fit=self.fit, form=self.task.rows)
        data = encode_unlabeled(table, self.model)
        if self.task.head.collect_words is not None:
            found = compute_word_states(self.model, data, layer=self.layer)
            return Scores(
                self.task.head.collect_words(self.classic.logits(features=found), data),
                table.truncated,
                data.row_windows,
            )
        features = compute_table_features(self.model, data, layer=self.layer, pooling=self.pooling)
        return Scores(self.classic.logits(features=features), table.truncated, data.row_windows)


@dataclass(frozen=True, kw_only=True)
class ClassicScorer:
    """Words that were counted, or nothing but the most frequent answer: no network."""

    classic: ClassicModel

    def score(self, rows: Sequence[TextRow], columns: Columns) -> Scores:
        """All of a text is read, so that nothing is cut."""
        import numpy as np

        seconds = None if columns.text_b is None else [row.text_b or "" for row in rows]
        logits = self.classic.logits([row.text for row in rows], seconds)
        return Scores(logits, np.zeros(len(rows), np.int32), np.ones(len(rows), np.int64))


@dataclass(frozen=True, kw_only=True)
class VectorScorer:
    """The mean of a text's word vectors under a linear model: no context, and no network."""

    vectors: WordVectors
    classic: ClassicModel

    def score(self, rows: Sequence[TextRow], columns: Columns) -> Scores:
        """All of a text is read; words without a vector are passed over."""
        import numpy as np

        seconds = None if columns.text_b is None else [row.text_b or "" for row in rows]
        found = self.vectors.features([row.text for row in rows], seconds)
        return Scores(self.classic.logits(features=found), np.zeros(len(rows), np.int32), np.ones(len(rows), np.int64))


def encode_unlabeled(table: TokenTable, model: Model) -> PackedDataset:
    """A table without labels as this model reads it."""
    return pack_table(table, segments=model.shape.stack.segments > 1, labelled=False)


def count_row_windows(data: PackedDataset) -> Array:
    """(rows,) in how many windows a text was read; where options are read one by one, the most of any."""
    import numpy as np

    counts = getattr(data.annotations, "window_counts", None)
    if counts is None:
        return data.row_windows
    return np.maximum.reduceat(counts, data.annotations.bounds[:-1])[data.table_rows]


def compute_network_logits(
    runner: Runner, data: PackedDataset, task: Task, *, budget: int | None = None, progress: Progress = no_progress
) -> Any:
    """What the task makes of the network's answers; windows of like length go through together."""
    import numpy as np

    windows, owners = _list_windows(data)
    lengths = data.starts[windows + 1] - data.starts[windows]
    order = np.argsort(lengths, kind="stable")
    parts: list[Array] = []
    done = 0
    for group in group_by_budget(lengths[order].tolist(), budget or runner.packed_tokens):
        chosen = order[group.start : group.stop]
        part = data.pack_windows(windows[chosen], owners[chosen], data.targets[:0])
        parts.append(runner.run_packed(part.ids, part.segments, part.lengths))
        done += len(chosen)
        progress("scoring", done, len(order))
    if not parts:
        raise InputError("There are no rows to answer.")
    found = np.concatenate(parts)
    check_finite(found)
    if len(found) == len(order):
        return task.head.collect(found[np.argsort(order, kind="stable")], data)
    begins = np.cumsum(lengths) - lengths  # an answer for each token: back to the order of the windows
    made = np.empty_like(found)
    made[np.repeat(begins[order], lengths[order]) + concat_ranges(lengths[order])] = found
    return task.head.collect(made, data)


def compute_table_features(
    model: Model,
    data: PackedDataset,
    *,
    layer: Layer | None = None,
    pooling: Sequence[str] | None = None,
    budget: int = PACKED_TOKENS,
    progress: Progress = no_progress,
) -> Array:
    """(rows, width): the encoder's vectors as `Model.embed` makes them; a row's windows are averaged."""
    embedder = Embedder(model, layer, pooling, None, "")
    return compute_window_features(
        model, data, lambda *batch: [embedder.vectors(*batch)], budget=budget, progress=progress
    )[0]


class PairFeatures(NamedTuple):
    """Two texts of each row compared, and how they were read."""

    features: Array  # (rows, 2 * width)
    cosine: Array  # (rows,)
    truncated: Array  # (rows,) tokens that were cut off from either text
    windows: Array  # (rows,) the most windows that one of the two texts was read in


def compute_pair_features(
    model: Model,
    rows: Sequence[TextRow],
    fit: LengthPolicy,
    *,
    layer: Layer | None = None,
    pooling: Sequence[str] | None = None,
    progress: Progress = no_progress,
) -> PairFeatures:
    """Both texts of each row encoded one by one, as a sentence encoder learned to read them, then compared."""
    import numpy as np

    table = encode_texts_separately(rows, model, fit)
    data = encode_unlabeled(table, model)
    vectors = compute_table_features(model, data, layer=layer, pooling=pooling, progress=progress)
    count, cut, windows = len(rows), table.truncated, data.row_windows
    longest = np.maximum(windows[:count], windows[count:])
    first, second = np.split(vectors.astype(np.float64), 2)
    lengths = np.linalg.norm(first, axis=1) * np.linalg.norm(second, axis=1)
    cosine = (first * second).sum(1) / np.maximum(lengths, 1e-30)
    return PairFeatures(compare_vectors(vectors), cosine, cut[:count] + cut[count:], longest)


def encode_texts_separately(rows: Sequence[TextRow], model: Model, fit: LengthPolicy) -> TokenTable:
    """The first texts of all rows, then their second texts, each as a row of its own."""
    firsts = [replace(row, text_b=None) for row in rows]
    seconds = [replace(row, text=row.text_b or "", text_b=None) for row in rows]
    return encode_rows([*firsts, *seconds], Columns(text="text"), model.tokenizer, fit=fit)


def compare_vectors(vectors: Array) -> Array:
    """(2 * rows, width) of first and second texts to (rows, 2 * width): |a - b| and a * b.

    A linear model can weigh every direction of either. The sum of a * b alone is the cosine of vectors of length 1, so
    that whatever the untrained cosine knows is there.
    """
    import numpy as np

    first, second = np.split(vectors, 2)
    return np.concatenate([np.abs(first - second), first * second], axis=1)


def compute_window_features(
    model: Model,
    data: PackedDataset,
    made: Callable[[Array, Array, Array | None], Sequence[Array]],
    *,
    budget: int = PACKED_TOKENS,
    progress: Progress = no_progress,
) -> list[Array]:
    """(rows, width) of each array that `made` gives for ids, mask and segments of some windows, in one pass."""
    import numpy as np

    windows, _ = _list_windows(data)
    lengths = data.starts[windows + 1] - data.starts[windows]
    jobs = list(model.runner.batches(lengths, budget))
    kept: list[Array] = []
    done = 0

    def work(chosen: Array) -> tuple[Array, Sequence[Array]]:
        return chosen, made(*_pad_windows(data, windows[chosen], model))

    for chosen, found in model.runner.map_jobs(work, jobs):
        kept = kept or [np.zeros((len(windows), part.shape[1]), np.float32) for part in found]
        for whole, part in zip(kept, found, strict=True):
            whole[chosen] = part
        done += len(chosen)
        progress("features", done, len(windows))
    if not kept:
        raise InputError("There are no rows to make features of.")
    return [average_windows(whole, data) for whole in kept]


def compute_word_states(
    model: Model, data: PackedDataset, *, layer: Layer | None = None, progress: Progress = no_progress
) -> Array:
    """(words, width): the states of one layer, or of several together, at the token that each word is read from."""
    chosen: Layer = "last" if layer is None else layer
    return compute_word_arrays(model, data, lambda hidden: [choose_layer(hidden, chosen)], progress=progress)[0]


def compute_word_arrays(
    model: Model,
    data: PackedDataset,
    made: Callable[[Sequence[Array]], Sequence[Array]],
    *,
    budget: int = PACKED_TOKENS,
    progress: Progress = no_progress,
) -> list[Array]:
    """(words, width) of each array that `made` gives for the layers of some windows, in one pass.

    Words without a token of their own are left out, as `marked` says.
    """
    import numpy as np

    windows, _ = _list_windows(data)
    lengths = data.starts[windows + 1] - data.starts[windows]
    begins = np.cumsum(lengths) - lengths
    reads = data.pack_annotations(np.arange(len(data)))["token_indices"]
    home = np.searchsorted(begins, reads, side="right") - 1  # the window of each word
    by_window = np.argsort(home, kind="stable")
    bounds = np.searchsorted(home[by_window], np.arange(len(windows) + 1))
    jobs = list(model.runner.batches(lengths, budget))
    kept: list[Array] = []
    done = 0

    def work(chosen: Array) -> tuple[Array, Sequence[Array]]:
        ids, mask, segments = _pad_windows(data, windows[chosen], model)
        batch = Batch(ids=ids, mask=None if mask.all() else mask, segments=segments)
        return chosen, made(model.runner.encode(batch, layers=True, pooled=False, alone=len(jobs) == 1).hidden)

    for chosen, found in model.runner.map_jobs(work, jobs):
        kept = kept or [np.zeros((len(reads), part.shape[-1]), np.float32) for part in found]
        for place, window in enumerate(chosen.tolist()):
            words = by_window[bounds[window] : bounds[window + 1]]
            for whole, part in zip(kept, found, strict=True):
                whole[words] = part[place, reads[words] - begins[window]]
        done += len(chosen)
        progress("features", done, len(windows))
    if not kept:
        raise InputError("There are no rows to make features of.")
    return kept


def _pad_windows(data: PackedDataset, windows: Array, model: Model) -> tuple[Array, Array, Array | None]:
    """ids, mask and segments, padded."""
    import numpy as np

    lengths = data.starts[windows + 1] - data.starts[windows]
    place = np.arange(int(lengths.max()))
    mask = place < lengths[:, None]
    ids = np.full(mask.shape, model.shape.stack.pad_id or 0, np.int64)
    part = data.pack_windows(windows, windows, data.targets[:0])
    ids[mask] = part.ids
    segments = None
    if part.segments is not None:
        segments = np.zeros(mask.shape, np.int64)
        segments[mask] = part.segments
    return ids, mask, segments


def _list_windows(data: PackedDataset) -> tuple[Array, Array]:
    """Every window of every row, and the row it belongs to."""
    import numpy as np

    owners = np.repeat(np.arange(len(data)), data.row_windows)
    return np.repeat(data.first_windows, data.row_windows) + concat_ranges(data.row_windows), owners
