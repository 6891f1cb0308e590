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
from clearhead.model.loading import need_torch
from clearhead.pretrain.card import write_card
from clearhead.pretrain.data import (
    AT_LAST,
    CORPUS,
    HELD,
    JUDGED,
    Teacher,
    Texts,
    check_files,
    held_lessons,
    read_texts,
)
from clearhead.pretrain.held_out import Judged, stuck_because
from clearhead.pretrain.model import (
    GENERATOR,
    VOCABULARY,
    make_game,
)
from clearhead.pretrain.plan import FORMAT, KIND, PretrainPlan, SavedPretrain, read_pretrain, write_pretrain
from clearhead.pretrain.result import Pretrained, write_report
from clearhead.pretrain.run import Exam, begin, generator_model
from clearhead.pretrain.start import check_text, dropout_of, make_teacher, resolve_steps, start_model
from clearhead.pretraining.objective import PretrainObjective
from clearhead.pretraining.shards import INDEX
from clearhead.train.network import run_training
from clearhead.training.log import read_log
from clearhead.training.loss_monitor import LossMonitor

EVALUATIONS = "evaluations.json"
FACTS = "pretraining.json"


class PretrainJob:
    """A language model that learns from text without labels. Each step leaves what later steps read."""

    existed: bool  # of `plan`: the folder was there before
    saved: SavedPretrain  # what run.json has; from `prepare` on its plan is resolved
    exam: Exam  # of `prepare`
    history: tuple[Judged, ...]  # of `fit`
    judged: Judged | None  # of `measure`
    notes: list[str]

    def __init__(self, request: JobRequest[PretrainPlan]) -> None:
        self.request = request
        self.begun = time.perf_counter()

    def plan(self) -> None:
        """Resolve where and how precisely the run computes, and begin its folder, in which text and vocabulary lie."""
        need_torch("Pre-training")
        from clearhead.training.threads import use_threads
        from clearhead.training.torch_machine import detect_torch_machine

        request, plan, folder = self.request, self.request.plan, self.request.folder
        if plan.threads is not None:
            use_threads(plan.threads)
        machine = detect_torch_machine(plan.settings.precision, plan.device)
        plan = replace(plan, settings=plan.settings.resolve_precision(machine.precision))
        self.saved = SavedPretrain(format=FORMAT, kind=KIND, plan=plan, command=request.command, machine=machine)
        self.existed = folder.exists()
        check_files(plan)
        if not request.resume:
            check_run_folder(folder)
            write_pretrain(folder, self.saved)
            return
        before = read_pretrain(folder)
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
            model, objective, texts, teacher, held = self._read()
        except ClearheadError:
            if not request.resume:
                made = (VOCABULARY, CORPUS, HELD, "*.bin", ".*.part")
                remove_unstarted_run(folder, existed=self.existed, made=made)
            raise
        texts = replace(texts, said=(*texts.said, *teacher.left_out()))
        for line in texts.said:
            events.message(line)
        seed, name = self.saved.plan.settings.seed, self.saved.plan.model
        is_pair = objective.name == "rtd"
        learner: Any = make_game(model, seed, name) if is_pair else model.use_core().network
        if name is not None and is_pair and learner.fresh:
            events.message("The generator is new, for the checkpoint has none.")
        self.saved = resolve_steps(self.saved, folder, learner, teacher, model, objective, events)
        plan = self.saved.plan
        events.started(folder)
        about = f"{model.parameters:,} parameters; {texts.tokens:,} tokens, {teacher.per_epoch:,} steps an epoch"
        events.message(f"model: {model.family.title}, {about}; {plan.max_steps:,} steps of {objective.about}")
        self.exam = Exam(
            model=model,
            learner=learner,
            objective=objective,
            teacher=teacher,
            texts=texts,
            held=held,
            plan=plan,
            events=events,
        )

    def fit(self) -> None:
        """Learn, or take the weights of a run that was killed after its training."""
        fit = _fit if self.saved.fitted is None else _fitted
        self.history = fit(self.exam, self.request.folder)

    def measure(self) -> None:
        """The model once more on more held-out text."""
        exam, plan = self.exam, self.saved.plan
        assert plan.max_steps is not None
        self.judged = judged = exam.judge(plan.max_steps, AT_LAST) if exam.held else None
        self.notes = []
        if judged is None:
            dev = setting("dev")
            self.notes.append(f"Nothing was measured: there is too little text to hold some out; give {dev} a file.")
        elif judged.stuck:
            self.notes.append(stuck_because(judged, plan.max_steps, plan.settings.learning_rate))
        elif self.history and (best := max(self.history, key=lambda one: one.score)).step < plan.max_steps:
            step = f"step {best.step:,}"
            self.notes.append(f"The best weights were those of {step}; from there on it learned by heart.")
        self.notes += self.saved.computed.notes()

    def save(self) -> None:
        """The model folder, and ELECTRA's generator beside it."""
        model, folder = self.exam.model, self.request.folder
        model.save(folder)
        if self.exam.objective.name == "rtd":
            generator_model(model, self.exam.learner).save(folder / GENERATOR)

    def report(self) -> Pretrained:
        """Facts, card and page; then what was needed to learn goes, and metrics.json says that the run is finished."""

        folder, exam, plan, command = self.request.folder, self.exam, self.saved.plan, self.saved.command
        log = list(read_log(folder))
        run = self._result(sum(step["tokens"] for step in log))
        facts = run.to_json() | {"plan": asdict(plan.named()), "command": command, "versions": versions()}
        facts |= {"source": exam.texts.source, **asdict(self.saved.computed)}
        write_json(folder / FACTS, {key: value for key, value in facts.items() if key not in ("folder", "report")})
        write_card(folder, run, plan, command)
        if self.request.report:
            title = exam.model.family.title
            run = replace(run, report=write_report(run, plan, exam.objective, title, log, command))
        for name in (CORPUS, HELD):
            (folder / name / INDEX).unlink(missing_ok=True)  # first: shards without it are made anew after a kill
            shutil.rmtree(folder / name, ignore_errors=True)
        for path in folder.glob("*.bin"):
            path.unlink()
        remove_state(folder, (), keep=plan.keep_state)
        held_out = None if self.judged is None else self.judged.to_json()
        write_json(folder / METRICS_FILE, {"held_out": held_out})  # last: it is finished
        return run

    def _read(self) -> tuple[Model, PretrainObjective, Texts, Teacher, list[Any]]:
        """The model and what it learns from; text and vocabulary are written into the folder."""
        request, folder, events = self.request, self.request.folder, self.request.events
        plan = self.saved.plan
        model, objective = start_model(plan, folder, events)
        plan = replace(plan, threads=resolve_threads(plan.threads, plan.settings, model.shape))
        self.saved = replace(self.saved, plan=plan)
        if not request.resume and self.saved.machine is not None:
            self.saved = replace(self.saved, machine=replace(self.saved.machine, threads=plan.threads))
        texts = read_texts(plan, model.tokenizer, folder, events, least=2 if "pairs" in objective.losses else 1)
        self.saved = check_text(folder, texts, self.saved, resume=request.resume)
        teacher = make_teacher(plan, model, objective, texts, folder)
        return model, objective, texts, teacher, held_lessons(teacher, texts.held, AT_LAST) if len(texts.held) else []

    def _result(self, seen: int) -> Pretrained:
        exam, folder, plan = self.exam, self.request.folder, self.saved.plan
        assert plan.max_steps is not None
        cost = measure_cost(folder, self.begun, 0.0)
        return Pretrained(
            folder=folder,
            family=exam.model.family.model_type,
            objective=exam.objective.name,
            parameters=exam.model.parameters,
            documents=len(exam.texts.train),
            tokens=exam.texts.tokens,
            steps=plan.max_steps,
            seen=seen,
            judged=self.judged,
            history=self.history,
            said=exam.texts.said,
            notes=tuple(self.notes),
            cost={key: value for key, value in cost.items() if key != "fitting seconds"},
            machine=self.saved.computed.latest,
        )


def _fit(exam: Exam, folder: Path) -> tuple[Judged, ...]:
    """Learn to the end from the last saved state; the model then has the best weights."""
    from clearhead.training.dropout import set_dropout
    from clearhead.training.pretrain_loop import fresh_parameters, make_pretrain_optimizer, pretrain_steps
    from clearhead.training.state import TrainingProgress, TrainingState, load_state

    plan, settings = exam.plan, exam.plan.settings
    assert plan.max_steps is not None
    set_dropout(exam.learner, dropout_of(plan))
    begin(exam)
    fresh = () if plan.model is None else fresh_parameters(exam.learner, exam.model.fresh)
    state = TrainingState(exam.learner, make_pretrain_optimizer(exam.learner, settings, fresh), TrainingProgress())
    load_state(folder / STATE_FOLDER, state)
    history = [one for one in _read_history(folder) if one.step <= state.progress.step]

    def score(step: int) -> float:
        found = exam.judge(step, JUDGED)
        history.append(found)
        write_json(folder / EVALUATIONS, {"evaluations": [one.to_json() for one in history]})
        exam.events.message(f"step {step:,}: {found.line()}")
        if found.samples:
            exam.events.message(f"    {' | '.join(found.samples)}")
        return found.score

    steps = pretrain_steps(
        state,
        exam.teacher,
        exam.objective.losses,
        settings,
        steps=plan.max_steps,
        per_epoch=exam.teacher.per_epoch,
        score=score if exam.held else None,
        evaluations=min(plan.evaluations, plan.max_steps),
        device=exam.device,
    )
    run_training(state, steps, folder, settings, LossMonitor(0.0, settings), exam.events)
    state.restore_best()
    exam.learner.eval()
    return tuple(history)


def _fitted(exam: Exam, folder: Path) -> tuple[Judged, ...]:
    """What a run that was killed after its training had come to."""
    restore_weights(exam.model, folder)
    if exam.objective.name == "rtd":
        restore_weights(generator_model(exam.model, exam.learner), folder / GENERATOR)
    exam.learner.eval()
    return tuple(_read_history(folder))


def _read_history(folder: Path) -> list[Judged]:
    path = folder / EVALUATIONS
    if not has_entry(folder, EVALUATIONS):
        return []
    made = decode_dataclass(read_json(path).get("evaluations"), list[Judged], EVALUATIONS)
    for one in made:
        one.check(EVALUATIONS)
    return made
