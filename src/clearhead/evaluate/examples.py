"""Error examples of reports: selected by row number, read in a second pass, and explained by occlusion of words."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clearhead.data import BadRow, Columns, Source, TextRow, check_row
from clearhead.data.examples import RowCheck
from clearhead.errors import ClearheadError
from clearhead.explain.occlusion import MAX_CHARACTERS, OccludedRow, occlude_rows
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

MAX_TEXT_CHARACTERS = 1200  # of a row
MAX_CELL_CHARACTERS = 160
CHARACTERS_BEFORE_WORD = 200  # kept before the most relevant word of an excerpt
SECONDS_BY_PART = {"test": 3.5, "dev": 1.0}  # for occlusion, at least
SECONDS_OF_EVALUATE = 10.0  # for occlusion in reports of evaluate
SHARE_OF_RUN = 0.03  # of the duration of a run, if that is longer
MAX_SECONDS = 30.0


@dataclass(frozen=True, kw_only=True)
class ErrorAnalysis:
    """Error examples and serving cost of a finished model."""

    examples: Mapping[str, PartExamples] = field(default_factory=dict)
    cost: Mapping[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def analyze_errors(
    folder: Path,
    parts: Mapping[str, PartRows],
    evaluations: Mapping[str, Evaluation],
    device: str,
    progress: Progress,
    run_seconds: float = 0.0,
    weights: Model | None = None,
) -> ErrorAnalysis:
    """Load a finished model, measure its serving cost and select error examples; failures become a note.

    `weights` is a model in memory with the weights of the folder.
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
                part_evaluation.picks,
                seconds=min(max(SECONDS_BY_PART.get(name, 1.0), SHARE_OF_RUN * run_seconds), MAX_SECONDS),
                progress=for_stage(progress, f"relevant words of {name} rows"),
            )
            for name, part_evaluation in evaluations.items()
            if part_evaluation.picks is not None and name in parts
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
    """Read the texts of picked rows, and explain the worst and most suspicious ones by occlusion."""
    started = time.perf_counter()
    explained_picks = {pick.row: pick for pick in (*picks.worst, *picks.suspicious)}
    row_numbers, check = {pick.row for pick in picks.iter_rows()}, predictor.task.rows.check_row
    rows = _read_rows(source, columns, row_numbers, complete=explained_picks.keys(), check=check)
    occlusions = dict(_plan_occlusions(predictor, explained_picks, rows))
    occluded = occlude_rows(predictor.scorer, list(occlusions.values()), columns, seconds=seconds, progress=progress)
    occluded_by_row = {
        number: occluded_row
        for number, occluded_row in zip(occlusions, occluded, strict=True)
        if occluded_row is not None
    }

    def build_examples(selected: Iterable[SelectedRow], max_characters: int) -> Iterator[Example]:
        for pick in selected:
            if pick.row in rows:
                example = _build_example(pick, rows[pick.row], occluded_by_row.get(pick.row), max_characters)
                yield (
                    replace(example, target_name=occlusions[pick.row][1].target_name)
                    if example.words is not None
                    else example
                )

    return PartExamples(
        worst=tuple(build_examples(picks.worst, MAX_TEXT_CHARACTERS)),
        suspicious=tuple(build_examples(picks.suspicious, MAX_TEXT_CHARACTERS)),
        cells=tuple(
            CellExamples(cell=cell, examples=tuple(build_examples(cell.rows, MAX_CELL_CHARACTERS)))
            for cell in picks.cells
        ),
        explained=len(occluded_by_row),
        scored=sum(occluded_row.scored for occluded_row in occluded_by_row.values()),
        seconds=time.perf_counter() - started,
    )


def _plan_occlusions(
    predictor: Predictor, picks: Mapping[int, SelectedRow], rows: Mapping[int, TextRow]
) -> Iterator[tuple[int, tuple[TextRow, OcclusionPlan]]]:
    """Yield the rows that can be explained by occlusion, by row number."""

    def read(logits: Any) -> Answers:
        return predictor.task.decoding.decode(logits, predictor.space, predictor.calibration)

    for number, pick in picks.items():
        row = rows.get(number)
        if row is not None and len(row.text) + len(row.text_b or "") <= MAX_CHARACTERS:
            watching = predictor.task.examples.plan_occlusion(pick, row, read)
            if watching is not None:
                yield number, (row, watching)


def _read_rows(
    source: Source, columns: Columns, row_numbers: set[int], complete: Iterable[int], check: RowCheck
) -> dict[int, TextRow]:
    """Read rows by their numbers, up to the last one; only the start of long texts is kept unless `complete`."""
    rows: dict[int, TextRow] = {}
    complete_numbers, last_number = set(complete), max(row_numbers, default=0)
    has_task_check = check is not check_row
    # the tags in a cell determine its words
    used_columns = replace(columns, label=columns.label if has_task_check else None, split=None)
    for row in source.rows() if row_numbers else ():
        if row.number in row_numbers and not isinstance(row, BadRow):
            checked = check(row, used_columns, None)
            if isinstance(checked, TextRow) and has_task_check:
                rows[row.number] = replace(checked, label=None)  # offsets refer to the whole text
            elif isinstance(checked, TextRow):
                max_characters = MAX_CHARACTERS + 1 if row.number in complete_numbers else MAX_CELL_CHARACTERS + 1
                text_b = None if checked.text_b is None else checked.text_b[:max_characters]
                rows[row.number] = replace(checked, text=checked.text[:max_characters], text_b=text_b)
        if row.number >= last_number:
            break
    return rows


def _build_example(pick: SelectedRow, row: TextRow, occluded: OccludedRow | None, max_characters: int) -> Example:
    words = () if occluded is None else occluded.words
    occlusion_fields: dict[str, Any] = {
        "words": None if occluded is None or max_characters < MAX_TEXT_CHARACTERS else words
    }
    occlusion_fields["full_value"] = None if occluded is None else occluded.full_value
    if pick.counts_words:
        word_offsets = row.extra.offsets
        spans = [
            replace(mark, start=word_offsets[mark.start][0], end=word_offsets[mark.end - 1][1]) for mark in pick.spans
        ]
        return Example(
            selected=replace(pick, spans=tuple(spans), counts_words=False), text=row.text, **occlusion_fields
        )
    if pick.spans and row.text_b is not None:  # in the passage of a question; the report cuts it around them
        occlusion_fields["words"] = occlusion_fields["words"] and tuple(
            replace(word, in_second_text=not word.in_second_text) for word in words
        )
        return Example(selected=pick, text=row.text_b, text_b=row.text, **occlusion_fields)
    if pick.spans:
        return Example(selected=pick, text=row.text, **occlusion_fields)
    if pick.option_indices is not None:
        true_option, chosen_option = (row.extra.texts[option] for option in pick.option_indices)
        pick, row = (
            replace(pick, truth=true_option, answer=chosen_option, options=row.extra.texts),
            replace(row, text_b=None),
        )
    text, first_words, is_cut = _cut_excerpt(
        row.text, [word for word in words if not word.in_second_text], max_characters
    )
    text_b, second_words, is_cut_b = _cut_excerpt(
        row.text_b or "", [word for word in words if word.in_second_text], max_characters
    )
    return Example(
        selected=pick,
        text=text,
        text_b=None if row.text_b is None else text_b,
        words=None if occlusion_fields["words"] is None else (*first_words, *second_words),
        full_value=occlusion_fields["full_value"],
        is_truncated=is_cut or is_cut_b,
    )


def _cut_excerpt(
    text: str, words: Sequence[WordImportance], max_characters: int
) -> tuple[str, list[WordImportance], bool]:
    """Cut a long text around its most relevant word."""
    if len(text) <= max_characters:
        return text, list(words), False
    strongest = max(words, key=lambda word: abs(word.weight), default=None)
    start = 0
    if strongest is not None and strongest.end > max_characters:
        start = min(max(strongest.start - CHARACTERS_BEFORE_WORD, 0), len(text) - max_characters)
    visible_words = [
        replace(word, start=max(word.start - start, 0), end=min(word.end - start, max_characters))
        for word in words
        if word.end > start and word.start < start + max_characters
    ]
    return text[start : start + max_characters], visible_words, True
