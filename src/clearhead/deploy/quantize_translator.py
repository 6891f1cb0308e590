"""Quantize a translation model: float and int8 translate the same rows, compared by BLEU and chrF."""

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

MAX_ROWS = 500  # translated; more rows hardly reduce the uncertainty
SCORES = ("bleu", "chrf")  # neither may drop by more than max_drop


def calibrate_on_translations(
    reference: str,
    rows: Source,
    max_drop: float,
    part: str | None,
    columns: tuple[str | None, str | None],
    progress: Progress,
) -> tuple[Int8Plan, Int8Result]:
    """Return the first plan that keeps both scores, else the last one, with its result."""
    model = load(reference, "engine", precision="float")
    if model.shape.head is None or model.shape.head.kind != "seq2seq":
        raise InputError(f"{reference} cannot translate: its decoder has no language modeling head.")
    all_pairs, _ = read_reference_pairs(locate(reference).folder, model.trained, rows, part=part, columns=columns)
    pairs = [all_pairs[index] for index in sample_rows(len(all_pairs), min(MAX_ROWS, len(all_pairs)), 0)]
    beam = 1 if model.trained is None else int(str(model.trained.settings.get("num_beams") or 1))
    before = _score_translations(model, pairs, beam, for_stage(progress, "measuring float"))
    for plan in _candidate_plans(model):
        after = _score_translations(quantize_model(model, plan), pairs, beam, for_stage(progress, "measuring int8"))
        worst_metric = max(SCORES, key=lambda name: before[name] - after[name])
        verdict = Int8Result(
            passed=before[worst_metric] - after[worst_metric] <= max_drop + 1e-9,
            metric=worst_metric,
            before=before[worst_metric],
            after=after[worst_metric],
            allowed=max_drop,
            rows=len(pairs),
            data=rows.name,
            float_steps=len(plan.float_steps),
        )
        if verdict.passed:
            break
    return plan, verdict


def _candidate_plans(model: Model) -> Iterator[Int8Plan]:
    """Yield a plan with all layers in int8, then one with a float head, since small errors in logits change tokens."""
    yield Int8Plan()
    assert model.shape.head is not None
    tied = tied_tensors(model.shape).get("head.out.weight", "stack.embed.token.weight").removesuffix(".weight")
    yield Int8Plan(float_steps=frozenset({tied if model.shape.head.tied else "head.out"}))


def _score_translations(model: Model, pairs: list[Pair], beam: int, progress: Progress) -> dict[str, float]:
    sources = [pair.source for pair in pairs]
    translations = translate_sources(model, sources, source_prefix(model), beam, progress)
    measures = measure_translations(translations, [pair.target for pair in pairs], n=0).measures
    return {name: measures[name].value for name in SCORES}
