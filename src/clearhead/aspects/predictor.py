"""The two models of aspect sentiment as one predictor of tags: what a review speaks of, and what it thinks of it."""

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
FIND, JUDGE = "find", "judge"  # the two models
ABOUT = {FIND: "where the aspects are", JUDGE: "what is thought of each"}
ASPECT = "ASPECT"
NEARLY = 0.999  # so much less probable than what was found is it to be nothing, at most


def aspect_space(labels: Sequence[str]) -> LabelSpace:
    names = ("O", *(f"{mark}-{label}" for label in labels for mark in "BI"))
    return LabelSpace(names=names, kind="tags", scheme="spans")


@dataclass(frozen=True, kw_only=True)
class AspectScorer:
    """The two models as one: the tags of the finder, split up by what the judge thinks of each span."""

    find: Predictor
    judge: Predictor

    def score(self, rows: Sequence[TextRow], columns: Columns) -> Scores:
        """(words, 1 + 2 polarities) of each row: log p(O), and log p(B or I) + log p(polarity)."""
        import numpy as np

        logits, truncated, windows = self.find.scorer.score(rows, columns)
        answers = TAG.decoding.decode(logits, self.find.space, self.find.calibration)
        names = self.find.space.names
        spans = [extract_entities([names[tag] for tag in tags]) for tags in answers.labels]
        asked = [_asked(row, a, b) for row, own in zip(rows, spans, strict=True) for a, b, _ in own]
        polarities = len(self.judge.space)
        opinion = np.full((len(answers.labels.values), polarities), 1 / polarities)
        if asked:
            said = self.judge.scorer.score(asked, Columns(text="text", text_b="aspect"))
            probs = self.judge.task.decoding.decode(said.logits, self.judge.space, self.judge.calibration).probs
            begins = answers.labels.bounds[:-1].tolist()
            places = [slice(begin + a, begin + b) for begin, own in zip(begins, spans, strict=True) for a, b, _ in own]
            for where, one in zip(places, probs, strict=True):
                opinion[where] = one
        known = np.isfinite(logits.values[:, 0])
        made = np.repeat(logits.values[:, :1].astype(np.float64), 1 + 2 * polarities, 1)  # infinity and NaN stay
        made[known] = shared(answers.probs.values[known], opinion[known], answers.labels.values[known], names)
        return Scores(RaggedArray(values=made.astype(np.float32), bounds=logits.bounds), truncated, windows)


def _asked(row: TextRow, first: int, last: int) -> TextRow:
    """A text and some of its words: what the judge is asked of."""
    borders = row.extra.offsets
    return TextRow(row.number, row.text, row.text[borders[first][0] : borders[last - 1][1]], None, None, None)


def shared(probs: Array, opinion: Array, tags: Array, names: Sequence[str]) -> Array:
    """Log probabilities: what is found stays found, however unsure it is what is thought of it."""
    import numpy as np

    outside, begin, inside = (names.index(name) for name in ("O", f"B-{ASPECT}", f"I-{ASPECT}"))
    made = np.empty((len(probs), 1 + 2 * opinion.shape[1]))
    made[:, 1::2] = probs[:, begin, None] * opinion
    made[:, 2::2] = probs[:, inside, None] * opinion
    own = np.where(tags == begin, made[:, 1::2].max(1), made[:, 2::2].max(1))
    made[:, 0] = np.where(tags == outside, probs[:, outside], np.minimum(probs[:, outside], NEARLY * own))
    return np.log(np.maximum(made, 1e-30))


def aspect_labels(folder: Path) -> list[str]:
    """The polarities that the judge of a folder knows."""
    return _marked(folder)[1]


def _marked(folder: Path) -> tuple[dict[str, Any], list[str]]:
    """What stands in the mark of a folder, and its labels."""
    saved = read_json(folder / ASPECTS_FILE)
    labels = saved.get("labels")
    if saved.get("format") != FORMAT or not isinstance(labels, list) or not all(isinstance(one, str) for one in labels):
        raise CheckpointError(f"{ASPECTS_FILE} is of another version of clearhead, or damaged.")
    return saved, labels


def load_aspects(folder: Path, *, device: str = "auto", abstain_below: float | None = None) -> Predictor:
    """The two models of a folder as one predictor of tags."""
    if abstain_below is not None and not 0 <= abstain_below <= 1:
        raise InputError(f"abstain_below must be from 0 to 1, and it is {abstain_below}.")
    saved, labels = _marked(folder)
    find, judge = (load_predictor(folder / name, device=device) for name in (FIND, JUDGE))
    if find.task.name != TAG.name or judge.task.name != PAIR.name or list(judge.space.names) != labels:
        raise CheckpointError(f"{folder}: the two models do not fit {ASPECTS_FILE}.")
    space = aspect_space(labels)
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
