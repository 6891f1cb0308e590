"""Translations of rows whose right translation is known, and what they are worth."""

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
from clearhead.translate.dataset import Pair, read_pairs, resolve_sides
from clearhead.translate.report import write_report

if TYPE_CHECKING:
    from clearhead.model import Model


@dataclass(frozen=True, kw_only=True)
class Translated:
    """Translations of some rows, and what they are worth."""

    pairs: tuple[Pair, ...]
    hypotheses: tuple[str, ...]
    scores: TranslationScores

    def evaluation(self, seconds: float = 0.0) -> Evaluation:
        """The same as every other task has it."""
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


def translations(
    model: Model, texts: Sequence[str], prefix: str, beam: int, progress: Progress = no_progress
) -> list[str]:
    """What a model writes for each text."""
    made = model.generate([prefix + text for text in texts], num_beams=beam, progress=partial(progress, "translating"))
    return [one.text for one in made]


def translated(
    model: Model, pairs: Sequence[Pair], prefix: str, beam: int, progress: Progress = no_progress
) -> Translated:
    """Rows translated and measured against what they should be, also by the length of their sources."""
    said = translations(model, [pair.source for pair in pairs], prefix, beam, progress)
    lengths = [len(pair.source.split()) for pair in pairs]
    scores = measure_translations(said, [pair.target for pair in pairs], lengths)
    return Translated(pairs=tuple(pairs), hypotheses=tuple(said), scores=scores)


def read_trained(folder: Path) -> TrainingRecord:
    """What the passport of a translator says of its training: its columns, its prefix, its beam."""
    passport = read_passport(folder)
    trained = None if passport is None else passport.trained
    if trained is None or trained.task != "translate":
        raise InputError(f"{folder} was not trained to translate.")
    return trained


def known_pairs(
    folder: Path,
    trained: TrainingRecord | None,
    source: Source,
    *,
    part: str | None = None,
    columns: tuple[str | None, str | None] = (None, None),
    skip_bad_rows: bool = False,
) -> tuple[list[Pair], BadRows]:
    """Rows with their translations, by the columns that are named or that the model learned from: all, or a part."""
    known = {} if trained is None else trained.columns
    named = [
        given or (own if (own := known.get(side)) in source.columns else None)
        for given, side in zip(columns, ("source", "target"), strict=True)
    ]
    found = resolve_sides(source, ColumnRoles(text=named[0], text_b=named[1]))
    wanted = None if part is None else read_split(folder, part)
    every, bad = read_pairs(source, found, skip_bad_rows=skip_bad_rows)
    pairs = [pair for pair in every if wanted is None or pair.number in wanted]
    if not pairs:
        raise InputError(f"{source.name} has no rows to translate.")
    return pairs, bad


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
) -> tuple[Evaluation, Translated]:
    """Translate every row, or those that training held out, and compare with what each should be."""
    begun, trained = time.perf_counter(), read_trained(folder)
    pairs, bad = known_pairs(folder, trained, source, part=part, columns=columns, skip_bad_rows=skip_bad_rows)
    model = load(folder, precision=precision)
    prefix, usual = str(trained.settings.get("prefix") or ""), trained.settings.get("num_beams")
    chosen = beam or (usual if isinstance(usual, int) else 1)
    found = translated(model, pairs, prefix, chosen, progress)
    made = replace(found.evaluation(time.perf_counter() - begun), skipped=dict(bad.counts))
    if report is not None:
        write_report(
            report,
            title=f"{folder.name} on {source.name}",
            model=model,
            folder=folder,
            found={"rows": found},
            evaluations={"rows": made},
            trained=trained,
            command=command,
            cost={"seconds": made.seconds},
        )
    return made, found
