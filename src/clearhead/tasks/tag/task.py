"""A tag for every word: names in a text, parts of speech, aspects of a review.

BERT answers from every token: a linear layer over the last hidden state of the first piece of each word.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from clearhead.data.examples import TextRow
from clearhead.data.labels import LabelSpace
from clearhead.data.row_codec import PlainView, RowCodec
from clearhead.data.row_codec import row_from_texts as row_of_one_or_two
from clearhead.tasks.ragged import concat_parts, to_ragged
from clearhead.tasks.tag.alignment import marks, pieces
from clearhead.tasks.tag.answer import TAG_ANSWERS
from clearhead.tasks.tag.columns import TAG_COLUMNS
from clearhead.tasks.tag.decoding import LENIENT, collect, confidence, fit, read, words
from clearhead.tasks.tag.examples import pick_tags, watch_tags
from clearhead.tasks.tag.metrics import baseline, details, floor, measure, right, row_scores
from clearhead.tasks.tag.rows import TagCounter, check
from clearhead.tasks.tag.targets import strata, unread, weights
from clearhead.tasks.task import Decoding, ErrorExamples, Task, TaskHead, TaskMetrics


def row_of_texts(texts: Sequence[str], reference: str, second: bool | None) -> dict[str, Any]:
    """One text."""
    return row_of_one_or_two(texts, reference, second=False)


def label_in_cell(row: TextRow, space: LabelSpace | None) -> list[str] | None:
    """The types of entities."""
    from clearhead.metrics.entities import extract_entities

    if row.label is None:
        return None
    spans = row.label.spans if row.label.tags is None else extract_entities(row.label.tags)
    return sorted({kind for _, _, kind in spans})


def checkpoint_space(names: tuple[str, ...], config: Mapping[str, Any]) -> LabelSpace:
    """The tags of a checkpoint."""
    is_marked = any(name[1:2] == "-" for name in names)
    return LabelSpace(names=names, kind="tags", scheme=LENIENT if is_marked else "plain")


def metric_names(space: LabelSpace) -> tuple[str, ...]:
    """Metrics of entities and words; of plain tags, of words alone."""
    if space.scheme == "plain":
        return ("accuracy", "f1_macro")
    return ("f1", "precision", "recall", "f1_macro", "accuracy")


TAG_ROWS = RowCodec(
    label_kinds=("tags",),
    layout=TAG_COLUMNS,
    label_counter=TagCounter,
    row_from_texts=row_of_texts,
    plain_view=PlainView(make_label=label_in_cell),
    check_row=check,
    encode=pieces,
    encode_labels=lambda tags, _: to_ragged(tags, "int32"),
    join_labels=concat_parts,
    annotate=marks,
    window_defaults=(None, 64),
    stratify=strata,
    row_weights=weights,
    find_unlearnable=unread,
)

TAG = Task(
    name="tag",
    description="a tag for every word: names, parts of speech",
    rows=TAG_ROWS,
    head=TaskHead(
        kind="tag",
        output_names=lambda space: space.names,
        collect=collect,
        collect_words=words,
        infer_labels=checkpoint_space,
    ),
    objective=lambda space: "tags",
    decoding=Decoding(decode=read, fit=fit, confidence=confidence),
    answers=TAG_ANSWERS,
    metrics=TaskMetrics(
        measure=measure,
        main=lambda space: "accuracy" if space.scheme == "plain" else "f1",
        names=metric_names,
        is_correct=right,
        details=details,
        row_scores=row_scores,
        are_comparable=lambda one, two: (one.kind, one.names) == (two.kind, two.names),  # from columns or from spans
        chance_loss=baseline,
        chance_score=floor,
    ),
    examples=ErrorExamples(select=pick_tags, plan_occlusion=watch_tags),
    methods=("finetune", "head", "features"),
)
