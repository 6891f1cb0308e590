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
from clearhead.pretrain.data import BatchSampler, PretrainTexts, read_plain_texts
from clearhead.pretrain.model import (
    TOKENIZER_FOLDER,
    check_length,
    check_new_model,
    create_model,
    load_checkpoint,
    make_tokenizer,
    resolve_objective,
)
from clearhead.pretrain.plan import PretrainPlan, SavedPretrain, read_pretrain_run, write_pretrain_run
from clearhead.pretraining.objective import PretrainObjective
from clearhead.pretraining.vocab_info import read_vocab_info

DEFAULT_MINUTES = 30.0  # unless steps or minutes are said
MAX_EPOCHS = 40  # over a small text, unless it is said how long
CHECKED_BATCHES = 8  # lessons that must ask about some word


def start_model(plan: PretrainPlan, folder: Path, events: RunEvents) -> tuple[Model, PretrainObjective]:
    if plan.model is not None:
        model, objective = load_checkpoint(plan, events)
    else:
        family = FAMILIES[plan.family or "bert"]
        objective = resolve_objective(plan, family)
        check_new_model(plan, objective, family)
        tokenizer = make_tokenizer(plan, (one.text for one in read_plain_texts(plan)), folder, events)
        model = create_model(plan, objective, tokenizer)
    check_length(plan.max_length, model.max_length())
    return model, objective


def make_sampler(
    plan: PretrainPlan, model: Model, objective: PretrainObjective, texts: PretrainTexts, folder: Path
) -> BatchSampler:
    kit = read_vocab_info(
        model.tokenizer, rate=plan.mlm_probability, masking=plan.masking, start=model.shape.decoder_start_id
    )
    teacher = BatchSampler(
        subset=texts.train,
        objective=objective,
        vocab=kit,
        max_length=plan.max_length,
        seed=plan.settings.seed,
        folder=folder,
        batch_tokens=plan.settings.batch_tokens,
        batch_size=plan.settings.batch_size,
    )
    if not any((~kit.is_special[lesson.labels]).any() for lesson in islice(teacher.first_epoch(), CHECKED_BATCHES)):
        raise InputError("The tokenizer knows no word of the text; learn another one from it.")
    return teacher


def resolve_steps(
    saved: SavedPretrain,
    folder: Path,
    learner: Any,
    teacher: BatchSampler,
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

    set_dropout(learner, resolve_dropout(plan))
    events.progress("timing a few steps", 0, None)
    seconds = measure_step_seconds(learner, teacher, objective.losses, plan.settings, str(model.core.device))
    minutes = plan.minutes or DEFAULT_MINUTES
    steps = max(1, round(minutes * 60 / seconds))
    most = steps if plan.minutes is not None else MAX_EPOCHS * teacher.steps_per_epoch
    if steps <= most:
        why = f"for {minutes:g} minutes"
    else:
        steps, why = most, f"which are {MAX_EPOCHS} epochs; {setting('minutes')} or {setting('max_steps')} for more"
    events.message(f"steps: {steps:,} ({seconds:.2f} s each now, {why}; a resumed run does as many)")
    made = replace(saved, plan=replace(plan, max_steps=steps, minutes=None), minutes=plan.minutes)
    write_pretrain_run(folder, made)
    return made


def resolve_dropout(plan: PretrainPlan) -> float | None:
    """A text that is seen a few times is not learned by heart: dropout would only slow learning down."""
    return 0.0 if plan.dropout is None and plan.model is None else plan.dropout


def record_source(folder: Path, texts: PretrainTexts, saved: SavedPretrain, *, resume: bool) -> SavedPretrain:
    if resume and saved.source is not None and saved.source != texts.source:
        raise CheckpointError(f"The text is not that which {folder} was begun with: restore it, or begin anew.")
    saved = replace(saved, source=texts.source)
    if not resume or read_pretrain_run(folder) != saved:
        write_pretrain_run(folder, saved)
    if resume:
        remove_leftovers(folder)
        for half in folder.glob(f".{TOKENIZER_FOLDER}.????????"):  # a tokenizer that was being saved
            shutil.rmtree(half, ignore_errors=True)
    return saved
