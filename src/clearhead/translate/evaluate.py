"""Translation of rows with reference translations, and their scores."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from clearhead.checkpoint.passport import TrainingRecord, read_passport
from clearhead.data import Source
from clearhead.data.columns import ColumnRoles
from clearhead.data.examples import BadRows
from clearhead.errors import InputError
from clearhead.jobs.run_folder import read_split
from clearhead.metrics.translation import TranslationScores, measure_translations
from clearhead.model.loading import load
from clearhead.progress import Progress, no_progress
from clearhead.tasks.evaluation import Evaluation
from clearhead.translate.dataset import Pair, read_pairs, resolve_parallel_columns
from clearhead.translate.report import write_report

if TYPE_CHECKING:
    from clearhead.model import Model


@dataclass(frozen=True, kw_only=True)
class ScoredTranslations:
    """Translations of rows, with their scores."""

    pairs: tuple[Pair, ...]
    hypotheses: tuple[str, ...]
    scores: TranslationScores

    def evaluation(self, seconds: float = 0.0) -> Evaluation:
        """Return the scores as an `Evaluation`, as for every other task."""
        return Evaluation(
            task="translate",
            kind="texts",
            labels=(),
            rows=len(self.pairs),
            main="bleu",
            metrics=dict(self.scores.measures),
            slices=self.scores.slices,
            seconds=seconds,
        )


def translate_sources(
    model: Model, texts: Sequence[str], prefix: str, num_beams: int, progress: Progress = no_progress
) -> list[str]:
    """Translate texts, each with the prefix."""
    answers = model.generate(
        [prefix + text for text in texts], num_beams=num_beams, progress=partial(progress, "translating")
    )
    return [answer.text for answer in answers]


def score_translations(
    model: Model, pairs: Sequence[Pair], prefix: str, num_beams: int, progress: Progress = no_progress
) -> ScoredTranslations:
    """Translate rows and score them against their targets, also by source length."""
    hypotheses = translate_sources(model, [pair.source for pair in pairs], prefix, num_beams, progress)
    lengths = [len(pair.source.split()) for pair in pairs]
    scores = measure_translations(hypotheses, [pair.target for pair in pairs], lengths)
    return ScoredTranslations(pairs=tuple(pairs), hypotheses=tuple(hypotheses), scores=scores)


def read_training_record(folder: Path) -> TrainingRecord:
    """Read the training record from the passport of a translation model: columns, prefix, beams."""
    passport = read_passport(folder)
    record = None if passport is None else passport.trained
    if record is None or record.task != "translate":
        raise InputError(f"{folder} is not a trained translation model.")
    return record


def read_reference_pairs(
    folder: Path,
    record: TrainingRecord | None,
    source: Source,
    *,
    part: str | None = None,
    columns: tuple[str | None, str | None] = (None, None),
    skip_bad_rows: bool = False,
) -> tuple[list[Pair], BadRows]:
    """Read source and target of all rows, or of a held-out part, from the named columns or those of the training."""
    trained_columns = {} if record is None else record.columns
    column_names = [
        requested or (trained_column if (trained_column := trained_columns.get(side)) in source.columns else None)
        for requested, side in zip(columns, ("source", "target"), strict=True)
    ]
    resolved = resolve_parallel_columns(source, ColumnRoles(text=column_names[0], text_b=column_names[1]))
    row_numbers = None if part is None else read_split(folder, part)
    all_pairs, bad_rows = read_pairs(source, resolved, skip_bad_rows=skip_bad_rows)
    pairs = [pair for pair in all_pairs if row_numbers is None or pair.number in row_numbers]
    if not pairs:
        raise InputError(f"{source.name} has no rows to translate.")
    return pairs, bad_rows


def evaluate_translator(
    folder: Path,
    source: Source,
    *,
    part: str | None = None,
    columns: tuple[str | None, str | None] = (None, None),
    beam: int | None = None,
    precision: str | None = None,
    skip_bad_rows: bool = False,
    report: Path | None = None,
    command: str = "",
    progress: Progress = no_progress,
) -> tuple[Evaluation, ScoredTranslations]:
    """Translate all rows, or those that training held out, and score them against their targets."""
    started_at, record = time.perf_counter(), read_training_record(folder)
    pairs, bad_rows = read_reference_pairs(
        folder, record, source, part=part, columns=columns, skip_bad_rows=skip_bad_rows
    )
    model = load(folder, precision=precision)
    prefix, trained_beams = str(record.settings.get("prefix") or ""), record.settings.get("num_beams")
    num_beams = beam or (trained_beams if isinstance(trained_beams, int) else 1)
    translations = score_translations(model, pairs, prefix, num_beams, progress)
    evaluation = replace(translations.evaluation(time.perf_counter() - started_at), skipped=dict(bad_rows.counts))
    if report is not None:
        write_report(
            report,
            title=f"{folder.name} on {source.name}",
            model=model,
            folder=folder,
            translations={"rows": translations},
            evaluations={"rows": evaluation},
            training_record=record,
            command=command,
            cost={"seconds": evaluation.seconds},
        )
    return evaluation, translations
