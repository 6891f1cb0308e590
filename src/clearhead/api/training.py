"""Public functions that build models from data: inspect, train, pretrain, ladder and learn_tokenizer."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clearhead.caller import setting
from clearhead.deprecation import rename_settings, renamed_parameters
from clearhead.errors import InputError
from clearhead.jobs.events import NO_EVENTS, RunEvents
from clearhead.jobs.learn_tokenizer import learn_tokenizer
from clearhead.jobs.output_folder import choose_ladder_folder, choose_run_folder, lock_output, resolve_model_path
from clearhead.progress import Progress, no_progress

if TYPE_CHECKING:
    from clearhead.data import Inspection
    from clearhead.ladder.result import Ladder
    from clearhead.pretrain.result import PretrainResult
    from clearhead.train.finish import Run


@renamed_parameters(told="progress")
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
    progress: Progress | None = None,
) -> Inspection:
    """Check data before training: columns, labels, duplicates, leaks, lengths, and the cost of training.

    With a model, lengths are measured in its tokens; with `estimate`, a few training steps measure time and memory.
    Without a `task`, it is detected from columns and labels. `progress` receives (stage, done, total).
    """
    columns = {"text": text, "text_b": text_b, "label": label}
    if task == "aspect":
        from clearhead.aspects.inspection import inspect_reviews

        return inspect_reviews(
            source, dev=dev, test=test, columns=columns, options=options, model=model, progress=progress or no_progress
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
        progress=progress or no_progress,
    )


@renamed_parameters(told="events")
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
    events: RunEvents | None = None,
    **choices: Any,
) -> Run:
    """Train on labeled rows, measure on held-out rows, and write a model folder with a report.

    `choices` are the fields of `RunPlan` and `TrainSettings`: task, text, label, model, method, epochs, seed, ...
    `resume` continues an interrupted run; pass rows that are Python values again, and any other arguments must equal
    those of the first call. Repeating a `command` resumes its run, too. A machine that cannot reproduce the bits of the
    run is refused unless `allow_different_cpu`. `minutes` limits the training time; `resume` with `finish` stops
    training, then measures and saves the best weights so far.
    """
    from clearhead.data import open_source
    from clearhead.jobs.job import JobRequest, run_job
    from clearhead.jobs.plan import RENAMED_SETTINGS, make_plan, read_recipe
    from clearhead.jobs.restart import is_same_run
    from clearhead.jobs.resume import check_resumed, find_repeated_paths
    from clearhead.train.job import TrainJob, read_run

    choices = rename_settings(choices, RENAMED_SETTINGS, stacklevel=4)
    parts = {"train": rows, "dev": dev, "test": test}
    paths = {part: _absolute_path(source) for part, source in parts.items()}
    recipes = {} if recipe is None else read_recipe(Path(recipe))
    if finish and resume is None:
        raise InputError(f"{setting('finish')} needs an interrupted run; name it with {setting('resume', 'RUN')}.")
    if resume is not None:
        plan, command = read_run(Path(resume))
        folder = Path(resume)
        repeated = find_repeated_paths(plan, paths)
        check_resumed(folder, plan, recipes | repeated | choices, output)
        parts |= dict.fromkeys(repeated)  # read from the paths in the stored plan
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
                events=events,
                allow_different_cpu=allow_different_cpu,
            )
    sources = {part: getattr(plan, part) if source is None else source for part, source in parts.items()}
    if sources["train"] is None:
        raise InputError("No training data given; name a file or a folder, or pass rows.")
    opened = {part: open_source(source) for part, source in sources.items() if source is not None}
    request = JobRequest(
        plan=plan,
        sources=opened,
        folder=folder,
        command=command,
        resume=resume is not None,
        allow_different_cpu=allow_different_cpu,
        finish=finish,
        report=report,
        events=events or NO_EVENTS,
    )
    if plan.task == "aspect":
        from clearhead.aspects.job import AspectJob

        if finish:
            raise InputError(
                f"{setting('finish')} is not available for aspect, which trains two models; resume the run without it."
            )
        return run_job(AspectJob(request))
    if plan.task == "translate":
        from clearhead.translate.job import TranslateJob

        return run_job(TranslateJob(request))
    return run_job(TrainJob(request))


@renamed_parameters(told="events")
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
    events: RunEvents | None = None,
    **choices: Any,
) -> PretrainResult:
    """Pre-train a language model on plain text: tokenizer, training without labels, loss on held-out text.

    `choices` are the fields of `PretrainPlan` and `TrainSettings`: family, objective, preset, model, minutes, ...
    `resume` continues an interrupted run, and so does repeating a `command`; any other arguments must equal those of
    the first call. A machine that cannot reproduce the bits of the run is refused unless `allow_different_cpu`.
    """
    from clearhead.jobs.job import JobRequest, run_job
    from clearhead.jobs.restart import is_same_run
    from clearhead.jobs.resume import check_resumed
    from clearhead.pretrain.config import resolve_config
    from clearhead.pretrain.job import PretrainJob
    from clearhead.pretrain.plan import make_pretrain_plan, read_pretrain_run, rename_pretrain_settings
    from clearhead.pretraining.documents import find_corpus_files, make_absolute

    choices = rename_pretrain_settings(choices, stacklevel=4)  # the caller of the decorated function
    train_names, dev_names = _list_names(files), _list_names(dev)
    if resume is not None:
        saved = read_pretrain_run(Path(resume))
        texts = {"files": make_absolute(train_names) or None, "dev": make_absolute(dev_names) or None}
        check_resumed(Path(resume), saved.plan, resolve_config(choices) | texts, output)
        plan, folder, command = saved.plan, Path(resume), saved.command
    else:
        if not train_names:
            raise InputError("No text given; name files, folders or patterns.")
        for key in ("model", "tokenizer"):
            if choices.get(key) and Path(choices[key]).is_dir():
                choices[key] = str(Path(choices[key]).absolute())
        plan = make_pretrain_plan({"files": make_absolute(train_names), "dev": make_absolute(dev_names), **choices})
        if output is not None:
            folder = Path(output)
        else:
            is_folder = Path(train_names[0]).is_dir()
            first_file = train_names[0] if is_folder else str(find_corpus_files(train_names)[0])
            folder = choose_run_folder(first_file, plan, command)
        if is_same_run(folder, plan, command):
            return pretrain(resume=folder, report=report, events=events, allow_different_cpu=allow_different_cpu)
    request = JobRequest(
        plan=plan,
        folder=folder,
        command=command,
        resume=resume is not None,
        allow_different_cpu=allow_different_cpu,
        report=report,
        events=events or NO_EVENTS,
    )
    return run_job(PretrainJob(request))


def _list_names(names: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]) -> list[str]:
    return [str(name) for name in ([names] if isinstance(names, str | os.PathLike) else names)]


@renamed_parameters(told="events")
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
    events: RunEvents | None = None,
    **choices: Any,
) -> Ladder:
    """Train several methods on the same rows within a time budget, and recommend the cheapest one that is good enough.

    Good enough: at most `margin` worse than the best, including its 95 % interval (None: 0.01, or as usual for the
    metric). `choices` are those of `train`; the same call with the same `output` resumes.
    """
    from clearhead.data import open_source
    from clearhead.jobs.job import JobRequest, run_job
    from clearhead.jobs.plan import RENAMED_SETTINGS
    from clearhead.ladder.job import LadderJob, LadderPlan
    from clearhead.ladder.methods import check_choices, parse_budget, parse_methods, plan_method
    from clearhead.ladder.recommend import check_margin

    choices = rename_settings(choices, RENAMED_SETTINGS, stacklevel=4)
    check_choices(choices)
    candidates = {"train": source, "dev": dev, "test": test}
    parts = {part: rows for part, rows in candidates.items() if rows is not None}
    paths = {part: _absolute_path(rows) for part, rows in parts.items()}
    plans = {method: plan_method(method, paths, choices) for method in parse_methods(methods)}
    folder = choose_ladder_folder(paths.get("train")) if output is None else Path(output)
    opened = {part: open_source(rows) for part, rows in parts.items()}
    request = JobRequest(
        plan=LadderPlan(methods=plans, budget=parse_budget(budget), margin=check_margin(margin)),
        sources=opened,
        folder=folder,
        command=command,
        allow_different_cpu=allow_different_cpu,
        events=events or NO_EVENTS,
    )
    return run_job(LadderJob(request))


def _absolute_path(rows: Any) -> str | None:
    return str(Path(rows).absolute()) if isinstance(rows, str | os.PathLike) else None


__all__ = ["inspect", "ladder", "learn_tokenizer", "pretrain", "train"]
