"""Learning to translate as a whole job: read, cut into pieces, train, choose on dev, translate, measure, keep."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clearhead.caller import setting
from clearhead.checkpoint.passport import TrainingRecord, read_passport, write_passport
from clearhead.data.split import sample_rows
from clearhead.errors import ClearheadError, InputError
from clearhead.files import write_json
from clearhead.jobs.cost import measure_cost
from clearhead.jobs.defaults import resolve_threads
from clearhead.jobs.events import RunEvents
from clearhead.jobs.job import JobRequest
from clearhead.jobs.machine import Compute, resolve_compute, start_computing
from clearhead.jobs.plan import RunPlan
from clearhead.jobs.run_file import ComputeHistory, read_run_file, start_run
from clearhead.jobs.run_folder import REPORT_FILE, SPLIT_FILE, check_run_folder, remove_unstarted_run
from clearhead.jobs.training_state import STATE_FOLDER, remove_state, restore_weights
from clearhead.machine.cpu import versions
from clearhead.metrics.translation import measure_translations
from clearhead.model import Model
from clearhead.model.loading import load, require_torch
from clearhead.progress import for_stage
from clearhead.train.finish import Run, base_model_name, write_metrics
from clearhead.train.network import describe_early_end, finish_stopped_run, run_training, seconds_per_seed
from clearhead.training.log import read_log
from clearhead.training.loss_monitor import LossMonitor
from clearhead.translate.dataset import Texts, read_texts
from clearhead.translate.evaluate import Translated, translated, translations
from clearhead.translate.report import write_report
from clearhead.translate.translator import VOCABULARY, encode, is_new, make_model, planned_shape

if TYPE_CHECKING:
    from clearhead.tasks.evaluation import Evaluation
    from clearhead.tasks.parallel import ParallelDataset

ROWS_SEEN = 600_000  # rows that a new translator sees, each as often as it is an epoch
JUDGED = 400  # dev rows that an epoch is judged by
WORDS = 4  # of a target: BLEU counts four of them in a row, and is 0 whatever is said where there are fewer


class TranslateJob:
    """A translator that learns from rows with a source and a target. Each step leaves what later steps read."""

    compute: Compute  # of `plan`
    computed: ComputeHistory
    texts: Texts  # of `prepare`
    resolved: RunPlan  # what run.json has
    model: Model
    data: ParallelDataset
    long_rows: int  # that were left out
    learned: list[str]  # of `fit`
    trained: TrainingRecord  # of `measure`
    served: Model  # as it was saved
    translated: dict[str, Translated]

    def __init__(self, request: JobRequest[RunPlan]) -> None:
        self.request = request
        self.begun = time.perf_counter()

    def plan(self) -> None:
        """Refuse what a translator cannot learn with, and find out where it computes."""
        request, asked = self.request, self.request.plan
        require_torch("Learning to translate")
        if asked.method != "finetune":
            raise InputError(f"translate is learned by finetune, and not by {asked.method}.")
        for name in ("freeze_encoder", "gradual_unfreezing", "lm_weight"):
            if getattr(asked.settings, name):
                raise InputError(f"{name} is for tasks with a head on an encoder; translate trains the whole network.")
        if asked.seeds > 1:
            another = setting("seed")
            raise InputError(f"translate is trained with one seed at a time; run it again with another {another}.")
        self.compute = resolve_compute(asked)
        self.computed = start_computing(
            request.folder,
            self.compute.machine,
            resume=request.resume,
            allowed=request.allow_different_cpu,
            say=request.events.message,
        )
        if not request.resume:
            check_run_folder(request.folder)

    def prepare(self) -> None:
        """Rows in parts, the resolved plan, the model, and rows as tokens."""
        request, events = self.request, self.request.events
        self.texts = texts = read_texts(request.sources, request.plan, events.progress)
        for line in (*(said for source in request.sources.values() for said in source.messages), *texts.said):
            events.message(line)
        checkpoint = None if is_new(request.plan) else make_model(request.plan, texts, request.folder, events)
        self.resolved = plan = self._resolve(checkpoint)
        self.computed = self.computed.set_threads(plan.threads)
        existed = request.folder.exists()
        facts = {"columns": texts.sides, "task": "translate"}
        marks = {"data": {part: asdict(texts.mark(part)) for part in texts.parts}}
        start_run(request.folder, plan, facts | marks, request.command, self.computed, resume=request.resume)
        try:
            self.model = checkpoint or make_model(plan, texts, request.folder, events)
            self.data, self.long_rows = encode(self.model, texts.parts["train"], plan)
        except ClearheadError:
            if not request.resume:
                remove_unstarted_run(request.folder, existed=existed, made=(VOCABULARY,))
            raise
        events.started(request.folder)
        tokens = int(self.data.row_tokens.sum())
        events.message(f"model: {self.model.family.title}, {self.model.parameters:,} parameters; {tokens:,} tokens")

    def fit(self) -> None:
        """Learn to the end, or take the weights of a run that was killed after its training."""
        request, over = self.request, read_run_file(self.request.folder).fitted
        if over is None:
            finish = request.finish
            plan, folder = self.resolved, request.folder
            self.learned = _fit(self.model, self.data, self.texts, plan, folder, request.events, finish=finish)
        else:
            restore_weights(self.model, request.folder)
            self.learned = over.notes

    def measure(self) -> None:
        """Dev and test rows, translated by the model as it was saved."""
        folder, plan = self.request.folder, self.resolved
        self.trained = _trained(plan, self.texts, self.request.command, self.computed)
        replace(self.model, trained=self.trained).save(folder)
        self.served = load(folder, device=plan.device, threads=plan.threads, weights=self.model)
        self.translated = _measured(self.served, self.texts, plan, self.request.events)

    def save(self) -> None:
        """The metrics beside the model, and which rows were held out."""
        folder, texts = self.request.folder, self.texts
        metrics = {part: one.scores.to_json()["metrics"] for part, one in self.translated.items()}
        passport = read_passport(folder)
        assert passport is not None  # it was saved just now
        self.trained = replace(self.trained, metrics=metrics)
        write_passport(folder, replace(passport, trained=self.trained))
        own = [part for part in self.translated if part not in self.request.sources]
        held = {part: [pair.number for pair in texts.parts[part]] for part in own}
        write_json(folder / SPLIT_FILE, {"source": texts.names["train"], "parts": held})

    def report(self) -> Run:
        """The page about the run; then its state goes, and metrics.json says that it is finished."""
        folder, evaluations = self.request.folder, {part: one.evaluation() for part, one in self.translated.items()}
        run = self._result(evaluations)
        if self.request.report:
            run = replace(run, report=self._write_report(run))
        remove_state(folder, self.learned, keep=self.resolved.keep_state)
        write_metrics(folder, evaluations, ())  # last: it is finished
        return run

    def _resolve(self, checkpoint: Model | None) -> RunPlan:
        """The plan with the epochs of a new model, the precision and the threads: what is stored."""
        asked, settings = self.request.plan, self.compute.settings
        choices: dict[str, Any] = {}
        if asked.auto_epochs and checkpoint is None:
            epochs = min(max(ROWS_SEEN // len(self.texts.parts["train"]), 10), 60)
            choices["auto_epochs"], settings = False, replace(settings, epochs=epochs)
            number = setting("epochs", "N")
            self.request.events.message(f"epochs: {epochs} (by the number of rows; override with {number})")
        shape = planned_shape(asked) if checkpoint is None else checkpoint.shape
        threads = resolve_threads(self.compute.threads, settings, shape)
        return replace(asked, threads=threads, settings=settings, **choices)

    def _result(self, evaluations: Mapping[str, Evaluation]) -> Run:
        texts = self.texts
        long = f"{self.long_rows:,} training rows are too long to learn from, and were left out."
        return Run(
            folder=self.request.folder,
            task="translate",
            method=self.resolved.method,
            labels=(),
            columns=self.trained.columns,
            rows={part: len(rows) for part, rows in texts.parts.items()},
            evaluations=evaluations,
            seeds=(),
            messages=texts.said,
            notes=(*([long] if self.long_rows else []), *self.learned, *self.computed.notes()),
            skipped=texts.skipped,
            seconds=time.perf_counter() - self.begun,
            cost=measure_cost(self.request.folder, self.begun, 0.0),
            machine=self.computed.latest,
        )

    def _write_report(self, run: Run) -> Path:
        self.request.events.progress("writing the report", 0, None)
        return write_report(
            run.folder / REPORT_FILE,
            title=f"{run.folder.name}: translate",
            model=self.served,
            folder=run.folder,
            found=self.translated,
            evaluations=run.evaluations,
            trained=self.trained,
            command=self.request.command,
            notes=[*run.messages, *run.notes],
            cost=run.cost,
            log=list(read_log(run.folder)),
            texts=self.texts,
            settings=self.trained.settings,
        )


def _fit(
    model: Model, data: ParallelDataset, texts: Texts, plan: RunPlan, folder: Path, events: RunEvents, *, finish: bool
) -> list[str]:
    """Learn to the end from the last saved state; the model then has the best weights."""
    import numpy as np

    from clearhead.training.loop import train_steps
    from clearhead.training.objectives import objective_for
    from clearhead.training.optimizer import make_optimizer
    from clearhead.training.state import TrainingProgress, TrainingState, load_state

    settings = plan.settings
    network = model.use_core().network
    state = TrainingState(network, make_optimizer(network, settings), TrainingProgress())
    load_state(folder / STATE_FOLDER, state)
    score = _scorer(model, texts, plan)
    if finish:
        finish_stopped_run(state, data, settings, folder, score)
    objective = objective_for("words", settings)
    watch = LossMonitor(objective.constant_loss(data.target.ids) or 0.0, settings, generates_text=True)
    steps = train_steps(
        state,
        data,
        settings,
        objective=objective,
        score=score,
        device=str(model.core.device),
        seconds=seconds_per_seed(plan),
        row_weights=data.row_words.astype(np.float64),  # every word counts alike, as in the paper
    )
    run_training(state, steps, folder, settings, watch, events)
    state.restore_best()
    network.eval()
    stuck = watch.diagnose()
    early = describe_early_end(state, data, settings, plan)
    return early if stuck is None or (state.progress.best_score or 0) > 1 else [*early, stuck]


def _scorer(model: Model, texts: Texts, plan: RunPlan) -> Callable[[], float] | None:
    """BLEU of the likeliest words on some dev rows, by which epochs are compared; chrF where there are few words."""
    dev = texts.parts.get("dev")
    if dev is None:
        return None
    rows = [dev[place] for place in sample_rows(len(dev), min(JUDGED, len(dev)), plan.settings.seed)]
    words = sum(len(pair.target.split()) for pair in rows) / len(rows)
    name = "bleu" if words >= WORDS else "chrf"

    def score() -> float:
        said = translations(model, [pair.source for pair in rows], plan.prefix, beam=1)
        return measure_translations(said, [pair.target for pair in rows], n=0).measures[name].value

    return score


def _measured(model: Model, texts: Texts, plan: RunPlan, events: RunEvents) -> dict[str, Translated]:
    """Dev and test rows, translated and measured."""
    held = [part for part in ("dev", "test") if part in texts.parts]

    stages = {part: for_stage(events.progress, f"translating {part} rows") for part in held}
    return {part: translated(model, texts.parts[part], plan.prefix, plan.num_beams, stages[part]) for part in held}


def _trained(plan: RunPlan, texts: Texts, command: str, computed: ComputeHistory) -> TrainingRecord:
    """What the model folder promises about itself."""
    kept = ("dev_share", "test_share", "threads", "prefix", "num_beams", "pieces", "shared")
    return TrainingRecord(
        task="translate",
        method=plan.method,
        kind="texts",
        columns=texts.sides,
        max_length=plan.max_length,
        base="" if is_new(plan) else base_model_name(plan.model),
        data={part: texts.mark(part) for part in texts.parts},
        seeds=[plan.settings.seed],
        settings=asdict(plan.settings) | {key: getattr(plan, key) for key in kept},
        versions=versions(),
        command=command,
        machine=computed.machine,
        resumed_on=list(computed.resumed_on),
    )
