"""Eight bits for a translator behind a gate: both versions translate the same rows, judged by BLEU and chrF."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from clearhead.checkpoint.hub import locate
from clearhead.checkpoint.passport import Int8Result
from clearhead.data import Source
from clearhead.data.split import sample_rows
from clearhead.deploy.int8_model import quantize_model
from clearhead.engine.int8 import Int8Plan
from clearhead.errors import InputError
from clearhead.metrics.translation import measure_translations
from clearhead.model.loading import load
from clearhead.model.opening import source_prefix
from clearhead.progress import Progress, for_stage
from clearhead.tensors import tied_tensors
from clearhead.translate.dataset import Pair
from clearhead.translate.evaluate import read_reference_pairs, translate_sources

if TYPE_CHECKING:
    from clearhead.model import Model

MAX_ROWS = 500  # that are translated: more make the verdict little surer
SCORES = ("bleu", "chrf")  # each of them may lose what is allowed


def calibrate_on_translations(
    reference: str,
    rows: Source,
    allowed: float,
    part: str | None,
    columns: tuple[str | None, str | None],
    progress: Progress,
) -> tuple[Int8Plan, Int8Result]:
    """The first plan that keeps both scores, or the last one with what it loses."""
    model = load(reference, "engine", precision="float")
    if model.shape.head is None or model.shape.head.kind != "seq2seq":
        raise InputError(f"{reference} has a decoder and no head that writes words, so that it cannot translate.")
    every, _ = read_reference_pairs(locate(reference).folder, model.trained, rows, part=part, columns=columns)
    pairs = [every[place] for place in sample_rows(len(every), min(MAX_ROWS, len(every)), 0)]
    beam = 1 if model.trained is None else int(str(model.trained.settings.get("num_beams") or 1))
    before = _score_translations(model, pairs, beam, for_stage(progress, "measuring float"))
    for plan in _candidate_plans(model):
        after = _score_translations(quantize_model(model, plan), pairs, beam, for_stage(progress, "measuring int8"))
        worse = max(SCORES, key=lambda name: before[name] - after[name])
        verdict = Int8Result(
            passed=before[worse] - after[worse] <= allowed + 1e-9,
            metric=worse,
            before=before[worse],
            after=after[worse],
            allowed=allowed,
            rows=len(pairs),
            data=rows.name,
            float_steps=len(plan.float_steps),
        )
        if verdict.passed:
            break
    return plan, verdict


def _candidate_plans(model: Model) -> Iterator[Int8Plan]:
    """Everything in eight bits; then all but the head, whose small differences choose the words."""
    yield Int8Plan()
    assert model.shape.head is not None
    tied = tied_tensors(model.shape).get("head.out.weight", "stack.embed.token.weight").removesuffix(".weight")
    yield Int8Plan(float_steps=frozenset({tied if model.shape.head.tied else "head.out"}))


def _score_translations(model: Model, pairs: list[Pair], beam: int, progress: Progress) -> dict[str, float]:
    texts = [pair.source for pair in pairs]
    said = translate_sources(model, texts, source_prefix(model), beam, progress)
    found = measure_translations(said, [pair.target for pair in pairs], n=0).measures
    return {name: found[name].value for name in SCORES}
