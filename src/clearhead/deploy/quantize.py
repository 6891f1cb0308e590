"""Quantize a model to int8, compare it with float on the same rows, and save it only if it is good enough."""

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

MAX_DROP = 0.5  # points of the metric
CALIBRATION_ROWS = 64  # rows of the user for calibration
MIN_COSINE = 0.995  # mean over texts
NOT_COPIED = ("*.bin", "*.h5", "*.msgpack", "*.ot", "*.onnx", "*.onnx.data", "*.gguf", "*.pt", "*.pth")


@dataclass(frozen=True, kw_only=True)
class Quantized:
    """A saved int8 model, and its loss of quality."""

    folder: Path
    verdict: Int8Result
    seconds: float

    def __repr__(self) -> str:
        verdict = self.verdict
        cost = (
            f"{verdict.metric} {verdict.before:.4f} in float and {verdict.after:.4f} in int8 on {verdict.rows:,} rows"
        )
        return short_repr("Quantized", cost, f"folder {self.folder}")

    def to_json(self) -> dict[str, Any]:
        """Return JSON-compatible values."""
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
    """Calibrate an int8 model, compare it with float, and save it if it is good enough."""
    if not max_drop >= 0 or not 0 <= min_cosine <= 1:
        raise InputError(f"max_drop must be >= 0 and min_cosine between 0 and 1, got {max_drop} and {min_cosine}.")
    check_output_folder(output)
    start = time.perf_counter()
    folder, column_names = locate(reference).folder, columns or {}
    if isinstance(rows, Source) and kind_of(folder) in TRANSLATION_KINDS:
        pair_columns = column_names.get("source"), column_names.get("target")
        plan, verdict = calibrate_on_translations(reference, rows, max_drop, part, pair_columns, progress)
    elif isinstance(rows, Source):
        plan, verdict = _calibrate_on_rows(reference, rows, max_drop, part, column_names, progress)
    else:
        plan, verdict = _calibrate_on_texts(reference, rows, min_cosine, progress)
    if not verdict.passed:
        raise QualityError(f"{_describe_verdict(verdict)} No files were written.")
    _save_quantized(folder, output, plan, verdict)
    return Quantized(folder=output, verdict=verdict, seconds=time.perf_counter() - start)


def _calibrate_on_rows(
    reference: str,
    rows: Source,
    max_drop: float,
    part: str | None,
    columns: Mapping[str, str | None],
    progress: Progress,
) -> tuple[Int8Plan, Int8Result]:
    """Calibrate a trained model, and compare its metric on labeled rows."""
    if not rows.is_rereadable:
        raise InputError(f"{rows.name} can be read only once; save it to a file first.")
    float_predictor = load_predictor(reference, precision="float")
    scorer = float_predictor.scorer
    if not isinstance(scorer, NetworkScorer | FeatureScorer):
        raise InputError(f"{reference} has no network to quantize: its method is {float_predictor.method}.")
    token_ids = _encode_calibration_rows(float_predictor, rows)
    weights = scorer.model.runner.weights()
    plan = calibrate_int8(scorer.model.shape, weights, token_ids, progress)
    int8_predictor = replace(float_predictor, scorer=replace(scorer, model=quantize_model(scorer.model, plan)))
    evaluations = {}
    for name, predictor in (("float", float_predictor), ("int8", int8_predictor)):
        evaluations[name] = run_evaluate(
            predictor,
            rows,
            part=part,
            progress=for_stage(progress, f"measuring {name}"),
            text=columns.get("text"),
            text_b=columns.get("text_b"),
            label=columns.get("label"),
            options=columns.get("options"),
        )
    metric = evaluations["float"].main
    before, after = (float(evaluations[name].metrics[metric].value) for name in ("float", "int8"))
    drop = 100 * (after - before if metric in LOWER_IS_BETTER else before - after)
    return plan, Int8Result(
        passed=bool(drop <= max_drop + 1e-9),
        metric=metric,
        before=before,
        after=after,
        allowed=max_drop,
        rows=evaluations["float"].rows,
        data=rows.name,
        float_steps=len(plan.float_steps),
    )


def _encode_calibration_rows(predictor: Predictor, rows: Source) -> list[Sequence[int]]:
    """Encode calibration rows as the model reads them, followed by built-in sentences."""
    scorer: Any = predictor.scorer
    columns = replace(predictor.resolve_columns(rows), label=None, split=None)
    check_row = predictor.task.rows.check_row
    checked_rows = [
        check_row(row, columns, None) for row in rows.sample(4 * CALIBRATION_ROWS) if not isinstance(row, BadRow)
    ]
    text_rows = [row for row in checked_rows if isinstance(row, TextRow)][:CALIBRATION_ROWS]
    if not text_rows:
        raise InputError(f"{rows.name} contains no valid rows.")
    table = encode_rows(
        text_rows, columns, scorer.model.tokenizer, policy=scorer.length_policy, codec=predictor.task.rows
    )
    windows = [table.window_ids(window).tolist() for window in range(len(table.starts) - 1)][:CALIBRATION_ROWS]
    # built-in sentences cover channels that have small activations in these rows
    return [*windows, *(encoding.ids for encoding in scorer.model.tokenizer.encode_ids(SENTENCES))]


def _calibrate_on_texts(
    reference: str, texts: Sequence[str] | None, min_cosine: float, progress: Progress
) -> tuple[Int8Plan, Int8Result]:
    """Calibrate an encoder, and compare its vectors on other texts if there are enough."""
    import numpy as np

    model = load(reference, "engine", precision="float")
    if model.trained is not None or (model.shape.head is not None and model.has_labels):
        raise InputError(f"{reference} predicts labels; provide labeled rows to measure the loss.")
    calibration_texts, measured_texts = [], _select_untruncated(OTHERS, model)
    if texts is not None:
        nonempty_texts = [text for text in texts if text]
        if not nonempty_texts:
            raise InputError("There are no texts to measure on.")
        cut = CALIBRATION_ROWS if len(nonempty_texts) >= 2 * CALIBRATION_ROWS else len(nonempty_texts) // 2
        calibration_texts, measured_texts = nonempty_texts[: max(cut, 1)], nonempty_texts[cut:]
    tokens = [float_vectors.ids for float_vectors in model.tokenizer.encode_ids([*calibration_texts, *SENTENCES])]
    plan = calibrate_int8(model.shape, model.runner.weights(), tokens, progress)
    int8_model = quantize_model(model, plan)
    float_vectors, int8_vectors = (
        candidate.embed(measured_texts, progress=partial(progress, f"measuring {name}")).astype(np.float64)
        for name, candidate in (("float", model), ("int8", int8_model))
    )
    cosines = (float_vectors * int8_vectors).sum(1) / np.maximum(
        np.linalg.norm(float_vectors, axis=1) * np.linalg.norm(int8_vectors, axis=1), 1e-30
    )
    mean, worst = float(cosines.mean()), float(cosines.min())
    return plan, Int8Result(
        passed=mean >= min_cosine,
        metric="cosine",
        before=1.0,
        after=mean,
        allowed=min_cosine,
        rows=len(measured_texts),
        worst=worst,
        data="everyday sentences" if texts is None else "your texts",
        float_steps=len(plan.float_steps),
    )


def _select_untruncated(texts: Sequence[str], model: Model) -> list[str]:
    """Return texts that fit into the model without truncation, or all if none fit."""
    max_length = model.max_length(model.pooling)
    lengths = [len(token_ids) for token_ids in model.tokenizer.encode_ids(texts)]
    return [
        text for text, length in zip(texts, lengths, strict=True) if max_length is None or length <= max_length
    ] or list(texts)


def load_texts(rows: Any, column: str | None = None) -> list[str]:
    """Return a list of texts unchanged, or read the texts of a file or table."""
    if isinstance(rows, list | tuple) and all(isinstance(text, str) for text in rows):
        return list(rows)
    source = open_source(rows)
    columns = resolve_columns(source, ColumnLayout(second_text=False), ColumnRoles(text=column), labeled=False)
    checked_rows = (check_row(row, replace(columns, label=None, text_b=None, split=None)) for row in _good_rows(source))
    return [row.text for row in checked_rows if isinstance(row, TextRow)]


def _good_rows(source: Source) -> Iterator[Row]:
    for row in source.rows():
        if not isinstance(row, BadRow):
            yield row


def _describe_verdict(verdict: Int8Result) -> str:
    """Describe the loss of quality in one sentence."""
    if verdict.metric == "cosine":
        loss = f"int8 vectors have a mean cosine of {verdict.after:.4f} with float (worst {verdict.worst:.4f})"
        return f"{loss} on {verdict.rows:,} texts; at least {verdict.allowed} is required."
    drop = (1 if verdict.metric in ("bleu", "chrf") else 100) * abs(verdict.before - verdict.after)
    loss = f"int8 loses {drop:.2f} points of {verdict.metric} ({verdict.before:.4f} to {verdict.after:.4f})"
    return f"{loss} on {verdict.rows:,} rows; at most {verdict.allowed} is allowed."


def find_held_out_rows(folder: Path) -> tuple[str, str | None]:
    """Return the file with the held-out rows of a run, and the part to use (None: the whole file)."""
    try:
        plan, _ = read_run(folder)
    except (InputError, CheckpointError):
        message = f"{folder} does not record its training data; provide labeled rows."
        raise InputError(message) from None
    if plan.dev is not None and Path(plan.dev).exists():
        return plan.dev, None
    if plan.dev is None and plan.train is not None and Path(plan.train).exists():
        return plan.train, "dev"
    raise InputError(f"The training data of {folder} no longer exists; provide labeled rows.")


def _save_quantized(folder: Path, output: Path, plan: Int8Plan, verdict: Int8Result) -> None:
    """Copy the model folder and add the int8 plan and the comparison, atomically."""
    with atomic_folder(output) as work_folder:
        unused = shutil.ignore_patterns(*NOT_COPIED, *UNUSED_FILES, *UNUSED_FOLDERS, PLAN, ".*")
        shutil.copytree(folder, work_folder, ignore=unused, dirs_exist_ok=True, copy_function=_copy_file)
        sentences = read_modules(work_folder)
        model_folder = work_folder if sentences is None else sentences.encoder
        write_plan(model_folder, plan)
        write_passport(model_folder, replace(_read_or_create_passport(model_folder), int8=verdict))


def _copy_file(source: str, target: str) -> None:
    """Copy a file; explain write errors, which end the copy."""
    with explain_write_errors(Path(target)):
        shutil.copy2(source, target)


def _read_or_create_passport(folder: Path) -> Passport:
    """Return the passport of a folder, or create one for a model without."""
    passport = read_passport(folder)
    if passport is not None:
        return passport
    from clearhead import __version__

    model = load(folder, "engine", precision="float")
    return Passport(
        clearhead=__version__,
        family=model.family.model_type,
        head=model.head,
        labels=list(model.labels) if model.has_labels else [],
        golden={} if model.source_tokenizer is None else model.source_tokenizer.golden(),
    )
