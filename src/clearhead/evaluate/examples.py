"""The rows that a report shows: chosen by number, read in a second pass, and taken apart word by word."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clearhead.data import BadRow, Columns, Source, TextRow, check_row
from clearhead.data.examples import RowCheck
from clearhead.errors import ClearheadError
from clearhead.explain.occlusion import MOST_CHARACTERS, Occluded, occlude_rows
from clearhead.predict.latency import measure_serving_cost
from clearhead.predict.loading import load_predictor
from clearhead.predict.predictor import Predictor
from clearhead.progress import Progress, for_stage, no_progress
from clearhead.tasks.examples import CellExamples, Example, PartExamples, RowSelection, SelectedRow, WordImportance
from clearhead.tasks.occlusion import OcclusionPlan
from clearhead.tasks.task import Answers

if TYPE_CHECKING:
    from clearhead.jobs.prepare import PartRows
    from clearhead.model import Model
    from clearhead.tasks.evaluation import Evaluation

MAX_TEXT_CHARACTERS = 1200  # characters that are shown of a row
MAX_CELL_CHARACTERS = 160
CHARACTERS_BEFORE_WORD = 200  # characters that are shown before the word that matters most, where a text is cut
SECONDS_BY_PART = {"test": 3.5, "dev": 1.0}  # to take rows apart in, at least
SECONDS_OF_EVALUATE = 10.0  # where the report is what was asked for
SHARE_OF_RUN = 0.03  # of the time of a run, where that is more
MAX_SECONDS = 30.0


@dataclass(frozen=True, kw_only=True)
class ErrorAnalysis:
    """What a second look at a finished model gives."""

    examples: Mapping[str, PartExamples] = field(default_factory=dict)
    cost: Mapping[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def analyze_errors(
    folder: Path,
    parts: Mapping[str, PartRows],
    found: Mapping[str, Evaluation],
    device: str,
    progress: Progress,
    spent: float = 0.0,
    weights: Model | None = None,
) -> ErrorAnalysis:
    """Load a model as users will, time it, and show what it did with some rows; a report without them is no failure.

    `weights`: a model in memory that has the weights of the folder.
    """
    try:
        predictor = load_predictor(folder, device=device, weights=weights)
        train = parts["train"]
        cost = measure_serving_cost(predictor, train.source, train.columns)
        examples = {
            name: show_examples(
                predictor,
                parts[name].source,
                parts[name].columns,
                one.picks,
                seconds=min(max(SECONDS_BY_PART.get(name, 1.0), SHARE_OF_RUN * spent), MAX_SECONDS),
                progress=for_stage(progress, f"words that mattered in {name} rows"),
            )
            for name, one in found.items()
            if one.picks is not None and name in parts
        }
    except ClearheadError as error:
        return ErrorAnalysis(notes=(f"No examples are shown: {error}",))
    return ErrorAnalysis(examples=examples, cost=cost)


def show_examples(
    predictor: Predictor,
    source: Source,
    columns: Columns,
    picks: RowSelection,
    *,
    seconds: float = SECONDS_OF_EVALUATE,
    progress: Progress = no_progress,
) -> PartExamples:
    """The texts of picked rows, and of the worst and most suspicious ones the words that mattered."""
    begun = time.perf_counter()
    first = {pick.row: pick for pick in (*picks.worst, *picks.suspicious)}
    wanted, check = {pick.row for pick in picks.iter_rows()}, predictor.task.rows.check_row
    texts = _read_rows(source, columns, wanted, whole=first.keys(), check=check)
    jobs = dict(_plan_occlusions(predictor, first, texts))
    taken = occlude_rows(predictor.scorer, list(jobs.values()), columns, seconds=seconds, progress=progress)
    done = {number: one for number, one in zip(jobs, taken, strict=True) if one is not None}

    def examples(listed: Iterable[SelectedRow], most: int) -> Iterator[Example]:
        for pick in listed:
            if pick.row in texts:
                made = _build_example(pick, texts[pick.row], done.get(pick.row), most)
                yield replace(made, target_name=jobs[pick.row][1].target_name) if made.words is not None else made

    return PartExamples(
        worst=tuple(examples(picks.worst, MAX_TEXT_CHARACTERS)),
        suspicious=tuple(examples(picks.suspicious, MAX_TEXT_CHARACTERS)),
        cells=tuple(
            CellExamples(cell=cell, examples=tuple(examples(cell.rows, MAX_CELL_CHARACTERS))) for cell in picks.cells
        ),
        explained=len(done),
        scored=sum(one.scored for one in done.values()),
        seconds=time.perf_counter() - begun,
    )


def _plan_occlusions(
    predictor: Predictor, picks: Mapping[int, SelectedRow], texts: Mapping[int, TextRow]
) -> Iterator[tuple[int, tuple[TextRow, OcclusionPlan]]]:
    """Rows that can be taken apart, and how, by their number."""

    def read(logits: Any) -> Answers:
        return predictor.task.decoding.decode(logits, predictor.space, predictor.calibration)

    for number, pick in picks.items():
        row = texts.get(number)
        if row is not None and len(row.text) + len(row.text_b or "") <= MOST_CHARACTERS:
            watching = predictor.task.examples.plan_occlusion(pick, row, read)
            if watching is not None:
                yield number, (row, watching)


def _read_rows(
    source: Source, columns: Columns, numbers: set[int], whole: Iterable[int], check: RowCheck
) -> dict[int, TextRow]:
    """Rows by their numbers, in a pass that ends with the last of them; of long texts the beginning is kept."""
    found: dict[int, TextRow] = {}
    entire, last = set(whole), max(numbers, default=0)
    own = check is not check_row
    known = replace(columns, label=columns.label if own else None, split=None)  # tags in a cell tell what its words are
    for row in source.rows() if numbers else ():
        if row.number in numbers and not isinstance(row, BadRow):
            checked = check(row, known, None)
            if isinstance(checked, TextRow) and own:
                found[row.number] = replace(checked, label=None)  # marks count in the whole text
            elif isinstance(checked, TextRow):
                most = MOST_CHARACTERS + 1 if row.number in entire else MAX_CELL_CHARACTERS + 1
                second = None if checked.text_b is None else checked.text_b[:most]
                found[row.number] = replace(checked, text=checked.text[:most], text_b=second)
        if row.number >= last:
            break
    return found


def _build_example(pick: SelectedRow, row: TextRow, occluded: Occluded | None, most: int) -> Example:
    words = () if occluded is None else occluded.words
    found: dict[str, Any] = {"words": None if occluded is None or most < MAX_TEXT_CHARACTERS else words}
    found["full_value"] = None if occluded is None else occluded.whole
    if pick.counts_words:
        offsets = row.extra.offsets
        marks = [replace(mark, start=offsets[mark.start][0], end=offsets[mark.end - 1][1]) for mark in pick.spans]
        return Example(selected=replace(pick, spans=tuple(marks), counts_words=False), text=row.text, **found)
    if pick.spans and row.text_b is not None:  # of an answer, they stand in the passage; the report cuts it around them
        found["words"] = found["words"] and tuple(
            replace(word, in_second_text=not word.in_second_text) for word in words
        )
        return Example(selected=pick, text=row.text_b, text_b=row.text, **found)
    if pick.spans:
        return Example(selected=pick, text=row.text, **found)
    if pick.option_indices is not None:
        true, taken = (row.extra.texts[option] for option in pick.option_indices)
        pick, row = replace(pick, truth=true, answer=taken, options=row.extra.texts), replace(row, text_b=None)
    text, first, cut = _cut_excerpt(row.text, [word for word in words if not word.in_second_text], most)
    text_b, second, cut_b = _cut_excerpt(row.text_b or "", [word for word in words if word.in_second_text], most)
    return Example(
        selected=pick,
        text=text,
        text_b=None if row.text_b is None else text_b,
        words=None if found["words"] is None else (*first, *second),
        full_value=found["full_value"],
        is_truncated=cut or cut_b,
    )


def _cut_excerpt(text: str, words: Sequence[WordImportance], most: int) -> tuple[str, list[WordImportance], bool]:
    """A text that is short enough, or the part of it around the word that matters most."""
    if len(text) <= most:
        return text, list(words), False
    strongest = max(words, key=lambda word: abs(word.weight), default=None)
    begin = 0
    if strongest is not None and strongest.end > most:
        begin = min(max(strongest.start - CHARACTERS_BEFORE_WORD, 0), len(text) - most)
    moved = [
        replace(word, start=max(word.start - begin, 0), end=min(word.end - begin, most))
        for word in words
        if word.end > begin and word.start < begin + most
    ]
    return text[begin : begin + most], moved, True
