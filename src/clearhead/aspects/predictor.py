"""The tagger and the pair classifier of aspect sentiment, combined into one predictor of polarity tags."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clearhead.checkpoint.passport import DatasetFingerprint, TrainingRecord
from clearhead.data import Columns, LabelSpace, TextRow
from clearhead.errors import CheckpointError, InputError
from clearhead.files import decode_dataclass, read_json
from clearhead.jobs.kinds import ASPECTS_FILE
from clearhead.metrics.entities import extract_entities
from clearhead.predict.loading import load_predictor
from clearhead.predict.predictor import Predictor
from clearhead.predict.scoring import Scores
from clearhead.tasks.ragged import RaggedArray
from clearhead.tasks.registry import PAIR, TAG
from clearhead.tasks.task import Calibration

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

FORMAT = 1
FIND, JUDGE = "find", "judge"  # folders of the tagger and of the pair classifier
MODEL_ROLES = {FIND: "finds the aspects", JUDGE: "predicts the polarity of each aspect"}
ASPECT = "ASPECT"
MAX_OUTSIDE_RATIO = 0.999  # maximum probability of O relative to the best polarity of a found aspect


def build_label_space(labels: Sequence[str]) -> LabelSpace:
    names = ("O", *(f"{prefix}-{label}" for label in labels for prefix in "BI"))
    return LabelSpace(names=names, kind="tags", scheme="spans")


@dataclass(frozen=True, kw_only=True)
class AspectScorer:
    """Scores polarity tags: the tagger's probabilities, distributed over the polarities of each span."""

    find: Predictor
    judge: Predictor

    def score(self, rows: Sequence[TextRow], columns: Columns) -> Scores:
        """(words, 1 + 2 polarities) of each row: log p(O), and log p(B or I) + log p(polarity)."""
        import numpy as np

        logits, truncated, windows = self.find.scorer.score(rows, columns)
        answers = TAG.decoding.decode(logits, self.find.space, self.find.calibration)
        names = self.find.space.names
        spans = [extract_entities([names[tag] for tag in tags]) for tags in answers.labels]
        aspect_rows = [
            _make_aspect_row(row, first, last)
            for row, row_spans in zip(rows, spans, strict=True)
            for first, last, _ in row_spans
        ]
        polarities = len(self.judge.space)
        polarity_probs = np.full((len(answers.labels.values), polarities), 1 / polarities)
        if aspect_rows:
            scores = self.judge.scorer.score(aspect_rows, Columns(text="text", text_b="aspect"))
            probs = self.judge.task.decoding.decode(scores.logits, self.judge.space, self.judge.calibration).probs
            row_starts = answers.labels.bounds[:-1].tolist()
            span_words = [
                slice(row_start + first, row_start + last)
                for row_start, row_spans in zip(row_starts, spans, strict=True)
                for first, last, _ in row_spans
            ]
            for words, span_probs in zip(span_words, probs, strict=True):
                polarity_probs[words] = span_probs
        has_token = np.isfinite(logits.values[:, 0])
        log_probs = np.repeat(logits.values[:, :1].astype(np.float64), 1 + 2 * polarities, 1)  # keeps infinity and NaN
        log_probs[has_token] = combine_probabilities(
            answers.probs.values[has_token], polarity_probs[has_token], answers.labels.values[has_token], names
        )
        return Scores(RaggedArray(values=log_probs.astype(np.float32), bounds=logits.bounds), truncated, windows)


def _make_aspect_row(row: TextRow, first: int, last: int) -> TextRow:
    """Build the row for the pair classifier: a text and one of its aspects."""
    offsets = row.extra.offsets
    return TextRow(row.number, row.text, row.text[offsets[first][0] : offsets[last - 1][1]], None, None, None)


def combine_probabilities(probs: Array, polarity_probs: Array, tags: Array, names: Sequence[str]) -> Array:
    """Combine tag and polarity probabilities into log probabilities; found aspects keep any polarity."""
    import numpy as np

    outside, begin, inside = (names.index(name) for name in ("O", f"B-{ASPECT}", f"I-{ASPECT}"))
    combined = np.empty((len(probs), 1 + 2 * polarity_probs.shape[1]))
    combined[:, 1::2] = probs[:, begin, None] * polarity_probs
    combined[:, 2::2] = probs[:, inside, None] * polarity_probs
    best_polarity = np.where(tags == begin, combined[:, 1::2].max(1), combined[:, 2::2].max(1))
    combined[:, 0] = np.where(
        tags == outside, probs[:, outside], np.minimum(probs[:, outside], MAX_OUTSIDE_RATIO * best_polarity)
    )
    return np.log(np.maximum(combined, 1e-30))


def read_aspect_labels(folder: Path) -> list[str]:
    """Read the polarities of an aspect model."""
    return _read_aspects_file(folder)[1]


def _read_aspects_file(folder: Path) -> tuple[dict[str, Any], list[str]]:
    """Read the aspects file of a folder and its polarities."""
    saved = read_json(folder / ASPECTS_FILE)
    labels = saved.get("labels")
    if (
        saved.get("format") != FORMAT
        or not isinstance(labels, list)
        or not all(isinstance(label, str) for label in labels)
    ):
        raise CheckpointError(f"{ASPECTS_FILE} is damaged or was written by another version of clearhead.")
    return saved, labels


def load_aspects(folder: Path, *, device: str = "auto", abstain_below: float | None = None) -> Predictor:
    """Load both models of a folder as one predictor of polarity tags."""
    if abstain_below is not None and not 0 <= abstain_below <= 1:
        raise InputError(f"abstain_below must be from 0 to 1, got {abstain_below}.")
    saved, labels = _read_aspects_file(folder)
    find, judge = (load_predictor(folder / name, device=device) for name in (FIND, JUDGE))
    if find.task.name != TAG.name or judge.task.name != PAIR.name or list(judge.space.names) != labels:
        raise CheckpointError(f"{folder}: the two models do not match {ASPECTS_FILE}.")
    space = build_label_space(labels)
    data = decode_dataclass(saved.get("data", {}), dict[str, DatasetFingerprint], ASPECTS_FILE)
    return Predictor(
        task=TAG,
        space=space,
        trained=TrainingRecord(
            task=TAG.name, method=find.method, kind="tags", labels=list(space.names), scheme="spans", data=data
        ),
        calibration=Calibration(abstain_below=abstain_below),
        scorer=AspectScorer(find=find, judge=judge),
        method=find.method,
        reference=str(folder),
        folder=folder,
    )
