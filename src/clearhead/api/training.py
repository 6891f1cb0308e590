"""Verbs that make models from data: inspect, train, pretrain and ladder."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clearhead.caller import setting
from clearhead.deprecation import rename_settings
from clearhead.errors import InputError
from clearhead.jobs.events import NO_EVENTS, RunEvents
from clearhead.jobs.output_folder import choose_ladder_folder, choose_run_folder, lock_output, resolve_model_path
from clearhead.progress import Progress, no_progress

if TYPE_CHECKING:
    from clearhead.data import Inspection
    from clearhead.ladder.result import Ladder
    from clearhead.pretrain.result import PretrainResult
    from clearhead.train.finish import Run


def inspect(
    source: Any,
    *,
    dev: Any = None,
    test: Any = None,
    text: str | None = None,
    text_b: str | None = None,
    label: str | None = None,
    task: str | None = None,
    options: str | None = None,
    model: str | None = "default",
    estimate: bool = True,
    told: Progress | None = None,
) -> Inspection:
    """What a careful person would want to know of data before training on it.

    With a model, texts are measured in its tokens; with `estimate`, a few training steps tell what a run would take.
    Without a `task`, rows are read as they look. `told` receives (stage, done, total).
    """
    columns = {"text": text, "text_b": text_b, "label": label}
    if task == "aspect":
        from clearhead.aspects.inspection import inspect_reviews

        return inspect_reviews(
            source, dev=dev, test=test, columns=columns, options=options, model=model, progress=told or no_progress
        )
    from clearhead.train.inspection import run_inspect

    return run_inspect(
        source,
        dev=dev,
        test=test,
        columns=columns,
        task=task,
        options=options,
        model=model,
        estimate=estimate,
        progress=told or no_progress,
    )


@lock_output
def train(
    rows: Any = None,
    /,
    *,
    dev: Any = None,
    test: Any = None,
    output: str | os.PathLike[str] | None = None,
    recipe: str | os.PathLike[str] | None = None,
    resume: str | os.PathLike[str] | None = None,
    finish: bool = False,
    allow_different_cpu: bool = False,
    command: str = "",
    report: bool = True,
    told: RunEvents | None = None,
    **choices: Any,
) -> Run:
    """Train on rows that say what is right, measure on rows held out, and leave a model folder with a report.

    `choices` are the fields of `RunPlan` and `TrainSettings`: task, text, label, model, method, epochs, seed, ...
    `resume` goes on with a run that was stopped; rows that came as Python values are then given again, and what else is
    said must be what was said when the run began. A `command` that is run again goes on with its own run in the same
    way. On a machine that cannot reproduce the bits of the run it is refused, unless `allow_different_cpu`. `minutes`
    ends training in that time; `resume` with `finish` takes a stopped run as it is: best weights, measured and saved.
    """
    from clearhead.data import open_source
    from clearhead.jobs.job import JobRequest, run_job
    from clearhead.jobs.plan import RENAMED_SETTINGS, make_plan, read_recipe
    from clearhead.jobs.restart import is_same_run
    from clearhead.jobs.resume import check_resumed, find_repeated_paths
    from clearhead.train.job import TrainJob, read_run

    choices = rename_settings(choices, RENAMED_SETTINGS, stacklevel=3)
    given = {"train": rows, "dev": dev, "test": test}
    paths = {part: _path(rows) for part, rows in given.items()}
    recipes = {} if recipe is None else read_recipe(Path(recipe))
    if finish and resume is None:
        raise InputError(f"{setting('finish')} is for a run that was stopped: name it with {setting('resume')}.")
    if resume is not None:
        plan, command = read_run(Path(resume))
        folder = Path(resume)
        again = find_repeated_paths(plan, paths)
        check_resumed(folder, plan, recipes | again | choices, output)
        given |= dict.fromkeys(again)  # they are read from where the run has them
    else:
        plan = resolve_model_path(make_plan(recipes, paths, choices))
        folder = Path(output) if output is not None else choose_run_folder(plan.train, plan, command)
        if is_same_run(folder, plan, command):
            return train(
                rows,
                dev=dev,
                test=test,
                resume=folder,
                report=report,
                told=told,
                allow_different_cpu=allow_different_cpu,
            )
    sources = {part: getattr(plan, part) if some is None else some for part, some in given.items()}
    if sources["train"] is None:
        raise InputError("There is nothing to train on: give a file, a folder or rows.")
    opened = {part: open_source(rows) for part, rows in sources.items() if rows is not None}
    request = JobRequest(
        plan=plan,
        sources=opened,
        folder=folder,
        command=command,
        resume=resume is not None,
        allow_different_cpu=allow_different_cpu,
        finish=finish,
        report=report,
        events=told or NO_EVENTS,
    )
    if plan.task == "aspect":
        from clearhead.aspects.job import AspectJob

        if finish:
            raise InputError("aspect trains two models, one after the other: resume it to its end instead of finish.")
        return run_job(AspectJob(request))
    if plan.task == "translate":
        from clearhead.translate.job import TranslateJob

        return run_job(TranslateJob(request))
    return run_job(TrainJob(request))


@lock_output
def pretrain(
    files: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] = (),
    /,
    *,
    output: str | os.PathLike[str] | None = None,
    dev: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] = (),
    resume: str | os.PathLike[str] | None = None,
    allow_different_cpu: bool = False,
    command: str = "",
    report: bool = True,
    told: RunEvents | None = None,
    **choices: Any,
) -> PretrainResult:
    """Make a language model from plain text: a tokenizer, lessons without labels, and a judgement on held-out text.

    `choices` are the fields of `PretrainPlan` and `TrainSettings`: family, objective, preset, model, minutes, ...
    `resume` goes on with a run that was stopped, and so does a `command` that is run again; what else is said must be
    what was said when it began. On a machine that cannot reproduce the bits of the run it is refused, unless
    `allow_different_cpu`.
    """
    from clearhead.jobs.job import JobRequest, run_job
    from clearhead.jobs.restart import is_same_run
    from clearhead.jobs.resume import check_resumed
    from clearhead.pretrain.config import resolve_config
    from clearhead.pretrain.job import PretrainJob
    from clearhead.pretrain.plan import make_pretrain_plan, read_pretrain_run, rename_pretrain_settings
    from clearhead.pretraining.documents import find_corpus_files, make_absolute

    choices = rename_pretrain_settings(choices, stacklevel=3)  # the caller of the decorated function
    learned, held = _names(files), _names(dev)
    if resume is not None:
        saved = read_pretrain_run(Path(resume))
        texts = {"files": make_absolute(learned) or None, "dev": make_absolute(held) or None}
        check_resumed(Path(resume), saved.plan, resolve_config(choices) | texts, output)
        plan, folder, command = saved.plan, Path(resume), saved.command
    else:
        if not learned:
            raise InputError("No training text: pass files, folders or glob patterns.")
        for key in ("model", "tokenizer"):
            if choices.get(key) and Path(choices[key]).is_dir():
                choices[key] = str(Path(choices[key]).absolute())
        plan = make_pretrain_plan({"files": make_absolute(learned), "dev": make_absolute(held), **choices})
        first = str(find_corpus_files(learned)[0]) if output is None and not Path(learned[0]).is_dir() else learned[0]
        folder = Path(output) if output is not None else choose_run_folder(first, plan, command)
        if is_same_run(folder, plan, command):
            return pretrain(resume=folder, report=report, told=told, allow_different_cpu=allow_different_cpu)
    request = JobRequest(
        plan=plan,
        folder=folder,
        command=command,
        resume=resume is not None,
        allow_different_cpu=allow_different_cpu,
        report=report,
        events=told or NO_EVENTS,
    )
    return run_job(PretrainJob(request))


def _names(given: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]) -> list[str]:
    return [str(one) for one in ([given] if isinstance(given, str | os.PathLike) else given)]


@lock_output
def ladder(
    source: Any,
    *,
    dev: Any = None,
    test: Any = None,
    output: str | os.PathLike[str] | None = None,
    budget: str | float = "10m",
    methods: str | Sequence[str] | None = None,
    margin: float | None = None,
    allow_different_cpu: bool = False,
    command: str = "",
    told: RunEvents | None = None,
    **choices: Any,
) -> Ladder:
    """Train several methods on the same rows as far as the budget allows, and recommend the cheapest that is as good.

    As good: with its 95 % interval at most `margin` worse than the best (None: 0.01, or as the metric has it).
    `choices` are those of `train`; the same call with the same `output` goes on with what is finished there.
    """
    from clearhead.data import open_source
    from clearhead.jobs.job import JobRequest, run_job
    from clearhead.jobs.plan import RENAMED_SETTINGS
    from clearhead.ladder.job import LadderJob, LadderPlan
    from clearhead.ladder.methods import budget_seconds, check_choices, chosen_methods, rung_plan
    from clearhead.ladder.recommend import checked_margin

    choices = rename_settings(choices, RENAMED_SETTINGS, stacklevel=3)
    check_choices(choices)
    given = {part: rows for part, rows in (("train", source), ("dev", dev), ("test", test)) if rows is not None}
    paths = {part: _path(rows) for part, rows in given.items()}
    plans = {method: rung_plan(method, paths, choices) for method in chosen_methods(methods)}
    folder = choose_ladder_folder(paths.get("train")) if output is None else Path(output)
    opened = {part: open_source(rows) for part, rows in given.items()}
    request = JobRequest(
        plan=LadderPlan(methods=plans, budget=budget_seconds(budget), margin=checked_margin(margin)),
        sources=opened,
        folder=folder,
        command=command,
        allow_different_cpu=allow_different_cpu,
        events=told or NO_EVENTS,
    )
    return run_job(LadderJob(request))


def _path(rows: Any) -> str | None:
    return str(Path(rows).absolute()) if isinstance(rows, str | os.PathLike) else None
