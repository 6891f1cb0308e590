"""One of several options: the end of a story, the answer in a test.

BERT reads the question once with each option, gives each pair one score from [CLS], and a softmax over the options of
the question makes them probabilities: any number of options will do.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from clearhead.caller import setting
from clearhead.data.columns import Columns, guess_columns, titled
from clearhead.data.labels import LabelSpace
from clearhead.data.names import plain
from clearhead.data.source import Row, Source
from clearhead.errors import InputError
from clearhead.tasks.beside import option_parts
from clearhead.tasks.choice.rows import CHOICE_FORM, OptionCounter, OptionMarks, is_nested
from clearhead.tasks.encoded import Encoded
from clearhead.tasks.looked import pick_options
from clearhead.tasks.occlusion import watch_options
from clearhead.tasks.ragged import Ragged, bounds_of
from clearhead.tasks.task import Answers, Asked, Details, Reading, Task

if TYPE_CHECKING:
    import numpy as np

    from clearhead.metrics import Interval

    Array = np.ndarray[Any, Any]

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


def columns(source: Source, asked: Asked, labelled: bool) -> Columns:
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
    rest = guess_columns(source, text, text_b, None, asked.id, asked.split, "classify", labelled=False)
    asks = [("question", text)] if text_b is None else [("passage", text), ("question", text_b)]
    said = [f"{part}: {titled(name)}" for part, name in asks]
    said += [f"options: {', '.join(map(titled, options[:8]))}"]
    said += [f"right option: {titled(label)}"] if label is not None else []
    return Columns(
        text=text, text_b=text_b, label=label, id=rest.id, split=rest.split, options=options, said=tuple(said)
    )


def looks_optional(source: Source) -> bool:
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


def collect(values: Array, data: Encoded) -> Ragged:
    """A score for each option: the mean of its windows."""
    import numpy as np

    found = data.marked(np.arange(len(data)))
    total = np.bincount(found["options"], weights=values[:, 0]) / np.bincount(found["options"])
    marks: OptionMarks = data.marks
    return Ragged(values=total.astype(np.float32), bounds=bounds_of(marks.counts[data.places]))


def read(logits: Ragged, space: LabelSpace, reading: Reading) -> Answers:
    """softmax over the options of each question."""
    import numpy as np

    scores = logits.padded(-np.inf).astype(np.float64) / reading.temperature
    probs = np.exp(scores - scores.max(1, keepdims=True))
    probs /= probs.sum(1, keepdims=True)
    answers = Answers(labels=probs.argmax(1), probs=probs, more=logits.counts)
    if reading.abstain_below is None:
        return answers
    return replace(answers, abstained=confidence(answers) < reading.abstain_below)


def confidence(answers: Answers) -> Array:
    """The probability of the option that is taken."""
    import numpy as np

    return np.asarray(answers.probs.max(1))


def right(answers: Answers, targets: Array) -> Array:
    """Whether it is the right one."""
    import numpy as np

    return np.asarray(answers.labels == targets)


def fit(logits: Ragged, targets: Array, space: LabelSpace) -> Reading:
    """The temperature that makes probabilities honest; where an option is missing it can never be taken."""
    import numpy as np

    from clearhead.metrics import fit_temperature

    if len(targets) < 10:
        return Reading()
    return Reading(temperature=float(fit_temperature(np.maximum(logits.padded(-np.inf), -1e4), targets)))


def measure(answers: Answers, targets: Array, space: LabelSpace, n: int) -> dict[str, Interval]:
    """The share of questions answered right, and how far the probabilities are off."""
    from clearhead.metrics import accuracy, bootstrap, log_loss

    return {
        "accuracy": bootstrap(accuracy, targets, answers.labels, n=n),
        "log_loss": bootstrap(log_loss, targets, answers.probs, n=n),
    }


def details(answers: Answers, targets: Array, space: LabelSpace) -> Details:
    """What calibration is measured on."""
    return Details(probs=answers.probs, truth=targets)


def baseline(data: Encoded) -> float:
    """The loss of one who guesses."""
    import numpy as np

    return float(np.log(data.marks.counts[data.places]).mean())


def floor(data: Encoded) -> float:
    """The accuracy of one who guesses."""
    return float((1 / data.marks.counts[data.places]).mean())


CHOICE = Task(
    name="choice",
    about="a question and some options, one of which is right",
    head="choice",
    second=None,
    kinds=("options",),
    outputs=lambda space: ("score",),
    objective=lambda space: "options",
    read=read,
    fit=fit,
    measure=measure,
    confidence=confidence,
    right=right,
    main=lambda space: "accuracy",
    methods=("finetune", "head"),
    form=CHOICE_FORM,
    columns=columns,
    counter=OptionCounter,
    collect=collect,
    baseline=baseline,
    floor=floor,
    strata=lambda targets, space: (targets, "classes"),
    details=details,
    parts=option_parts,
    picks=pick_options,
    watch=watch_options,
    metrics=lambda space: ("accuracy", "log_loss"),
)
