"""The translation job: read parallel text, tokenize, train, select on dev rows, translate and score, save."""

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
from clearhead.jobs.machine import Compute, resolve_compute, update_compute_history
from clearhead.jobs.plan import RunPlan
from clearhead.jobs.run_file import ComputeHistory, read_run_file, start_run
from clearhead.jobs.run_folder import REPORT_FILE, SPLIT_FILE, check_run_folder, remove_unstarted_run
from clearhead.jobs.training_state import STATE_FOLDER, remove_state, restore_weights
from clearhead.machine.cpu import library_versions
from clearhead.metrics.translation import measure_translations
from clearhead.model import Model
from clearhead.model.loading import load, require_torch
from clearhead.progress import for_stage
from clearhead.train.finish import Run, format_base_model, write_metrics
from clearhead.train.network import compute_seconds_per_seed, describe_early_end, finish_stopped_run, run_training
from clearhead.training.log import read_log
from clearhead.training.loss_monitor import LossMonitor
from clearhead.translate.dataset import ParallelTexts, read_parallel_texts
from clearhead.translate.evaluate import ScoredTranslations, score_translations, translate_sources
from clearhead.translate.report import write_report
from clearhead.translate.translator import TOKENIZER_FOLDER, encode_pairs, is_new_model, make_model, resolve_shape

if TYPE_CHECKING:
    from clearhead.tasks.evaluation import Evaluation
    from clearhead.tasks.parallel import ParallelDataset

TRAINING_ROWS = 600_000  # rows that a new model is trained on, over all epochs
SCORED_ROWS = 400  # dev rows that are scored after an epoch
MIN_BLEU_WORDS = 4  # mean words per target: BLEU counts 4-grams and is 0 for shorter targets


class TranslateJob:
    """Trains a translation model on parallel text; each step stores what later steps read."""

    compute: Compute  # set by `plan`
    compute_history: ComputeHistory
    texts: ParallelTexts  # set by `prepare`
    resolved_plan: RunPlan  # the plan in run.json
    model: Model
    train_rows: ParallelDataset
    long_rows: int  # number of rows that are too long
    training_notes: list[str]  # set by `fit`
    training_record: TrainingRecord  # set by `measure`
    saved_model: Model  # loaded from the saved folder
    score_translations: dict[str, ScoredTranslations]

    def __init__(self, request: JobRequest[RunPlan]) -> None:
        self.request = request
        self.started_at = time.perf_counter()

    def plan(self) -> None:
        """Refuse settings that translation does not support, and resolve device, precision and threads."""
        request, requested = self.request, self.request.plan
        require_torch("Training a translation model")
        if requested.method != "finetune":
            raise InputError(f"translate supports only the method finetune, got {requested.method}.")
        for name in ("freeze_encoder", "gradual_unfreezing", "lm_weight"):
            if getattr(requested.settings, name):
                raise InputError(f"{name} is for tasks with a head on an encoder; translate trains the whole network.")
        if requested.seeds > 1:
            seed_option = setting("seed")
            raise InputError(f"translate supports one seed per run; run it again with another {seed_option}.")
        self.compute = resolve_compute(requested)
        self.compute_history = update_compute_history(
            request.folder,
            self.compute.machine,
            resume=request.resume,
            allowed=request.allow_different_cpu,
            report_message=request.events.message,
        )
        if not request.resume:
            check_run_folder(request.folder)

    def prepare(self) -> None:
        """Read and split the rows, resolve and store the plan, create the model, and tokenize the rows."""
        request, events = self.request, self.request.events
        self.texts = texts = read_parallel_texts(request.sources, request.plan, events.progress)
        for line in (*(message for source in request.sources.values() for message in source.messages), *texts.messages):
            events.message(line)
        checkpoint = None if is_new_model(request.plan) else make_model(request.plan, texts, request.folder, events)
        self.resolved_plan = plan = self._resolve(checkpoint)
        self.compute_history = self.compute_history.with_threads(plan.threads)
        folder_existed = request.folder.exists()
        columns = {"columns": texts.column_names, "task": "translate"}
        fingerprints = {"data": {part: asdict(texts.fingerprint(part)) for part in texts.parts}}
        start_run(
            request.folder, plan, columns | fingerprints, request.command, self.compute_history, resume=request.resume
        )
        try:
            self.model = checkpoint or make_model(plan, texts, request.folder, events)
            self.train_rows, self.long_rows = encode_pairs(self.model, texts.parts["train"], plan)
        except ClearheadError:
            if not request.resume:
                remove_unstarted_run(request.folder, existed=folder_existed, patterns=(TOKENIZER_FOLDER,))
            raise
        events.started(request.folder)
        tokens = int(self.train_rows.row_tokens.sum())
        events.message(f"model: {self.model.family.title}, {self.model.parameters:,} parameters; {tokens:,} tokens")

    def fit(self) -> None:
        """Train the model, or load the weights of a run that was interrupted after training."""
        request, fit_record = self.request, read_run_file(self.request.folder).fitted
        if fit_record is None:
            finish = request.finish
            plan, folder = self.resolved_plan, request.folder
            self.training_notes = _train_model(
                self.model, self.train_rows, self.texts, plan, folder, request.events, finish=finish
            )
        else:
            restore_weights(self.model, request.folder)
            self.training_notes = fit_record.notes

    def measure(self) -> None:
        """Save the model, load it again, and translate and score the dev and test rows."""
        folder, plan = self.request.folder, self.resolved_plan
        self.training_record = _make_training_record(plan, self.texts, self.request.command, self.compute_history)
        replace(self.model, trained=self.training_record).save(folder)
        self.saved_model = load(folder, device=plan.device, threads=plan.threads, weights=self.model)
        self.translations = _translate_held_out(self.saved_model, self.texts, plan, self.request.events)

    def save(self) -> None:
        """Write the metrics into the passport, and the numbers of the held-out rows."""
        folder, texts = self.request.folder, self.texts
        metrics = {part: translations.scores.to_json()["metrics"] for part, translations in self.translations.items()}
        passport = read_passport(folder)
        assert passport is not None  # saved by `measure`
        self.training_record = replace(self.training_record, metrics=metrics)
        write_passport(folder, replace(passport, trained=self.training_record))
        split_parts = [part for part in self.translations if part not in self.request.sources]
        row_numbers = {part: [pair.number for pair in texts.parts[part]] for part in split_parts}
        write_json(folder / SPLIT_FILE, {"source": texts.names["train"], "parts": row_numbers})

    def report(self) -> Run:
        """Write the report, remove the training state, and mark the run as finished."""
        folder, evaluations = (
            self.request.folder,
            {part: translations.evaluation() for part, translations in self.translations.items()},
        )
        run = self._make_result(evaluations)
        if self.request.report:
            run = replace(run, report=self._write_report(run))
        remove_state(folder, self.training_notes, keep=self.resolved_plan.keep_state)
        write_metrics(folder, evaluations, ())  # last: it marks the run as finished
        return run

    def _resolve(self, checkpoint: Model | None) -> RunPlan:
        """Return the plan with resolved epochs, precision and threads, which is stored."""
        requested, settings = self.request.plan, self.compute.settings
        choices: dict[str, Any] = {}
        if requested.auto_epochs and checkpoint is None:
            epochs = min(max(TRAINING_ROWS // len(self.texts.parts["train"]), 10), 60)
            choices["auto_epochs"], settings = False, replace(settings, epochs=epochs)
            option = setting("epochs", "N")
            self.request.events.message(f"epochs: {epochs} (chosen from the number of rows; override with {option})")
        shape = resolve_shape(requested) if checkpoint is None else checkpoint.shape
        threads = resolve_threads(self.compute.threads, settings, shape)
        return replace(requested, threads=threads, settings=settings, **choices)

    def _make_result(self, evaluations: Mapping[str, Evaluation]) -> Run:
        texts = self.texts
        long_note = f"{self.long_rows:,} training rows exceed max_length and were skipped."
        return Run(
            folder=self.request.folder,
            task="translate",
            method=self.resolved_plan.method,
            labels=(),
            columns=self.training_record.columns,
            rows={part: len(rows) for part, rows in texts.parts.items()},
            evaluations=evaluations,
            seeds=(),
            messages=texts.messages,
            notes=(*([long_note] if self.long_rows else []), *self.training_notes, *self.compute_history.notes()),
            skipped=texts.skipped,
            seconds=time.perf_counter() - self.started_at,
            cost=measure_cost(self.request.folder, self.started_at, 0.0),
            machine=self.compute_history.latest,
        )

    def _write_report(self, run: Run) -> Path:
        self.request.events.progress("writing the report", 0, None)
        return write_report(
            run.folder / REPORT_FILE,
            title=f"{run.folder.name}: translate",
            model=self.saved_model,
            folder=run.folder,
            translations=self.translations,
            evaluations=run.evaluations,
            training_record=self.training_record,
            command=self.request.command,
            notes=[*run.messages, *run.notes],
            cost=run.cost,
            log=list(read_log(run.folder)),
            texts=self.texts,
            settings=self.training_record.settings,
        )


def _train_model(
    model: Model,
    dataset: ParallelDataset,
    texts: ParallelTexts,
    plan: RunPlan,
    folder: Path,
    events: RunEvents,
    *,
    finish: bool,
) -> list[str]:
    """Train from the last saved state to the end, and restore the best weights."""
    import numpy as np

    from clearhead.training.loop import train_steps
    from clearhead.training.objectives import objective_for
    from clearhead.training.optimizer import make_optimizer
    from clearhead.training.state import TrainingProgress, TrainingState, load_state

    settings = plan.settings
    network = model.use_core().network
    state = TrainingState(network, make_optimizer(network, settings), TrainingProgress())
    load_state(folder / STATE_FOLDER, state)
    score = _make_scorer(model, texts, plan)
    if finish:
        finish_stopped_run(state, dataset, settings, folder, score)
    objective = objective_for("words", settings)
    loss_monitor = LossMonitor(objective.constant_loss(dataset.target.ids) or 0.0, settings, generates_text=True)
    steps = train_steps(
        state,
        dataset,
        settings,
        objective=objective,
        score=score,
        device=str(model.core.device),
        seconds=compute_seconds_per_seed(plan),
        row_weights=dataset.row_words.astype(np.float64),  # every token has the same weight, as in the paper
    )
    run_training(state, steps, folder, settings, loss_monitor, events)
    state.restore_best()
    network.eval()
    stuck_note = loss_monitor.diagnose()
    early_end = describe_early_end(state, dataset, settings, plan)
    return early_end if stuck_note is None or (state.progress.best_score or 0) > 1 else [*early_end, stuck_note]


def _make_scorer(model: Model, texts: ParallelTexts, plan: RunPlan) -> Callable[[], float] | None:
    """Return a function that scores an epoch: BLEU of greedy translations of dev rows, or chrF for short targets."""
    dev = texts.parts.get("dev")
    if dev is None:
        return None
    rows = [dev[index] for index in sample_rows(len(dev), min(SCORED_ROWS, len(dev)), plan.settings.seed)]
    mean_words = sum(len(pair.target.split()) for pair in rows) / len(rows)
    metric = "bleu" if mean_words >= MIN_BLEU_WORDS else "chrf"

    def score() -> float:
        hypotheses = translate_sources(model, [pair.source for pair in rows], plan.prefix, num_beams=1)
        return measure_translations(hypotheses, [pair.target for pair in rows], n=0).measures[metric].value

    return score


def _translate_held_out(
    model: Model, texts: ParallelTexts, plan: RunPlan, events: RunEvents
) -> dict[str, ScoredTranslations]:
    """Translate and score the dev and test rows."""
    parts = [part for part in ("dev", "test") if part in texts.parts]

    stages = {part: for_stage(events.progress, f"translating {part} rows") for part in parts}
    return {
        part: score_translations(model, texts.parts[part], plan.prefix, plan.num_beams, stages[part]) for part in parts
    }


def _make_training_record(
    plan: RunPlan, texts: ParallelTexts, command: str, compute_history: ComputeHistory
) -> TrainingRecord:
    """Return the training record for the passport of the model."""
    setting_names = ("dev_share", "test_share", "threads", "prefix", "num_beams", "pieces", "shared")
    return TrainingRecord(
        task="translate",
        method=plan.method,
        kind="texts",
        columns=texts.column_names,
        max_length=plan.max_length,
        base="" if is_new_model(plan) else format_base_model(plan.model),
        data={part: texts.fingerprint(part) for part in texts.parts},
        seeds=[plan.settings.seed],
        settings=asdict(plan.settings) | {key: getattr(plan, key) for key in setting_names},
        versions=library_versions(),
        command=command,
        machine=compute_history.machine,
        resumed_on=list(compute_history.resumed_on),
    )
