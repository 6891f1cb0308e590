"""Training of aspect-based sentiment: a tagger finds aspects, a pair classifier predicts their polarity."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clearhead.aspects.predictor import ASPECT, FIND, FORMAT, JUDGE, MODEL_ROLES, build_label_space, load_aspects
from clearhead.aspects.reviews import Review, Span, read_reviews
from clearhead.checkpoint.passport import DatasetFingerprint
from clearhead.data import Columns, Row, Source, TextRow, hash_text, split_rows
from clearhead.data.column_resolver import resolve_columns
from clearhead.data.split import sample_rows
from clearhead.errors import InputError
from clearhead.evaluate.evaluate import run_evaluate, save_evaluation_report
from clearhead.files import write_json
from clearhead.jobs.job import JobRequest, run_job
from clearhead.jobs.kinds import ASPECTS_FILE
from clearhead.jobs.machine import Compute, resolve_compute, update_compute_history
from clearhead.jobs.plan import RunPlan
from clearhead.jobs.prepare import hash_rows
from clearhead.jobs.run_file import RUN_FILE, ComputeHistory, start_run
from clearhead.jobs.run_folder import REPORT_FILE, SPLIT_FILE, check_run_folder
from clearhead.predict.predictor import Predictor
from clearhead.tasks.registry import PAIR, TAG
from clearhead.train.finish import Run, write_metrics
from clearhead.train.job import TrainJob

if TYPE_CHECKING:
    import numpy as np

    from clearhead.tasks.evaluation import Evaluation

    Array = np.ndarray[Any, Any]


class AspectJob:
    """Trains the tagger and the pair classifier. Each step sets the attributes that later steps read."""

    compute: Compute  # set by `plan`
    computed: ComputeHistory
    parts: dict[str, list[Review]]  # set by `prepare`: by source, with splits if there is only one source
    names: dict[str, str]  # of the sources
    labels: list[str]
    resolved: RunPlan  # the plan stored in run.json
    runs: dict[str, Run]  # set by `fit`: both models
    held_out: dict[str, list[Review]]  # set by `measure`
    predictor: Predictor
    evaluations: dict[str, Evaluation]

    def __init__(self, request: JobRequest[RunPlan]) -> None:
        self.request = request
        self.started_at = time.perf_counter()

    def plan(self) -> None:
        """Refuse methods that cannot tag, and resolve device and threads."""
        request, plan = self.request, self.request.plan
        if plan.method not in TAG.methods:
            raise InputError(f"aspect does not support the method {plan.method}; use one of {', '.join(TAG.methods)}.")
        self.compute = resolve_compute(plan)
        self.computed = update_compute_history(
            request.folder,
            self.compute.machine,
            resume=request.resume,
            allowed=request.allow_different_cpu,
            report_message=request.events.message,
        )
        if not request.resume:
            check_run_folder(request.folder)

    def prepare(self) -> None:
        """Read and split the reviews, and store the plan."""
        request, requested, events = self.request, self.request.plan, self.request.events
        self.resolved = plan = replace(requested, threads=self.compute.threads, settings=self.compute.settings)
        parts = {part: read_reviews(source, plan, events.message) for part, source in request.sources.items()}
        if plan.rows is not None:
            parts["train"] = _draw_reviews(parts["train"], plan)
        if len(parts) == 1 and not any(review.split for review in parts["train"]):
            parts = {"train": _split_reviews(parts["train"], plan)}
        self.parts, self.names = parts, {name: request.sources[name].name for name in parts}
        self.labels = sorted(
            {label for reviews in parts.values() for review in reviews for _, _, label in review.spans}
        )
        if len(self.labels) < 2:
            polarity = ", ".join(self.labels) or "none"
            raise InputError(f"All aspects have the polarity {polarity}; there is nothing to learn.")
        start_run(request.folder, plan, {}, request.command, self.computed, resume=request.resume)
        events.started(request.folder)

    def fit(self) -> None:
        """Train both models one after the other, each in its own run folder."""
        split = "split" if any(review.split for reviews in self.parts.values() for review in reviews) else None
        self.runs = {}
        for name, make_rows in ((FIND, _make_aspect_rows), (JUDGE, _make_pair_rows)):
            self.request.events.message(f"{name}: {MODEL_ROLES[name]}")
            sources = {part: _make_source(make_rows(reviews), self.names[part]) for part, reviews in self.parts.items()}
            self.runs[name] = _train_model(_make_model_plan(self.resolved, name, split), sources, self.request, name)

    def measure(self) -> None:
        """Evaluate both models together on held-out reviews."""
        folder = self.request.folder
        self.held_out = {part: reviews for part in ("dev", "test") if (reviews := _select_part(self.parts, part))}
        fingerprints = {
            part: asdict(_make_fingerprint(reviews, self._name(part), self.labels))
            for part, reviews in self.held_out.items()
        }
        write_json(folder / ASPECTS_FILE, {"format": FORMAT, "labels": self.labels, "data": fingerprints})
        if len(self.parts) == 1:
            row_numbers = {part: [review.number for review in reviews] for part, reviews in self.held_out.items()}
            write_json(folder / SPLIT_FILE, {"source": self.names["train"], "parts": row_numbers})
        self.predictor = load_aspects(folder, device=self.resolved.device)
        self.evaluations = {
            part: run_evaluate(self.predictor, _make_source(_make_polarity_rows(reviews), self._name(part)))
            for part, reviews in self.held_out.items()
        }

    def save(self) -> None:
        """Do nothing: both runs have saved their models, and `measure` has written the file that links them."""

    def report(self) -> Run:
        """Write the report on both models, then metrics.json, which marks the run as finished."""
        run = self._result()
        if self.request.report:
            run = replace(run, report=_write_report(self.predictor, run, self.parts, self.names, self.request.command))
        write_metrics(self.request.folder, self.evaluations, ())  # marks the run as finished
        return run

    def _name(self, part: str) -> str:
        """Return the name of a part's source."""
        return self.names.get(part, self.names["train"])

    def _result(self) -> Run:
        runs, seconds = self.runs, time.perf_counter() - self.started_at
        return Run(
            folder=self.request.folder,
            task="aspect",
            method=self.resolved.method,
            labels=tuple(self.labels),
            columns={"text": "text"},
            rows={
                part: len(reviews) for part in ("train", "dev", "test") if (reviews := _select_part(self.parts, part))
            },
            evaluations=self.evaluations,
            seeds=(),
            messages=tuple(message for run in runs.values() for message in run.messages),
            notes=(*_summarize_models(runs), *(note for run in runs.values() for note in run.notes)),
            seconds=seconds,
            cost={"seconds": round(seconds, 1)},
            machine=runs[FIND].machine,
        )


def _draw_reviews(reviews: Sequence[Review], plan: RunPlan) -> list[Review]:
    """Draw `plan.rows` of the training reviews; keep all others."""
    train = [index for index, review in enumerate(reviews) if review.split in (None, "train")]
    drawn = {train[index] for index in sample_rows(len(train), plan.rows or 0, plan.settings.seed).tolist()}
    selected = drawn | set(range(len(reviews))).difference(train)
    return [reviews[index] for index in sorted(selected)]


def _make_fingerprint(reviews: Sequence[Review], name: str, labels: Sequence[str]) -> DatasetFingerprint:
    """Compute the fingerprint of reviews, as `evaluate` does for the tag task."""
    import numpy as np

    space, columns = build_label_space(labels), Columns(text="text", label="spans")
    rows = [
        TAG.rows.check_row(Row(review.number, _make_row(review, review.spans)), columns, space) for review in reviews
    ]
    valid_rows = [row for row in rows if isinstance(row, TextRow)]
    targets = TAG.rows.encode_labels([row.label for row in valid_rows], space)
    hashes = np.array([hash_text(row.text) for row in valid_rows], np.uint64)
    return DatasetFingerprint(name=name, rows=len(valid_rows), sha256=hash_rows(hashes, targets, space))


def _summarize_models(runs: Mapping[str, Run]) -> tuple[str, ...]:
    """Summarize the metrics of each model by itself."""
    notes = []
    for name, metric in ((FIND, "f1"), (JUDGE, "accuracy")):
        interval = runs[name].metrics.get(metric)
        if interval is not None:
            subject = "aspects found, regardless of polarity" if name == FIND else "polarity of given aspects"
            notes.append(f"{subject}: {metric} {interval.value:.4f} ({interval.low:.4f} to {interval.high:.4f})")
    return tuple(notes)


def _make_model_plan(plan: RunPlan, name: str, split: str | None) -> RunPlan:
    columns: dict[str, Any] = {"text": "text", "id": None, "options": None, "separator": None, "labels": None}
    task_settings: dict[str, Any] = {
        "task": TAG.name,
        "label": "spans",
        "text_b": None,
        "metric": None,
        "pooling": None,
        "head_pooling": "auto",
    }
    if name == JUDGE:
        task_settings = {"task": PAIR.name, "label": "label", "text_b": "aspect", "metric": None}
    source_settings: dict[str, Any] = {
        "train": None,
        "dev": None,
        "test": None,
        "rows": None,
    }  # the reviews are already read and drawn
    return replace(
        plan,
        **columns,
        **task_settings,
        **source_settings,
        split=split,
        skip_bad_rows=False,
        minutes=None if plan.minutes is None else plan.minutes / 2,
        auto_method=False,
    )


def _train_model(plan: RunPlan, sources: Mapping[str, Source], request: JobRequest[RunPlan], name: str) -> Run:
    """Train one of the models, or load or resume its run."""
    folder = request.folder / name
    model_request = replace(
        request,
        plan=plan,
        sources=sources,
        folder=folder,
        resume=(folder / RUN_FILE).is_file(),
        finish=False,
        events=replace(request.events, started=lambda _: None),
    )
    return run_job(TrainJob(model_request))


def _split_reviews(reviews: Sequence[Review], plan: RunPlan) -> list[Review]:
    """Split reviews by text, so that both models get the same parts."""
    hashes = [hash_text(review.text) for review in reviews]
    parts = split_rows(None, hashes, dev=plan.dev_share, test=plan.test_share, seed=plan.settings.seed)
    return [replace(review, split=str(part)) for review, part in zip(reviews, parts, strict=True)]


def _select_part(parts: Mapping[str, Sequence[Review]], part: str) -> list[Review]:
    return [review for name, reviews in parts.items() for review in reviews if (review.split or name) == part]


def _make_aspect_rows(reviews: Sequence[Review]) -> list[dict[str, Any]]:
    return [_make_row(review, [(start, end, ASPECT) for start, end, _ in review.spans]) for review in reviews]


def _make_polarity_rows(reviews: Sequence[Review]) -> list[dict[str, Any]]:
    return [_make_row(review, review.spans) for review in reviews]


def _make_row(review: Review, spans: Sequence[Span]) -> dict[str, Any]:
    span_cells = [{"start": start, "end": end, "label": label} for start, end, label in spans]
    row: dict[str, Any] = {"text": review.text, "spans": span_cells}
    return row if review.split is None else row | {"split": review.split}


def _make_pair_rows(reviews: Sequence[Review]) -> list[dict[str, Any]]:
    rows = []
    for review in reviews:
        split = {} if review.split is None else {"split": review.split}
        rows += [
            {"text": review.text, "aspect": review.text[start:end], "label": label, **split}
            for start, end, label in review.spans
        ]
    return rows


def _make_source(rows: Sequence[dict[str, Any]], name: str) -> Source:
    columns = tuple(dict.fromkeys(key for row in rows for key in row))
    return Source(
        name=name,
        kind="list",
        columns=columns,
        open=lambda: (Row(number, dict(row)) for number, row in enumerate(rows, start=1)),
    )


def _write_report(
    predictor: Predictor, run: Run, parts: Mapping[str, Sequence[Review]], source_names: Mapping[str, str], command: str
) -> Path | None:
    """Write the report on both models together; each run also has its own."""
    part = run.measured_on
    if part is None:
        return None
    source = _make_source(
        _make_polarity_rows(_select_part(parts, part)), f"{source_names.get(part, source_names['train'])} ({part})"
    )
    evaluation: Evaluation = run.evaluations[part]
    return save_evaluation_report(
        predictor,
        source,
        evaluation,
        run.folder / REPORT_FILE,
        command,
        resolve_columns(source, TAG.rows.layout),
        {} if run.machine is None else run.machine.lines(),
    )
