"""Columns of the choice task: question, options and correct option."""

from __future__ import annotations

import re

from clearhead.data.column_layout import ColumnLayout, Role
from clearhead.data.column_resolver import columns_by_normalized_name
from clearhead.data.names import normalize_name
from clearhead.data.sources.source import Row, Source
from clearhead.tasks.choice.rows import is_nested

OPTION_COLUMN = re.compile(r"^(choice|option|ending|answer|opt|candidate|alternative|sol|a)[ _-]?(\d{1,3}|[a-z])$")
LIST_COLUMNS = ("choices", "options", "endings", "candidates", "alternatives", "answers")
LABEL_NAMES = ("label", "answerkey", "answer_key", "answer", "correct", "correct_answer", "gold", "target", "key")
QUESTION_NAMES = (
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
PASSAGE_PAIRS = (
    ("passage", "question"),
    ("article", "question"),
    ("context", "question"),
    ("sent1", "sent2"),
    ("story", "question"),
    ("premise", "question"),
    ("text", "question"),
)


def find_option_columns(source: Source) -> tuple[str, ...]:
    """Find the columns of the single options, in order, or the one column that lists all options."""
    groups: dict[str, list[tuple[int, str, str]]] = {}
    for name in source.columns:
        match = OPTION_COLUMN.match(normalize_name(name))
        if match:
            key = match[2]
            position = int(key) if key.isdigit() else ord(key)
            groups.setdefault(match[1], []).append((position, key, name))
    for group in groups.values():
        if len(group) >= 2:
            return tuple(name for _, _, name in sorted(group))
    plain_names = columns_by_normalized_name(source.columns)
    letters = [name for name in plain_names if len(name) == 1]
    alphabet = [letter for position, letter in enumerate(sorted(letters)) if letter == chr(ord("a") + position)]
    if len(alphabet) >= 2:  # A, B, C, D
        return tuple(plain_names[letter] for letter in alphabet)
    nested = plain_names.get("question", "")
    if any(isinstance(row, Row) and is_nested(row.values.get(nested)) for row in source.sample(20)):
        return (nested,)
    return next(((plain_names[name],) for name in LIST_COLUMNS if name in plain_names), ())


def is_choice_data(source: Source) -> bool:
    """Whether the rows are questions with options."""
    plain_names = set(columns_by_normalized_name(source.columns))
    options = find_option_columns(source)
    has_question = bool(plain_names & {*QUESTION_NAMES, "sent2"})
    if len(options) > 1:
        return has_question and bool(plain_names & set(LABEL_NAMES))
    if not options or not has_question:
        return False
    name = normalize_name(options[0])
    return name in ("choices", "options", "endings", "question") or (name == "answers" and "label" in plain_names)


CHOICE_COLUMNS = ColumnLayout(
    roles=(
        Role(
            name="text",
            title="question",
            pair_title="passage",
            content="questions",
            required=True,
            column_names=QUESTION_NAMES,
        ),
        Role(name="text_b", title="question", column_names=()),
        Role(
            name="label",
            title="correct option",
            required=True,
            missing_message="{source} has no column with the correct option among {columns}; name it with {setting}.",
            column_names=LABEL_NAMES,
        ),
    ),
    pair_names=PASSAGE_PAIRS,
    find_options=find_option_columns,
    nested_options="question",
    matches=is_choice_data,
)
