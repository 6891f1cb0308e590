"""The rows that a report shows: chosen by number, read in a second pass, and taken apart word by word."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clearhead.data import BadRow, Columns, Source, TextRow, checked_row
from clearhead.data.examples import Check
from clearhead.errors import ClearheadError
from clearhead.explain.occlusion import MOST_CHARACTERS, Occluded, occlude_rows
from clearhead.runs.latency import served
from clearhead.runs.predictor import Predictor, load_predictor
from clearhead.tasks.picks import Pick, Picks
from clearhead.tasks.shown import Example, Shown, ShownCell, Word

if TYPE_CHECKING:
    import numpy as np

    from clearhead.runs.prepare import PartRows
    from clearhead.tasks.evaluation import Evaluation

    Array = np.ndarray[Any, Any]

MOST_TEXT = 1200  # characters that are shown of a row
MOST_IN_CELL = 160
AHEAD = 200  # characters that are shown before the word that matters most, where a text is cut
SECONDS = {"test": 3.5, "dev": 1.0}  # to take rows apart in, at least
ASKED = 10.0  # where the report is what was asked for
SHARE = 0.03  # of the time of a run, where that is more
MOST_SECONDS = 30.0

Told = Callable[[str, int, int | None], None]


@dataclass(frozen=True, kw_only=True)
class Second:
    """What a second look at a finished model gives."""

    examples: Mapping[str, Shown] = field(default_factory=dict)
    cost: Mapping[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def second_look(
    folder: Path,
    parts: Mapping[str, PartRows],
    found: Mapping[str, Evaluation],
    device: str,
    told: Told,
    spent: float = 0.0,
) -> Second:
    """Load a model as users will, time it, and show what it did with some rows; a report without them is no failure."""
    try:
        predictor = load_predictor(folder, device=device)
        train = parts["train"]
        cost = served(predictor, train.source, train.columns)
        examples = {
            name: shown(
                predictor, parts[name].source, parts[name].columns, one.picks,
                seconds=min(max(SECONDS.get(name, 1.0), SHARE * spent), MOST_SECONDS),
                told=partial(told, f"words that mattered in {name} rows"),
            )
            for name, one in found.items()
            if one.picks is not None and name in parts
        }  # fmt: skip
    except ClearheadError as error:
        return Second(notes=(f"No examples are shown: {error}",))
    return Second(examples=examples, cost=cost)


def shown(
    predictor: Predictor,
    source: Source,
    columns: Columns,
    picks: Picks,
    *,
    seconds: float = ASKED,
    told: Callable[[int, int], None] | None = None,
) -> Shown:
    """The texts of picked rows, and of the worst and most suspicious ones the words that mattered."""
    begun = time.perf_counter()
    first = {pick.row: pick for pick in (*picks.worst, *picks.suspicious)}
    wanted, check = {pick.row for pick in picks.every()}, predictor.task.form.check
    texts = _texts(source, columns, wanted, whole=first.keys(), check=check)
    watched = {number: pick for number, pick in first.items() if pick.watched is not None or pick.error is not None}
    chosen = [(pick, texts[number]) for number, pick in watched.items() if _short(texts.get(number))]
    jobs = [(row, partial(_watched, predictor, pick)) for pick, row in chosen]
    words = dict(zip(
        (pick.row for pick, _ in chosen),
        occlude_rows(predictor.scorer, jobs, columns, seconds=seconds, told=told),
        strict=True,
    ))  # fmt: skip
    done = [one for one in words.values() if one is not None]

    def examples(listed: Iterable[Pick], most: int) -> tuple[Example, ...]:
        there = [pick for pick in listed if pick.row in texts]
        return tuple(_example(pick, texts[pick.row], words.get(pick.row), most) for pick in there)

    return Shown(
        worst=examples(picks.worst, MOST_TEXT),
        suspicious=examples(picks.suspicious, MOST_TEXT),
        cells=tuple(ShownCell(cell=cell, examples=examples(cell.picks, MOST_IN_CELL)) for cell in picks.cells),
        explained=len(done),
        scored=sum(one.scored for one in done),
        seconds=time.perf_counter() - begun,
    )


def _short(row: TextRow | None) -> bool:
    return row is not None and len(row.text) + len(row.text_b or "") <= MOST_CHARACTERS


def _watched(predictor: Predictor, pick: Pick, logits: Array) -> Array:
    """What the model gives for its answer: a probability, or the number itself."""
    import numpy as np

    answers = predictor.task.read(logits, predictor.space, predictor.reading)
    if answers.probs is None or pick.watched is None:
        return np.asarray(answers.labels)
    probs = answers.probs[:, pick.watched]
    return np.asarray(1 - probs if pick.against else probs)


def _texts(
    source: Source, columns: Columns, numbers: set[int], whole: Iterable[int], check: Check
) -> dict[int, TextRow]:
    """Rows by their numbers, in a pass that ends with the last of them; of long texts the beginning is kept."""
    found: dict[int, TextRow] = {}
    entire, last = set(whole), max(numbers, default=0)
    known = replace(columns, label=None, split=None)
    for row in source.rows() if numbers else ():
        if row.number in numbers and not isinstance(row, BadRow):
            checked = check(row, known, None)
            if isinstance(checked, TextRow) and check is not checked_row:
                found[row.number] = checked  # marks count in the whole text
            elif isinstance(checked, TextRow):
                most = MOST_CHARACTERS + 1 if row.number in entire else MOST_IN_CELL + 1
                second = None if checked.text_b is None else checked.text_b[:most]
                found[row.number] = replace(checked, text=checked.text[:most], text_b=second)
        if row.number >= last:
            break
    return found


def _example(pick: Pick, row: TextRow, occluded: Occluded | None, most: int) -> Example:
    if pick.chosen is not None:
        true, taken = (row.extra.texts[option] for option in pick.chosen)
        return Example(pick=replace(pick, truth=true, answer=taken, options=row.extra.texts), text=row.text)
    if pick.words:
        borders = row.extra.borders
        marks = [replace(mark, start=borders[mark.start][0], end=borders[mark.end - 1][1]) for mark in pick.marks]
        return Example(pick=replace(pick, marks=tuple(marks), words=False), text=row.text)
    if pick.marks:  # of an answer, they stand in the passage; the report cuts the text around them
        return Example(pick=pick, text=row.text_b or row.text, text_b=None if row.text_b is None else row.text)
    words = () if occluded is None else occluded.words
    text, first, cut = _excerpt(row.text, [word for word in words if not word.second], most)
    text_b, second, cut_b = _excerpt(row.text_b or "", [word for word in words if word.second], most)
    return Example(
        pick=pick,
        text=text,
        text_b=None if row.text_b is None else text_b,
        words=None if occluded is None or most < MOST_TEXT else (*first, *second),
        whole=None if occluded is None else occluded.whole,
        cut=cut or cut_b,
    )


def _excerpt(text: str, words: Sequence[Word], most: int) -> tuple[str, list[Word], bool]:
    """A text that is short enough, or the part of it around the word that matters most."""
    if len(text) <= most:
        return text, list(words), False
    strongest = max(words, key=lambda word: abs(word.weight), default=None)
    begin = 0
    if strongest is not None and strongest.end > most:
        begin = min(max(strongest.start - AHEAD, 0), len(text) - most)
    moved = [
        replace(word, start=max(word.start - begin, 0), end=min(word.end - begin, most))
        for word in words
        if word.end > begin and word.start < begin + most
    ]
    return text[begin : begin + most], moved, True
