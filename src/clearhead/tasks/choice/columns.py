"""Which columns hold a question, its options and the right one."""

from __future__ import annotations

import re

from clearhead.data.column_layout import ColumnLayout, Role
from clearhead.data.column_resolver import columns_by_normalized_name
from clearhead.data.names import normalize_name
from clearhead.data.sources.source import Row, Source
from clearhead.tasks.choice.rows import is_nested

EACH = re.compile(r"^(choice|option|ending|answer|opt|candidate|alternative|sol|a)[ _-]?(\d{1,3}|[a-z])$")
ALL = ("choices", "options", "endings", "candidates", "alternatives", "answers")
LABELS = ("label", "answerkey", "answer_key", "answer", "correct", "correct_answer", "gold", "target", "key")
QUESTIONS = (
    "question",
    "question_stem",
    "stem",
    "query",
    "ctx",
    "premise",
    "sent1",
    "startphrase",
    "context",
    "text",
    "goal",
    "sentence",
)
PASSAGES = (
    ("passage", "question"),
    ("article", "question"),
    ("context", "question"),
    ("sent1", "sent2"),
    ("story", "question"),
    ("premise", "question"),
    ("text", "question"),
)


def option_columns(source: Source) -> tuple[str, ...]:
    """Columns that hold an option each, in their order, or one that holds all of them."""
    found: dict[str, list[tuple[int, str, str]]] = {}
    for name in source.columns:
        match = EACH.match(normalize_name(name))
        if match:
            number = match[2]
            place = int(number) if number.isdigit() else ord(number)
            found.setdefault(match[1], []).append((place, number, name))
    for same in found.values():
        if len(same) >= 2:
            return tuple(name for _, _, name in sorted(same))
    called = columns_by_normalized_name(source.columns)
    letters = [name for name in called if len(name) == 1]
    alphabet = [letter for place, letter in enumerate(sorted(letters)) if letter == chr(ord("a") + place)]
    if len(alphabet) >= 2:  # A, B, C, D
        return tuple(called[letter] for letter in alphabet)
    nested = called.get("question", "")
    if any(isinstance(row, Row) and is_nested(row.values.get(nested)) for row in source.sample(20)):
        return (nested,)
    return next(((called[name],) for name in ALL if name in called), ())


def is_choice_data(source: Source) -> bool:
    """Whether rows hold a question with options."""
    called = set(columns_by_normalized_name(source.columns))
    options = option_columns(source)
    asks = bool(called & {*QUESTIONS, "sent2"})
    if len(options) > 1:
        return asks and bool(called & set(LABELS))
    if not options or not asks:
        return False
    name = normalize_name(options[0])
    return name in ("choices", "options", "endings", "question") or (name == "answers" and "label" in called)


CHOICE_COLUMNS = ColumnLayout(
    roles=(
        Role(
            name="text",
            title="question",
            pair_title="passage",
            content="questions",
            required=True,
            column_names=QUESTIONS,
        ),
        Role(name="text_b", title="question", column_names=()),
        Role(
            name="label",
            title="right option",
            required=True,
            missing_message="{source} does not say which option is right among {columns}; say where with {setting}.",
            column_names=LABELS,
        ),
    ),
    pair_names=PASSAGES,
    find_options=option_columns,
    nested_options="question",
    matches=is_choice_data,
)
