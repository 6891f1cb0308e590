"""Pre-training as a whole job: text to tokens, lessons, steps, judgement on held-out text, a folder with its card."""

from __future__ import annotations

import shutil
import time
from contextlib import suppress
from dataclasses import asdict, replace
from itertools import islice
from pathlib import Path
from typing import Any

from clearhead.caller import setting
from clearhead.checkpoint.weights import present
from clearhead.errors import CheckpointError, ClearheadError, InputError
from clearhead.families import FAMILIES
from clearhead.files import decode, read_json, sweep, write_json
from clearhead.jobs.cost import cost_of
from clearhead.jobs.defaults import with_threads
from clearhead.jobs.progress import Told
from clearhead.jobs.run_file import RUN, check_machine
from clearhead.jobs.run_folder import METRICS, check_folder
from clearhead.jobs.training_state import STATE, drop_state, restore_saved
from clearhead.machine.cpu import versions
from clearhead.machine.threads import within_threads
from clearhead.model import Model
from clearhead.model.loading import need_torch
from clearhead.pretrain.data import (
    AT_LAST,
    CORPUS,
    HELD,
    JUDGED,
    Teacher,
    Texts,
    check_files,
    held_lessons,
    plain_texts,
    read_texts,
)
from clearhead.pretrain.held_out import Judged, stuck_because
from clearhead.pretrain.model import (
    GENERATOR,
    VOCABULARY,
    check_length,
    check_new_model,
    make_game,
    make_tokenizer,
    new_model,
    objective_of,
    old_model,
)
from clearhead.pretrain.plan import FORMAT, KIND, PretrainPlan, SavedPretrain, read_pretrain, write_pretrain
from clearhead.pretrain.result import Pretrained, write_report
from clearhead.pretrain.run import Exam, begin, generator_model
from clearhead.pretraining.objective import PretrainObjective
from clearhead.pretraining.shards import INDEX
from clearhead.pretraining.vocab_info import read_vocab_info

MINUTES = 30.0  # unless steps or minutes are said
MOST_EPOCHS = 40  # over a small text, unless it is said how long
LOOKED = 8  # lessons that must ask about some word
EVALUATIONS = "evaluations.json"
FACTS = "pretraining.json"


@within_threads
def run_pretrain(
    plan: PretrainPlan,
    folder: Path,
    *,
    command: str = "",
    resume: bool = False,
    allow_different_cpu: bool = False,
    report: bool = True,
    told: Told | None = None,
) -> Pretrained:
    """Learn to the end, or on from where a killed run stands."""
    need_torch("Pre-training")
    from clearhead.training.threads import use_threads
    from clearhead.training.torch_machine import torch_machine

    tell, begun = told or Told(), time.perf_counter()
    if plan.threads is not None:
        use_threads(plan.threads)
    machine = torch_machine(plan.settings.precision, plan.device)
    plan = replace(plan, settings=plan.settings.resolved(machine.precision))
    saved = SavedPretrain(format=FORMAT, kind=KIND, plan=plan, command=command, machine=machine)
    there = folder.exists()
    check_files(plan)
    if resume:
        before = read_pretrain(folder)
        for note in check_machine(folder, before.computed, machine, allowed=allow_different_cpu):
            tell.say(note)
        computed = before.computed.resumed(machine)
        saved = replace(
            saved, source=before.source, machine=computed.machine, resumed_on=computed.resumed_on, fitted=before.fitted
        )
    else:
        check_folder(folder)
        write_pretrain(folder, saved)
    try:
        model, objective = _model(plan, folder, tell)
        plan = with_threads(plan, model)
        saved = replace(saved, plan=plan)
        if not resume:
            saved = replace(saved, machine=replace(machine, threads=plan.threads))
        texts = read_texts(plan, model.tokenizer, folder, tell, least=2 if "pairs" in objective.losses else 1)
        saved = _same_text(folder, texts, saved, resume=resume)
        teacher = _teacher(plan, model, objective, texts, folder)
        held = held_lessons(teacher, texts.held, AT_LAST) if len(texts.held) else []
    except ClearheadError:
        if not resume:
            _take_back(folder, there)
        raise
    texts = replace(texts, said=(*texts.said, *teacher.left_out()))
    for line in texts.said:
        tell.say(line)
    is_pair = objective.name == "rtd"
    learner: Any = make_game(model, plan.settings.seed, plan.model) if is_pair else model.use_core().network
    if plan.model is not None and is_pair and learner.fresh:
        tell.say("The generator is new, for the checkpoint has none.")
    saved = _with_steps(saved, folder, learner, teacher, model, objective, tell)
    plan = saved.plan
    tell.begun(folder)
    about = f"{model.parameters:,} parameters; {texts.tokens:,} tokens, {teacher.per_epoch:,} steps an epoch"
    tell.say(f"model: {model.family.title}, {about}; {plan.steps:,} steps of {objective.about}")
    exam = Exam(
        model=model, learner=learner, objective=objective, teacher=teacher, texts=texts, held=held, plan=plan, tell=tell
    )
    history = _fit(exam, folder) if saved.fitted is None else _fitted(exam, folder)
    return _finish(exam, folder, saved, history, begun, report=report)


def _model(plan: PretrainPlan, folder: Path, tell: Told) -> tuple[Model, PretrainObjective]:
    if plan.model is not None:
        model, objective = old_model(plan, tell)
    else:
        family = FAMILIES[plan.family or "bert"]
        objective = objective_of(plan, family)
        check_new_model(plan, objective, family)
        tokenizer = make_tokenizer(plan, (one.text for one in plain_texts(plan)), folder, tell)
        model = new_model(plan, objective, tokenizer)
    check_length(plan.length, model.max_length())
    return model, objective


def _teacher(plan: PretrainPlan, model: Model, objective: PretrainObjective, texts: Texts, folder: Path) -> Teacher:
    kit = read_vocab_info(model.tokenizer, rate=plan.mask, masking=plan.masking, start=model.shape.start)
    teacher = Teacher(
        portion=texts.train,
        objective=objective,
        kit=kit,
        length=plan.length,
        seed=plan.settings.seed,
        folder=folder,
        batch_tokens=plan.settings.batch_tokens,
        batch_rows=plan.settings.batch_rows,
    )
    if not any((~kit.special[lesson.words]).any() for lesson in islice(teacher.once(), LOOKED)):
        raise InputError("The tokenizer knows no word of the text; learn another one from it.")
    return teacher


def _with_steps(
    saved: SavedPretrain,
    folder: Path,
    learner: Any,
    teacher: Teacher,
    model: Model,
    objective: PretrainObjective,
    tell: Told,
) -> SavedPretrain:
    """A number of steps for a number of minutes: found once, and from then on part of the run."""
    plan = saved.plan
    if plan.steps is not None:
        return saved
    from clearhead.training.dropout import set_dropout
    from clearhead.training.pretrain_loop import seconds_a_step

    set_dropout(learner, _dropout(plan))
    tell.count("timing a few steps", 0, None)
    seconds = seconds_a_step(learner, teacher, objective.losses, plan.settings, str(model.core.device))
    minutes = plan.minutes or MINUTES
    steps = max(1, round(minutes * 60 / seconds))
    most = steps if plan.minutes is not None else MOST_EPOCHS * teacher.per_epoch
    if steps <= most:
        why = f"for {minutes:g} minutes"
    else:
        steps, why = most, f"which are {MOST_EPOCHS} epochs; {setting('minutes')} or {setting('steps')} for more"
    tell.say(f"steps: {steps:,} ({seconds:.2f} s each now, {why}; a resumed run does as many)")
    made = replace(saved, plan=replace(plan, steps=steps, minutes=None), minutes=plan.minutes)
    write_pretrain(folder, made)
    return made


def _dropout(plan: PretrainPlan) -> float | None:
    """A text that is seen a few times is not learned by heart: dropout would only slow learning down."""
    return 0.0 if plan.dropout is None and plan.model is None else plan.dropout


def _same_text(folder: Path, texts: Texts, saved: SavedPretrain, *, resume: bool) -> SavedPretrain:
    if resume and saved.source is not None and saved.source != texts.source:
        raise CheckpointError(f"The text is not that which {folder} was begun with: restore it, or begin anew.")
    saved = replace(saved, source=texts.source)
    if not resume or read_pretrain(folder) != saved:
        write_pretrain(folder, saved)
    if resume:
        sweep(folder)
        for half in folder.glob(f".{VOCABULARY}.????????"):  # a tokenizer that was being saved
            shutil.rmtree(half, ignore_errors=True)
    return saved


def _take_back(folder: Path, there: bool) -> None:
    """A run that cannot begin leaves nothing, so that it can be called again with other settings."""
    for name in (VOCABULARY, CORPUS, HELD):
        shutil.rmtree(folder / name, ignore_errors=True)
    for path in (folder / RUN, *folder.glob("*.bin"), *folder.glob(".*.part")):
        path.unlink(missing_ok=True)
    if not there:
        with suppress(OSError):  # something else is in it
            folder.rmdir()


def _fit(exam: Exam, folder: Path) -> tuple[Judged, ...]:
    """Learn to the end from the last saved state; the model then has the best weights."""
    from clearhead.train.network import drive
    from clearhead.training.dropout import set_dropout
    from clearhead.training.loss_monitor import LossMonitor
    from clearhead.training.pretrain_loop import fresh_parameters, make_pretrain_optimizer, pretrain_steps
    from clearhead.training.state import Progress, State, load_state

    plan, settings = exam.plan, exam.plan.settings
    assert plan.steps is not None
    set_dropout(exam.learner, _dropout(plan))
    begin(exam)
    fresh = () if plan.model is None else fresh_parameters(exam.learner, exam.model.fresh)
    state = State(exam.learner, make_pretrain_optimizer(exam.learner, settings, fresh), Progress())
    load_state(folder / STATE, state)
    history = [one for one in _read_history(folder) if one.step <= state.progress.step]

    def score(step: int) -> float:
        found = exam.judge(step, JUDGED)
        history.append(found)
        write_json(folder / EVALUATIONS, {"evaluations": [one.to_json() for one in history]})
        exam.tell.say(f"step {step:,}: {found.line()}")
        if found.samples:
            exam.tell.say(f"    {' | '.join(found.samples)}")
        return found.score

    steps = pretrain_steps(
        state,
        exam.teacher,
        exam.objective.losses,
        settings,
        steps=plan.steps,
        per_epoch=exam.teacher.per_epoch,
        score=score if exam.held else None,
        evaluations=min(plan.evaluations, plan.steps),
        device=exam.device,
    )
    drive(state, steps, folder, settings, LossMonitor(0.0, settings), exam.tell.step)
    state.restore_best()
    exam.learner.eval()
    return tuple(history)


def _fitted(exam: Exam, folder: Path) -> tuple[Judged, ...]:
    """What a run that was killed after its training had come to."""
    restore_saved(exam.model, folder)
    if exam.objective.name == "rtd":
        restore_saved(generator_model(exam.model, exam.learner), folder / GENERATOR)
    exam.learner.eval()
    return tuple(_read_history(folder))


def _read_history(folder: Path) -> list[Judged]:
    path = folder / EVALUATIONS
    if not present(folder, EVALUATIONS):
        return []
    made = decode(read_json(path).get("evaluations"), list[Judged], EVALUATIONS)
    for one in made:
        one.check(EVALUATIONS)
    return made


def _finish(
    exam: Exam, folder: Path, saved: SavedPretrain, history: tuple[Judged, ...], begun: float, *, report: bool
) -> Pretrained:
    """Save the model, measure it once more on more text, and write everything down."""
    from clearhead.pretrain.card import write_card
    from clearhead.training.log import read_log

    plan, model, command = exam.plan, exam.model, saved.command
    assert plan.steps is not None
    judged = exam.judge(plan.steps, AT_LAST) if exam.held else None
    notes = []
    if judged is None:
        notes.append(f"Nothing was measured: there is too little text to hold some out; give {setting('dev')} a file.")
    elif judged.stuck:
        notes.append(stuck_because(judged, plan.steps, plan.settings.rate))
    elif history and (best := max(history, key=lambda one: one.score)).step < plan.steps:
        notes.append(f"The best weights were those of step {best.step:,}; from there on it learned by heart.")
    notes += saved.computed.notes()
    model.save(folder)
    if exam.objective.name == "rtd":
        generator_model(model, exam.learner).save(folder / GENERATOR)
    log = list(read_log(folder))
    run = Pretrained(
        folder=folder,
        family=model.family.model_type,
        objective=exam.objective.name,
        parameters=model.parameters,
        documents=len(exam.texts.train),
        tokens=exam.texts.tokens,
        steps=plan.steps,
        seen=sum(step["tokens"] for step in log),
        judged=judged,
        history=history,
        said=exam.texts.said,
        notes=tuple(notes),
        cost={key: value for key, value in cost_of(folder, begun, 0.0).items() if key != "fitting seconds"},
        machine=saved.computed.last,
    )
    facts = run.to_json() | {"plan": asdict(plan.named()), "command": command, "versions": versions()}
    facts |= {"source": exam.texts.source, **asdict(saved.computed)}
    write_json(folder / FACTS, {key: value for key, value in facts.items() if key not in ("folder", "report")})
    write_card(folder, run, plan, command)
    if report:
        run = replace(run, report=write_report(run, plan, exam.objective, model.family.title, log, command))
    for name in (CORPUS, HELD):
        (folder / name / INDEX).unlink(missing_ok=True)  # first: shards without it are made anew after a kill
        shutil.rmtree(folder / name, ignore_errors=True)
    for path in folder.glob("*.bin"):
        path.unlink()
    drop_state(folder, (), keep=plan.keep_state)
    write_json(folder / METRICS, {"held_out": None if judged is None else judged.to_json()})  # last: it is finished
    return run
