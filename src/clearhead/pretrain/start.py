"""The start of a pre-training run: its model, its batch sampler, and the conversion of minutes into steps."""

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

DEFAULT_MINUTES = 30.0  # unless steps or minutes are set
MAX_EPOCHS = 40  # over a small text, unless the duration is set
CHECKED_BATCHES = 8  # batches of which at least one must have a target


def start_model(plan: PretrainPlan, folder: Path, events: RunEvents) -> tuple[Model, PretrainObjective]:
    if plan.model is not None:
        model, objective = load_checkpoint(plan, events)
    else:
        family = FAMILIES[plan.family or "bert"]
        objective = resolve_objective(plan, family)
        check_new_model(plan, objective, family)
        tokenizer = make_tokenizer(plan, (chunk.text for chunk in read_plain_texts(plan)), folder, events)
        model = create_model(plan, objective, tokenizer)
    check_length(plan.max_length, model.max_length())
    return model, objective


def make_sampler(
    plan: PretrainPlan, model: Model, objective: PretrainObjective, texts: PretrainTexts, folder: Path
) -> BatchSampler:
    vocab = read_vocab_info(
        model.tokenizer,
        mask_rate=plan.mlm_probability,
        masking=plan.masking,
        decoder_start_id=model.shape.decoder_start_id,
    )
    sampler = BatchSampler(
        subset=texts.train,
        objective=objective,
        vocab=vocab,
        max_length=plan.max_length,
        seed=plan.settings.seed,
        folder=folder,
        batch_tokens=plan.settings.batch_tokens,
        batch_size=plan.settings.batch_size,
    )
    if not any((~vocab.is_special[batch.labels]).any() for batch in islice(sampler.first_epoch(), CHECKED_BATCHES)):
        raise InputError("The tokenizer knows none of the tokens in the text; train a tokenizer on it.")
    return sampler


def resolve_steps(
    saved: SavedPretrain,
    folder: Path,
    network: Any,
    sampler: BatchSampler,
    model: Model,
    objective: PretrainObjective,
    events: RunEvents,
) -> SavedPretrain:
    """Convert minutes into a number of steps by timing a few; the number is then part of the stored plan."""
    plan = saved.plan
    if plan.max_steps is not None:
        return saved
    from clearhead.training.dropout import set_dropout
    from clearhead.training.pretrain_loop import measure_step_seconds

    set_dropout(network, resolve_dropout(plan))
    events.progress("timing a few steps", 0, None)
    seconds = measure_step_seconds(network, sampler, objective.losses, plan.settings, str(model.core.device))
    minutes = plan.minutes or DEFAULT_MINUTES
    steps = max(1, round(minutes * 60 / seconds))
    max_steps = steps if plan.minutes is not None else MAX_EPOCHS * sampler.steps_per_epoch
    if steps <= max_steps:
        reason = f"for {minutes:g} minutes"
    else:
        steps, reason = max_steps, f"{MAX_EPOCHS} epochs; set {setting('minutes')} or {setting('max_steps')} for more"
    events.message(f"steps: {steps:,} ({seconds:.2f} s per step, {reason}; a resumed run keeps this number)")
    resolved = replace(saved, plan=replace(plan, max_steps=steps, minutes=None), minutes=plan.minutes)
    write_pretrain_run(folder, resolved)
    return resolved


def resolve_dropout(plan: PretrainPlan) -> float | None:
    """Return the dropout: 0 for new models, since a text that is seen only a few times is not overfitted."""
    return 0.0 if plan.dropout is None and plan.model is None else plan.dropout


def record_source(folder: Path, texts: PretrainTexts, saved: SavedPretrain, *, resume: bool) -> SavedPretrain:
    if resume and saved.source is not None and saved.source != texts.source:
        raise CheckpointError(f"The text has changed since {folder} was started; restore it, or start a new run.")
    saved = replace(saved, source=texts.source)
    if not resume or read_pretrain_run(folder) != saved:
        write_pretrain_run(folder, saved)
    if resume:
        remove_leftovers(folder)
        for leftover in folder.glob(f".{TOKENIZER_FOLDER}.????????"):  # incomplete tokenizer folders
            shutil.rmtree(leftover, ignore_errors=True)
    return saved
