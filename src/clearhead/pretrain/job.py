"""Pre-training as a whole job: text to tokens, lessons, steps, judgement on held-out text, a folder with its card."""

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
from clearhead.machine.cpu import versions
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
    """A language model that learns from text without labels. Each step leaves what later steps read."""

    folder_existed: bool  # of `plan`: the folder was there before
    saved: SavedPretrain  # what run.json has; from `prepare` on its plan is resolved
    run: PretrainRun  # of `prepare`
    history: tuple[HeldOutScores, ...]  # of `fit`
    held_out: HeldOutScores | None  # of `measure`
    notes: list[str]

    def __init__(self, request: JobRequest[PretrainPlan]) -> None:
        self.request = request
        self.started_at = time.perf_counter()

    def plan(self) -> None:
        """Resolve where and how precisely the run computes, and begin its folder, in which text and vocabulary lie."""
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
        before = read_pretrain_run(folder)
        for note in check_machine(folder, before.computed, machine, allowed=request.allow_different_cpu):
            request.events.message(note)
        computed = before.computed.resume_on(machine)
        self.saved = replace(
            self.saved,
            source=before.source,
            machine=computed.machine,
            resumed_on=computed.resumed_on,
            fitted=before.fitted,
        )

    def prepare(self) -> None:
        """Model, text and lessons; then the plan is resolved and stored."""
        request, folder, events = self.request, self.request.folder, self.request.events
        try:
            model, objective, texts, teacher, held = self._load_inputs()
        except ClearheadError:
            if not request.resume:
                made = (TOKENIZER_FOLDER, CORPUS_FOLDER, HELD_OUT_FOLDER, "*.bin", ".*.part")
                remove_unstarted_run(folder, existed=self.folder_existed, made=made)
            raise
        texts = replace(texts, notes=(*texts.notes, *teacher.describe_skipped_documents()))
        for line in texts.notes:
            events.message(line)
        seed, name = self.saved.plan.settings.seed, self.saved.plan.model
        is_pair = objective.name == "rtd"
        learner: Any = make_electra_pair(model, seed, name) if is_pair else model.use_core().network
        if name is not None and is_pair and learner.fresh:
            events.message("The generator is new, for the checkpoint has none.")
        self.saved = resolve_steps(self.saved, folder, learner, teacher, model, objective, events)
        plan = self.saved.plan
        events.started(folder)
        about = f"{model.parameters:,} parameters; {texts.tokens:,} tokens, {teacher.steps_per_epoch:,} steps an epoch"
        events.message(f"model: {model.family.title}, {about}; {plan.max_steps:,} steps of {objective.title}")
        self.run = PretrainRun(
            model=model,
            network=learner,
            objective=objective,
            sampler=teacher,
            texts=texts,
            held_out_batches=held,
            plan=plan,
            events=events,
        )

    def fit(self) -> None:
        """Learn, or take the weights of a run that was killed after its training."""
        fit = _train_model if self.saved.fitted is None else _load_fitted
        self.history = fit(self.run, self.request.folder)

    def measure(self) -> None:
        """The model once more on more held-out text."""
        exam, plan = self.run, self.saved.plan
        assert plan.max_steps is not None
        self.held_out = judged = (
            exam.evaluate(plan.max_steps, FINAL_EVALUATION_TOKENS) if exam.held_out_batches else None
        )
        self.notes = []
        if judged is None:
            dev = setting("dev")
            self.notes.append(f"Nothing was measured: there is too little text to hold some out; give {dev} a file.")
        elif judged.is_stuck:
            self.notes.append(explain_stuck_loss(judged, plan.max_steps, plan.settings.learning_rate))
        elif self.history and (best := max(self.history, key=lambda one: one.score)).step < plan.max_steps:
            step = f"step {best.step:,}"
            self.notes.append(f"The best weights were those of {step}; from there on it learned by heart.")
        self.notes += self.saved.computed.notes()

    def save(self) -> None:
        """The model folder, and ELECTRA's generator beside it."""
        model, folder = self.run.model, self.request.folder
        model.save(folder)
        if self.run.objective.name == "rtd":
            generator_model(model, self.run.network).save(folder / GENERATOR_FOLDER)

    def report(self) -> PretrainResult:
        """Facts, card and page; then what was needed to learn goes, and metrics.json says that the run is finished."""

        folder, exam, plan, command = self.request.folder, self.run, self.saved.plan, self.saved.command
        log = list(read_log(folder))
        run = self._make_result(sum(step["tokens"] for step in log))
        facts = run.to_json() | {"plan": asdict(plan.without_folders()), "command": command, "versions": versions()}
        facts |= {"source": exam.texts.source, **asdict(self.saved.computed)}
        write_json(folder / FACTS_FILE, {key: value for key, value in facts.items() if key not in ("folder", "report")})
        write_card(folder, run, plan, command)
        if self.request.report:
            title = exam.model.family.title
            run = replace(run, report=write_report(run, plan, exam.objective, title, log, command))
        for name in (CORPUS_FOLDER, HELD_OUT_FOLDER):
            (folder / name / INDEX_FILE).unlink(missing_ok=True)  # first: shards without it are made anew after a kill
            shutil.rmtree(folder / name, ignore_errors=True)
        for path in folder.glob("*.bin"):
            path.unlink()
        remove_state(folder, (), keep=plan.keep_state)
        held_out = None if self.held_out is None else self.held_out.to_json()
        write_json(folder / METRICS_FILE, {"held_out": held_out})  # last: it is finished
        return run

    def _load_inputs(self) -> tuple[Model, PretrainObjective, PretrainTexts, BatchSampler, list[Any]]:
        """The model and what it learns from; text and vocabulary are written into the folder."""
        request, folder, events = self.request, self.request.folder, self.request.events
        plan = self.saved.plan
        model, objective = start_model(plan, folder, events)
        plan = replace(plan, threads=resolve_threads(plan.threads, plan.settings, model.shape))
        self.saved = replace(self.saved, plan=plan)
        if not request.resume and self.saved.machine is not None:
            self.saved = replace(self.saved, machine=replace(self.saved.machine, threads=plan.threads))
        texts = read_texts(plan, model.tokenizer, folder, events, least=2 if "pairs" in objective.losses else 1)
        self.saved = record_source(folder, texts, self.saved, resume=request.resume)
        teacher = make_sampler(plan, model, objective, texts, folder)
        return (
            model,
            objective,
            texts,
            teacher,
            make_held_out_batches(teacher, texts.held_out, FINAL_EVALUATION_TOKENS) if len(texts.held_out) else [],
        )

    def _make_result(self, seen: int) -> PretrainResult:
        exam, folder, plan = self.run, self.request.folder, self.saved.plan
        assert plan.max_steps is not None
        cost = measure_cost(folder, self.started_at, 0.0)
        return PretrainResult(
            folder=folder,
            family=exam.model.family.model_type,
            objective=exam.objective.name,
            parameters=exam.model.parameters,
            documents=len(exam.texts.train),
            tokens=exam.texts.tokens,
            steps=plan.max_steps,
            tokens_seen=seen,
            held_out=self.held_out,
            history=self.history,
            text_notes=exam.texts.notes,
            notes=tuple(self.notes),
            cost={key: value for key, value in cost.items() if key != "fitting seconds"},
            machine=self.saved.computed.latest,
        )


def _train_model(exam: PretrainRun, folder: Path) -> tuple[HeldOutScores, ...]:
    """Learn to the end from the last saved state; the model then has the best weights."""
    from clearhead.training.dropout import set_dropout
    from clearhead.training.pretrain_loop import fresh_parameters, make_pretrain_optimizer, pretrain_steps
    from clearhead.training.state import TrainingProgress, TrainingState, load_state

    plan, settings = exam.plan, exam.plan.settings
    assert plan.max_steps is not None
    set_dropout(exam.network, resolve_dropout(plan))
    init_new_weights(exam)
    fresh = () if plan.model is None else fresh_parameters(exam.network, exam.model.fresh)
    state = TrainingState(exam.network, make_pretrain_optimizer(exam.network, settings, fresh), TrainingProgress())
    load_state(folder / STATE_FOLDER, state)
    history = [one for one in _read_history(folder) if one.step <= state.progress.step]

    def score(step: int) -> float:
        found = exam.evaluate(step, EVALUATION_TOKENS)
        history.append(found)
        write_json(folder / EVALUATIONS_FILE, {"evaluations": [one.to_json() for one in history]})
        exam.events.message(f"step {step:,}: {found.summary()}")
        if found.samples:
            exam.events.message(f"    {' | '.join(found.samples)}")
        return found.score

    steps = pretrain_steps(
        state,
        exam.sampler,
        exam.objective.losses,
        settings,
        steps=plan.max_steps,
        steps_per_epoch=exam.sampler.steps_per_epoch,
        score=score if exam.held_out_batches else None,
        evaluations=min(plan.evaluations, plan.max_steps),
        device=exam.device,
    )
    run_training(state, steps, folder, settings, LossMonitor(0.0, settings), exam.events)
    state.restore_best()
    exam.network.eval()
    return tuple(history)


def _load_fitted(exam: PretrainRun, folder: Path) -> tuple[HeldOutScores, ...]:
    """What a run that was killed after its training had come to."""
    restore_weights(exam.model, folder)
    if exam.objective.name == "rtd":
        restore_weights(generator_model(exam.model, exam.network), folder / GENERATOR_FOLDER)
    exam.network.eval()
    return tuple(_read_history(folder))


def _read_history(folder: Path) -> list[HeldOutScores]:
    path = folder / EVALUATIONS_FILE
    if not has_entry(folder, EVALUATIONS_FILE):
        return []
    made = decode_dataclass(read_json(path).get("evaluations"), list[HeldOutScores], EVALUATIONS_FILE)
    for one in made:
        one.check(EVALUATIONS_FILE)
    return made
