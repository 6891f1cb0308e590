"""Which columns hold a question, its options and the right one."""

from __future__ import annotations

import re

from clearhead.caller import setting
from clearhead.data.columns import Columns, guess_columns, titled
from clearhead.data.names import plain
from clearhead.data.row_codec import ColumnRoles
from clearhead.data.sources.source import Row, Source
from clearhead.errors import InputError
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
        match = EACH.match(plain(name))
        if match:
            number = match[2]
            place = int(number) if number.isdigit() else ord(number)
            found.setdefault(match[1], []).append((place, number, name))
    for same in found.values():
        if len(same) >= 2:
            return tuple(name for _, _, name in sorted(same))
    letters = {plain(name): name for name in reversed(source.columns) if len(plain(name)) == 1}
    alphabet = [letter for place, letter in enumerate(sorted(letters)) if letter == chr(ord("a") + place)]
    if len(alphabet) >= 2:  # A, B, C, D
        return tuple(letters[letter] for letter in alphabet)
    called = {plain(name): name for name in reversed(source.columns)}
    nested = called.get("question", "")
    if any(isinstance(row, Row) and is_nested(row.values.get(nested)) for row in source.sample(20)):
        return (nested,)
    return next(((called[name],) for name in ALL if name in called), ())


def columns(source: Source, asked: ColumnRoles, labelled: bool) -> Columns:
    """Question, passage if there is one, options and the right one, by their names."""
    options = asked.options or option_columns(source)
    has = ", ".join(map(titled, source.columns[:20]))
    for part, names in (("options", options), ("text", (asked.text,)), ("text_b", (asked.text_b,))):
        for name in names:
            if name is not None and name not in source.columns:
                raise InputError(f"{source.name} has no column {titled(name)!r} for {setting(part)}; it has {has}.")
    if not options:
        named = setting("options", "a,b,c")
        raise InputError(f"{source.name} has no columns of options among {has}; name them with {named}.")
    called = {plain(name): name for name in reversed(source.columns) if name not in options}
    text, text_b = asked.text, asked.text_b
    if len(options) == 1 and plain(options[0]) == "question":
        text = options[0]
    if text is None:
        pair = next(((called[a], called[b]) for a, b in PASSAGES if a in called and b in called), None)
        if pair is not None and text_b in (None, pair[1]):
            text, text_b = pair
        else:
            text = next((called[name] for name in QUESTIONS if name in called), None)
    if text is None:
        which = setting("text", "COLUMN")
        raise InputError(f"{source.name} has no column of questions among {has}; say which one with {which}.")
    label = asked.label or next((called[name] for name in LABELS if name in called and called[name] != text), None)
    if label is None and labelled:
        where = setting("label", "COLUMN")
        raise InputError(f"{source.name} does not say which option is right among {has}; say where with {where}.")
    if label is not None and label not in source.columns:
        raise InputError(f"{source.name} has no column {titled(label)!r} for {setting('label')}; it has {has}.")
    rest = guess_columns(source, text, text_b, None, asked.id, asked.split, second=False, labelled=False)
    asks = [("question", text)] if text_b is None else [("passage", text), ("question", text_b)]
    said = [f"{part}: {titled(name)}" for part, name in asks]
    said += [f"options: {', '.join(map(titled, options[:8]))}"]
    said += [f"right option: {titled(label)}"] if label is not None else []
    return Columns(
        text=text, text_b=text_b, label=label, id=rest.id, split=rest.split, options=options, said=tuple(said)
    )


def is_choice_data(source: Source) -> bool:
    """Whether rows hold a question with options."""
    called = {plain(name) for name in source.columns}
    options = option_columns(source)
    asks = bool(called & {*QUESTIONS, "sent2"})
    if len(options) > 1:
        return asks and bool(called & set(LABELS))
    if not options or not asks:
        return False
    name = plain(options[0])
    return name in ("choices", "options", "endings", "question") or (name == "answers" and "label" in called)
