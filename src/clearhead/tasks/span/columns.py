"""Which columns hold questions, passages and answers."""

from __future__ import annotations

from collections.abc import Sequence

from clearhead.caller import setting
from clearhead.data.columns import Columns, guess_columns, titled
from clearhead.data.names import plain
from clearhead.data.row_codec import ColumnRoles
from clearhead.data.sources.source import Row, Source
from clearhead.errors import InputError

QUESTIONS = ("question", "query")
PASSAGES = ("context", "passage", "paragraph", "document", "text", "article")
ANSWERS = ("answers", "answer", "label", "answer_text")


def columns(source: Source, asked: ColumnRoles, labelled: bool) -> Columns:
    """Question, passage and answers by their names."""
    called = {plain(name): name for name in reversed(source.columns)}

    def found(said: str | None, names: Sequence[str], option: str, what: str) -> str | None:
        if said is not None and said not in source.columns:
            raise InputError(f"{source.name} has no column {titled(said)!r} for {setting(option)}.")
        made = said or next((called[name] for name in names if name in called), None)
        if made is None and (option != "label" or labelled):
            has = ", ".join(map(titled, source.columns[:20]))
            which = setting(option, "COLUMN")
            raise InputError(f"{source.name} has no column of {what} among {has}; say which one with {which}.")
        return made

    text = found(asked.text, QUESTIONS, "text", "questions")
    text_b = found(asked.text_b, PASSAGES, "text_b", "passages")
    label = found(asked.label, ANSWERS, "label", "answers")
    assert text is not None
    rest = guess_columns(source, text, text_b, None, asked.id, asked.split, second=True, labelled=False)
    found_in = {"question": text, "passage": text_b, "answers": label}
    said = tuple(f"{part}: {titled(name)}" for part, name in found_in.items() if name is not None)
    return Columns(text=text, text_b=text_b, label=label, id=rest.id, split=rest.split, said=said)


def is_span_data(source: Source) -> bool:
    """Whether rows hold questions, passages and answers that stand in them."""
    if source.kind == "squad":
        return True
    called = {plain(name): name for name in source.columns}
    if "question" not in called or not called.keys() & {"context", "passage", "paragraph"}:
        return False
    if "answer_start" in called or "answers" not in called or "label" not in called:
        return bool(called.keys() & {"answer_start", "answers"})
    answers = [row.values.get(called["answers"]) for row in source.sample(20) if isinstance(row, Row)]
    return not all(isinstance(one, list) and all(isinstance(text, str) for text in one) for one in answers)  # options
