"""Train and compare several methods on the same rows, from the cheapest up, within a time budget."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import isfinite

from clearhead.data import Row
from clearhead.data.sources.row_store import store_rows
from clearhead.errors import ClearheadError, InputError
from clearhead.evaluate.difference import Comparison
from clearhead.evaluate.evaluate import ScoredRows, score_part
from clearhead.jobs.job import JobRequest, run_job
from clearhead.jobs.machine import check_resumable
from clearhead.jobs.plan import RunPlan
from clearhead.jobs.profile import profile_dataset
from clearhead.jobs.run_file import RUN_FILE, read_run_file
from clearhead.ladder.budget import Budget, fit_into_budget
from clearhead.ladder.ladder_report import write_report
from clearhead.ladder.ladder_run import LadderRun
from clearhead.ladder.methods import METHODS, MethodResult, format_duration, format_result_cells, run_folder_name
from clearhead.ladder.recommend import compare_results, describe_missing_methods, recommend_method
from clearhead.ladder.result import Ladder
from clearhead.ladder.rows import prepare_rows
from clearhead.ladder.state import LadderState, check_fingerprints, find_shortened_runs
from clearhead.predict.latency import measure_disk_megabytes, measure_latency_ms
from clearhead.predict.loading import load_predictor
from clearhead.tasks.evaluation import Evaluation, evaluate_logits
from clearhead.tasks.task import Calibration
from clearhead.train.job import TrainJob

LATENCY_ROWS = 50  # rows for the latency of single predictions
MIN_SECONDS = 0.001  # shorter training times are not measurable
log = logging.getLogger("clearhead")


@dataclass(frozen=True, kw_only=True)
class LadderPlan:
    """Methods to train, the time budget, and the margin of the recommendation."""

    methods: Mapping[str, RunPlan]
    budget: float  # seconds
    margin: float | None = None  # None: that of the metric

    @property
    def threads(self) -> int | None:
        """Thread count, the same for all methods."""
        return next(iter(self.methods.values())).threads


class LadderJob:
    """A job that trains several methods on the same rows, each in its own run folder.

    Each step sets attributes that later steps read.
    """

    state: LadderState  # set by `plan`
    run: LadderRun  # set by `prepare`
    rungs: tuple[MethodResult, ...]  # set by `fit`
    scores: dict[str, tuple[Calibration, ScoredRows]]
    ladder: Ladder  # set by `measure`

    def __init__(self, request: JobRequest[LadderPlan]) -> None:
        self.request = request
        self.started_at = time.perf_counter()

    def plan(self) -> None:
        """Read existing results; raise an error if settings differ or an unfinished run started on another CPU."""
        plans, folder = self.request.plan.methods, self.request.folder
        self.state = LadderState.read(folder, plans)
        for method in plans.keys() - self.state.finished.keys():
            for epochs in (None, *find_shortened_runs(folder, method)):
                run_folder = folder / run_folder_name(method, epochs)
                if (run_folder / RUN_FILE).is_file():
                    check_resumable(run_folder, allowed=self.request.allow_different_cpu)

    def prepare(self) -> None:
        """Prepare the rows and their parts, the same for all methods."""
        request, folder, events = self.request, self.request.folder, self.request.events
        plans = request.plan.methods
        plan = next(iter(plans.values()))
        sources = {part: store_rows(source) for part, source in request.sources.items()}
        profile = profile_dataset(sources, plan)
        for line in (
            *(message for source in sources.values() for message in source.messages),
            *profile.columns.messages,
        ):
            events.message(line)
        events.message(f"task: {profile.task.name} ({profile.task.description})")
        prepared, missing = prepare_rows(profile, plans, events)
        for line in prepared.messages:
            events.message(line)
        self.state.check_rows(folder, prepared)
        part = next((name for name in ("test", "dev") if name in prepared.parts), None)
        if part is None:
            raise InputError("There are too few distinct rows to hold out a part for the comparison.")
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
        """Train and score each method that fits into the budget."""
        ladder_run, plans = self.run, self.request.plan.methods
        results: list[MethodResult] = []
        self.scores = {}
        for method in plans:
            try:
                result, method_scores = _measure_method(ladder_run, method, plans, self.state.finished)
                if method_scores is not None:
                    self.scores[method] = method_scores
            except ClearheadError as error:
                result = MethodResult(method=method, left_out=f"{method}: {error}")
            except Exception as error:  # a failing method does not stop the others
                log.exception("%s failed", method)
                result = MethodResult(method=method, left_out=f"{method} failed with {type(error).__name__}: {error}")
            results.append(result)
            if result.left_out is None:
                self.state = replace(self.state, finished={**self.state.finished, method: result})
                self.state.write(ladder_run.folder)
            ladder_run.events.message(_describe_result(result, ladder_run.metric))
        self.rungs = tuple(results)

    def measure(self) -> None:
        """Compare all methods on the same rows, and recommend one."""
        ladder_run, task, space = self.run, self.run.prepared.task, self.run.prepared.space
        targets = ladder_run.rows.targets
        comparison = Comparison(
            task=task,
            space=space,
            metric=ladder_run.metric,
            part=ladder_run.part,
            targets=targets,
            margin=ladder_run.margin,
        )
        answers = {
            method: task.decoding.decode(scored_rows.logits, space, calibration)
            for method, (calibration, scored_rows) in self.scores.items()
        }
        results = compare_results(self.rungs, answers, comparison)
        method, reason = recommend_method(results, comparison)
        not_tried, caveat = describe_missing_methods(results)
        self.ladder = Ladder(
            folder=ladder_run.folder,
            task=task.name,
            metric=ladder_run.metric,
            part=ladder_run.part,
            rows=len(ladder_run.rows),
            rungs=results,
            margin=comparison.allowed_margin,
            recommended=method,
            reason=reason,
            not_tried=not_tried,
            caveat=caveat,
            budget_seconds=ladder_run.budget.seconds,
            seconds=round(ladder_run.budget.elapsed_seconds, 2),
        )

    def save(self) -> None:
        """Nothing to save here: methods have their own folders, and `report` writes ladder.json."""

    def report(self) -> Ladder:
        """Write the report, then ladder.json with the comparison."""
        ladder = replace(self.ladder, report=write_report(self.run, self.ladder, self._evaluate_recommended()))
        self.state.write(self.run.folder, ladder)
        return ladder

    def _evaluate_recommended(self) -> Evaluation:
        """Evaluate the recommended method."""
        ladder_run = self.run
        calibration, scored_rows = self.scores[self.ladder.recommended]
        evaluation = evaluate_logits(
            ladder_run.prepared.task,
            ladder_run.prepared.space,
            scored_rows.logits,
            scored_rows.targets,
            calibration,
            slices=scored_rows.slices,
            truncated=scored_rows.truncated,
            windowed=scored_rows.windowed,
            seconds=round(scored_rows.seconds, 3),
        )
        return replace(evaluation, main=ladder_run.metric)


def _describe_result(result: MethodResult, metric: str) -> str:
    """Describe the result of a method in one line."""
    if result.left_out is not None:
        return f"omitted: {result.left_out}"
    name, value, bounds, training, latency, size = format_result_cells(result)
    reuse_note = " (reused, not trained again)" if result.reused else ""
    interval = f" ({bounds})" if bounds else ""
    return f"{name}: {metric} {value}{interval}, trained in {training}, {latency} per text, {size}{reuse_note}"


def _measure_method(
    ladder_run: LadderRun, method: str, plans: Mapping[str, RunPlan], finished: Mapping[str, MethodResult]
) -> tuple[MethodResult, tuple[Calibration, ScoredRows] | None]:
    """Train and measure a method, reuse its earlier result, or leave it out for lack of time."""
    events, plan, result = ladder_run.events, plans[method], finished.get(method)
    if result is not None:
        result = replace(result, reused=True, difference=None, folder=str(ladder_run.folder / result.folder_name))
    is_shortened = result is not None and result.epochs is not None
    if result is None or (is_shortened and ladder_run.missing_model_reason is None):
        if METHODS[method].uses_network and ladder_run.missing_model_reason is not None:
            raise InputError(ladder_run.missing_model_reason)
        following_methods = list(plans)[list(plans).index(method) + 1 :]
        later_plans = {
            name: plans[name] for name in following_methods if METHODS[name].is_often_best and name not in finished
        }
        fitted_plan, fitted_result = fit_into_budget(ladder_run.budget, method, plan, later_plans)
        if result is None or (fitted_result.left_out is None and fitted_result.epochs is None):  # now all epochs fit
            if fitted_result.left_out is not None:
                return fitted_result, None
            result = _train_method(ladder_run, fitted_plan, fitted_result)
    predictor = load_predictor(str(result.folder), device=plan.device)
    rows = ladder_run.rows
    held_out_part = ladder_run.part if rows.source is ladder_run.sources["train"] else None
    scored_rows = score_part(
        predictor,
        rows.source,
        held_out_part,
        skip_bad_rows=plan.skip_bad_rows,
        progress=lambda _, done, __: events.progress(f"{method}: predicting", done, len(rows)),
    )
    if scored_rows.row_numbers != rows.row_numbers.tolist():
        raise InputError(f"{method} was scored on different {ladder_run.part} rows than the other methods.")
    if result.latency_ms is None:
        row_numbers = set(rows.row_numbers[:LATENCY_ROWS].tolist())
        latency_rows = [row for row in rows.source.rows() if isinstance(row, Row) and row.number in row_numbers]
        result = replace(
            result, latency_ms=round(measure_latency_ms(predictor, rows.source, rows.columns, latency_rows), 4)
        )
    return result, (predictor.calibration, scored_rows)


def _train_method(ladder_run: LadderRun, plan: RunPlan, result: MethodResult) -> MethodResult:
    """Train a method within its share of the budget, or resume an interrupted training."""
    method, events = result.method, ladder_run.events
    unfinished_epochs = [
        epochs for epochs in find_shortened_runs(ladder_run.folder, method) if epochs < (result.planned_epochs or 0)
    ]
    if unfinished_epochs:  # resume with the same number of epochs, even if more would fit now
        result = replace(result, epochs=unfinished_epochs[-1])
    run_folder = ladder_run.folder / result.folder_name
    if (estimate := ladder_run.budget.estimates.get(method)) is not None:
        seconds = estimate.seconds if result.epochs is None else estimate.seconds_of(result.epochs)
        events.message(
            f"{result.name}: estimated training time {format_duration(seconds)}, "
            f"{format_duration(ladder_run.budget.seconds_left)} left in the budget"
        )
    is_resumed = (run_folder / RUN_FILE).is_file()
    if is_resumed:
        saved_plan = read_run_file(run_folder).plan  # keep the threads and epochs of the interrupted run
        plan = replace(
            plan, threads=saved_plan.threads, auto_epochs=saved_plan.auto_epochs, settings=saved_plan.settings
        )
    request = JobRequest(
        plan=plan,
        sources=ladder_run.sources,
        folder=run_folder,
        command=ladder_run.command,
        resume=is_resumed,
        allow_different_cpu=ladder_run.allow_different_cpu,
        events=replace(events, message=lambda _: None, started=lambda _: None),
    )
    run = run_job(TrainJob(request))
    for note in run.notes:
        events.message(f"{method}: {note}")
    check_fingerprints(run_folder, ladder_run.prepared)
    interval = run.evaluations[ladder_run.part].metrics[ladder_run.metric]
    return replace(
        result,
        folder=str(run_folder),
        value=_finite_or_none(interval.value),
        low=_finite_or_none(interval.low),
        high=_finite_or_none(interval.high),
        training_seconds=max(run.cost["fitting seconds"], run.cost.get("training seconds", 0.0), MIN_SECONDS),
        size_mb=round(measure_disk_megabytes(run_folder), 3),
    )


def _finite_or_none(value: float) -> float | None:
    return float(value) if isfinite(value) else None
