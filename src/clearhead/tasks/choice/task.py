"""One of several options: the end of a story, the answer in a test.

BERT reads the question once with each option, gives each pair one score from [CLS], and a softmax over the options of
the question makes them probabilities: any number of options will do.
"""

from __future__ import annotations

from clearhead.data.labels import LabelSpace
from clearhead.data.row_codec import PlainView, RowCodec
from clearhead.tasks.choice.answer import OPTION_ANSWERS
from clearhead.tasks.choice.columns import CHOICE_COLUMNS
from clearhead.tasks.choice.decoding import collect, confidence, fit, read
from clearhead.tasks.choice.examples import pick_options, watch_options
from clearhead.tasks.choice.metrics import baseline, details, floor, measure, right, row_scores
from clearhead.tasks.choice.rows import (
    OptionCounter,
    check,
    label_array,
    label_in_cell,
    marks,
    names_in_view,
    pieces,
    row_of_texts,
)
from clearhead.tasks.task import Decoding, ErrorExamples, Task, TaskHead, TaskMetrics

OPTION_ROWS = RowCodec(
    label_kinds=("options",),
    layout=CHOICE_COLUMNS,
    label_counter=OptionCounter,
    describe_labels=lambda space: "one right option",
    row_from_texts=row_of_texts,
    plain_view=PlainView(
        make_label=label_in_cell, rename_columns=names_in_view, needs_label_space=True, has_shared_texts=True
    ),
    check_row=check,
    encode=pieces,
    encode_labels=label_array,
    annotate=marks,
    shared_text=lambda row: row.extra.passage,
    stratify=lambda targets, space: (targets, "classes"),
)

CHOICE = Task(
    name="choice",
    description="a question and some options, one of which is right",
    rows=OPTION_ROWS,
    head=TaskHead(
        kind="choice",
        output_names=lambda space: ("score",),
        collect=collect,
        outputs_are_labels=False,
        infer_labels=lambda names, config: LabelSpace(kind="options", scheme="0"),
    ),
    objective=lambda space: "options",
    decoding=Decoding(decode=read, fit=fit, confidence=confidence),
    answers=OPTION_ANSWERS,
    metrics=TaskMetrics(
        measure=measure,
        main=lambda space: "accuracy",
        names=lambda space: ("accuracy", "log_loss"),
        is_correct=right,
        details=details,
        row_scores=row_scores,
        are_comparable=lambda one, two: one.kind == two.kind,  # options have no names that could differ
        chance_loss=baseline,
        chance_score=floor,
    ),
    examples=ErrorExamples(select=pick_options, plan_occlusion=watch_options),
    methods=("finetune", "head"),
)
