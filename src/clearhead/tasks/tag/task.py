"""Token classification: a tag for each word, such as named entities, parts of speech or aspects of a review.

A linear layer classifies the last hidden state of the first token of each word.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from clearhead.data.examples import TextRow
from clearhead.data.labels import LabelSpace
from clearhead.data.row_codec import PlainView, RowCodec
from clearhead.data.row_codec import row_from_texts as row_of_one_or_two
from clearhead.tasks.ragged import concat_parts, to_ragged
from clearhead.tasks.tag.alignment import annotate_words, encode_words
from clearhead.tasks.tag.answer import TAG_ANSWERS
from clearhead.tasks.tag.columns import TAG_COLUMNS
from clearhead.tasks.tag.decoding import LENIENT, arrange_words, collect_words, decode, fit_calibration, get_confidence
from clearhead.tasks.tag.examples import plan_tag_occlusion, select_tag_errors
from clearhead.tasks.tag.metrics import (
    compute_chance_loss,
    compute_chance_score,
    compute_details,
    is_correct,
    measure,
    score_rows,
)
from clearhead.tasks.tag.rows import TagCounter, check_row
from clearhead.tasks.tag.targets import find_unlearnable, stratify, weight_rows
from clearhead.tasks.task import Decoding, ErrorExamples, Task, TaskHead, TaskMetrics


def row_from_text(texts: Sequence[str], reference: str, has_two_texts: bool | None) -> dict[str, Any]:
    """Build a row from one text."""
    return row_of_one_or_two(texts, reference, reads_pairs=False)


def make_plain_label(row: TextRow, space: LabelSpace | None) -> list[str] | None:
    """Label a row by its entity types."""
    from clearhead.metrics.entities import extract_entities

    if row.label is None:
        return None
    spans = row.label.spans if row.label.tags is None else extract_entities(row.label.tags)
    return sorted({kind for _, _, kind in spans})


def infer_labels(names: tuple[str, ...], config: Mapping[str, Any]) -> LabelSpace:
    """Infer the tags of a checkpoint."""
    has_prefixes = any(name[1:2] == "-" for name in names)
    return LabelSpace(names=names, kind="tags", scheme=LENIENT if has_prefixes else "plain")


def list_metrics(space: LabelSpace) -> tuple[str, ...]:
    """The names of the metrics."""
    if space.scheme == "plain":
        return ("accuracy", "f1_macro")
    return ("f1", "precision", "recall", "f1_macro", "accuracy")


TAG_ROWS = RowCodec(
    label_kinds=("tags",),
    layout=TAG_COLUMNS,
    label_counter=TagCounter,
    row_from_texts=row_from_text,
    plain_view=PlainView(make_label=make_plain_label),
    check_row=check_row,
    encode=encode_words,
    encode_labels=lambda tags, _: to_ragged(tags, "int32"),
    join_labels=concat_parts,
    annotate=annotate_words,
    window_defaults=(None, 64),
    stratify=stratify,
    row_weights=weight_rows,
    find_unlearnable=find_unlearnable,
)

TAG = Task(
    name="tag",
    description="a tag for each word: named entities, parts of speech",
    rows=TAG_ROWS,
    head=TaskHead(
        kind="tag",
        output_names=lambda space: space.names,
        collect=collect_words,
        collect_words=arrange_words,
        infer_labels=infer_labels,
    ),
    objective=lambda space: "tags",
    decoding=Decoding(decode=decode, fit=fit_calibration, confidence=get_confidence),
    answers=TAG_ANSWERS,
    metrics=TaskMetrics(
        measure=measure,
        main=lambda space: "accuracy" if space.scheme == "plain" else "f1",
        names=list_metrics,
        is_correct=is_correct,
        details=compute_details,
        row_scores=score_rows,
        are_comparable=lambda ours, theirs: (
            (ours.kind, ours.names) == (theirs.kind, theirs.names)
        ),  # the scheme can differ
        chance_loss=compute_chance_loss,
        chance_score=compute_chance_score,
    ),
    examples=ErrorExamples(select=select_tag_errors, plan_occlusion=plan_tag_occlusion),
    methods=("finetune", "head", "features"),
)
