"""Scorers turn rows into logits: a network, a linear model on features, or TF-IDF."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from clearhead.batch import check_finite, group_by_budget
from clearhead.data.columns import Columns
from clearhead.data.examples import TextRow
from clearhead.data.row_codec import LengthPolicy
from clearhead.data.table import encode_rows
from clearhead.errors import InputError
from clearhead.model.layers import Layer
from clearhead.progress import Progress, no_progress
from clearhead.runner import Runner
from clearhead.tasks.packed import PackedDataset, concat_ranges
from clearhead.tasks.task import Task

if TYPE_CHECKING:
    import numpy as np

    from clearhead.classic import ClassicModel
    from clearhead.model import Model
    from clearhead.words import WordVectors

    Array = np.ndarray[Any, Any]
from clearhead.predict.frozen_features import (
    _list_windows,
    compute_pair_features,
    compute_table_features,
    compute_word_states,
    encode_unlabeled,
)


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
