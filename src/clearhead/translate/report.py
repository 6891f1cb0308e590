"""The report of a translator: the page of every task, with lengths, examples and alignments of its own."""

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
from clearhead.report.headline import in_order
from clearhead.report.page import ReportData, save_report
from clearhead.report.translations import PartFacts, PartTranslations, Sample, translation_sections
from clearhead.text.encoding import TokenIds

if TYPE_CHECKING:
    from clearhead.checkpoint.passport import TrainingRecord
    from clearhead.model import Model
    from clearhead.tasks.evaluation import Evaluation
    from clearhead.translate.dataset import Texts
    from clearhead.translate.evaluate import Translated

SHOWN = 6  # of the worst, and as many of the best
MOST_WORDS = 60  # of a source whose alignment is shown
COUNTED = 512  # tokens of a text that are kept while all of them are counted
TIMED, ENOUGH = 20, 2.0  # texts that are timed alone, and seconds after which fewer will do


def write_report(
    path: Path,
    *,
    title: str,
    model: Model,
    folder: Path,
    found: Mapping[str, Translated],
    evaluations: Mapping[str, Evaluation],
    trained: TrainingRecord,
    command: str,
    notes: Sequence[str] = (),
    cost: Mapping[str, float] | None = None,
    log: Sequence[Mapping[str, Any]] = (),
    texts: Texts | None = None,
    settings: Mapping[str, Any] | None = None,
) -> Path:
    """One HTML page about translations that were measured."""
    beam, prefix = trained.settings.get("num_beams"), str(trained.settings.get("prefix") or "")
    shown = {part: told(model, found[part], prefix) for part in in_order(evaluations)}
    parts = {part: replace(one, slices=()) for part, one in evaluations.items()}  # they have a section of their own
    facts, leaks = ([], ()) if texts is None else (part_facts(model, texts, prefix), texts.leaks)
    taken = served(model, folder, found, prefix, beam if isinstance(beam, int) else 1)
    data = ReportData(
        title=title,
        command=command,
        parts=parts,
        log=log,
        settings=settings or {},
        passport=asdict(trained),
        notes=notes,
        cost={**(cost or {}), **taken},
        sections=translation_sections(shown, facts, leaks),
        machine={} if trained.machine is None else (trained.resumed_on or [trained.machine])[-1].lines(),
    )
    return save_report(data, path)


def told(model: Model, found: Translated, prefix: str) -> PartTranslations:
    """The worst and the best rows of a part, each with its alignment where the model can tell."""
    scores, rows = found.scores.sentences, range(len(found.pairs))
    worst = found.scores.worst(min(SHOWN, (len(rows) + 1) // 2))
    left = [row for row in rows if row not in set(worst)]
    best = sorted(left, key=lambda row: (-round(float(scores[row]), 1), -len(found.pairs[row].source)))[:SHOWN]
    picked = [row for row in (*worst, *best) if len(found.pairs[row].source.split()) <= MOST_WORDS]
    aligned, unaligned = {}, ""
    try:
        pairs = [(found.pairs[row].source, found.hypotheses[row]) for row in picked]
        aligned = dict(zip(picked, Aligner(model).align(pairs, prefix), strict=True))
    except ClearheadError as error:
        unaligned = str(error)

    def samples(chosen: Sequence[int]) -> tuple[Sample, ...]:
        return tuple(
            Sample(
                row=found.pairs[row].number,
                source=found.pairs[row].source,
                reference=found.pairs[row].target,
                translation=found.hypotheses[row],
                chrf=float(scores[row]),
                aligned=aligned.get(row),
            )
            for row in chosen
        )

    return PartTranslations(scores=found.scores, worst=samples(worst), best=samples(best), unaligned=unaligned)


def part_facts(model: Model, texts: Texts, prefix: str) -> list[PartFacts]:
    """Rows, words and tokens of each part."""
    target = model.target_tokenizer or model.tokenizer
    made = []
    for part, pairs in texts.parts.items():
        sources, targets = [pair.source for pair in pairs], [pair.target for pair in pairs]
        read = model.tokenizer.encode_ids([prefix + source for source in sources], max_length=COUNTED)
        written = target.encode_ids(targets, max_length=COUNTED)
        words = (sum(len(text.split()) for text in sources), sum(len(text.split()) for text in targets))
        tokens = (_tokens(read), _tokens(written))
        file = texts.names[part]
        made.append(PartFacts(name=part, file=file, rows=len(pairs), words=words, tokens=tokens))
    return made


def _tokens(rows: Sequence[TokenIds]) -> int:
    return sum(len(row) + row.truncated for row in rows)


def served(model: Model, folder: Path, found: Mapping[str, Translated], prefix: str, beam: int) -> dict[str, float]:
    """What the translator takes to be used: the time of one text alone, and its room on disk."""
    made = {"size on disk MB": round(measure_disk_megabytes(folder), 2)}
    texts = [pair.source for one in found.values() for pair in one.pairs][:TIMED]
    spent: list[float] = []
    for text in texts:
        begun = time.perf_counter()
        model.generate([prefix + text], num_beams=beam)
        spent.append(time.perf_counter() - begun)
        if sum(spent) > ENOUGH:
            break
    return made | ({"latency of one text ms": round(1000 * median(spent), 2)} if spent else {})
