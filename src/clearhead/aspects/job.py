"""Aspect sentiment from end to end: find what a review speaks of (tag), then what it thinks of it (pair)."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clearhead.aspects.predictor import ABOUT, ASPECT, FIND, FORMAT, JUDGE, aspect_space, load_aspects
from clearhead.aspects.reviews import Review, Span, reviews
from clearhead.checkpoint.passport import DatasetFingerprint
from clearhead.data import Columns, Row, Source, TextRow, hash_text, split_rows
from clearhead.data.column_resolver import resolve_columns
from clearhead.data.split import sample_rows
from clearhead.errors import InputError
from clearhead.evaluate.evaluate import run_evaluate, save_evaluation_report
from clearhead.files import write_json
from clearhead.jobs.job import JobRequest, run_job
from clearhead.jobs.kinds import ASPECTS_FILE
from clearhead.jobs.machine import Compute, resolve_compute, start_computing
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
    """Two models, one that finds aspects and one that judges them. Each step leaves what later steps read."""

    compute: Compute  # of `plan`
    computed: ComputeHistory
    parts: dict[str, list[Review]]  # of `prepare`: by source, with their split where there is one source
    names: dict[str, str]  # of the sources
    labels: list[str]
    resolved: RunPlan  # what run.json has
    runs: dict[str, Run]  # of `fit`: the finder and the judge
    held: dict[str, list[Review]]  # of `measure`
    predictor: Predictor
    evaluations: dict[str, Evaluation]

    def __init__(self, request: JobRequest[RunPlan]) -> None:
        self.request = request
        self.begun = time.perf_counter()

    def plan(self) -> None:
        """Refuse methods that cannot tag, and find out where the run computes."""
        request, asked = self.request, self.request.plan
        if asked.method not in TAG.methods:
            raise InputError(f"aspect is learned by {', '.join(TAG.methods)}, and not by {asked.method}.")
        self.compute = resolve_compute(asked)
        self.computed = start_computing(
            request.folder,
            self.compute.machine,
            resume=request.resume,
            allowed=request.allow_different_cpu,
            report_message=request.events.message,
        )
        if not request.resume:
            check_run_folder(request.folder)

    def prepare(self) -> None:
        """Reviews in their parts, and the plan as it is stored."""
        request, asked, events = self.request, self.request.plan, self.request.events
        self.resolved = plan = replace(asked, threads=self.compute.threads, settings=self.compute.settings)
        parts = {part: reviews(source, plan, events.message) for part, source in request.sources.items()}
        if plan.rows is not None:
            parts["train"] = _drawn(parts["train"], plan)
        if len(parts) == 1 and not any(review.split for review in parts["train"]):
            parts = {"train": _split(parts["train"], plan)}
        self.parts, self.names = parts, {name: request.sources[name].name for name in parts}
        self.labels = sorted({label for some in parts.values() for review in some for _, _, label in review.spans})
        if len(self.labels) < 2:
            polarity = ", ".join(self.labels) or "none"
            raise InputError(f"All aspects have the polarity {polarity}; there is nothing to learn.")
        start_run(request.folder, plan, {}, request.command, self.computed, resume=request.resume)
        events.started(request.folder)

    def fit(self) -> None:
        """Both models, one after the other, each a run of its own."""
        split = "split" if any(review.split for some in self.parts.values() for review in some) else None
        self.runs = {}
        for name, rows_of in ((FIND, _found), (JUDGE, _judged)):
            self.request.events.message(f"{name}: {ABOUT[name]}")
            own = {part: _source(rows_of(some), self.names[part]) for part, some in self.parts.items()}
            self.runs[name] = _trained(_plan_for(self.resolved, name, split), own, self.request, name)

    def measure(self) -> None:
        """Both models together on held-out reviews."""
        folder = self.request.folder
        self.held = {part: some for part in ("dev", "test") if (some := _part(self.parts, part))}
        marks = {part: asdict(_mark(some, self._name(part), self.labels)) for part, some in self.held.items()}
        write_json(folder / ASPECTS_FILE, {"format": FORMAT, "labels": self.labels, "data": marks})
        if len(self.parts) == 1:
            numbers = {part: [review.number for review in some] for part, some in self.held.items()}
            write_json(folder / SPLIT_FILE, {"source": self.names["train"], "parts": numbers})
        self.predictor = load_aspects(folder, device=self.resolved.device)
        self.evaluations = {
            part: run_evaluate(self.predictor, _source(_whole(some), self._name(part)))
            for part, some in self.held.items()
        }

    def save(self) -> None:
        """Nothing: both models are saved by their own runs, and what joins them was needed to measure."""

    def report(self) -> Run:
        """The page about both; then metrics.json says that the run is finished."""
        run = self._result()
        if self.request.report:
            run = replace(run, report=_report(self.predictor, run, self.parts, self.names, self.request.command))
        write_metrics(self.request.folder, self.evaluations, ())  # last: it is finished
        return run

    def _name(self, part: str) -> str:
        """The source that a part is from."""
        return self.names.get(part, self.names["train"])

    def _result(self) -> Run:
        runs, seconds = self.runs, time.perf_counter() - self.begun
        return Run(
            folder=self.request.folder,
            task="aspect",
            method=self.resolved.method,
            labels=tuple(self.labels),
            columns={"text": "text"},
            rows={part: len(some) for part in ("train", "dev", "test") if (some := _part(self.parts, part))},
            evaluations=self.evaluations,
            seeds=(),
            messages=tuple(said for one in runs.values() for said in one.messages),
            notes=(*_notes(runs), *(note for one in runs.values() for note in one.notes)),
            seconds=seconds,
            cost={"seconds": round(seconds, 1)},
            machine=runs[FIND].machine,
        )


def _drawn(some: Sequence[Review], plan: RunPlan) -> list[Review]:
    """As many of the reviews to train on as were asked for, and all others."""
    train = [place for place, review in enumerate(some) if review.split in (None, "train")]
    kept = {train[place] for place in sample_rows(len(train), plan.rows or 0, plan.settings.seed).tolist()}
    left = kept | set(range(len(some))).difference(train)
    return [some[place] for place in sorted(left)]


def _mark(some: Sequence[Review], name: str, labels: Sequence[str]) -> DatasetFingerprint:
    """Which reviews these are, as `evaluate` will see them."""
    import numpy as np

    space, columns = aspect_space(labels), Columns(text="text", label="spans")
    rows = [TAG.rows.check_row(Row(review.number, _row(review, review.spans)), columns, space) for review in some]
    kept = [row for row in rows if isinstance(row, TextRow)]
    targets = TAG.rows.encode_labels([row.label for row in kept], space)
    hashes = np.array([hash_text(row.text) for row in kept], np.uint64)
    return DatasetFingerprint(name=name, rows=len(kept), sha256=hash_rows(hashes, targets, space))


def _notes(runs: Mapping[str, Run]) -> tuple[str, ...]:
    """How good each of the two is by itself."""
    said = []
    for name, metric in ((FIND, "f1"), (JUDGE, "accuracy")):
        found = runs[name].metrics.get(metric)
        if found is not None:
            what = "aspects found, whatever is thought of them" if name == FIND else "polarity of given aspects"
            said.append(f"{what}: {metric} {found.value:.4f} ({found.low:.4f} to {found.high:.4f})")
    return tuple(said)


def _plan_for(plan: RunPlan, name: str, split: str | None) -> RunPlan:
    columns: dict[str, Any] = {"text": "text", "id": None, "options": None, "separator": None, "labels": None}
    own: dict[str, Any] = {
        "task": TAG.name,
        "label": "spans",
        "text_b": None,
        "metric": None,
        "pooling": None,
        "head_pooling": "auto",
    }
    if name == JUDGE:
        own = {"task": PAIR.name, "label": "label", "text_b": "aspect", "metric": None}
    given: dict[str, Any] = {"train": None, "dev": None, "test": None, "rows": None}  # reviews that are read and drawn
    return replace(
        plan,
        **columns,
        **own,
        **given,
        split=split,
        skip_bad_rows=False,
        minutes=None if plan.minutes is None else plan.minutes / 2,
        auto_method=False,
    )


def _trained(plan: RunPlan, sources: Mapping[str, Source], request: JobRequest[RunPlan], name: str) -> Run:
    """One of the two: read back, gone on with, or begun."""
    folder = request.folder / name
    own = replace(
        request,
        plan=plan,
        sources=sources,
        folder=folder,
        resume=(folder / RUN_FILE).is_file(),
        finish=False,
        events=replace(request.events, started=lambda _: None),
    )
    return run_job(TrainJob(own))


def _split(some: Sequence[Review], plan: RunPlan) -> list[Review]:
    """Parts by text, so that both models are trained on the same ones."""
    hashes = [hash_text(review.text) for review in some]
    found = split_rows(None, hashes, dev=plan.dev_share, test=plan.test_share, seed=plan.settings.seed)
    return [replace(review, split=str(part)) for review, part in zip(some, found, strict=True)]


def _part(parts: Mapping[str, Sequence[Review]], part: str) -> list[Review]:
    return [review for name, some in parts.items() for review in some if (review.split or name) == part]


def _found(some: Sequence[Review]) -> list[dict[str, Any]]:
    return [_row(review, [(a, b, ASPECT) for a, b, _ in review.spans]) for review in some]


def _whole(some: Sequence[Review]) -> list[dict[str, Any]]:
    return [_row(review, review.spans) for review in some]


def _row(review: Review, spans: Sequence[Span]) -> dict[str, Any]:
    listed = [{"start": a, "end": b, "label": label} for a, b, label in spans]
    made: dict[str, Any] = {"text": review.text, "spans": listed}
    return made if review.split is None else made | {"split": review.split}


def _judged(some: Sequence[Review]) -> list[dict[str, Any]]:
    made = []
    for review in some:
        split = {} if review.split is None else {"split": review.split}
        made += [{"text": review.text, "aspect": review.text[a:b], "label": c, **split} for a, b, c in review.spans]
    return made


def _source(rows: Sequence[dict[str, Any]], name: str) -> Source:
    columns = tuple(dict.fromkeys(key for row in rows for key in row))
    return Source(
        name=name,
        kind="list",
        columns=columns,
        open=lambda: (Row(number, dict(row)) for number, row in enumerate(rows, start=1)),
    )


def _report(
    predictor: Predictor, run: Run, parts: Mapping[str, Sequence[Review]], given: Mapping[str, str], command: str
) -> Path | None:
    """One page about both together; each of the two has its own."""
    part = run.measured_on
    if part is None:
        return None
    source = _source(_whole(_part(parts, part)), f"{given.get(part, given['train'])} ({part})")
    made: Evaluation = run.evaluations[part]
    return save_evaluation_report(
        predictor,
        source,
        made,
        run.folder / REPORT_FILE,
        command,
        resolve_columns(source, TAG.rows.layout),
        {} if run.machine is None else run.machine.lines(),
    )
