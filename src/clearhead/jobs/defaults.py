"""What a plan leaves open: epochs and rate, tokens that are read at once, what windows share, and threads."""

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

MIN_STEPS = 150  # of a fine-tuning on few rows
STEPS_PER_LABEL = 10  # for each label: a new head that starts at random learns them one row at a time
PROBED_STEPS_PER_LABEL = 6  # the same for a head that was fitted before (training/probe.py)
MAX_EPOCHS, MAX_EPOCHS_MANY_LABELS = 20, 40  # the second with many classes and few rows
FEW_ROWS = 450  # of training, beside fewer than 50 dev rows
HEAD_RATE_FACTOR = 20  # times the rate, for a new head that starts at random and sees few rows, ...
MAX_HEAD_RATE = 1e-3  # ... up to this
BERT_BASE_WIDTH, BERT_BASE_TAG_RATE = 768, 8e-5  # of BERT-base; 3.2e-4 for MiniLM
MINILM_WIDTH, NARROW_EXPONENT = 384, 6.5  # MiniLM's width, and how fast the rate grows below it: 7e-4 at 256
NARROW_RATE_SCALE = 0.256  # divided by the width: the most for narrow models, 2e-3 at 128
MIN_RATE, MAX_RATE = 1e-5, 2e-3
MIN_NEW_TOKENS = 4  # tokens of a window that do not move on


def resolve_threads(threads: int | None, settings: TrainSettings, shape: ModelShape | None = None) -> int:
    """How many threads torch computes on from here on: as many as were asked for, or as the model keeps busy.

    A resumed run uses as many.
    """
    from clearhead.training.threads import use_threads

    return use_threads(threads, shape, settings)


def choose_settings(
    plan: RunPlan,
    task: Task,
    space: LabelSpace,
    rows: int,
    shape: ModelShape,
    *,
    is_new: bool = True,
    settings: TrainSettings | None = None,
) -> TrainSettings:
    """Rate and epochs that suit the model, the task and the rows, where they were not given.

    `settings`: those of the plan with their precision resolved.
    """
    settings = settings or plan.settings
    if plan.auto_rate:
        settings = replace(
            settings,
            learning_rate=default_learning_rate(shape.stack.width, per_word=task.head.collect_words is not None),
        )
    can_probe = is_new and task.objective(space) in PROBE_OBJECTIVES
    probed = settings.head_start == "probe" and can_probe
    settings = replace(settings, head_start="probe" if probed else "random")
    return resolve_epochs(rows, settings, count_classes(space), probed=probed, given=not plan.auto_epochs)


def default_learning_rate(width: int, *, per_word: bool = False) -> float:
    """The learning rate of a fine-tuning, by the width of the model.

    A label of a text: 5e-5, as BERT's authors have it, and much more for models narrower than MiniLM: three epochs
    with small steps leave them half-taught (docs/results.md). A label of each word needs larger steps, for its loss
    is a mean over many words.
    """
    if per_word:
        rate = BERT_BASE_TAG_RATE * (BERT_BASE_WIDTH / max(width, 1)) ** 2
    else:
        rate = TrainSettings().learning_rate
        if width < MINILM_WIDTH:
            rate = min(rate * (MINILM_WIDTH / max(width, 1)) ** NARROW_EXPONENT, NARROW_RATE_SCALE / max(width, 1))
    return float(f"{min(max(rate, MIN_RATE), MAX_RATE):.1e}")


def resolve_epochs(
    rows: int, settings: TrainSettings, labels: int = 2, *, probed: bool = False, given: bool = False
) -> TrainSettings:
    """Three epochs for many rows, as BERT's authors do; more for few rows or many classes, unless they are `given`.

    A head that starts at random learns faster then: with 200 rows of banking77 and its rate as that of the encoder, 40
    epochs were worse than 20 with a faster head.
    """
    a_step = settings.batch_size or 32
    usual = TrainSettings().epochs if given else settings.epochs
    steps = max(MIN_STEPS, (PROBED_STEPS_PER_LABEL if probed else STEPS_PER_LABEL) * labels)
    most = MAX_EPOCHS_MANY_LABELS if STEPS_PER_LABEL * labels > MIN_STEPS and rows < FEW_ROWS else MAX_EPOCHS
    epochs = min(max(ceil(steps * a_step / max(rows, 1)), usual), most)
    faster = epochs > usual and settings.head_learning_rate is None and not settings.freeze_encoder and not probed
    rate, head_rate = settings.learning_rate, settings.head_learning_rate
    if faster:
        head_rate = max(min(HEAD_RATE_FACTOR * rate, MAX_HEAD_RATE), rate)
    return replace(settings, epochs=settings.epochs if given else epochs, head_learning_rate=head_rate)


def count_classes(space: LabelSpace) -> int:
    """How many classes one row teaches one of; tags and options are learned many at a time."""
    return len(space) if space.kind in ("classes", "multilabel") else 2


def resolve_lengths(plan: RunPlan, task: Task, model: Model | None) -> tuple[int | None, int]:
    """How many tokens are read at once and how many windows share: as the task has it where the plan leaves it open."""
    most, shared = task.rows.window_defaults
    length = plan.max_length
    if length is None and most is not None and model is not None:
        length = min(most, model.max_length() or most)
    if plan.stride is not None:
        return length, plan.stride
    known = length or (None if model is None else model.max_length())
    return length, shared if known is None else min(shared, max((known - MIN_NEW_TOKENS) // 3, 0))


def resolve_max_length(plan: RunPlan, model: Model | None) -> int | None:
    """How many tokens are read at once, which must be what the model can."""
    return None if model is None else check_length(plan.max_length, plan.stride, model, plan.model)


def check_length(max_length: int | None, stride: int | None, model: Model, name: str) -> int | None:
    """How many tokens a model reads at once; refused where it cannot read so many, or windows would share them all."""
    most = model.max_length()
    if max_length is not None and most is not None and max_length > most:
        raise InputError(f"max_length is {max_length}, and {name} reads at most {most} tokens.")
    length = max_length or most
    if length is not None and (stride or 0) > length - MIN_NEW_TOKENS:
        raise InputError(f"stride is {stride}; windows of {length} tokens can share at most {length - MIN_NEW_TOKENS}.")
    return length


def make_length_policy(plan: RunPlan, model: Model) -> LengthPolicy:
    """How texts are read that are longer than the model can."""
    return LengthPolicy(
        max_length=resolve_max_length(plan, model),
        long=plan.long,
        stride=plan.stride or 0,
        max_answer=plan.max_answer,
        max_tokens=plan.max_tokens,
    )
