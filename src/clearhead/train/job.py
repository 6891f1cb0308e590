"""Training as a whole job: look, load, prepare, fit with one seed or several, measure, keep."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict, replace
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING

from clearhead.caller import setting
from clearhead.data import Source
from clearhead.errors import CheckpointError, InputError
from clearhead.evaluate.examples import second_look
from clearhead.files import decode, read_json, write_json
from clearhead.jobs.cost import cost_of
from clearhead.jobs.defaults import choose_settings, for_task, longest, with_threads
from clearhead.jobs.kinds import has_vectors
from clearhead.jobs.machine import begin_computing, computes_alone, on_machine
from clearhead.jobs.method import Job, Result
from clearhead.jobs.plan import LOWER_IS_BETTER, NETWORK, RunPlan
from clearhead.jobs.prepare import Look, Prepared, counted_rows, look, prepare
from clearhead.jobs.progress import Told
from clearhead.jobs.run_file import RUN, Computed, Fitted, begin_run, read_saved
from clearhead.jobs.run_folder import check_folder
from clearhead.jobs.training_state import SEEDS, STATE, drop_state, restore_saved
from clearhead.machine.threads import within_threads
from clearhead.model import Model
from clearhead.model.loading import load
from clearhead.tasks.orders import both_orders
from clearhead.train.baselines import Baseline, compare_baselines, features_plan, fit_baselines, verdict
from clearhead.train.finish import Run, SeedScore, held_out_logits, measured, passport, write_metrics, write_split
from clearhead.train.gpt_inputs import arranged, check_next_words, in_orders
from clearhead.train.method_choice import keep_better, starts_with_features
from clearhead.train.methods import FITS, network_result
from clearhead.train.network import restore_network
from clearhead.train.report import write_report

if TYPE_CHECKING:
    from clearhead.tasks.evaluation import Evaluation

RESULT = "result.json"


def read_run(folder: Path) -> tuple[RunPlan, str]:
    """The plan and the command of a run that was begun."""
    saved = read_saved(folder)
    return saved.plan, saved.command


@within_threads
def run_train(
    plan: RunPlan,
    sources: Mapping[str, Source],
    folder: Path,
    *,
    command: str = "",
    resume: bool = False,
    allow_different_cpu: bool = False,
    finish: bool = False,
    report: bool = True,
    told: Told | None = None,
) -> Run:
    """Train to the end, or on from where a killed run stands, or `finish` it as it is."""
    tell = told or Told()
    begun = time.perf_counter()
    if plan.method in NETWORK and has_vectors(plan.model):
        raise InputError(f"{plan.model} holds word vectors, which are no network: say {setting('method', 'features')}.")
    tell.count("loading", 0, None)
    plan, machine = on_machine(plan)
    computed = begin_computing(folder, machine, resume=resume, allowed=allow_different_cpu, say=tell.say)
    if not resume:
        check_folder(folder)
    sources = {part: counted_rows(source, tell.count) for part, source in sources.items()}
    seen = look(sources, plan)
    if plan.method not in seen.task.methods:
        how = ", ".join(seen.task.methods)
        raise InputError(f"{seen.task.name} is learned by {how}, and not by {plan.method}.")
    plan.check_task(seen.task)
    for line in (*(said for source in sources.values() for said in source.said), *seen.columns.said):
        tell.say(line)
    tell.say(f"task: {seen.task.name} ({seen.task.about}; {seen.task.rows.describe(seen.space)})")
    tell.count("loading the model", 0, None)
    model = _model(seen, plan, plan.settings.seed, tell)
    if model is not None and (head_pooling := model.shape.head_pooling) in ("first", "mean"):
        plan = replace(plan, head_pooling=head_pooling)  # from here on as if it had been said
    if plan.method in NETWORK:
        plan = with_threads(plan, model)
        computed = computed.with_threads(plan.threads)
    computed = computed.with_precision("float" if model is None else model.runner.precision)
    plan = in_orders(plan, seen.task, model, two=seen.columns.text_b is not None)
    if plan.both_orders:
        seen = replace(seen, task=both_orders(seen.task))
    plan = for_task(plan, seen.task, model)
    max_length = longest(plan, model)
    prepared = prepare(seen, plan, None if model is None else model.tokenizer, max_length)
    for line in prepared.said:
        tell.say(line)
    if starts_with_features(prepared, plan):
        why = "two texts and too few dev rows to compare it with fine-tuning"
        tell.say(f"method: features ({why}; override with {setting('method', 'finetune')})")
        plan = features_plan(plan)
        model = _model(seen, plan, plan.settings.seed, tell)
    if model is not None and plan.method in NETWORK:
        settings = choose_settings(
            plan,
            prepared.task,
            prepared.space,
            len(prepared.parts["train"]),
            model.shape,
            is_new="head.out.weight" in model.fresh,
        )
        if plan.auto_epochs:
            tell.say(f"epochs: {settings.epochs} (chosen from the dataset size; override with {setting('epochs')})")
        if plan.auto_rate:
            tell.say(f"learning rate: {settings.rate:g} (chosen from the model size; override with {setting('rate')})")
        plan = replace(plan, auto_epochs=False, auto_rate=False, settings=settings)
    there = folder.exists()
    _begin(folder, plan, prepared, command, computed, resume=resume)
    tell.begun(folder)
    fitting = time.perf_counter()
    over = read_saved(folder).fitted
    try:
        result, scores, best = _seeds(seen, prepared, plan, folder, model, tell, over, finish=finish)
    except InputError:
        if not resume:
            _take_back(folder, there)
        raise
    fitted = time.perf_counter() - fitting
    swept = () if result.sweep is None else result.sweep.swept
    if result.sweep is not None:  # from here on as if it had been said
        best_of = result.sweep.best
        pooling = best_of.pooling if seen.task.head.words is None else None
        plan = replace(plan, layer=best_of.layer, pooling=pooling, layers=None)
    tell.count("measuring", 0, None)
    trains_network, beside = plan.method in NETWORK, fit_baselines(prepared, plan, folder, tell.count)
    job = Job(prepared=prepared, plan=plan, settings=plan.settings, folder=folder, count=tell.count)
    kept = keep_better(job, result, held_out_logits(prepared, result), beside, fitted)
    plan, result, logits = kept.plan, kept.result, kept.logits
    reading, found, notes = measured(prepared, logits, plan)
    main = next((part for part in ("test", "dev") if part in found), None)
    baselines: tuple[Baseline, ...] = ()
    if main is not None:
        baselines = compare_baselines(kept.beside, prepared, plan, logits, reading, main)
        notes = (*notes, *filter(None, [verdict(baselines, found[main].main, found[main].value)]))
    seeds = [score.seed for score in scores] or [plan.settings.seed]
    trained = passport(
        prepared, plan, reading, found, seeds=seeds, max_length=max_length, command=command, computed=computed
    )
    result.save(folder, trained)
    write_split(folder, prepared)
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
        notes=(*result.notes, *notes, *computed.notes()),
        skipped=prepared.skipped,
        seconds=time.perf_counter() - begun,
        cost=cost_of(folder if plan.seeds == 1 else _seed_folder(folder, best), begun, fitted),
        sweep=swept,
        baselines=baselines,
        machine=computed.last,
    )
    if report:
        tell.count("writing the report", 0, None)
        second = second_look(folder, prepared.parts, found, plan.device, tell.count, run.seconds)
        run = replace(run, cost={**run.cost, **second.cost})
        log_folder = folder if plan.seeds == 1 else _seed_folder(folder, best)
        run = replace(run, report=write_report(run, plan, prepared, trained, log_folder, second))
    if plan.method in NETWORK:
        drop_state(folder, result.notes, keep=plan.keep_state)
    write_metrics(folder, found, scores, swept)  # last: it is finished
    if trains_network and plan.method not in NETWORK:  # the model folder has no weights of the network to resume from
        drop_state(folder, result.notes, keep=plan.keep_state)
    return run


def _model(seen: Look, plan: RunPlan, seed: int, tell: Told) -> Model | None:
    """A fresh copy of the model to start from, with the head that the task needs."""
    if computes_alone(plan):
        return None
    if plan.method in NETWORK:
        outputs = seen.task.head.outputs(seen.space)
        model = load(
            plan.model,
            "core",
            plan.device,
            head=seen.task.head.kind,
            labels=outputs,
            seed=seed,
            fresh=True,
            head_pooling=plan.head_pooling,
            progress=tell.download,
        )
        check_next_words(model, plan)
        return arranged(model, seed)
    return load(plan.model, device=plan.device, head=None, threads=plan.threads, progress=tell.download)


def _begin(folder: Path, plan: RunPlan, prepared: Prepared, command: str, computed: Computed, *, resume: bool) -> None:
    """Write down what is being trained, or see that it is still the same."""
    now = {
        "columns": {part: getattr(prepared.columns, part) for part in ("text", "text_b", "label", "id", "split")},
        "task": prepared.task.name,
        "labels": list(prepared.space.names),
        "data": {name: asdict(part.mark()) for name, part in prepared.parts.items()},
        "tokens": prepared.tokens,
    }
    begin_run(folder, plan, now, command, computed, resume=resume)


def _take_back(folder: Path, there: bool) -> None:
    """A run that was refused before it learned anything leaves nothing, so that it can be called again."""
    if [path.name for path in folder.iterdir()] == [RUN]:
        (folder / RUN).unlink()
        if not there:
            folder.rmdir()


def _seed_folder(folder: Path, seed: int) -> Path:
    return folder / SEEDS / f"seed-{seed}"


def _seeds(
    seen: Look,
    prepared: Prepared,
    plan: RunPlan,
    folder: Path,
    model: Model | None,
    tell: Told,
    over: Fitted | None,
    *,
    finish: bool,
) -> tuple[Result, tuple[SeedScore, ...], int]:
    """One fit per seed; the one that is best on dev is kept."""
    first = plan.settings.seed
    if plan.seeds == 1:
        job = Job(
            prepared=prepared,
            plan=plan,
            settings=plan.settings,
            folder=folder,
            model=model,
            told=tell.step,
            count=tell.count,
            finish=finish,
        )
        tell.seed(first, 0, 1)
        if over is not None and model is not None:
            restore_saved(model, folder)
            return network_result(job, tuple(over.notes)), (), first
        return FITS[plan.method](job), (), first
    scores: list[SeedScore] = []
    for place in range(plan.seeds):
        seed = first + place
        own = _seed_folder(folder, seed)
        if (own / RESULT).exists():
            scores.append(_read_score(own, seed))
            continue
        if finish and not (own / STATE).exists():
            continue  # it was not begun
        own.mkdir(parents=True, exist_ok=True)
        tell.seed(seed, place, plan.seeds)
        settings = replace(plan.settings, seed=seed)
        fresh = model if place == 0 else _model(seen, plan, seed, tell)
        job = Job(
            prepared=prepared,
            plan=plan,
            settings=settings,
            folder=own,
            model=fresh,
            told=tell.step,
            finish=finish,
            count=tell.count,
        )
        found = measured(prepared, held_out_logits(prepared, FITS[plan.method](job)), plan)[1]
        score = SeedScore(seed=seed, dev=_known(found.get("dev")), test=_known(found.get("test")))
        write_json(own / RESULT, asdict(score))
        scores.append(score)
    if not scores:
        raise InputError(f"{folder} has made no step yet, so that there is nothing to finish: resume it.")
    sign = -1 if plan.metric in LOWER_IS_BETTER else 1
    best = max(scores, key=lambda one: (float("-inf") if one.dev is None else sign * one.dev, -one.seed)).seed
    settings = replace(plan.settings, seed=best)
    fresh = _model(seen, plan, best, tell)
    job = Job(
        prepared=prepared,
        plan=plan,
        settings=settings,
        folder=_seed_folder(folder, best),
        model=fresh,
        count=tell.count,
    )
    if plan.method not in NETWORK or fresh is None:
        return FITS[plan.method](job), tuple(scores), best
    if over is not None:
        restore_saved(fresh, folder)
    else:
        restore_network(fresh, prepared, settings, job.folder)
    return network_result(job), tuple(scores), best


def _read_score(folder: Path, seed: int) -> SeedScore:
    """What a seed that is finished came to."""
    score = decode(read_json(folder / RESULT), SeedScore, f"{folder.name}/{RESULT}")
    if score.seed != seed or not all(value is None or isfinite(value) for value in (score.dev, score.test)):
        raise CheckpointError(f"{folder / RESULT} is damaged: expected finite scores of seed {seed}.")
    return score


def _known(made: Evaluation | None) -> float | None:
    """The main metric, where there is one that is defined."""
    return made.value if made is not None and isfinite(made.value) else None
