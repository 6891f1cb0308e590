"""The answer to a question as a piece of a passage, or none: the task of SQuAD.

BERT reads `[CLS] question [SEP] passage [SEP]` and gives every token two scores: that the answer begins there, and that
it ends there. The answer is the pair with the highest sum; both at [CLS] means that the passage does not hold one.
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
from clearhead.tasks.span.decoding import collect, confidence, fit, read
from clearhead.tasks.span.examples import pick_answers, watch_question
from clearhead.tasks.span.metrics import baseline, measure, right, row_scores
from clearhead.tasks.span.rows import AnswerCounter, check, marks, pieces, truths
from clearhead.tasks.span.targets import strata, unread, weights
from clearhead.tasks.task import Decoding, ErrorExamples, Task, TaskHead, TaskMetrics

NOTHING = "there is nothing to learn"  # a finding of labels that are all alike


def row_of_texts(texts: Sequence[str], reference: str, second: bool | None) -> dict[str, Any]:
    """A question and its passage."""
    if len(texts) != 2:
        raise InputError(f"{reference} answers questions: give a question and a passage, got {len(texts)} texts.")
    return {"text": texts[0], "text_b": texts[1]}


def label_in_cell(row: TextRow, space: LabelSpace | None) -> str | None:
    """Whether there is an answer."""
    if row.label is None:
        return None
    return "answer" if row.label.answers else "no answer"


def describe(space: LabelSpace) -> str:
    """Whether every question has an answer."""
    return "answers in passages; some have none" if space.scheme == "some" else "answers in passages"


SPAN_ROWS = RowCodec(
    label_kinds=("answers",),
    layout=SPAN_COLUMNS,
    label_counter=AnswerCounter,
    describe_labels=describe,
    row_from_texts=row_of_texts,
    # that all questions have an answer does not make them easy
    plain_view=PlainView(make_label=label_in_cell, has_shared_texts=True, ignored_findings=(NOTHING,)),
    check_row=check,
    encode=pieces,
    encode_labels=truths,
    annotate=marks,
    window_defaults=(384, 128),
    shared_text=lambda row: row.text_b,
    stratify=strata,
    row_weights=weights,
    find_unlearnable=unread,
)

SPAN = Task(
    name="span",
    description="a question and a passage, the answer as a piece of the passage",
    rows=SPAN_ROWS,
    head=TaskHead(
        kind="span",
        output_names=lambda space: ("start", "end"),
        collect=collect,
        outputs_are_labels=False,
        infer_labels=lambda names, config: LabelSpace(kind="answers", scheme="all"),
    ),
    objective=lambda space: "spans",
    decoding=Decoding(decode=read, fit=fit, confidence=confidence, has_thresholds=lambda space: True),
    answers=SPAN_ANSWERS,
    metrics=TaskMetrics(
        measure=measure,
        main=lambda space: "f1",
        names=lambda space: ("f1", "exact_match"),
        is_correct=right,
        row_scores=row_scores,
        are_comparable=lambda one, two: one.kind == two.kind,  # answers have no names that could differ
        chance_loss=baseline,
        chance_score=lambda data: 0.0,
    ),
    examples=ErrorExamples(select=pick_answers, plan_occlusion=watch_question),
    methods=("finetune", "head"),
)
