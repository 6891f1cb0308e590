"""The report of a translation model: the page of every task, plus lengths, examples and alignments."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from clearhead.errors import ClearheadError
from clearhead.model.alignment import Aligner
from clearhead.predict.latency import measure_disk_megabytes
from clearhead.report.headline import order_parts
from clearhead.report.page import ReportData, save_report
from clearhead.report.translations import PartFacts, PartTranslations, TranslationSample, translation_sections
from clearhead.text.encoding import TokenIds

if TYPE_CHECKING:
    from clearhead.checkpoint.passport import TrainingRecord
    from clearhead.model import Model
    from clearhead.tasks.evaluation import Evaluation
    from clearhead.translate.dataset import ParallelTexts
    from clearhead.translate.evaluate import ScoredTranslations

EXAMPLE_ROWS = 6  # of the worst translations, and of the best
MAX_ALIGNED_WORDS = 60  # of sources with an alignment
MAX_COUNTED_TOKENS = 512  # tokens of a text that are kept while counting
TIMED_TEXTS, TIMING_SECONDS = 20, 2.0  # texts that are timed one by one, and the time limit


def write_report(
    path: Path,
    *,
    title: str,
    model: Model,
    folder: Path,
    translations: Mapping[str, ScoredTranslations],
    evaluations: Mapping[str, Evaluation],
    training_record: TrainingRecord,
    command: str,
    notes: Sequence[str] = (),
    cost: Mapping[str, float] | None = None,
    log: Sequence[Mapping[str, Any]] = (),
    texts: ParallelTexts | None = None,
    settings: Mapping[str, Any] | None = None,
) -> Path:
    """Write the HTML report about scored translations."""
    num_beams, prefix = training_record.settings.get("num_beams"), str(training_record.settings.get("prefix") or "")
    examples = {part: select_examples(model, translations[part], prefix) for part in order_parts(evaluations)}
    parts = {
        part: replace(evaluation, slices=()) for part, evaluation in evaluations.items()
    }  # shown in a separate section
    facts, leaks = ([], ()) if texts is None else (count_parts(model, texts, prefix), texts.leaks)
    serving_cost = measure_serving(model, folder, translations, prefix, num_beams if isinstance(num_beams, int) else 1)
    data = ReportData(
        title=title,
        command=command,
        parts=parts,
        log=log,
        settings=settings or {},
        passport=asdict(training_record),
        notes=notes,
        cost={**(cost or {}), **serving_cost},
        sections=translation_sections(examples, facts, leaks),
        machine={}
        if training_record.machine is None
        else (training_record.resumed_on or [training_record.machine])[-1].lines(),
    )
    return save_report(data, path)


def select_examples(model: Model, translations: ScoredTranslations, prefix: str) -> PartTranslations:
    """Select the worst and the best rows of a part, with alignments if the model supports them."""
    scores, rows = translations.scores.sentences, range(len(translations.pairs))
    worst = translations.scores.worst(min(EXAMPLE_ROWS, (len(rows) + 1) // 2))
    remaining = [row for row in rows if row not in set(worst)]
    best = sorted(remaining, key=lambda row: (-round(float(scores[row]), 1), -len(translations.pairs[row].source)))[
        :EXAMPLE_ROWS
    ]
    alignable = [row for row in (*worst, *best) if len(translations.pairs[row].source.split()) <= MAX_ALIGNED_WORDS]
    alignments, alignment_error = {}, ""
    try:
        pairs = [(translations.pairs[row].source, translations.hypotheses[row]) for row in alignable]
        alignments = dict(zip(alignable, Aligner(model).align(pairs, prefix), strict=True))
    except ClearheadError as error:
        alignment_error = str(error)

    def samples(rows: Sequence[int]) -> tuple[TranslationSample, ...]:
        return tuple(
            TranslationSample(
                row=translations.pairs[row].number,
                source=translations.pairs[row].source,
                reference=translations.pairs[row].target,
                translation=translations.hypotheses[row],
                chrf=float(scores[row]),
                aligned=alignments.get(row),
            )
            for row in rows
        )

    return PartTranslations(
        scores=translations.scores, worst=samples(worst), best=samples(best), unaligned=alignment_error
    )


def count_parts(model: Model, texts: ParallelTexts, prefix: str) -> list[PartFacts]:
    """Count rows, words and tokens of each part."""
    target_tokenizer = model.target_tokenizer or model.tokenizer
    facts = []
    for part, pairs in texts.parts.items():
        sources, targets = [pair.source for pair in pairs], [pair.target for pair in pairs]
        source_ids = model.tokenizer.encode_ids([prefix + source for source in sources], max_length=MAX_COUNTED_TOKENS)
        target_ids = target_tokenizer.encode_ids(targets, max_length=MAX_COUNTED_TOKENS)
        words = (sum(len(text.split()) for text in sources), sum(len(text.split()) for text in targets))
        tokens = (_count_tokens(source_ids), _count_tokens(target_ids))
        file = texts.names[part]
        facts.append(PartFacts(name=part, file=file, rows=len(pairs), words=words, tokens=tokens))
    return facts


def _count_tokens(rows: Sequence[TokenIds]) -> int:
    return sum(len(row) + row.truncated for row in rows)


def measure_serving(
    model: Model, folder: Path, translations: Mapping[str, ScoredTranslations], prefix: str, num_beams: int
) -> dict[str, float]:
    """Measure the latency of single texts and the size of the model on disk."""
    cost = {"size on disk MB": round(measure_disk_megabytes(folder), 2)}
    texts = [pair.source for scored in translations.values() for pair in scored.pairs][:TIMED_TEXTS]
    seconds: list[float] = []
    for text in texts:
        started_at = time.perf_counter()
        model.generate([prefix + text], num_beams=num_beams)
        seconds.append(time.perf_counter() - started_at)
        if sum(seconds) > TIMING_SECONDS:
            break
    return cost | ({"latency of one text ms": round(1000 * median(seconds), 2)} if seconds else {})
