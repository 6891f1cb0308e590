"""Which columns hold questions, passages and answers."""

from __future__ import annotations

from clearhead.data.column_layout import ColumnLayout, Role
from clearhead.data.column_resolver import columns_by_normalized_name
from clearhead.data.sources.source import Row, Source


def is_span_data(source: Source) -> bool:
    """Whether rows hold questions, passages and answers that stand in them."""
    if source.kind == "squad":
        return True
    called = columns_by_normalized_name(source.columns)
    if "question" not in called or not called.keys() & {"context", "passage", "paragraph"}:
        return False
    if "answer_start" in called or "answers" not in called or "label" not in called:
        return bool(called.keys() & {"answer_start", "answers"})
    answers = [row.values.get(called["answers"]) for row in source.sample(20) if isinstance(row, Row)]
    return not all(isinstance(one, list) and all(isinstance(text, str) for text in one) for one in answers)  # options


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
