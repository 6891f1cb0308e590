"""How a run of pre-training begins: its model, its lessons, and a number of steps for a number of minutes."""

from __future__ import annotations

import shutil
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

from clearhead.caller import setting
from clearhead.errors import CheckpointError, InputError
from clearhead.families import FAMILIES
from clearhead.files import remove_leftovers
from clearhead.jobs.events import RunEvents
from clearhead.model import Model
from clearhead.pretrain.data import Teacher, Texts, plain_texts
from clearhead.pretrain.model import (
    VOCABULARY,
    check_length,
    check_new_model,
    make_tokenizer,
    new_model,
    objective_of,
    old_model,
)
from clearhead.pretrain.plan import PretrainPlan, SavedPretrain, read_pretrain, write_pretrain
from clearhead.pretraining.objective import PretrainObjective
from clearhead.pretraining.vocab_info import read_vocab_info

MINUTES = 30.0  # unless steps or minutes are said
MOST_EPOCHS = 40  # over a small text, unless it is said how long
LOOKED = 8  # lessons that must ask about some word


def start_model(plan: PretrainPlan, folder: Path, events: RunEvents) -> tuple[Model, PretrainObjective]:
    if plan.model is not None:
        model, objective = old_model(plan, events)
    else:
        family = FAMILIES[plan.family or "bert"]
        objective = objective_of(plan, family)
        check_new_model(plan, objective, family)
        tokenizer = make_tokenizer(plan, (one.text for one in plain_texts(plan)), folder, events)
        model = new_model(plan, objective, tokenizer)
    check_length(plan.max_length, model.max_length())
    return model, objective


def make_teacher(plan: PretrainPlan, model: Model, objective: PretrainObjective, texts: Texts, folder: Path) -> Teacher:
    kit = read_vocab_info(
        model.tokenizer, rate=plan.mlm_probability, masking=plan.masking, start=model.shape.decoder_start_id
    )
    teacher = Teacher(
        portion=texts.train,
        objective=objective,
        kit=kit,
        length=plan.max_length,
        seed=plan.settings.seed,
        folder=folder,
        batch_tokens=plan.settings.batch_tokens,
        batch_rows=plan.settings.batch_size,
    )
    if not any((~kit.special[lesson.words]).any() for lesson in islice(teacher.once(), LOOKED)):
        raise InputError("The tokenizer knows no word of the text; learn another one from it.")
    return teacher


def resolve_steps(
    saved: SavedPretrain,
    folder: Path,
    learner: Any,
    teacher: Teacher,
    model: Model,
    objective: PretrainObjective,
    events: RunEvents,
) -> SavedPretrain:
    """A number of steps for a number of minutes: found once, and from then on part of the run."""
    plan = saved.plan
    if plan.max_steps is not None:
        return saved
    from clearhead.training.dropout import set_dropout
    from clearhead.training.pretrain_loop import measure_step_seconds

    set_dropout(learner, dropout_of(plan))
    events.progress("timing a few steps", 0, None)
    seconds = measure_step_seconds(learner, teacher, objective.losses, plan.settings, str(model.core.device))
    minutes = plan.minutes or MINUTES
    steps = max(1, round(minutes * 60 / seconds))
    most = steps if plan.minutes is not None else MOST_EPOCHS * teacher.per_epoch
    if steps <= most:
        why = f"for {minutes:g} minutes"
    else:
        steps, why = most, f"which are {MOST_EPOCHS} epochs; {setting('minutes')} or {setting('max_steps')} for more"
    events.message(f"steps: {steps:,} ({seconds:.2f} s each now, {why}; a resumed run does as many)")
    made = replace(saved, plan=replace(plan, max_steps=steps, minutes=None), minutes=plan.minutes)
    write_pretrain(folder, made)
    return made


def dropout_of(plan: PretrainPlan) -> float | None:
    """A text that is seen a few times is not learned by heart: dropout would only slow learning down."""
    return 0.0 if plan.dropout is None and plan.model is None else plan.dropout


def check_text(folder: Path, texts: Texts, saved: SavedPretrain, *, resume: bool) -> SavedPretrain:
    if resume and saved.source is not None and saved.source != texts.source:
        raise CheckpointError(f"The text is not that which {folder} was begun with: restore it, or begin anew.")
    saved = replace(saved, source=texts.source)
    if not resume or read_pretrain(folder) != saved:
        write_pretrain(folder, saved)
    if resume:
        remove_leftovers(folder)
        for half in folder.glob(f".{VOCABULARY}.????????"):  # a tokenizer that was being saved
            shutil.rmtree(half, ignore_errors=True)
    return saved
