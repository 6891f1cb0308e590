"""Training as a whole job: look, load, prepare, fit with one seed or several, measure, keep."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clearhead.config import decode, read_json, sweep, write_json
from clearhead.data import BadRow, Row, Source
from clearhead.errors import CheckpointError, InputError
from clearhead.loading import load, need_torch
from clearhead.model import Model
from clearhead.runs.arranged import arranged, check_next_words, in_orders
from clearhead.runs.examples import Second, second_look
from clearhead.runs.finish import METRICS, REPORT, Run, SeedScore, measured, passport, write_metrics, write_split
from clearhead.runs.methods import FITS, Job, Result, network_result
from clearhead.runs.network import STATE, restore_network
from clearhead.runs.plan import LOWER_IS_BETTER, NETWORK, RunPlan
from clearhead.runs.prepare import Look, Prepared, look, prepare
from clearhead.runs.sizes import classes, for_few_rows, for_task, longest
from clearhead.runs.wordfeatures import reads_vectors
from clearhead.tasks.orders import both_orders
from clearhead.words import is_words

if TYPE_CHECKING:
    from clearhead.tasks.evaluation import Evaluation
    from clearhead.training.loop import Step

RUN = "run.json"
FORMAT = 1
RESULT = "result.json"
SAID_ABOUT = {"number": "numbers", "answers": "answers in passages", "options": "one right option"}
TOLD_ROWS = 1000  # rows between two words about reading


@dataclass(frozen=True, kw_only=True)
class Told:
    """Whom a run tells what it does; the defaults are nobody."""

    say: Callable[[str], None] = lambda _: None
    step: Callable[[Step], None] | None = None
    begun: Callable[[Path], None] = lambda _: None  # from here on the run can be resumed
    count: Callable[[str, int, int | None], None] = lambda *_: None  # (what is done, how far, of how much)
    seed: Callable[[int, int, int], None] = lambda *_: None  # (this seed, its place, how many)
    download: Callable[[str, int, int | None], None] | None = None


def read_run(folder: Path) -> tuple[RunPlan, str]:
    """The plan and the command of a run that was begun."""
    if not (folder / RUN).is_file():
        raise InputError(f"{folder} is no run: it has no {RUN}.")
    saved = read_json(folder / RUN)
    if saved.get("kind") == "pretrain":
        raise InputError(f"{folder} is a run of pre-training; go on with clearhead pretrain --resume {folder}.")
    if saved.get("format") != FORMAT:
        raise CheckpointError(f"{RUN} is of another version of clearhead.")
    return decode(saved.get("plan"), RunPlan, RUN), str(saved.get("command", ""))


def run_train(
    plan: RunPlan,
    sources: Mapping[str, Source],
    folder: Path,
    *,
    command: str = "",
    resume: bool = False,
    report: bool = True,
    told: Told | None = None,
) -> Run:
    """Train to the end, or on from where a killed run stands."""
    tell = told or Told()
    begun = time.perf_counter()
    if plan.method in NETWORK and is_words(plan.model):
        raise InputError(f"{plan.model} holds word vectors, which are no network: say --method features.")
    if plan.method not in ("tfidf", "majority") and not reads_vectors(plan):
        need_torch("Training a network")
        from clearhead.training.threads import use_threads

        plan = replace(plan, threads=use_threads(plan.threads))  # a resumed run uses as many
    if not resume:
        check_folder(folder)
    sources = {part: _counted(source, tell) for part, source in sources.items()}
    seen = look(sources, plan)
    if plan.method not in seen.task.methods:
        how = ", ".join(seen.task.methods)
        raise InputError(f"{seen.task.name} is learned by {how}, and not by {plan.method}.")
    for line in (*(said for source in sources.values() for said in source.said), *seen.columns.said):
        tell.say(line)
    tell.say(f"task: {seen.task.name} ({seen.task.about}; {_labels_said(seen)})")
    model = _model(seen, plan, plan.settings.seed, tell)
    plan = in_orders(plan, seen.task, model, two=seen.columns.text_b is not None)
    if plan.both_orders:
        seen = replace(seen, task=both_orders(seen.task))
    plan = for_task(plan, seen.task, model)
    max_length = longest(plan, model)
    prepared = prepare(seen, plan, None if model is None else model.tokenizer, max_length)
    for line in prepared.said:
        tell.say(line)
    if plan.auto_epochs and plan.method in NETWORK:
        settings = for_few_rows(len(prepared.parts["train"]), plan.settings, classes(prepared.space))
        plan = replace(plan, auto_epochs=False, settings=settings)
        tell.say(f"epochs: {settings.epochs} (by the number of rows and labels; say another with --epochs)")
    there = folder.exists()
    _begin(folder, plan, prepared, command, resume=resume)
    tell.begun(folder)
    fitting = time.perf_counter()
    try:
        result, scores, best = _seeds(seen, prepared, plan, folder, model, tell)
    except InputError:
        if not resume:
            _take_back(folder, there)
        raise
    fitted = time.perf_counter() - fitting
    swept = () if result.sweep is None else result.sweep.swept
    if result.sweep is not None:  # from here on as if it had been said
        best_of = result.sweep.best
        pooling = best_of.pooling if seen.task.words is None else None
        plan = replace(plan, layer=best_of.layer, pooling=pooling, layers=None)
    reading, found, notes = measured(prepared, result, plan)
    seeds = [plan.settings.seed + place for place in range(plan.seeds)]
    trained = passport(prepared, plan, reading, found, seeds=seeds, max_length=max_length, command=command)
    result.save(folder, trained)
    write_split(folder, prepared)
    write_metrics(folder, found, scores, swept)
    run = Run(
        folder=folder,
        task=prepared.task.name,
        method=plan.method,
        labels=prepared.space.names,
        columns=trained.columns,
        rows={name: len(part) for name, part in prepared.parts.items()},
        evaluations=found,
        seeds=scores,
        said=(*seen.columns.said, *prepared.said),
        notes=(*result.notes, *notes),
        skipped=prepared.skipped,
        seconds=time.perf_counter() - begun,
        cost=cost_of(folder if plan.seeds == 1 else _seed_folder(folder, best), begun, fitted),
        sweep=swept,
    )
    if not report:
        return run
    second = second_look(folder, prepared.parts, found, plan.device, tell.count, run.seconds)
    run = replace(run, cost={**run.cost, **second.cost})
    return replace(run, report=_report(run, plan, prepared, trained, folder, best, second))


def _counted(source: Source, tell: Told) -> Source:
    """A source that tells how many of its rows were read; what can be read once stays as it is."""

    def rows() -> Iterator[Row | BadRow]:
        for place, row in enumerate(source.open(), 1):
            if place % TOLD_ROWS == 0:
                tell.count(f"reading {source.name}", place, None)
            yield row

    return replace(source, open=rows) if source.again else source


def check_folder(folder: Path) -> None:
    """One sentence where a run cannot begin in a folder."""
    try:
        taken = folder.exists() and (not folder.is_dir() or any(folder.iterdir()))
    except OSError as error:
        raise InputError(f"{folder} cannot be used: {error.strerror or error}.") from None
    if taken and (folder / RUN).exists() and not (folder / METRICS).exists():
        raise InputError(f"{folder} holds a run that is not finished: go on with --resume {folder}, or name another.")
    if taken:
        raise InputError(f"{folder} is there already and not empty; name another folder with -o.")


def _labels_said(seen: Look) -> str:
    if seen.space.kind in SAID_ABOUT:
        said = SAID_ABOUT[seen.space.kind]
        return said if seen.space.scheme != "some" else f"{said}; some have none"
    names = ", ".join(seen.space.names[:8]) + (", ..." if len(seen.space) > 8 else "")
    several = " that a row can have several of" if seen.space.kind == "multilabel" else ""
    return f"{len(seen.space)} labels{several}: {names}"


def _model(seen: Look, plan: RunPlan, seed: int, tell: Told) -> Model | None:
    """A fresh copy of the model to start from, with the head that the task needs."""
    if plan.method in ("tfidf", "majority") or reads_vectors(plan):
        return None
    if plan.method in NETWORK:
        outputs = seen.task.outputs(seen.space)
        model = load(
            plan.model, "core", plan.device, head=seen.task.head, labels=outputs, seed=seed, fresh=True,
            progress=tell.download,
        )
        check_next_words(model, plan)
        return arranged(model, seed)
    return load(plan.model, device=plan.device, head=None, threads=plan.threads, progress=tell.download)


def _begin(folder: Path, plan: RunPlan, prepared: Prepared, command: str, *, resume: bool) -> None:
    """Write down what is being trained, or see that it is still the same."""
    now = {
        "columns": {part: getattr(prepared.columns, part) for part in ("text", "text_b", "label", "id", "split")},
        "task": prepared.task.name,
        "labels": list(prepared.space.names),
        "data": {name: asdict(part.mark()) for name, part in prepared.parts.items()},
        "tokens": prepared.tokens,
    }
    begin_run(folder, plan, now, command, resume=resume)


def _take_back(folder: Path, there: bool) -> None:
    """A run that was refused before it learned anything leaves nothing, so that it can be called again."""
    if [path.name for path in folder.iterdir()] == [RUN]:
        (folder / RUN).unlink()
        if not there:
            folder.rmdir()


def begin_run(folder: Path, plan: RunPlan, now: Mapping[str, Any], command: str, *, resume: bool) -> None:
    """The same for what any task must find again."""
    if resume:
        before = read_json(folder / RUN).get("data", {})
        for key, what in (("data", "rows"), ("labels", "labels"), ("tokens", "tokens"), ("columns", "columns")):
            if before.get(key) != now.get(key):
                raise InputError(f"The {what} are not those that {folder} was begun with: train anew, or restore them.")
        sweep(folder)
        return
    saved = {"format": FORMAT, "command": command, "plan": asdict(plan), "data": dict(now)}
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{folder} cannot be made: {error.strerror or error}.") from None
    write_json(folder / RUN, saved)


def _seed_folder(folder: Path, seed: int) -> Path:
    return folder / "seeds" / f"seed-{seed}"


def _seeds(
    seen: Look, prepared: Prepared, plan: RunPlan, folder: Path, model: Model | None, tell: Told
) -> tuple[Result, tuple[SeedScore, ...], int]:
    """One fit per seed; the one that is best on dev is kept."""
    first = plan.settings.seed
    if plan.seeds == 1:
        job = Job(
            prepared=prepared, plan=plan, settings=plan.settings, folder=folder, model=model,
            told=tell.step, count=tell.count,
        )  # fmt: skip
        tell.seed(first, 0, 1)
        return FITS[plan.method](job), (), first
    scores: list[SeedScore] = []
    for place in range(plan.seeds):
        seed = first + place
        own = _seed_folder(folder, seed)
        if (own / RESULT).exists():
            scores.append(decode(read_json(own / RESULT), SeedScore, RESULT))
            continue
        own.mkdir(parents=True, exist_ok=True)
        tell.seed(seed, place, plan.seeds)
        settings = replace(plan.settings, seed=seed)
        fresh = model if place == 0 else _model(seen, plan, seed, tell)
        job = Job(prepared=prepared, plan=plan, settings=settings, folder=own, model=fresh, told=tell.step)
        found = measured(prepared, FITS[plan.method](job), plan)[1]
        score = SeedScore(seed=seed, dev=_known(found.get("dev")), test=_known(found.get("test")))
        write_json(own / RESULT, asdict(score))
        scores.append(score)
    sign = -1 if plan.metric in LOWER_IS_BETTER else 1
    best = max(scores, key=lambda one: (float("-inf") if one.dev is None else sign * one.dev, -one.seed)).seed
    settings = replace(plan.settings, seed=best)
    fresh = _model(seen, plan, best, tell)
    job = Job(prepared=prepared, plan=plan, settings=settings, folder=_seed_folder(folder, best), model=fresh)
    if plan.method not in NETWORK or fresh is None:
        return FITS[plan.method](job), tuple(scores), best
    restore_network(fresh, prepared, settings, job.folder)
    for score in scores:
        if score.seed != best:
            shutil.rmtree(_seed_folder(folder, score.seed) / STATE, ignore_errors=True)
    return network_result(job), tuple(scores), best


def _known(made: Evaluation | None) -> float | None:
    """The main metric, where there is one that is defined."""
    return made.value if made is not None and isfinite(made.value) else None


def cost_of(folder: Path, begun: float, fitted: float) -> dict[str, float]:
    """What the run took, from its log and this process."""
    import resource

    from clearhead.training.log import read_log

    made = {"seconds": round(time.perf_counter() - begun, 1), "fitting seconds": round(fitted, 3)}
    tokens = seconds = 0.0
    for line in read_log(folder):
        tokens += line["tokens"]
        seconds += line["seconds"]
    if seconds:
        made |= {"training seconds": round(seconds, 1), "tokens per second": round(tokens / seconds)}
    made["peak memory MB"] = round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
    return made


def _report(
    run: Run, plan: RunPlan, prepared: Prepared, trained: Any, folder: Path, best: int, second: Second
) -> Path:
    """The one-file report beside the model."""
    from clearhead.report.page import ReportData, save_report
    from clearhead.runs.inspection import inspect_for
    from clearhead.training.log import read_log

    train = prepared.parts["train"]
    inspection = None
    if sum(run.rows.values()) <= MOST_INSPECTED and plan.train is not None:
        inspection = inspect_for(prepared.task, plan.train, train.columns, dev=plan.dev, test=plan.test)
    data = ReportData(
        title=f"{folder.name}: {run.task}",
        command=trained.command,
        parts=dict(run.evaluations),
        inspection=inspection,
        log=list(read_log(folder if plan.seeds == 1 else _seed_folder(folder, best))),
        seeds=[asdict(score) for score in run.seeds],
        settings=trained.settings,
        passport=asdict(trained),
        notes=[*run.said, *run.notes, *second.notes],
        examples=second.examples,
        cost=dict(run.cost),
        sweep=[asdict(one) for one in run.sweep],
    )
    return save_report(data, folder / REPORT)


MOST_INSPECTED = 100_000  # rows; beyond that `clearhead inspect` is a job of its own
