"""Training one method on rows: the steps from a file to a run folder."""

from __future__ import annotations

import time
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from clearhead.caller import setting
from clearhead.checkpoint.passport import TrainingRecord
from clearhead.data import Source
from clearhead.data.sources.row_store import store_rows
from clearhead.errors import InputError
from clearhead.evaluate.examples import second_look
from clearhead.jobs.cost import cost_of
from clearhead.jobs.job import JobRequest
from clearhead.jobs.kinds import has_vectors
from clearhead.jobs.machine import begin_computing, resolve_compute
from clearhead.jobs.method import FitInput
from clearhead.jobs.plan import NETWORK, RunPlan
from clearhead.jobs.prepare import Prepared, prepare
from clearhead.jobs.profile import DatasetProfile, counted_rows, profile_dataset
from clearhead.jobs.run_file import RUN, Computed, begin_run, read_saved
from clearhead.jobs.run_folder import check_folder, take_back
from clearhead.jobs.training_state import drop_state
from clearhead.model import Model
from clearhead.train.baselines import Baseline, compare_baselines, fit_baselines, verdict
from clearhead.train.finish import KeptModel, Run, held_out_logits, measured, passport, write_metrics, write_split
from clearhead.train.method_choice import keep_better
from clearhead.train.methods import FITS
from clearhead.train.report import inspected_rows, write_report
from clearhead.train.resolve import ResolvedInputs, resolve_inputs, resolve_plan
from clearhead.train.seeds import FittedSeeds, fit_seeds, restore_method
from clearhead.train.start import StartModel

if TYPE_CHECKING:
    from clearhead.tasks.evaluation import Evaluation
    from clearhead.tasks.task import Calibration


def read_run(folder: Path) -> tuple[RunPlan, str]:
    """The plan and the command of a run that was begun."""
    saved = read_saved(folder)
    return saved.plan, saved.command


class TrainJob:
    """A method that learns from rows with labels. Each step leaves what later steps read."""

    sources: dict[str, Source]  # of `plan`: rows that are read from their files once
    profile: DatasetProfile
    start: StartModel
    model: Model | None
    inputs: ResolvedInputs
    computed: Computed
    existed: bool  # of `prepare`: the folder was there before
    prepared: Prepared
    resolved: RunPlan  # what run.json has
    seeds: FittedSeeds  # of `fit`
    fitting_seconds: float
    kept: KeptModel  # of `measure`
    reading: Calibration
    evaluations: dict[str, Evaluation]
    baselines: tuple[Baseline, ...]
    notes: tuple[str, ...]
    trained: TrainingRecord  # of `save`

    def __init__(self, request: JobRequest[RunPlan]) -> None:
        self.request = request
        self.begun = time.perf_counter()

    def plan(self) -> None:
        """Look at the rows, load the model, and resolve how rows are read."""
        request, asked, events = self.request, self.request.plan, self.request.events
        if asked.method in NETWORK and has_vectors(asked.model):
            features = setting("method", "features")
            raise InputError(f"{asked.model} holds word vectors, which are no network: say {features}.")
        events.progress("loading", 0, None)
        compute = resolve_compute(asked)
        allowed = request.allow_different_cpu
        computed = begin_computing(
            request.folder, compute.machine, resume=request.resume, allowed=allowed, say=events.message
        )
        if not request.resume:
            check_folder(request.folder)
        self.sources = {part: store_rows(source) for part, source in request.sources.items()}
        sources = {part: counted_rows(source, events.progress) for part, source in self.sources.items()}
        self.profile = profile_dataset(sources, asked)
        self._check_method()
        for line in (*(said for source in sources.values() for said in source.said), *self.profile.columns.said):
            events.message(line)
        task = self.profile.task
        events.message(f"task: {task.name} ({task.about}; {task.rows.describe(self.profile.space)})")
        events.progress("loading the model", 0, None)
        self.start = StartModel(self.profile, events)
        threads = replace(asked, threads=compute.threads)
        self.model = self.start.load(threads, asked.settings.seed)
        self.inputs = resolve_inputs(asked, compute, self.profile, self.model)
        if asked.method in NETWORK:
            computed = computed.with_threads(self.inputs.threads)
        self.computed = computed.with_precision("float" if self.model is None else self.model.runner.precision)

    def prepare(self) -> None:
        """Rows as tokens in their parts; then the plan is resolved and stored."""
        request, asked, events, inputs = self.request, self.request.plan, self.request.events, self.inputs
        tokenizer = None if self.model is None else self.model.tokenizer
        profile = replace(self.profile, task=inputs.task)
        self.prepared = prepare(profile, asked, tokenizer, inputs.fit)
        for line in self.prepared.said:
            events.message(line)
        self.resolved = resolve_plan(asked, inputs, self.prepared, self.model)
        if self.resolved.method != asked.method:
            why = "two texts and too few dev rows to compare it with fine-tuning"
            events.message(f"method: features ({why}; override with {setting('method', 'finetune')})")
            self.model = self.start.encoder(self.resolved)
        elif self.model is not None and asked.method in NETWORK:
            epochs, rate = self.resolved.settings.epochs, self.resolved.settings.learning_rate
            if asked.auto_epochs:
                events.message(f"epochs: {epochs} (chosen from the dataset size; override with {setting('epochs')})")
            if asked.auto_rate:
                events.message(
                    f"learning rate: {rate:g} (chosen from the model size; override with {setting('learning_rate')})"
                )
        self.existed = request.folder.exists()
        facts = _run_facts(self.prepared)
        begin_run(request.folder, self.resolved, facts, request.command, self.computed, resume=request.resume)
        events.started(request.folder)

    def fit(self) -> None:
        """Learn with one seed or several."""
        request, folder, plan, events = self.request, self.request.folder, self.resolved, self.request.events
        begun, over = time.perf_counter(), read_saved(folder).fitted
        inputs = FitInput(
            prepared=self.prepared,
            plan=plan,
            settings=plan.settings,
            folder=folder,
            model=self.model,
            events=events,
            finish=request.finish,
        )
        try:
            if plan.seeds > 1:
                self.seeds = fit_seeds(inputs, self.start, events, over)
            else:
                events.seed_started(plan.settings.seed, 0, 1)
                fit = FITS[plan.method] if over is None or self.model is None else partial(restore_method, over=over)
                self.seeds = FittedSeeds(fitted=fit(inputs), scores=(), log_folder=folder)
        except InputError:  # refused before it learned anything
            if not request.resume and [path.name for path in folder.iterdir()] == [RUN]:
                take_back(folder, existed=self.existed)
            raise
        self.fitting_seconds = time.perf_counter() - begun

    def measure(self) -> None:
        """The fitted model and the baselines on held-out rows, and which of them is kept."""
        plan, prepared, folder, events = self.resolved, self.prepared, self.request.folder, self.request.events
        events.progress("measuring", 0, None)
        beside = fit_baselines(prepared, plan, folder, events.progress, self.start.encoder)
        inputs = FitInput(prepared=prepared, plan=plan, settings=plan.settings, folder=folder, events=events)
        fitted = self.seeds.fitted
        logits = held_out_logits(prepared, fitted)
        self.kept = kept = keep_better(inputs, fitted, logits, beside, self.fitting_seconds, self.start.encoder)
        self.reading, self.evaluations, notes = measured(prepared, kept.logits, kept.plan)
        self.baselines = ()
        main = next((part for part in ("test", "dev") if part in self.evaluations), None)
        if main is not None:
            found = self.evaluations[main]
            self.baselines = compare_baselines(kept.beside, prepared, kept.plan, kept.logits, self.reading, main)
            notes = (*notes, *filter(None, [verdict(self.baselines, found.main, found.value)]))
        self.notes = (*kept.result.notes, *notes, *self.computed.notes())

    def save(self) -> None:
        """The model folder with its passport, and which rows were held out."""
        self.trained = passport(
            self.prepared,
            self.kept,
            self.reading,
            self.evaluations,
            seeds=[score.seed for score in self.seeds.scores] or [self.kept.plan.settings.seed],
            max_length=self.inputs.fit.max_length,
            command=self.request.command,
            computed=self.computed,
        )
        self.kept.result.save(self.request.folder, self.trained)
        write_split(self.request.folder, self.prepared)

    def report(self) -> Run:
        """The page about the run; then its state goes, and metrics.json says that it is finished."""
        folder, events, kept, prepared = self.request.folder, self.request.events, self.kept, self.prepared
        run = self._result()
        if self.request.report:
            events.progress("writing the report", 0, None)
            second = second_look(
                folder,
                prepared.parts,
                self.evaluations,
                kept.plan.device,
                events.progress,
                run.seconds,
                weights=kept.result.model,
            )
            run = replace(run, cost={**run.cost, **second.cost})
            inspected = inspected_rows(run, self.request.plan, prepared, self.sources)
            page = write_report(run, prepared, self.trained, inspected, self.seeds.log_folder, second)
            run = replace(run, report=page)
        if kept.plan.method in NETWORK:
            drop_state(folder, kept.result.notes, keep=kept.plan.keep_state)
        write_metrics(folder, self.evaluations, self.seeds.scores, run.sweep)  # last: it is finished
        if self.resolved.method in NETWORK and kept.plan.method not in NETWORK:
            # the model folder has no weights of the network to resume from
            drop_state(folder, kept.result.notes, keep=kept.plan.keep_state)
        return run

    def _check_method(self) -> None:
        """Refuse a method that cannot learn the task."""
        asked, task = self.request.plan, self.profile.task
        if asked.method not in task.methods:
            raise InputError(f"{task.name} is learned by {', '.join(task.methods)}, and not by {asked.method}.")
        asked.check_task(task)

    def _result(self) -> Run:
        """Everything that was done, as one value."""
        kept, prepared, sweep = self.kept, self.prepared, self.seeds.fitted.sweep
        return Run(
            folder=self.request.folder,
            task=prepared.task.name,
            method=kept.plan.method,
            labels=prepared.space.names,
            columns=self.trained.columns,
            rows={name: len(part) for name, part in prepared.parts.items()},
            evaluations=self.evaluations,
            seeds=self.seeds.scores,
            said=(*self.profile.columns.said, *prepared.said),
            notes=self.notes,
            skipped=prepared.skipped,
            seconds=time.perf_counter() - self.begun,
            cost=cost_of(self.seeds.log_folder, self.begun, self.fitting_seconds),
            sweep=() if sweep is None else sweep.swept,
            baselines=self.baselines,
            machine=self.computed.last,
        )


def _run_facts(prepared: Prepared) -> dict[str, object]:
    """What a resumed run must find again."""
    return {
        "columns": {part: getattr(prepared.columns, part) for part in ("text", "text_b", "label", "id", "split")},
        "task": prepared.task.name,
        "labels": list(prepared.space.names),
        "data": {name: asdict(part.mark()) for name, part in prepared.parts.items()},
        "tokens": prepared.tokens,
    }
