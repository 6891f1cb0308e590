"""Eight bits behind a gate: both versions answer the same rows, and one that loses too much is refused."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clearhead.checkpoint.hub import locate
from clearhead.checkpoint.passport import Int8Result, Passport, read_passport, write_passport
from clearhead.checkpoint.sentence import read_modules
from clearhead.data import BadRow, Row, Source, TextRow, check_row, open_source
from clearhead.data.column_layout import ColumnLayout
from clearhead.data.column_resolver import resolve_columns
from clearhead.data.columns import ColumnRoles
from clearhead.data.table import encode_rows
from clearhead.deploy.int8_model import quantize_model
from clearhead.deploy.quantize_translator import calibrate_on_translations
from clearhead.deploy.sentences import SENTENCES as OTHERS
from clearhead.engine.calibrate import calibrate_int8
from clearhead.engine.calibration_sentences import SENTENCES
from clearhead.engine.int8_file import INT8_FILE as PLAN
from clearhead.engine.int8_file import write_plan
from clearhead.errors import CheckpointError, InputError, QualityError
from clearhead.evaluate.evaluate import run_evaluate
from clearhead.files import atomic_folder, check_output_folder, explain_write_errors
from clearhead.html import short_repr
from clearhead.jobs.kinds import TRANSLATION_KINDS, kind_of
from clearhead.jobs.plan import LOWER_IS_BETTER
from clearhead.model.loading import load
from clearhead.predict.latency import UNUSED_FILES, UNUSED_FOLDERS
from clearhead.predict.loading import load_predictor
from clearhead.predict.predictor import Predictor
from clearhead.predict.scoring import FeatureScorer, NetworkScorer
from clearhead.progress import Progress, for_stage, no_progress
from clearhead.train.job import read_run

if TYPE_CHECKING:
    import numpy as np

    from clearhead.engine.int8 import Int8Plan
    from clearhead.model import Model

    Array = np.ndarray[Any, Any]

MAX_DROP = 0.5  # points of the metric that may be lost
CALIBRATION_ROWS = 64  # of a user that are looked at to find the plan
MIN_COSINE = 0.995  # of vectors, on average
NOT_COPIED = ("*.bin", "*.h5", "*.msgpack", "*.ot", "*.onnx", "*.onnx.data", "*.gguf", "*.pt", "*.pth")


@dataclass(frozen=True, kw_only=True)
class Quantized:
    """A model folder that runs in eight bits, and what that costs."""

    folder: Path
    verdict: Int8Result
    seconds: float

    def __repr__(self) -> str:
        one = self.verdict
        cost = f"{one.metric} {one.before:.4f} in float and {one.after:.4f} in int8 on {one.rows:,} rows"
        return short_repr("Quantized", cost, f"folder {self.folder}")

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        return {"folder": str(self.folder), "seconds": round(self.seconds, 2), **vars(self.verdict)}


def run_quantize(
    reference: str,
    rows: Source | Sequence[str] | None,
    output: Path,
    *,
    part: str | None = None,
    max_drop: float = MAX_DROP,
    min_cosine: float = MIN_COSINE,
    columns: Mapping[str, str | None] | None = None,
    progress: Progress = no_progress,
) -> Quantized:
    """Find how to compute a model in eight bits, measure it beside float, and save it if it is good enough."""
    if not max_drop >= 0 or not 0 <= min_cosine <= 1:
        raise InputError(f"max_drop must be >= 0 and min_cosine between 0 and 1, got {max_drop} and {min_cosine}.")
    check_output_folder(output)
    begun = time.perf_counter()
    folder, named = locate(reference).folder, columns or {}
    if isinstance(rows, Source) and kind_of(folder) in TRANSLATION_KINDS:
        sides = named.get("source"), named.get("target")
        plan, verdict = calibrate_on_translations(reference, rows, max_drop, part, sides, progress)
    elif isinstance(rows, Source):
        plan, verdict = _calibrate_on_rows(reference, rows, max_drop, part, named, progress)
    else:
        plan, verdict = _calibrate_on_texts(reference, rows, min_cosine, progress)
    if not verdict.passed:
        raise QualityError(f"{_describe_verdict(verdict)} Nothing was written; float runs as before.")
    _save_quantized(folder, output, plan, verdict)
    return Quantized(folder=output, verdict=verdict, seconds=time.perf_counter() - begun)


def _calibrate_on_rows(
    reference: str,
    rows: Source,
    allowed: float,
    part: str | None,
    columns: Mapping[str, str | None],
    progress: Progress,
) -> tuple[Int8Plan, Int8Result]:
    """A trained model by its metric on rows whose labels are known."""
    if not rows.is_rereadable:
        raise InputError(f"{rows.name} can be read only once; put it in a file.")
    exact = load_predictor(reference, precision="float")
    scorer = exact.scorer
    if not isinstance(scorer, NetworkScorer | FeatureScorer):
        raise InputError(f"{reference} has no network to quantise: {exact.method} counts words.")
    texts = _encode_calibration_rows(exact, rows)
    weights = scorer.model.runner.weights()
    plan = calibrate_int8(scorer.model.shape, weights, texts, progress)
    small = replace(exact, scorer=replace(scorer, model=quantize_model(scorer.model, plan)))
    found = {}
    for name, predictor in (("float", exact), ("int8", small)):
        found[name] = run_evaluate(
            predictor,
            rows,
            part=part,
            progress=for_stage(progress, f"measuring {name}"),
            text=columns.get("text"),
            text_b=columns.get("text_b"),
            label=columns.get("label"),
            options=columns.get("options"),
        )
    metric = found["float"].main
    before, after = (float(found[name].metrics[metric].value) for name in ("float", "int8"))
    lost = 100 * (after - before if metric in LOWER_IS_BETTER else before - after)
    return plan, Int8Result(
        passed=bool(lost <= allowed + 1e-9),
        metric=metric,
        before=before,
        after=after,
        allowed=allowed,
        rows=found["float"].rows,
        data=rows.name,
        float_steps=len(plan.float_steps),
    )


def _encode_calibration_rows(predictor: Predictor, rows: Source) -> list[Sequence[int]]:
    """The tokens of some rows, as the model reads them."""
    scorer: Any = predictor.scorer
    columns = replace(predictor.resolve_columns(rows), label=None, split=None)
    check = predictor.task.rows.check_row
    read = [check(row, columns, None) for row in rows.sample(4 * CALIBRATION_ROWS) if not isinstance(row, BadRow)]
    good = [row for row in read if isinstance(row, TextRow)][:CALIBRATION_ROWS]
    if not good:
        raise InputError(f"{rows.name} has no row that the model can read.")
    table = encode_rows(good, columns, scorer.model.tokenizer, policy=scorer.length_policy, codec=predictor.task.rows)
    pieces = [table.window_ids(place).tolist() for place in range(len(table.starts) - 1)][:CALIBRATION_ROWS]
    # channels that are quiet in these rows may be loud in tomorrow's
    return [*pieces, *(one.ids for one in scorer.model.tokenizer.encode_ids(SENTENCES))]


def _calibrate_on_texts(
    reference: str, texts: Sequence[str] | None, least: float, progress: Progress
) -> tuple[Int8Plan, Int8Result]:
    """An encoder by its vectors: on texts that it was not calibrated with, where there are enough."""
    import numpy as np

    model = load(reference, "engine", precision="float")
    if model.trained is not None or (model.shape.head is not None and model.has_labels):
        raise InputError(f"{reference} answers with labels: give rows whose labels are known, to measure what is lost.")
    looked, rest = [], _select_untruncated(OTHERS, model)
    if texts is not None:
        given = [text for text in texts if text]
        if not given:
            raise InputError("There is no text to measure on.")
        cut = CALIBRATION_ROWS if len(given) >= 2 * CALIBRATION_ROWS else len(given) // 2
        looked, rest = given[: max(cut, 1)], given[cut:]
    tokens = [one.ids for one in model.tokenizer.encode_ids([*looked, *SENTENCES])]
    plan = calibrate_int8(model.shape, model.runner.weights(), tokens, progress)
    small = quantize_model(model, plan)
    one, other = (
        made.embed(rest, progress=partial(progress, f"measuring {name}")).astype(np.float64)
        for name, made in (("float", model), ("int8", small))
    )
    near = (one * other).sum(1) / np.maximum(np.linalg.norm(one, axis=1) * np.linalg.norm(other, axis=1), 1e-30)
    mean, worst = float(near.mean()), float(near.min())
    return plan, Int8Result(
        passed=mean >= least,
        metric="cosine",
        before=1.0,
        after=mean,
        allowed=least,
        rows=len(rest),
        worst=worst,
        data="everyday sentences" if texts is None else "your texts",
        float_steps=len(plan.float_steps),
    )


def _select_untruncated(texts: Sequence[str], model: Model) -> list[str]:
    """Those that a model reads whole, or all where it reads none so."""
    most = model.max_length(model.pooling)
    lengths = [len(one) for one in model.tokenizer.encode_ids(texts)]
    return [text for text, length in zip(texts, lengths, strict=True) if most is None or length <= most] or list(texts)


def load_texts(rows: Any, column: str | None = None) -> list[str]:
    """A list of texts as it is, or the texts of a file or table."""
    if isinstance(rows, list | tuple) and all(isinstance(text, str) for text in rows):
        return list(rows)
    source = open_source(rows)
    found = resolve_columns(source, ColumnLayout(second_text=False), ColumnRoles(text=column), labeled=False)
    read = (check_row(row, replace(found, label=None, text_b=None, split=None)) for row in _good_rows(source))
    return [row.text for row in read if isinstance(row, TextRow)]


def _good_rows(source: Source) -> Iterator[Row]:
    for row in source.rows():
        if not isinstance(row, BadRow):
            yield row


def _describe_verdict(verdict: Int8Result) -> str:
    """What eight bits cost, in words."""
    if verdict.metric == "cosine":
        said = f"int8 vectors have a mean cosine of {verdict.after:.4f} with float (worst {verdict.worst:.4f})"
        return f"{said} on {verdict.rows:,} texts; {verdict.allowed} is asked for."
    lost = (1 if verdict.metric in ("bleu", "chrf") else 100) * abs(verdict.before - verdict.after)
    said = f"int8 loses {lost:.2f} points of {verdict.metric} ({verdict.before:.4f} to {verdict.after:.4f})"
    return f"{said} on {verdict.rows:,} rows; {verdict.allowed} may be lost."


def find_held_out_rows(folder: Path) -> tuple[str, str | None]:
    """Where the development rows of a run are: a file, and the part of it that was held out."""
    try:
        plan, _ = read_run(folder)
    except (InputError, CheckpointError):
        said = f"{folder} does not say on which rows it was trained: give some whose labels are known."
        raise InputError(said) from None
    if plan.dev is not None and Path(plan.dev).exists():
        return plan.dev, None
    if plan.dev is None and plan.train is not None and Path(plan.train).exists():
        return plan.train, "dev"
    raise InputError(f"The rows that {folder} was trained with are gone: give some whose labels are known.")


def _save_quantized(folder: Path, output: Path, plan: Int8Plan, verdict: Int8Result) -> None:
    """The folder with the plan and the verdict, whole or not at all."""
    with atomic_folder(output) as made:
        unused = shutil.ignore_patterns(*NOT_COPIED, *UNUSED_FILES, *UNUSED_FOLDERS, PLAN, ".*")
        shutil.copytree(folder, made, ignore=unused, dirs_exist_ok=True, copy_function=_copy_file)
        sentences = read_modules(made)
        inner = made if sentences is None else sentences.encoder
        write_plan(inner, plan)
        write_passport(inner, replace(_read_or_create_passport(inner), int8=verdict))


def _copy_file(source: str, target: str) -> None:
    """Copy a file; the first one that cannot be written ends the copy with one sentence."""
    with explain_write_errors(Path(target)):
        shutil.copy2(source, target)


def _read_or_create_passport(folder: Path) -> Passport:
    """The passport that is there, or the first one of a model of others."""
    known = read_passport(folder)
    if known is not None:
        return known
    from clearhead import __version__

    model = load(folder, "engine", precision="float")
    return Passport(
        clearhead=__version__,
        family=model.family.model_type,
        head=model.head,
        labels=list(model.labels) if model.has_labels else [],
        golden={} if model.source_tokenizer is None else model.source_tokenizer.golden(),
    )
