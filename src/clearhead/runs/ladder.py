"""Which method? All of them on the same rows, from the cheapest on, as far as the time allows."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from html import escape
from math import isfinite
from pathlib import Path
from typing import Any

from clearhead.data import Row, Source
from clearhead.errors import ClearheadError, InputError
from clearhead.loading import load, need_torch
from clearhead.runs.evaluate import Scored, scored_part
from clearhead.runs.finish import REPORT
from clearhead.runs.kept import Kept, check_marks
from clearhead.runs.latency import latency_ms, megabytes
from clearhead.runs.machines import check_begun
from clearhead.runs.plan import RunPlan
from clearhead.runs.predictor import load_predictor
from clearhead.runs.prepare import Look, PartRows, Prepared, look, prepare
from clearhead.runs.recommend import Asked, compared, recommendation
from clearhead.runs.run_file import RUN, read_saved
from clearhead.runs.rungs import METHODS, Rung, budget_for, rung_cells, spoken
from clearhead.runs.train import Told, run_train
from clearhead.tasks.evaluation import Evaluation, evaluation
from clearhead.tasks.task import Reading
from clearhead.threads import limit_threads, passive_waiting

LATENCY_ROWS = 50  # real rows that single predictions are timed on
LEAST_SECONDS = 0.001  # what is quicker took no time
log = logging.getLogger("clearhead")


@dataclass(frozen=True, kw_only=True)
class Ladder:
    """Methods side by side on the same rows, and the one to take."""

    folder: Path
    task: str
    metric: str  # that they are compared by
    part: str  # test, or dev where there is no test
    rows: int  # of that part
    rungs: tuple[Rung, ...]  # from the cheapest on
    recommended: str  # the method
    reason: str
    budget_seconds: float
    seconds: float
    report: Path | None = None

    def rung(self, method: str) -> Rung:
        """One rung by its method."""
        found = next((rung for rung in self.rungs if rung.method == method), None)
        if found is None:
            raise InputError(f"The ladder has no {method!r}; it has {', '.join(rung.method for rung in self.rungs)}.")
        return found

    def to_json(self) -> dict[str, Any]:
        """What `ladder --json` prints."""
        plain = asdict(self)
        plain |= {"folder": str(self.folder), "report": None if self.report is None else str(self.report)}
        plain["rungs"] = [asdict(rung) for rung in self.rungs]
        return plain

    def __repr__(self) -> str:
        from clearhead.notebook import one_line

        found = next((rung for rung in self.rungs if rung.method == self.recommended), None)
        score = "" if found is None or found.value is None else f" {self.metric} {found.value:.3f}"
        if found is not None and found.low is not None:
            score += f" ({found.low:.3f} to {found.high:.3f})"
        measured = sum(rung.left_out is None for rung in self.rungs)
        recommended = f"recommended {self.recommended}{score} on {self.rows:,} {self.part} rows"
        return one_line("Ladder", self.task, recommended, f"{measured} methods measured", f"folder {self.folder}")

    def _repr_html_(self) -> str:
        heads = ("method", self.metric, "95 % interval", "training", "one text", "size")
        lines = "".join(
            f"<tr{' style=font-weight:bold' if rung.method == self.recommended else ''}>"
            + "".join(f"<td>{escape(cell)}</td>" for cell in rung_cells(rung))
            + "</tr>"
            for rung in self.rungs
        )
        titles = "".join(f"<th>{escape(head)}</th>" for head in heads)
        return f"<p>{escape(self.reason)}</p><table><tr>{titles}</tr>{lines}</table>"


@dataclass(frozen=True, kw_only=True)
class Climb:
    """All that a rung needs to be trained, measured and compared."""

    sources: Mapping[str, Source]
    prepared: Prepared
    part: str  # that is measured on
    metric: str
    folder: Path
    command: str
    budget: float
    begun: float
    missing: str | None  # why there is no model to start from
    allowed: bool  # a rung that was begun on another machine is resumed
    tell: Told

    @property
    def rows(self) -> PartRows:
        """The rows that are measured on."""
        return self.prepared.parts[self.part]

    @property
    def left(self) -> float:
        """Seconds of the budget."""
        return self.budget - (time.perf_counter() - self.begun)


def run_ladder(
    plans: Mapping[str, RunPlan],
    sources: Mapping[str, Source],
    folder: Path,
    *,
    budget: float,
    allow_different_cpu: bool = False,
    command: str = "",
    told: Told | None = None,
) -> Ladder:
    """Train and measure every method for which there is time; what was finished before is read back."""
    with limit_threads(next(iter(plans.values())).threads):
        return _climbed(plans, sources, folder, budget, allow_different_cpu, command, told)


def _climbed(
    plans: Mapping[str, RunPlan],
    sources: Mapping[str, Source],
    folder: Path,
    budget: float,
    allow_different_cpu: bool,
    command: str,
    told: Told | None,
) -> Ladder:
    tell, begun = told or Told(), time.perf_counter()
    state = Kept.read(folder, plans)
    for method in plans.keys() - state.finished.keys():
        if (folder / method / RUN).is_file():
            check_begun(folder / method, allowed=allow_different_cpu)
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
        sources=sources, prepared=prepared, part=part, metric=plan.metric or prepared.task.main(prepared.space),
        folder=folder, command=command, budget=budget, begun=begun, missing=missing,
        allowed=allow_different_cpu, tell=tell,
    )  # fmt: skip
    state.write(folder)
    tell.begun(folder)
    rungs: list[Rung] = []
    scored: dict[str, tuple[Reading, Scored]] = {}
    for method, one in plans.items():
        try:
            rung, answered = _rung(climb, method, one, state.finished.get(method))
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
    _, value, between, training, latency, size = rung_cells(rung)
    again = " (read back, not trained again)" if rung.reused else ""
    interval = f" ({between})" if between else ""
    return f"{rung.method}: {metric} {value}{interval}, trained in {training}, {latency} a text, {size}{again}"


def _rung(
    climb: Climb, method: str, plan: RunPlan, known: Rung | None
) -> tuple[Rung, tuple[Reading, Scored] | None]:
    """One method trained and measured, or read back, or left out because it would take too long."""
    own, tell = climb.folder / method, climb.tell
    rung = None if known is None else replace(known, reused=True, difference=None, folder=str(own))
    if rung is None:
        if METHODS[method].network and climb.missing is not None:
            raise InputError(climb.missing)
        why = _too_long(climb, method, plan)
        if why is not None:
            return Rung(method=method, left_out=why), None
        inner = replace(tell, say=lambda _: None, begun=lambda _: None)
        resume = (own / RUN).is_file()
        if resume:
            plan = replace(plan, threads=read_saved(own).plan.threads)  # as many as it was begun with
        run = run_train(
            plan, climb.sources, own, command=climb.command, resume=resume, allow_different_cpu=climb.allowed,
            told=inner,
        )  # fmt: skip
        for note in run.notes:
            tell.say(f"{method}: {note}")
        check_marks(own, climb.prepared)
        interval = run.evaluations[climb.part].metrics[climb.metric]
        rung = Rung(
            method=method,
            folder=str(own),
            value=_known(interval.value),
            low=_known(interval.low),
            high=_known(interval.high),
            training_seconds=max(run.cost["fitting seconds"], run.cost.get("training seconds", 0.0), LEAST_SECONDS),
            size_mb=round(megabytes(own), 3),
        )
    predictor = load_predictor(own, device=plan.device)
    rows = climb.rows
    held = climb.part if rows.source is climb.sources["train"] else None
    scored = scored_part(
        predictor, rows.source, held, skip_bad_rows=plan.skip_bad_rows,
        told=lambda done: tell.count(f"{method}: answering", done, len(rows)),
    )  # fmt: skip
    if scored.numbers != rows.numbers.tolist():
        raise InputError(f"{method} answered other {climb.part} rows than the other methods.")
    if rung.latency_ms is None:
        wanted = set(rows.numbers[:LATENCY_ROWS].tolist())
        some = [row for row in rows.source.rows() if isinstance(row, Row) and row.number in wanted]
        rung = replace(rung, latency_ms=round(latency_ms(predictor, rows.source, rows.columns, some), 4))
    return rung, (predictor.reading, scored)


def _too_long(climb: Climb, method: str, plan: RunPlan) -> str | None:
    """A sentence when a method would not fit into what is left of the time."""
    estimate = METHODS[method].estimate
    if climb.left > 0 and estimate is None:
        return None
    spent = climb.budget - climb.left
    if climb.left <= 0 or estimate is None:
        return f"{method}: no time is left of {spoken(climb.budget)}; --budget {budget_for(2 * spent)}"
    climb.tell.count(f"{method}: trying out how long it takes", 0, None)
    seconds = estimate(plan, climb.prepared)
    if seconds <= climb.left:
        climb.tell.say(f"{method}: it will take about {spoken(seconds)}, {spoken(climb.left)} are left")
        return None
    left = f"{spoken(max(climb.left, 0.0))} are left"
    return f"{method} would take about {spoken(seconds)}, {left}; --budget {budget_for(spent + seconds)}"


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


def _finished(climb: Climb, rungs: tuple[Rung, ...], scored: Mapping[str, tuple[Reading, Scored]]) -> Ladder:
    """All rungs compared on the same rows, the one to take, and a page about it."""
    task, space = climb.prepared.task, climb.prepared.space
    asked = Asked(task=task, space=space, metric=climb.metric, part=climb.part, targets=climb.rows.targets)
    answers = {method: task.read(one.logits, space, reading) for method, (reading, one) in scored.items()}
    rungs = compared(rungs, answers, asked)
    method, reason = recommendation(rungs, asked)
    made = Ladder(
        folder=climb.folder,
        task=task.name,
        metric=climb.metric,
        part=climb.part,
        rows=len(climb.rows),
        rungs=rungs,
        recommended=method,
        reason=reason,
        budget_seconds=climb.budget,
        seconds=round(time.perf_counter() - climb.begun, 2),
    )
    reading, one = scored[method]
    found = evaluation(
        task, space, one.logits, one.targets, reading, slices=one.slices,
        truncated=one.truncated, windowed=one.windowed, seconds=round(one.seconds, 3),
    )  # fmt: skip
    return replace(made, report=_report(climb, made, replace(found, main=climb.metric)))


def _report(climb: Climb, made: Ladder, found: Evaluation) -> Path:
    """The comparison, then everything about the recommended method on the same rows."""
    from clearhead.report.page import ReportData, save_report

    rest = f"What follows the comparison tells of {made.recommended}; every method has a report in its own folder."
    machine = read_saved(climb.folder / made.recommended).computed.last
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
