"""Defaults for open settings of a plan: epochs, learning rate, lengths, stride and threads."""

from __future__ import annotations

from dataclasses import replace
from math import ceil

from clearhead.data import LabelSpace
from clearhead.data.row_codec import LengthPolicy
from clearhead.errors import InputError
from clearhead.jobs.plan import RunPlan
from clearhead.model import Model
from clearhead.shape import ModelShape
from clearhead.tasks import Task
from clearhead.training.settings import PROBE_OBJECTIVES, TrainSettings

MIN_STEPS = 150  # of fine-tuning
STEPS_PER_LABEL = 10  # a randomly initialized head sees one label per row
PROBED_STEPS_PER_LABEL = 6  # the same for a head initialized by a linear probe (training/probe.py)
MAX_EPOCHS, MAX_EPOCHS_MANY_LABELS = 20, 40  # the second for many classes and few rows
FEW_ROWS = 450  # training rows, with fewer than 50 dev rows
HEAD_RATE_FACTOR = 20  # times the learning rate, for a randomly initialized head on few rows, ...
MAX_HEAD_RATE = 1e-3  # ... up to this
BERT_BASE_WIDTH, BERT_BASE_TAG_RATE = 768, 8e-5  # of BERT-base; 3.2e-4 for MiniLM
MINILM_WIDTH, NARROW_EXPONENT = 384, 6.5  # the learning rate grows with this power below MiniLM's width: 7e-4 at 256
NARROW_RATE_SCALE = 0.256  # divided by the width: the maximum for narrow models, 2e-3 at 128
MIN_RATE, MAX_RATE = 1e-5, 2e-3
MIN_NEW_TOKENS = 4  # tokens that each window must add to the previous one, special tokens included


def resolve_threads(threads: int | None, settings: TrainSettings, shape: ModelShape | None = None) -> int:
    """Set the number of torch threads: as requested, or as many as the model can use."""
    from clearhead.training.threads import use_threads

    return use_threads(threads, shape, settings)


def choose_settings(
    plan: RunPlan,
    task: Task,
    space: LabelSpace,
    row_count: int,
    shape: ModelShape,
    *,
    is_new_head: bool = True,
    settings: TrainSettings | None = None,
) -> TrainSettings:
    """Choose learning rate and epochs from the model, the task and the number of rows, unless they were set.

    `settings` are those of the plan with the precision resolved.
    """
    settings = settings or plan.settings
    if plan.auto_rate:
        settings = replace(
            settings,
            learning_rate=default_learning_rate(shape.stack.width, is_per_word=task.head.collect_words is not None),
        )
    can_probe = is_new_head and task.objective(space) in PROBE_OBJECTIVES
    uses_probe = settings.head_start == "probe" and can_probe
    settings = replace(settings, head_start="probe" if uses_probe else "random")
    return resolve_epochs(
        row_count, settings, count_classes(space), uses_probe=uses_probe, keep_epochs=not plan.auto_epochs
    )


def default_learning_rate(width: int, *, is_per_word: bool = False) -> float:
    """Return the fine-tuning learning rate for the width of a model.

    For labels of texts, 5e-5 as in the BERT paper, and much more for models narrower than MiniLM, which underfit in
    three epochs otherwise (docs/results.md). Labels of words need larger steps because the loss is a mean over many
    words.
    """
    if is_per_word:
        learning_rate = BERT_BASE_TAG_RATE * (BERT_BASE_WIDTH / max(width, 1)) ** 2
    else:
        learning_rate = TrainSettings().learning_rate
        if width < MINILM_WIDTH:
            learning_rate = min(
                learning_rate * (MINILM_WIDTH / max(width, 1)) ** NARROW_EXPONENT, NARROW_RATE_SCALE / max(width, 1)
            )
    return float(f"{min(max(learning_rate, MIN_RATE), MAX_RATE):.1e}")


def resolve_epochs(
    row_count: int,
    settings: TrainSettings,
    label_count: int = 2,
    *,
    uses_probe: bool = False,
    keep_epochs: bool = False,
) -> TrainSettings:
    """Resolve the epochs: three for many rows, as in the BERT paper, and more for few rows or many classes.

    With more epochs, a randomly initialized head gets a higher learning rate: on 200 rows of banking77, 20 epochs
    with a faster head were better than 40 without. `keep_epochs` leaves the number of epochs unchanged.
    """
    rows_per_step = settings.batch_size or 32
    default_epochs = TrainSettings().epochs if keep_epochs else settings.epochs
    min_steps = max(MIN_STEPS, (PROBED_STEPS_PER_LABEL if uses_probe else STEPS_PER_LABEL) * label_count)
    max_epochs = (
        MAX_EPOCHS_MANY_LABELS if STEPS_PER_LABEL * label_count > MIN_STEPS and row_count < FEW_ROWS else MAX_EPOCHS
    )
    epochs = min(max(ceil(min_steps * rows_per_step / max(row_count, 1)), default_epochs), max_epochs)
    needs_faster_head = (
        epochs > default_epochs
        and settings.head_learning_rate is None
        and not settings.freeze_encoder
        and not uses_probe
    )
    learning_rate, head_learning_rate = settings.learning_rate, settings.head_learning_rate
    if needs_faster_head:
        head_learning_rate = max(min(HEAD_RATE_FACTOR * learning_rate, MAX_HEAD_RATE), learning_rate)
    return replace(settings, epochs=settings.epochs if keep_epochs else epochs, head_learning_rate=head_learning_rate)


def count_classes(space: LabelSpace) -> int:
    """Count the classes of which a row has one label; rows of other tasks have many labels each."""
    return len(space) if space.kind in ("classes", "multilabel") else 2


def resolve_lengths(plan: RunPlan, task: Task, model: Model | None) -> tuple[int | None, int]:
    """Resolve the maximum length and stride from the plan, or from the defaults of the task."""
    task_length, task_stride = task.rows.window_defaults
    max_length = plan.max_length
    if max_length is None and task_length is not None and model is not None:
        max_length = min(task_length, model.max_length() or task_length)
    if plan.stride is not None:
        return max_length, plan.stride
    window_length = max_length or (None if model is None else model.max_length())
    return max_length, task_stride if window_length is None else min(
        task_stride, max((window_length - MIN_NEW_TOKENS) // 3, 0)
    )


def resolve_max_length(plan: RunPlan, model: Model | None) -> int | None:
    """Resolve the maximum length, which the model must support."""
    return None if model is None else check_length(plan.max_length, plan.stride, model, plan.model)


def check_length(max_length: int | None, stride: int | None, model: Model, name: str) -> int | None:
    """Return the maximum length; refuse lengths above the model's limit and strides that leave no new tokens."""
    model_limit = model.max_length()
    if max_length is not None and model_limit is not None and max_length > model_limit:
        raise InputError(f"max_length must be at most {model_limit} tokens for {name}, got {max_length}.")
    length = max_length or model_limit
    if length is not None and (stride or 0) > length - MIN_NEW_TOKENS:
        raise InputError(
            f"stride must be at most {length - MIN_NEW_TOKENS} for windows of {length} tokens, got {stride}."
        )
    return length


def make_length_policy(plan: RunPlan, model: Model) -> LengthPolicy:
    """Make the policy for texts that are longer than the model can read."""
    return LengthPolicy(
        max_length=resolve_max_length(plan, model),
        long=plan.long,
        stride=plan.stride or 0,
        max_answer=plan.max_answer,
        max_tokens=plan.max_tokens,
    )
