"""Extractive question answering as in SQuAD: the answer is a span of the passage, or missing.

The encoder reads `[CLS] question [SEP] passage [SEP]` and gives each token two scores, as start and as end of the
answer. The answer is the pair with the highest sum; the pair at [CLS] means that the passage contains no answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from clearhead.data.examples import TextRow
from clearhead.data.labels import LabelSpace
from clearhead.data.row_codec import PlainView, RowCodec
from clearhead.errors import InputError
from clearhead.tasks.span.answer import SPAN_ANSWERS
from clearhead.tasks.span.columns import SPAN_COLUMNS
from clearhead.tasks.span.decoding import collect_candidates, decode, fit_calibration, get_confidence
from clearhead.tasks.span.examples import plan_question_occlusion, select_answer_errors
from clearhead.tasks.span.metrics import compute_chance_loss, is_correct, measure, score_rows
from clearhead.tasks.span.rows import AnswerCounter, annotate_passages, check_row, encode_passages, to_truth_array
from clearhead.tasks.span.targets import find_unlearnable, stratify, weight_rows
from clearhead.tasks.task import Decoding, ErrorExamples, Task, TaskHead, TaskMetrics

NOTHING_TO_LEARN = "there is nothing to learn"  # part of the finding that all labels are equal


def row_from_texts(texts: Sequence[str], reference: str, has_two_texts: bool | None) -> dict[str, Any]:
    """Build a row from a question and a passage."""
    if len(texts) != 2:
        raise InputError(f"{reference} answers questions; pass a question and a passage, got {len(texts)} texts.")
    return {"text": texts[0], "text_b": texts[1]}


def make_plain_label(row: TextRow, space: LabelSpace | None) -> str | None:
    """Label a row by whether it has an answer."""
    if row.label is None:
        return None
    return "answer" if row.label.answers else "no answer"


def describe_labels(space: LabelSpace) -> str:
    """Describe whether every question has an answer."""
    return "some questions have no answer" if space.scheme == "some" else "every question has an answer"


SPAN_ROWS = RowCodec(
    label_kinds=("answers",),
    layout=SPAN_COLUMNS,
    label_counter=AnswerCounter,
    describe_labels=describe_labels,
    row_from_texts=row_from_texts,
    # if all questions have an answer, the plain labels are equal, but the task is not trivial
    plain_view=PlainView(make_label=make_plain_label, has_shared_texts=True, ignored_findings=(NOTHING_TO_LEARN,)),
    check_row=check_row,
    encode=encode_passages,
    encode_labels=to_truth_array,
    annotate=annotate_passages,
    window_defaults=(384, 128),
    shared_text=lambda row: row.text_b,
    stratify=stratify,
    row_weights=weight_rows,
    find_unlearnable=find_unlearnable,
)

SPAN = Task(
    name="span",
    description="a question and a passage that contains the answer",
    rows=SPAN_ROWS,
    head=TaskHead(
        kind="span",
        output_names=lambda space: ("start", "end"),
        collect=collect_candidates,
        outputs_are_labels=False,
        infer_labels=lambda names, config: LabelSpace(kind="answers", scheme="all"),
    ),
    objective=lambda space: "spans",
    decoding=Decoding(decode=decode, fit=fit_calibration, confidence=get_confidence, has_thresholds=lambda space: True),
    answers=SPAN_ANSWERS,
    metrics=TaskMetrics(
        measure=measure,
        main=lambda space: "f1",
        names=lambda space: ("f1", "exact_match"),
        is_correct=is_correct,
        row_scores=score_rows,
        are_comparable=lambda ours, theirs: ours.kind == theirs.kind,  # the label spaces have no names to compare
        chance_loss=compute_chance_loss,
        chance_score=lambda data: 0.0,
    ),
    examples=ErrorExamples(select=select_answer_errors, plan_occlusion=plan_question_occlusion),
    methods=("finetune", "head"),
)
