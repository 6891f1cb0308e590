"""Which method? Several on the same rows, from the cheapest on, as far as the time allows."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import isfinite
from pathlib import Path

from clearhead.data import Row, Source
from clearhead.data.sources.row_store import store_rows
from clearhead.errors import ClearheadError, InputError
from clearhead.evaluate.difference import Comparison
from clearhead.evaluate.evaluate import ScoredRows, score_part
from clearhead.jobs.events import RunEvents
from clearhead.jobs.job import JobRequest, run_job
from clearhead.jobs.machine import check_resumable
from clearhead.jobs.plan import RunPlan
from clearhead.jobs.prepare import PartRows, PreparedData
from clearhead.jobs.profile import profile_dataset
from clearhead.jobs.run_file import RUN_FILE, read_run_file
from clearhead.jobs.run_folder import REPORT_FILE
from clearhead.ladder.budget import Budget, fit_into_budget
from clearhead.ladder.methods import METHODS, MethodResult, format_duration, format_result_cells, run_folder_name
from clearhead.ladder.recommend import compare_results, describe_missing_methods, recommend_method
from clearhead.ladder.result import Ladder
from clearhead.ladder.rows import prepare_rows
from clearhead.ladder.state import LadderState, check_fingerprints, find_shortened_runs
from clearhead.predict.latency import measure_disk_megabytes, measure_latency_ms
from clearhead.predict.loading import load_predictor
from clearhead.report.page import ReportData, save_report
from clearhead.tasks.evaluation import Evaluation, evaluate_logits
from clearhead.tasks.task import Calibration
from clearhead.train.job import TrainJob

LATENCY_ROWS = 50  # real rows that single predictions are timed on
MIN_SECONDS = 0.001  # what is quicker took no time
log = logging.getLogger("clearhead")


@dataclass(frozen=True, kw_only=True)
class LadderRun:
    """All that a rung needs to be trained, measured and compared."""

    sources: Mapping[str, Source]
    prepared: PreparedData
    part: str  # that is measured on
    metric: str
    folder: Path
    command: str
    budget: Budget
    margin: float | None  # None: that of the metric
    missing_model_reason: str | None  # why there is no model to start from
    allow_different_cpu: bool  # a rung that was begun on another machine is resumed
    events: RunEvents

    @property
    def rows(self) -> PartRows:
        """The rows that are measured on."""
        return self.prepared.parts[self.part]


@dataclass(frozen=True, kw_only=True)
class LadderPlan:
    """Which methods are trained, and how the best of them is chosen."""

    methods: Mapping[str, RunPlan]
    budget: float  # seconds
    margin: float | None = None  # None: that of the metric

    @property
    def threads(self) -> int | None:
        """All methods have as many."""
        return next(iter(self.methods.values())).threads


class LadderJob:
    """Several methods on the same rows, each a run of its own. Each step leaves what later steps read."""

    state: LadderState  # of `plan`
    run: LadderRun  # of `prepare`
    rungs: tuple[MethodResult, ...]  # of `fit`
    scores: dict[str, tuple[Calibration, ScoredRows]]
    ladder: Ladder  # of `measure`

    def __init__(self, request: JobRequest[LadderPlan]) -> None:
        self.request = request
        self.started_at = time.perf_counter()

    def plan(self) -> None:
        """What is there already, which must have been asked for in the same way and begun on such a machine."""
        plans, folder = self.request.plan.methods, self.request.folder
        self.state = LadderState.read(folder, plans)
        for method in plans.keys() - self.state.finished.keys():
            for epochs in (None, *find_shortened_runs(folder, method)):
                own = folder / run_folder_name(method, epochs)
                if (own / RUN_FILE).is_file():
                    check_resumable(own, allowed=self.request.allow_different_cpu)

    def prepare(self) -> None:
        """Rows in the parts that every method sees."""
        request, folder, events = self.request, self.request.folder, self.request.events
        plans = request.plan.methods
        plan = next(iter(plans.values()))
        sources = {part: store_rows(source) for part, source in request.sources.items()}
        profile = profile_dataset(sources, plan)
        for line in (*(said for source in sources.values() for said in source.messages), *profile.columns.messages):
            events.message(line)
        events.message(f"task: {profile.task.name} ({profile.task.description})")
        prepared, missing = prepare_rows(profile, plans, events)
        for line in prepared.messages:
            events.message(line)
        self.state.check_rows(folder, prepared)
        part = next((name for name in ("test", "dev") if name in prepared.parts), None)
        if part is None:
            raise InputError("There are too few different rows to hold any out, and so none to compare methods on.")
        self.run = LadderRun(
            sources=sources,
            prepared=prepared,
            part=part,
            metric=plan.metric or prepared.task.metrics.main(prepared.space),
            folder=folder,
            command=request.command,
            missing_model_reason=missing,
            allow_different_cpu=request.allow_different_cpu,
            events=events,
            margin=request.plan.margin,
            budget=Budget(seconds=request.plan.budget, started_at=self.started_at, prepared=prepared, events=events),
        )
        self.state.write(folder)
        events.started(folder)

    def fit(self) -> None:
        """Every method for which there is time, each trained and its answers scored."""
        climb, plans = self.run, self.request.plan.methods
        rungs: list[MethodResult] = []
        self.scores = {}
        for method in plans:
            try:
                rung, answered = _measure_method(climb, method, plans, self.state.finished)
                if answered is not None:
                    self.scores[method] = answered
            except ClearheadError as error:
                rung = MethodResult(method=method, left_out=f"{method}: {error}")
            except Exception as error:  # a rung that breaks does not take the others with it
                log.exception("%s failed", method)
                rung = MethodResult(method=method, left_out=f"{method} failed with {type(error).__name__}: {error}")
            rungs.append(rung)
            if rung.left_out is None:
                self.state = replace(self.state, finished={**self.state.finished, method: rung})
                self.state.write(climb.folder)
            climb.events.message(_describe_result(rung, climb.metric))
        self.rungs = tuple(rungs)

    def measure(self) -> None:
        """All methods compared on the same rows, and the one to take."""
        climb, task, space = self.run, self.run.prepared.task, self.run.prepared.space
        targets = climb.rows.targets
        asked = Comparison(
            task=task, space=space, metric=climb.metric, part=climb.part, targets=targets, margin=climb.margin
        )
        answers = {
            method: task.decoding.decode(one.logits, space, reading) for method, (reading, one) in self.scores.items()
        }
        rungs = compare_results(self.rungs, answers, asked)
        method, reason = recommend_method(rungs, asked)
        not_tried, caveat = describe_missing_methods(rungs)
        self.ladder = Ladder(
            folder=climb.folder,
            task=task.name,
            metric=climb.metric,
            part=climb.part,
            rows=len(climb.rows),
            rungs=rungs,
            margin=asked.allowed_margin,
            recommended=method,
            reason=reason,
            not_tried=not_tried,
            caveat=caveat,
            budget_seconds=climb.budget.seconds,
            seconds=round(climb.budget.elapsed_seconds, 2),
        )

    def save(self) -> None:
        """Nothing: every method is in a folder of its own, and ladder.json comes after the report."""

    def report(self) -> Ladder:
        """The page about all methods; then ladder.json has the comparison."""
        made = replace(self.ladder, report=_write_report(self.run, self.ladder, self._evaluate_recommended()))
        self.state.write(self.run.folder, made)
        return made

    def _evaluate_recommended(self) -> Evaluation:
        """How good the recommended method is."""
        climb = self.run
        reading, one = self.scores[self.ladder.recommended]
        found = evaluate_logits(
            climb.prepared.task,
            climb.prepared.space,
            one.logits,
            one.targets,
            reading,
            slices=one.slices,
            truncated=one.truncated,
            windowed=one.windowed,
            seconds=round(one.seconds, 3),
        )
        return replace(found, main=climb.metric)


def _describe_result(rung: MethodResult, metric: str) -> str:
    """A rung in one line."""
    if rung.left_out is not None:
        return f"left out: {rung.left_out}"
    name, value, between, training, latency, size = format_result_cells(rung)
    again = " (read back, not trained again)" if rung.reused else ""
    interval = f" ({between})" if between else ""
    return f"{name}: {metric} {value}{interval}, trained in {training}, {latency} a text, {size}{again}"


def _measure_method(
    climb: LadderRun, method: str, plans: Mapping[str, RunPlan], finished: Mapping[str, MethodResult]
) -> tuple[MethodResult, tuple[Calibration, ScoredRows] | None]:
    """One method trained and measured, or read back, or left out because it would take too long."""
    events, plan, rung = climb.events, plans[method], finished.get(method)
    if rung is not None:
        rung = replace(rung, reused=True, difference=None, folder=str(climb.folder / rung.folder_name))
    shortened = rung is not None and rung.epochs is not None
    if rung is None or (shortened and climb.missing_model_reason is None):
        if METHODS[method].uses_network and climb.missing_model_reason is not None:
            raise InputError(climb.missing_model_reason)
        after = list(plans)[list(plans).index(method) + 1 :]
        later = {name: plans[name] for name in after if METHODS[name].is_often_best and name not in finished}
        fitting, allotted = fit_into_budget(climb.budget, method, plan, later)
        if rung is None or (allotted.left_out is None and allotted.epochs is None):  # there is time for all of it now
            if allotted.left_out is not None:
                return allotted, None
            rung = _train_method(climb, fitting, allotted)
    predictor = load_predictor(str(rung.folder), device=plan.device)
    rows = climb.rows
    held = climb.part if rows.source is climb.sources["train"] else None
    scored = score_part(
        predictor,
        rows.source,
        held,
        skip_bad_rows=plan.skip_bad_rows,
        progress=lambda _, done, __: events.progress(f"{method}: answering", done, len(rows)),
    )
    if scored.row_numbers != rows.row_numbers.tolist():
        raise InputError(f"{method} answered other {climb.part} rows than the other methods.")
    if rung.latency_ms is None:
        wanted = set(rows.row_numbers[:LATENCY_ROWS].tolist())
        some = [row for row in rows.source.rows() if isinstance(row, Row) and row.number in wanted]
        rung = replace(rung, latency_ms=round(measure_latency_ms(predictor, rows.source, rows.columns, some), 4))
    return rung, (predictor.calibration, scored)


def _train_method(climb: LadderRun, plan: RunPlan, rung: MethodResult) -> MethodResult:
    """A method trained as it was allotted, or on from where it was stopped."""
    method, events = rung.method, climb.events
    begun = [epochs for epochs in find_shortened_runs(climb.folder, method) if epochs < (rung.planned_epochs or 0)]
    if begun:  # it was stopped, and goes on, whatever would fit by now
        rung = replace(rung, epochs=begun[-1])
    own = climb.folder / rung.folder_name
    if (estimate := climb.budget.estimates.get(method)) is not None:
        seconds = estimate.seconds if rung.epochs is None else estimate.seconds_of(rung.epochs)
        events.message(
            f"{rung.name}: it will take about {format_duration(seconds)}, "
            f"{format_duration(climb.budget.seconds_left)} are left"
        )
    resume = (own / RUN_FILE).is_file()
    if resume:
        saved = read_run_file(own).plan  # as many threads and epochs as it was begun with
        plan = replace(plan, threads=saved.threads, auto_epochs=saved.auto_epochs, settings=saved.settings)
    request = JobRequest(
        plan=plan,
        sources=climb.sources,
        folder=own,
        command=climb.command,
        resume=resume,
        allow_different_cpu=climb.allow_different_cpu,
        events=replace(events, message=lambda _: None, started=lambda _: None),
    )
    run = run_job(TrainJob(request))
    for note in run.notes:
        events.message(f"{method}: {note}")
    check_fingerprints(own, climb.prepared)
    interval = run.evaluations[climb.part].metrics[climb.metric]
    return replace(
        rung,
        folder=str(own),
        value=_finite_or_none(interval.value),
        low=_finite_or_none(interval.low),
        high=_finite_or_none(interval.high),
        training_seconds=max(run.cost["fitting seconds"], run.cost.get("training seconds", 0.0), MIN_SECONDS),
        size_mb=round(measure_disk_megabytes(own), 3),
    )


def _finite_or_none(value: float) -> float | None:
    return float(value) if isfinite(value) else None


def _write_report(climb: LadderRun, made: Ladder, found: Evaluation) -> Path:
    """The comparison, then everything about the recommended method on the same rows."""

    rest = f"What follows the comparison tells of {made.recommended}; every method has a report in its own folder."
    machine = read_run_file(Path(str(made.rung(made.recommended).folder))).compute_history.latest
    data = ReportData(
        title=f"{climb.folder.name}: {made.recommended}",
        command=climb.command,
        parts={climb.part: found},
        ladder=made.to_json(),
        notes=[rest, *climb.prepared.messages],
        cost={"seconds": made.seconds, "budget seconds": made.budget_seconds},
        machine={} if machine is None else machine.lines(),
    )
    return save_report(data, climb.folder / REPORT_FILE)
