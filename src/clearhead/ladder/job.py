"""Which method? Several on the same rows, from the cheapest on, as far as the time allows."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from math import isfinite
from pathlib import Path

from clearhead.data import Row, Source
from clearhead.errors import ClearheadError, InputError
from clearhead.evaluate.difference import Asked
from clearhead.evaluate.evaluate import Scored, scored_part
from clearhead.jobs.machine import check_begun
from clearhead.jobs.plan import RunPlan
from clearhead.jobs.prepare import Look, PartRows, Prepared, look, prepare
from clearhead.jobs.progress import Told
from clearhead.jobs.run_file import RUN, read_saved
from clearhead.jobs.run_folder import REPORT
from clearhead.ladder.budget import Budget, allot
from clearhead.ladder.methods import METHODS, Rung, run_folder_name, rung_cells, spoken
from clearhead.ladder.recommend import checked_margin, compared, recommendation, untried
from clearhead.ladder.result import Ladder
from clearhead.ladder.state import Kept, begun_epochs, check_marks
from clearhead.machine.threads import limit_threads, passive_waiting
from clearhead.model.loading import load, need_torch
from clearhead.predict.latency import latency_ms, megabytes
from clearhead.predict.loading import load_predictor
from clearhead.tasks.evaluation import Evaluation, evaluation
from clearhead.tasks.task import Calibration
from clearhead.train.job import run_train

LATENCY_ROWS = 50  # real rows that single predictions are timed on
LEAST_SECONDS = 0.001  # what is quicker took no time
log = logging.getLogger("clearhead")


@dataclass(frozen=True, kw_only=True)
class Climb:
    """All that a rung needs to be trained, measured and compared."""

    sources: Mapping[str, Source]
    prepared: Prepared
    part: str  # that is measured on
    metric: str
    folder: Path
    command: str
    budget: Budget
    margin: float | None  # None: that of the metric
    missing: str | None  # why there is no model to start from
    allowed: bool  # a rung that was begun on another machine is resumed
    tell: Told

    @property
    def rows(self) -> PartRows:
        """The rows that are measured on."""
        return self.prepared.parts[self.part]


def run_ladder(
    plans: Mapping[str, RunPlan],
    sources: Mapping[str, Source],
    folder: Path,
    *,
    budget: float,
    margin: float | None = None,
    allow_different_cpu: bool = False,
    command: str = "",
    told: Told | None = None,
) -> Ladder:
    """Train and measure every method for which there is time; what was finished before is read back."""
    margin = checked_margin(margin)
    with limit_threads(next(iter(plans.values())).threads):
        return _climbed(plans, sources, folder, budget, margin, allow_different_cpu, command, told)


def _climbed(
    plans: Mapping[str, RunPlan],
    sources: Mapping[str, Source],
    folder: Path,
    budget: float,
    margin: float | None,
    allow_different_cpu: bool,
    command: str,
    told: Told | None,
) -> Ladder:
    tell, begun = told or Told(), time.perf_counter()
    state = Kept.read(folder, plans)
    for method in plans.keys() - state.finished.keys():
        for epochs in (None, *begun_epochs(folder, method)):
            own = folder / run_folder_name(method, epochs)
            if (own / RUN).is_file():
                check_begun(own, allowed=allow_different_cpu)
    plan = next(iter(plans.values()))
    seen = look(sources, plan)
    for line in (*(said for source in sources.values() for said in source.said), *seen.columns.said):
        tell.say(line)
    tell.say(f"task: {seen.task.name} ({seen.task.about})")
    prepared, missing = _prepared(seen, plans, tell)
    for line in prepared.said:
        tell.say(line)
    state.check_rows(folder, prepared)
    part = next((name for name in ("test", "dev") if name in prepared.parts), None)
    if part is None:
        raise InputError("There are too few different rows to hold any out, and so none to compare methods on.")
    climb = Climb(
        sources=sources,
        prepared=prepared,
        part=part,
        metric=plan.metric or prepared.task.metrics.main(prepared.space),
        folder=folder,
        command=command,
        missing=missing,
        allowed=allow_different_cpu,
        tell=tell,
        margin=margin,
        budget=Budget(seconds=budget, started=begun, prepared=prepared, progress=tell),
    )
    state.write(folder)
    tell.begun(folder)
    rungs: list[Rung] = []
    scored: dict[str, tuple[Calibration, Scored]] = {}
    for method in plans:
        try:
            rung, answered = _rung(climb, method, plans, state.finished)
            if answered is not None:
                scored[method] = answered
        except ClearheadError as error:
            rung = Rung(method=method, left_out=f"{method}: {error}")
        except Exception as error:  # a rung that breaks does not take the others with it
            log.exception("%s failed", method)
            rung = Rung(method=method, left_out=f"{method} failed with {type(error).__name__}: {error}")
        rungs.append(rung)
        if rung.left_out is None:
            state = replace(state, finished={**state.finished, method: rung})
            state.write(folder)
        tell.say(_said(rung, climb.metric))
    made = _finished(climb, tuple(rungs), scored)
    state.write(folder, made)
    return made


def _said(rung: Rung, metric: str) -> str:
    """A rung in one line."""
    if rung.left_out is not None:
        return f"left out: {rung.left_out}"
    name, value, between, training, latency, size = rung_cells(rung)
    again = " (read back, not trained again)" if rung.reused else ""
    interval = f" ({between})" if between else ""
    return f"{name}: {metric} {value}{interval}, trained in {training}, {latency} a text, {size}{again}"


def _rung(
    climb: Climb, method: str, plans: Mapping[str, RunPlan], finished: Mapping[str, Rung]
) -> tuple[Rung, tuple[Calibration, Scored] | None]:
    """One method trained and measured, or read back, or left out because it would take too long."""
    tell, plan, rung = climb.tell, plans[method], finished.get(method)
    if rung is not None:
        rung = replace(rung, reused=True, difference=None, folder=str(climb.folder / rung.folder_name))
    shortened = rung is not None and rung.epochs is not None
    if rung is None or (shortened and climb.missing is None):
        if METHODS[method].network and climb.missing is not None:
            raise InputError(climb.missing)
        after = list(plans)[list(plans).index(method) + 1 :]
        later = {name: plans[name] for name in after if METHODS[name].often_best and name not in finished}
        fitting, allotted = allot(climb.budget, method, plan, later)
        if rung is None or (allotted.left_out is None and allotted.epochs is None):  # there is time for all of it now
            if allotted.left_out is not None:
                return allotted, None
            rung = _trained(climb, fitting, allotted)
    predictor = load_predictor(str(rung.folder), device=plan.device)
    rows = climb.rows
    held = climb.part if rows.source is climb.sources["train"] else None
    scored = scored_part(
        predictor,
        rows.source,
        held,
        skip_bad_rows=plan.skip_bad_rows,
        told=lambda done: tell.count(f"{method}: answering", done, len(rows)),
    )
    if scored.numbers != rows.numbers.tolist():
        raise InputError(f"{method} answered other {climb.part} rows than the other methods.")
    if rung.latency_ms is None:
        wanted = set(rows.numbers[:LATENCY_ROWS].tolist())
        some = [row for row in rows.source.rows() if isinstance(row, Row) and row.number in wanted]
        rung = replace(rung, latency_ms=round(latency_ms(predictor, rows.source, rows.columns, some), 4))
    return rung, (predictor.calibration, scored)


def _trained(climb: Climb, plan: RunPlan, rung: Rung) -> Rung:
    """A method trained as it was allotted, or on from where it was stopped."""
    method, tell = rung.method, climb.tell
    begun = [epochs for epochs in begun_epochs(climb.folder, method) if epochs < (rung.planned_epochs or 0)]
    if begun:  # it was stopped, and goes on, whatever would fit by now
        rung = replace(rung, epochs=begun[-1])
    own = climb.folder / rung.folder_name
    if (estimate := climb.budget.estimates.get(method)) is not None:
        seconds = estimate.seconds if rung.epochs is None else estimate.seconds_of(rung.epochs)
        tell.say(f"{rung.name}: it will take about {spoken(seconds)}, {spoken(climb.budget.left)} are left")
    resume = (own / RUN).is_file()
    if resume:
        saved = read_saved(own).plan  # as many threads and epochs as it was begun with
        plan = replace(plan, threads=saved.threads, auto_epochs=saved.auto_epochs, settings=saved.settings)
    run = run_train(
        plan,
        climb.sources,
        own,
        command=climb.command,
        resume=resume,
        allow_different_cpu=climb.allowed,
        told=replace(tell, say=lambda _: None, begun=lambda _: None),
    )
    for note in run.notes:
        tell.say(f"{method}: {note}")
    check_marks(own, climb.prepared)
    interval = run.evaluations[climb.part].metrics[climb.metric]
    return replace(
        rung,
        folder=str(own),
        value=_known(interval.value),
        low=_known(interval.low),
        high=_known(interval.high),
        training_seconds=max(run.cost["fitting seconds"], run.cost.get("training seconds", 0.0), LEAST_SECONDS),
        size_mb=round(megabytes(own), 3),
    )


def _prepared(seen: Look, plans: Mapping[str, RunPlan], tell: Told) -> tuple[Prepared, str | None]:
    """The rows in their parts, as every rung must see them, and why there is no model where there is none."""
    with suppress(ImportError), passive_waiting():
        import sklearn.linear_model  # noqa: F401  # so that no method's time is that of an import

    plan = next((plan for method, plan in plans.items() if METHODS[method].network), None)
    if plan is None:
        return prepare(seen, next(iter(plans.values())), None, None), None
    try:
        need_torch("Training a network")
        from clearhead.training.threads import use_threads

        use_threads(plan.threads)
        model = load(plan.model, device=plan.device, head=None, progress=tell.download)
        tokenizer, most = model.tokenizer, model.max_length()
    except ClearheadError as error:
        return prepare(seen, plan, None, None), str(error)
    return prepare(seen, plan, tokenizer, min(plan.max_length or most or 0, most or plan.max_length or 0) or None), None


def _known(value: float) -> float | None:
    return float(value) if isfinite(value) else None


def _finished(climb: Climb, rungs: tuple[Rung, ...], scored: Mapping[str, tuple[Calibration, Scored]]) -> Ladder:
    """All rungs compared on the same rows, the one to take, and a page about it."""
    task, space = climb.prepared.task, climb.prepared.space
    asked = Asked(
        task=task, space=space, metric=climb.metric, part=climb.part, targets=climb.rows.targets, margin=climb.margin
    )
    answers = {method: task.decode.read(one.logits, space, reading) for method, (reading, one) in scored.items()}
    rungs = compared(rungs, answers, asked)
    method, reason = recommendation(rungs, asked)
    not_tried, caveat = untried(rungs)
    made = Ladder(
        folder=climb.folder,
        task=task.name,
        metric=climb.metric,
        part=climb.part,
        rows=len(climb.rows),
        rungs=rungs,
        margin=asked.allowed,
        recommended=method,
        reason=reason,
        not_tried=not_tried,
        caveat=caveat,
        budget_seconds=climb.budget.seconds,
        seconds=round(climb.budget.spent, 2),
    )
    reading, one = scored[method]
    found = evaluation(
        task,
        space,
        one.logits,
        one.targets,
        reading,
        slices=one.slices,
        truncated=one.truncated,
        windowed=one.windowed,
        seconds=round(one.seconds, 3),
    )
    return replace(made, report=_report(climb, made, replace(found, main=climb.metric)))


def _report(climb: Climb, made: Ladder, found: Evaluation) -> Path:
    """The comparison, then everything about the recommended method on the same rows."""
    from clearhead.report.page import ReportData, save_report

    rest = f"What follows the comparison tells of {made.recommended}; every method has a report in its own folder."
    machine = read_saved(Path(str(made.rung(made.recommended).folder))).computed.last
    data = ReportData(
        title=f"{climb.folder.name}: {made.recommended}",
        command=climb.command,
        parts={climb.part: found},
        ladder=made.to_json(),
        notes=[rest, *climb.prepared.said],
        cost={"seconds": made.seconds, "budget seconds": made.budget_seconds},
        machine={} if machine is None else machine.lines(),
    )
    return save_report(data, climb.folder / REPORT)
