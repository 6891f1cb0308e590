"""Token scores to answers: the best pieces of a passage, or none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from clearhead.data.labels import LabelSpace
from clearhead.tasks.packed import PackedDataset
from clearhead.tasks.span.rows import SpanAnnotations
from clearhead.tasks.task import Answers, Calibration

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]


KEPT = 20  # answers of each question that are kept


@dataclass(frozen=True, kw_only=True)
class Candidates:
    """The best answers of each question, best first, and the score of none."""

    begins: Array  # (rows, KEPT) characters of the passage
    ends: Array
    scores: Array  # (rows, KEPT) -infinity where there are fewer
    none: Array  # (rows,)

    def __len__(self) -> int:
        return len(self.none)

    def __getitem__(self, places: Array) -> Candidates:
        return Candidates(
            begins=self.begins[places], ends=self.ends[places], scores=self.scores[places], none=self.none[places]
        )

    def join(self, parts: Sequence[Candidates]) -> Candidates:
        """Several one after the other."""
        import numpy as np

        names = ("begins", "ends", "scores", "none")
        return Candidates(**{name: np.concatenate([getattr(part, name) for part in parts]) for name in names})


def collect(values: Array, data: PackedDataset) -> Candidates:
    """The best answers of all windows of each question; the same piece out of two windows counts once."""
    import numpy as np

    marks: SpanAnnotations = data.annotations
    begins = np.zeros((len(data), KEPT), np.int32)
    ends = np.zeros((len(data), KEPT), np.int32)
    scores = np.full((len(data), KEPT), -np.inf, np.float32)
    none = np.full(len(data), np.inf, np.float32)
    at = 0
    for row, (first, count) in enumerate(zip(data.first_windows.tolist(), data.row_windows.tolist(), strict=True)):
        best: dict[tuple[int, int], float] = {}
        for window in range(first, first + count):
            length = int(data.starts[window + 1] - data.starts[window])
            own = values[at : at + length]
            at += length
            none[row] = min(none[row], own[0, 0] + own[0, 1])  # it must be said nowhere
            for begin, end, score in _best(own, marks, window):
                if score > best.get((begin, end), -np.inf):
                    best[begin, end] = score
        for place, ((begin, end), score) in enumerate(sorted(best.items(), key=lambda one: (-one[1], one[0]))[:KEPT]):
            begins[row, place], ends[row, place], scores[row, place] = begin, end, score
    return Candidates(begins=begins, ends=ends, scores=scores, none=none)


def _best(own: Array, marks: SpanAnnotations, window: int) -> list[tuple[int, int, float]]:
    """The best pairs of a first and a last token, no further apart than an answer is long: characters and score."""
    import numpy as np

    first, last = int(marks.first[window]), int(marks.last[window])
    size = last - first
    if not size:
        return []
    width = min(marks.max_answer, size)
    begins = marks.begins[marks.bounds[window] : marks.bounds[window + 1]]
    ends = marks.ends[marks.bounds[window] : marks.bounds[window + 1]]
    real = ends > begins
    starts = np.where(real, own[first:last, 0], -np.inf)
    stops = np.concatenate([np.where(real, own[first:last, 1], -np.inf), np.full(width - 1, -np.inf)])
    table = starts[:, None] + np.lib.stride_tricks.sliding_window_view(stops, width)  # [begin][further]
    flat = table.reshape(-1)
    kept = min(KEPT, len(flat))
    while True:
        found: dict[tuple[int, int], float] = {}  # several tokens may stand for one letter
        for place in np.argpartition(-flat, kept - 1)[:kept].tolist():
            if flat[place] == -np.inf:
                continue
            first_token = place // width
            piece = int(begins[first_token]), int(ends[first_token + place % width])
            if piece[1] > piece[0]:
                found[piece] = max(float(flat[place]), found.get(piece, -np.inf))
        if len(found) >= KEPT or kept == len(flat):
            return [(begin, end, score) for (begin, end), score in found.items()]
        kept = min(4 * kept, len(flat))


def read(logits: Candidates, space: LabelSpace, calibration: Calibration) -> Answers:
    """The place of the answer among the candidates, -1 for none; probabilities of all, the last that of none."""
    import numpy as np

    may = space.scheme == "some"
    every = np.concatenate([logits.scores, logits.none[:, None]], 1).astype(np.float64) / calibration.temperature
    if not may:
        every[:, -1] = np.where(np.isfinite(logits.scores[:, 0]), -np.inf, 0.0)
    every -= every.max(1, keepdims=True)
    probs = np.exp(every)
    probs /= probs.sum(1, keepdims=True)
    labels = np.where(np.isfinite(logits.scores[:, 0]), 0, -1)
    if may:
        labels = np.where(doubt(logits) > (calibration.no_answer or 0.0), -1, labels)
    answers = Answers(labels=labels, probs=probs, extra=logits)
    if calibration.abstain_below is None:
        return answers
    return replace(answers, abstained=confidence(answers) < calibration.abstain_below)


def doubt(logits: Candidates) -> Array:
    """How much higher the score of no answer is than that of the best one."""
    import numpy as np

    best = np.where(np.isfinite(logits.scores[:, 0]), logits.scores[:, 0], np.float32(-1e9))
    return np.asarray(logits.none - best, np.float64)


def confidence(answers: Answers) -> Array:
    """The probability of what is said."""
    import numpy as np

    return np.asarray(answers.probs[np.arange(len(answers.labels)), answers.labels])


def texts(answers: Answers, targets: Array) -> list[str]:
    """What is said, as it stands in the passages; empty for no answer."""
    found: Candidates = answers.extra
    return [
        "" if label < 0 else truth.passage[int(found.begins[row, label]) : int(found.ends[row, label])].strip()
        for row, (label, truth) in enumerate(zip(answers.labels.tolist(), targets, strict=True))
    ]


def scores_of(said: Sequence[str], targets: Any) -> tuple[Array, Array, Array]:
    """Exact match, F1, and whether there is an answer at all."""
    import numpy as np

    from clearhead.metrics import answer_scores

    em, f1 = answer_scores(said, [truth.answers for truth in targets])
    return em, f1, np.array([bool(truth.answers) for truth in targets])


def fit(logits: Candidates, targets: Array, space: LabelSpace) -> Calibration:
    """From which doubt on to say nothing, so that F1 is best."""
    from clearhead.metrics import best_no_answer_threshold

    if space.scheme != "some":
        return Calibration()
    always = read(logits, replace(space, scheme="all"), Calibration())
    _, f1, has = scores_of(texts(always, targets), targets)
    return Calibration(no_answer=float(best_no_answer_threshold(doubt(logits), f1, has).threshold))
