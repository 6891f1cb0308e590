"""Decoding of the span task: start and end scores of tokens to the best spans of a passage, or no answer."""

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


MAX_CANDIDATES = 20  # candidates per question


@dataclass(frozen=True, kw_only=True)
class Candidates:
    """The best answers of each question, best first, and the score of no answer."""

    starts: Array  # (rows, MAX_CANDIDATES) character offsets in the passage
    ends: Array
    scores: Array  # (rows, MAX_CANDIDATES) -infinity if there are fewer candidates
    no_answer: Array  # (rows,)

    def __len__(self) -> int:
        return len(self.no_answer)

    def __getitem__(self, rows: Array) -> Candidates:
        return Candidates(
            starts=self.starts[rows], ends=self.ends[rows], scores=self.scores[rows], no_answer=self.no_answer[rows]
        )

    def join(self, parts: Sequence[Candidates]) -> Candidates:
        """Concatenate several parts."""
        import numpy as np

        names = ("starts", "ends", "scores", "no_answer")
        return Candidates(**{name: np.concatenate([getattr(part, name) for part in parts]) for name in names})


def collect_candidates(values: Array, data: PackedDataset) -> Candidates:
    """Collect the best answers from all windows of each question; overlapping windows do not duplicate spans."""
    import numpy as np

    annotations: SpanAnnotations = data.annotations
    starts = np.zeros((len(data), MAX_CANDIDATES), np.int32)
    ends = np.zeros((len(data), MAX_CANDIDATES), np.int32)
    scores = np.full((len(data), MAX_CANDIDATES), -np.inf, np.float32)
    no_answer = np.full(len(data), np.inf, np.float32)
    token = 0
    for row, (first_window, count) in enumerate(
        zip(data.first_windows.tolist(), data.row_windows.tolist(), strict=True)
    ):
        best: dict[tuple[int, int], float] = {}
        for window in range(first_window, first_window + count):
            length = int(data.starts[window + 1] - data.starts[window])
            window_logits = values[token : token + length]
            token += length
            # a question has no answer only if no window contains one
            no_answer[row] = min(no_answer[row], window_logits[0, 0] + window_logits[0, 1])
            for start, end, score in _find_best_spans(window_logits, annotations, window):
                if score > best.get((start, end), -np.inf):
                    best[start, end] = score
        for rank, ((start, end), score) in enumerate(
            sorted(best.items(), key=lambda candidate: (-candidate[1], candidate[0]))[:MAX_CANDIDATES]
        ):
            starts[row, rank], ends[row, rank], scores[row, rank] = start, end, score
    return Candidates(starts=starts, ends=ends, scores=scores, no_answer=no_answer)


def _find_best_spans(logits: Array, annotations: SpanAnnotations, window: int) -> list[tuple[int, int, float]]:
    """Find the best pairs of start and end token within the maximum length: character offsets and score."""
    import numpy as np

    first, last = int(annotations.passage_starts[window]), int(annotations.passage_ends[window])
    size = last - first
    if not size:
        return []
    width = min(annotations.max_answer, size)
    starts = annotations.char_starts[annotations.token_bounds[window] : annotations.token_bounds[window + 1]]
    ends = annotations.char_ends[annotations.token_bounds[window] : annotations.token_bounds[window + 1]]
    has_text = ends > starts
    start_scores = np.where(has_text, logits[first:last, 0], -np.inf)
    end_scores = np.concatenate([np.where(has_text, logits[first:last, 1], -np.inf), np.full(width - 1, -np.inf)])
    # [start token][length - 1]
    score_table = start_scores[:, None] + np.lib.stride_tricks.sliding_window_view(end_scores, width)
    pair_scores = score_table.reshape(-1)
    count = min(MAX_CANDIDATES, len(pair_scores))
    while True:
        scores: dict[tuple[int, int], float] = {}  # several tokens can share a character
        for pair in np.argpartition(-pair_scores, count - 1)[:count].tolist():
            if pair_scores[pair] == -np.inf:
                continue
            first_token = pair // width
            span = int(starts[first_token]), int(ends[first_token + pair % width])
            if span[1] > span[0]:
                scores[span] = max(float(pair_scores[pair]), scores.get(span, -np.inf))
        if len(scores) >= MAX_CANDIDATES or count == len(pair_scores):
            return [(start, end, score) for (start, end), score in scores.items()]
        count = min(4 * count, len(pair_scores))


def decode(logits: Candidates, space: LabelSpace, calibration: Calibration) -> Answers:
    """Decode the index of the best candidate, or -1; the last probability is that of no answer."""
    import numpy as np

    allows_no_answer = space.scheme == "some"
    scores = np.concatenate([logits.scores, logits.no_answer[:, None]], 1).astype(np.float64) / calibration.temperature
    if not allows_no_answer:
        scores[:, -1] = np.where(np.isfinite(logits.scores[:, 0]), -np.inf, 0.0)
    scores -= scores.max(1, keepdims=True)
    probs = np.exp(scores)
    probs /= probs.sum(1, keepdims=True)
    labels = np.where(np.isfinite(logits.scores[:, 0]), 0, -1)
    if allows_no_answer:
        labels = np.where(no_answer_margin(logits) > (calibration.no_answer or 0.0), -1, labels)
    answers = Answers(labels=labels, probs=probs, extra=logits)
    if calibration.abstain_below is None:
        return answers
    return replace(answers, abstained=get_confidence(answers) < calibration.abstain_below)


def no_answer_margin(logits: Candidates) -> Array:
    """Compute the score of no answer minus that of the best candidate."""
    import numpy as np

    best = np.where(np.isfinite(logits.scores[:, 0]), logits.scores[:, 0], np.float32(-1e9))
    return np.asarray(logits.no_answer - best, np.float64)


def get_confidence(answers: Answers) -> Array:
    """The probability of the predicted answer."""
    import numpy as np

    return np.asarray(answers.probs[np.arange(len(answers.labels)), answers.labels])


def get_answer_texts(answers: Answers, targets: Array) -> list[str]:
    """Return the predicted answers as exact texts of the passages; empty for no answer."""
    candidates: Candidates = answers.extra
    return [
        ""
        if label < 0
        else truth.passage[int(candidates.starts[row, label]) : int(candidates.ends[row, label])].strip()
        for row, (label, truth) in enumerate(zip(answers.labels.tolist(), targets, strict=True))
    ]


def score_answers(predicted: Sequence[str], targets: Any) -> tuple[Array, Array, Array]:
    """Compute exact match and F1 per question, and whether it has an answer."""
    import numpy as np

    from clearhead.metrics import answer_scores

    exact_match, f1 = answer_scores(predicted, [truth.answers for truth in targets])
    return exact_match, f1, np.array([bool(truth.answers) for truth in targets])


def fit_calibration(logits: Candidates, targets: Array, space: LabelSpace) -> Calibration:
    """Fit the no-answer threshold that maximizes F1."""
    from clearhead.metrics import best_no_answer_threshold

    if space.scheme != "some":
        return Calibration()
    answers = decode(logits, replace(space, scheme="all"), Calibration())
    _, f1, has_answer = score_answers(get_answer_texts(answers, targets), targets)
    return Calibration(no_answer=float(best_no_answer_threshold(no_answer_margin(logits), f1, has_answer).threshold))
