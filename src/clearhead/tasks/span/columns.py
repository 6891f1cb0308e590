"""Columns of the span task: questions, passages and answers."""

from __future__ import annotations

from clearhead.data.column_layout import ColumnLayout, Role
from clearhead.data.column_resolver import columns_by_normalized_name
from clearhead.data.sources.source import Row, Source


def is_span_data(source: Source) -> bool:
    """Whether the rows are questions, passages and answers within them."""
    if source.kind == "squad":
        return True
    plain_names = columns_by_normalized_name(source.columns)
    if "question" not in plain_names or not plain_names.keys() & {"context", "passage", "paragraph"}:
        return False
    if "answer_start" in plain_names or "answers" not in plain_names or "label" not in plain_names:
        return bool(plain_names.keys() & {"answer_start", "answers"})
    answers = [row.values.get(plain_names["answers"]) for row in source.sample(20) if isinstance(row, Row)]
    # lists of texts are options
    return not all(
        isinstance(answer_list, list) and all(isinstance(text, str) for text in answer_list) for answer_list in answers
    )


SPAN_COLUMNS = ColumnLayout(
    roles=(
        Role(name="text", title="question", content="questions", required=True, column_names=("question", "query")),
        Role(
            name="text_b",
            title="passage",
            content="passages",
            required=True,
            column_names=("context", "passage", "paragraph", "document", "text", "article"),
        ),
        Role(
            name="label",
            title="answers",
            content="answers",
            required=True,
            column_names=("answers", "answer", "label", "answer_text"),
        ),
    ),
    second_text=True,
    pair_names=(),
    matches=is_span_data,
)
