"""A look at data together with the model that is to learn from it: its tokens, and what training would take here."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from clearhead.checkpoint.folder import read_folder
from clearhead.checkpoint.hub import locate
from clearhead.checkpoint.sentence import read_sentences
from clearhead.data import Inspection, guess_columns, inspect_data, open_source, survey
from clearhead.data.examples import TextRow, checked_row
from clearhead.data.form import Fit
from clearhead.data.source import Row, Source
from clearhead.data.table import encode_rows
from clearhead.errors import ClearheadError, InputError
from clearhead.loading import load, load_tokenizers
from clearhead.runs.plan import RunPlan
from clearhead.tasks import check_task, task_for
from clearhead.tasks.encoded import encoded
from clearhead.training.settings import TrainSettings

if TYPE_CHECKING:
    from clearhead.data import Columns
    from clearhead.model import Model
    from clearhead.text import Tokenizer

SAMPLE = 512  # rows that the trial steps are taken from
TRIAL = 3  # steps that are timed, after one that warms up


def run_inspect(
    source: Any,
    *,
    dev: Any = None,
    test: Any = None,
    columns: Mapping[str, str | None] | None = None,
    model: str | None = "default",
    estimate: bool = True,
) -> Inspection:
    """Everything about the data, in the tokens of a model where there is one."""
    opened = open_source(source)
    if not opened.again:
        raise InputError(f"{opened.name} can be read only once; put it in a file to inspect it.")
    said: dict[str, Any] = {part: name for part, name in (columns or {}).items() if name is not None}
    try:
        chosen = guess_columns(opened, **said)
    except InputError:
        if "label" in said:
            raise
        chosen = guess_columns(opened, **said, labelled=False)
    tokenizer, notes = None, []
    if model is not None:
        try:
            tokenizer = load_tokenizers(model)[0]
        except ClearheadError as error:
            notes.append(f"Lengths are in characters, for the model could not be had: {error}")
    most = None if model is None or tokenizer is None else _longest(model, tokenizer)
    found = inspect_data(source, columns=chosen, tokenizer=tokenizer, dev=dev, test=test, max_length=most)
    if model is None or tokenizer is None or not estimate or chosen.label is None or found.kind is None:
        return replace(found, estimate={"notes": notes} if notes else None)
    try:
        return replace(found, estimate=_estimate(opened, chosen, found, model))
    except ClearheadError as error:
        return replace(found, estimate={"notes": [f"Training was not tried out: {error}"]})


def _longest(reference: str, tokenizer: Tokenizer) -> int | None:
    """How many tokens a model reads at once, by its tokenizer and its positions; no weight is read for it."""
    folder = locate(reference).folder
    try:
        sentences = read_sentences(folder)
        stack = read_folder(folder if sentences is None else sentences.encoder, None).shape.stack
    except ClearheadError:
        return tokenizer.max_length
    known = (tokenizer.max_length, stack.max_length if stack.positions == "learned" else None)
    return min((limit for limit in known if limit is not None), default=None)


def _estimate(source: Source, columns: Columns, found: Inspection, reference: str) -> dict[str, Any]:
    """Time and memory of fine-tuning with the default settings, from a few real steps on the first rows."""
    from clearhead.runs.train import for_few_rows
    from clearhead.training.trial import trial

    space = survey(source, columns, skip_bad_rows=True)  # of all rows: the first ones may have one label alone
    assert space is not None
    sample = [checked_row(row, columns, space) for row in source.sample(SAMPLE) if isinstance(row, Row)]
    rows = [row for row in sample if isinstance(row, TextRow)]
    task = task_for(columns, space)
    check_task(task, columns, space)
    model: Model = load(reference, head=task.head, labels=task.outputs(space), fresh=True)
    fit = Fit(max_length=model.max_length())
    table = encode_rows(rows, columns, model.tokenizer, space, fit)
    data = encoded(table, segments=model.shape.stack.segments > 1)
    settings = TrainSettings()
    begun = time.perf_counter()
    speed, memory = trial(model.module, data, settings, task.objective(space), steps=TRIAL)
    rows_to_train = found.parts.get("train", round(found.rows * (1 - RunPlan().dev_share - RunPlan().test_share)))
    epochs = for_few_rows(rows_to_train, settings).epochs
    tokens = float(data.row_tokens.mean()) * rows_to_train * epochs
    return {
        "model": reference,
        "method": "finetune",
        "epochs": epochs,
        "tokens_per_second": round(speed),
        "seconds": round(tokens / speed, 1),
        "memory_mb": round(memory / 1e6),
        "tried_seconds": round(time.perf_counter() - begun, 1),
    }
