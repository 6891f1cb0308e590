"""The pre-training job: tokenize, train, evaluate on held-out text, and write a model folder with its card."""

from __future__ import annotations

import shutil
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from clearhead.caller import setting
from clearhead.checkpoint.weights import has_entry
from clearhead.errors import ClearheadError
from clearhead.files import decode_dataclass, read_json, write_json
from clearhead.jobs.cost import measure_cost
from clearhead.jobs.defaults import resolve_threads
from clearhead.jobs.job import JobRequest
from clearhead.jobs.run_file import check_machine
from clearhead.jobs.run_folder import METRICS_FILE, check_run_folder, remove_unstarted_run
from clearhead.jobs.training_state import STATE_FOLDER, remove_state, restore_weights
from clearhead.machine.cpu import library_versions
from clearhead.model import Model
from clearhead.model.loading import require_torch
from clearhead.pretrain.card import write_card
from clearhead.pretrain.data import (
    CORPUS_FOLDER,
    EVALUATION_TOKENS,
    FINAL_EVALUATION_TOKENS,
    HELD_OUT_FOLDER,
    BatchSampler,
    PretrainTexts,
    check_files,
    make_held_out_batches,
    read_texts,
)
from clearhead.pretrain.held_out import HeldOutScores, explain_stuck_loss
from clearhead.pretrain.model import (
    GENERATOR_FOLDER,
    TOKENIZER_FOLDER,
    make_electra_pair,
)
from clearhead.pretrain.plan import FORMAT, KIND, PretrainPlan, SavedPretrain, read_pretrain_run, write_pretrain_run
from clearhead.pretrain.result import PretrainResult, write_report
from clearhead.pretrain.run import PretrainRun, generator_model, init_new_weights
from clearhead.pretrain.start import make_sampler, record_source, resolve_dropout, resolve_steps, start_model
from clearhead.pretraining.objective import PretrainObjective
from clearhead.pretraining.shards import INDEX_FILE
from clearhead.train.network import run_training
from clearhead.training.log import read_log
from clearhead.training.loss_monitor import LossMonitor

EVALUATIONS_FILE = "evaluations.json"
FACTS_FILE = "pretraining.json"


class PretrainJob:
    """Pre-trains a language model on unlabeled text; each step stores what later steps read."""

    folder_existed: bool  # set by `plan`: the folder existed before the run
    saved: SavedPretrain  # the content of run.json; `prepare` resolves its plan
    run: PretrainRun  # set by `prepare`
    history: tuple[HeldOutScores, ...]  # set by `fit`
    held_out: HeldOutScores | None  # set by `measure`
    notes: list[str]

    def __init__(self, request: JobRequest[PretrainPlan]) -> None:
        self.request = request
        self.started_at = time.perf_counter()

    def plan(self) -> None:
        """Resolve device, precision and threads, and create the run folder or read it on resume."""
        require_torch("Pre-training")
        from clearhead.training.threads import use_threads
        from clearhead.training.torch_machine import detect_torch_machine

        request, plan, folder = self.request, self.request.plan, self.request.folder
        if plan.threads is not None:
            use_threads(plan.threads)
        machine = detect_torch_machine(plan.settings.precision, plan.device)
        plan = replace(plan, settings=plan.settings.resolve_precision(machine.precision))
        self.saved = SavedPretrain(format=FORMAT, kind=KIND, plan=plan, command=request.command, machine=machine)
        self.folder_existed = folder.exists()
        check_files(plan)
        if not request.resume:
            check_run_folder(folder)
            write_pretrain_run(folder, self.saved)
            return
        saved = read_pretrain_run(folder)
        for note in check_machine(folder, saved.compute_history, machine, allowed=request.allow_different_cpu):
            request.events.message(note)
        compute_history = saved.compute_history.resume_on(machine)
        self.saved = replace(
            self.saved,
            source=saved.source,
            machine=compute_history.machine,
            resumed_on=compute_history.resumed_on,
            fitted=saved.fitted,
        )

    def prepare(self) -> None:
        """Load the model, tokenize the text and build the sampler; then resolve and store the plan."""
        request, folder, events = self.request, self.request.folder, self.request.events
        try:
            model, objective, texts, sampler, held_out_batches = self._load_inputs()
        except ClearheadError:
            if not request.resume:
                outputs = (TOKENIZER_FOLDER, CORPUS_FOLDER, HELD_OUT_FOLDER, "*.bin", ".*.part")
                remove_unstarted_run(folder, existed=self.folder_existed, patterns=outputs)
            raise
        texts = replace(texts, messages=(*texts.messages, *sampler.describe_skipped_documents()))
        for message in texts.messages:
            events.message(message)
        seed, checkpoint = self.saved.plan.settings.seed, self.saved.plan.model
        is_electra = objective.name == "rtd"
        network: Any = make_electra_pair(model, seed, checkpoint) if is_electra else model.use_core().network
        if checkpoint is not None and is_electra and network.fresh:
            events.message("The checkpoint has no generator; a new one is trained.")
        self.saved = resolve_steps(self.saved, folder, network, sampler, model, objective, events)
        plan = self.saved.plan
        events.started(folder)
        size = f"{model.parameters:,} parameters; {texts.tokens:,} tokens, {sampler.steps_per_epoch:,} steps per epoch"
        events.message(f"model: {model.family.title}, {size}; {plan.max_steps:,} steps of {objective.title}")
        self.run = PretrainRun(
            model=model,
            network=network,
            objective=objective,
            sampler=sampler,
            texts=texts,
            held_out_batches=held_out_batches,
            plan=plan,
            events=events,
        )

    def fit(self) -> None:
        """Train the model, or load the weights of a run that was interrupted after training."""
        fit = _train_model if self.saved.fitted is None else _load_fitted
        self.history = fit(self.run, self.request.folder)

    def measure(self) -> None:
        """Score the model on more held-out text, and explain the result in notes."""
        run, plan = self.run, self.saved.plan
        assert plan.max_steps is not None
        self.held_out = scores = run.evaluate(plan.max_steps, FINAL_EVALUATION_TOKENS) if run.held_out_batches else None
        self.notes = []
        if scores is None:
            dev = setting("dev")
            self.notes.append(
                f"The model was not evaluated: the text is too short to hold out a part of it; set {dev} to a file."
            )
        elif scores.is_stuck:
            self.notes.append(explain_stuck_loss(scores, plan.max_steps, plan.settings.learning_rate))
        elif self.history and (best := max(self.history, key=lambda scores: scores.score)).step < plan.max_steps:
            step = f"step {best.step:,}"
            self.notes.append(f"The best weights were those of {step}; the model overfitted after that.")
        self.notes += self.saved.compute_history.notes()

    def save(self) -> None:
        """Write the model folder, with ELECTRA's generator in a subfolder."""
        model, folder = self.run.model, self.request.folder
        model.save(folder)
        if self.run.objective.name == "rtd":
            generator_model(model, self.run.network).save(folder / GENERATOR_FOLDER)

    def report(self) -> PretrainResult:
        """Write pretraining.json, the card and the report, remove the training data, and mark the run as finished."""
        folder, run, plan, command = self.request.folder, self.run, self.saved.plan, self.saved.command
        log = list(read_log(folder))
        result = self._make_result(sum(step["tokens"] for step in log))
        facts = result.to_json() | {
            "plan": asdict(plan.without_folders()),
            "command": command,
            "versions": library_versions(),
        }
        facts |= {"source": run.texts.source, **asdict(self.saved.compute_history)}
        write_json(folder / FACTS_FILE, {key: value for key, value in facts.items() if key not in ("folder", "report")})
        write_card(folder, result, plan, command)
        if self.request.report:
            title = run.model.family.title
            result = replace(result, report=write_report(result, plan, run.objective, title, log, command))
        for name in (CORPUS_FOLDER, HELD_OUT_FOLDER):
            (folder / name / INDEX_FILE).unlink(
                missing_ok=True
            )  # first: after a kill, shards without an index are rebuilt
            shutil.rmtree(folder / name, ignore_errors=True)
        for path in folder.glob("*.bin"):
            path.unlink()
        remove_state(folder, (), keep=plan.keep_state)
        held_out = None if self.held_out is None else self.held_out.to_json()
        write_json(folder / METRICS_FILE, {"held_out": held_out})  # last: it marks the run as finished
        return result

    def _load_inputs(self) -> tuple[Model, PretrainObjective, PretrainTexts, BatchSampler, list[Any]]:
        """Load the model and the text; the tokenizer and the shards are written to the run folder."""
        request, folder, events = self.request, self.request.folder, self.request.events
        plan = self.saved.plan
        model, objective = start_model(plan, folder, events)
        plan = replace(plan, threads=resolve_threads(plan.threads, plan.settings, model.shape))
        self.saved = replace(self.saved, plan=plan)
        if not request.resume and self.saved.machine is not None:
            self.saved = replace(self.saved, machine=replace(self.saved.machine, threads=plan.threads))
        texts = read_texts(plan, model.tokenizer, folder, events, min_sentences=2 if "pairs" in objective.losses else 1)
        self.saved = record_source(folder, texts, self.saved, resume=request.resume)
        sampler = make_sampler(plan, model, objective, texts, folder)
        return (
            model,
            objective,
            texts,
            sampler,
            make_held_out_batches(sampler, texts.held_out, FINAL_EVALUATION_TOKENS) if len(texts.held_out) else [],
        )

    def _make_result(self, tokens_seen: int) -> PretrainResult:
        run, folder, plan = self.run, self.request.folder, self.saved.plan
        assert plan.max_steps is not None
        cost = measure_cost(folder, self.started_at, 0.0)
        return PretrainResult(
            folder=folder,
            family=run.model.family.model_type,
            objective=run.objective.name,
            parameters=run.model.parameters,
            documents=len(run.texts.train),
            tokens=run.texts.tokens,
            steps=plan.max_steps,
            tokens_seen=tokens_seen,
            held_out=self.held_out,
            history=self.history,
            messages=run.texts.messages,
            notes=tuple(self.notes),
            cost={key: value for key, value in cost.items() if key != "fitting seconds"},
            machine=self.saved.compute_history.latest,
        )


def _train_model(run: PretrainRun, folder: Path) -> tuple[HeldOutScores, ...]:
    """Train from the last saved state to the end, and restore the best weights."""
    from clearhead.training.dropout import set_dropout
    from clearhead.training.pretrain_loop import collect_fresh_parameters, make_pretrain_optimizer, pretrain_steps
    from clearhead.training.state import TrainingProgress, TrainingState, load_state

    plan, settings = run.plan, run.plan.settings
    assert plan.max_steps is not None
    set_dropout(run.network, resolve_dropout(plan))
    init_new_weights(run)
    fresh = () if plan.model is None else collect_fresh_parameters(run.network, run.model.fresh)
    state = TrainingState(run.network, make_pretrain_optimizer(run.network, settings, fresh), TrainingProgress())
    load_state(folder / STATE_FOLDER, state)
    history = [scores for scores in _read_history(folder) if scores.step <= state.progress.step]

    def score(step: int) -> float:
        scores = run.evaluate(step, EVALUATION_TOKENS)
        history.append(scores)
        write_json(folder / EVALUATIONS_FILE, {"evaluations": [scores.to_json() for scores in history]})
        run.events.message(f"step {step:,}: {scores.summary()}")
        if scores.samples:
            run.events.message(f"    {' | '.join(scores.samples)}")
        return scores.score

    steps = pretrain_steps(
        state,
        run.sampler,
        run.objective.losses,
        settings,
        steps=plan.max_steps,
        steps_per_epoch=run.sampler.steps_per_epoch,
        score=score if run.held_out_batches else None,
        evaluations=min(plan.evaluations, plan.max_steps),
        device=run.device,
    )
    run_training(state, steps, folder, settings, LossMonitor(0.0, settings), run.events)
    state.restore_best()
    run.network.eval()
    return tuple(history)


def _load_fitted(run: PretrainRun, folder: Path) -> tuple[HeldOutScores, ...]:
    """Load the weights and the history of a run that was interrupted after training."""
    restore_weights(run.model, folder)
    if run.objective.name == "rtd":
        restore_weights(generator_model(run.model, run.network), folder / GENERATOR_FOLDER)
    run.network.eval()
    return tuple(_read_history(folder))


def _read_history(folder: Path) -> list[HeldOutScores]:
    path = folder / EVALUATIONS_FILE
    if not has_entry(folder, EVALUATIONS_FILE):
        return []
    history = decode_dataclass(read_json(path).get("evaluations"), list[HeldOutScores], EVALUATIONS_FILE)
    for scores in history:
        scores.check(EVALUATIONS_FILE)
    return history
