"""Multiple choice: selects one of several options, such as the ending of a story or the answer in a test.

The encoder reads the question with each option and scores each pair from [CLS]; a softmax over the options turns the
scores into probabilities. Questions can have any number of options.
"""

from __future__ import annotations

from clearhead.data.labels import LabelSpace
from clearhead.data.row_codec import PlainView, RowCodec
from clearhead.tasks.choice.answer import OPTION_ANSWERS
from clearhead.tasks.choice.columns import CHOICE_COLUMNS
from clearhead.tasks.choice.decoding import collect_scores, decode, fit_calibration, get_confidence
from clearhead.tasks.choice.examples import plan_option_occlusion, select_option_errors
from clearhead.tasks.choice.metrics import (
    compute_chance_loss,
    compute_chance_score,
    compute_details,
    is_correct,
    measure,
    score_rows,
)
from clearhead.tasks.choice.rows import (
    OptionCounter,
    annotate_options,
    check_row,
    encode_options,
    make_plain_columns,
    make_plain_label,
    row_from_texts,
    to_label_array,
)
from clearhead.tasks.task import Decoding, ErrorExamples, Task, TaskHead, TaskMetrics

LABEL_NOTATIONS = {
    "0": "labels count options from 0",
    "1": "labels count options from 1",
    "A": "labels are letters",
    "text": "labels are texts of options",
}


def describe_labels(space: LabelSpace) -> str:
    """Describe how labels refer to options."""
    return LABEL_NOTATIONS.get(space.scheme or "", "one correct option")


OPTION_ROWS = RowCodec(
    label_kinds=("options",),
    layout=CHOICE_COLUMNS,
    label_counter=OptionCounter,
    describe_labels=describe_labels,
    row_from_texts=row_from_texts,
    plain_view=PlainView(
        make_label=make_plain_label, rename_columns=make_plain_columns, needs_label_space=True, has_shared_texts=True
    ),
    check_row=check_row,
    encode=encode_options,
    encode_labels=to_label_array,
    annotate=annotate_options,
    shared_text=lambda row: row.extra.passage,
    stratify=lambda targets, space: (targets, "classes"),
)

CHOICE = Task(
    name="choice",
    description="a question and options, one of which is correct",
    rows=OPTION_ROWS,
    head=TaskHead(
        kind="choice",
        output_names=lambda space: ("score",),
        collect=collect_scores,
        outputs_are_labels=False,
        infer_labels=lambda names, config: LabelSpace(kind="options", scheme="0"),
    ),
    objective=lambda space: "options",
    decoding=Decoding(decode=decode, fit=fit_calibration, confidence=get_confidence),
    answers=OPTION_ANSWERS,
    metrics=TaskMetrics(
        measure=measure,
        main=lambda space: "accuracy",
        names=lambda space: ("accuracy", "log_loss"),
        is_correct=is_correct,
        details=compute_details,
        row_scores=score_rows,
        are_comparable=lambda ours, theirs: ours.kind == theirs.kind,  # the label spaces have no names to compare
        chance_loss=compute_chance_loss,
        chance_score=compute_chance_score,
    ),
    examples=ErrorExamples(select=select_option_errors, plan_occlusion=plan_option_occlusion),
    methods=("finetune", "head"),
)
