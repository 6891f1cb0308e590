"""The passport: what a saved model promises about itself, in clearhead.json, checked whenever it is loaded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from clearhead.checkpoint.weights import has_entry, resolve_inside
from clearhead.deprecation import PLAN_SETTINGS, TRAINING_SETTINGS, rename_stored
from clearhead.errors import CheckpointError, TokenizerError
from clearhead.files import INVALID_CHARS, decode_dataclass, read_json, to_printable, write_json
from clearhead.machine.cpu import Machine

PASSPORT_FILE = "clearhead.json"
FORMAT_VERSION = 1


@dataclass(frozen=True, kw_only=True)
class DatasetFingerprint:
    """Which rows a model saw or was measured on."""

    name: str
    rows: int
    sha256: str  # of the texts and labels that were used, in their order


@dataclass(frozen=True, kw_only=True)
class TrainingRecord:
    """What a model was trained for, on what and how: enough to use it without saying anything again."""

    task: str
    method: str = "finetune"
    kind: Literal["classes", "multilabel", "number", "tags", "answers", "options", "texts"] = "classes"  # of labels
    labels: list[str] = field(default_factory=list)
    separator: str | None = None
    scheme: str | None = None
    columns: dict[str, str] = field(default_factory=dict)  # part -> name
    options: list[str] = field(default_factory=list)  # columns of options
    max_length: int | None = None
    long: str = "window"
    stride: int = 0
    layer: str | int | None = None  # of features
    layer_scores: list[float] = field(default_factory=list)  # of weighted layers: s, the word vectors first ...
    layer_gamma: float = 1.0  # ... and gamma, of gamma * sum_j softmax(s)_j h_j
    pooling: list[str] = field(default_factory=list)
    pairs: Literal["together", "separate"] = "together"  # how features read two texts; separate: |a - b| and a * b
    temperature: float = 1.0
    thresholds: list[float] = field(default_factory=list)
    abstain_below: float | None = None
    no_answer: float | None = None  # from which difference of scores on a question is left without an answer
    max_answer: int = 30  # tokens of the longest answer
    max_tokens: int | None = None  # of a row in all its windows
    base: str = ""  # the model that it started from
    data: dict[str, DatasetFingerprint] = field(default_factory=dict)
    seeds: list[int] = field(default_factory=list)
    settings: dict[str, Any] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    metrics: dict[str, dict[str, dict[str, float | None]]] = field(default_factory=dict)  # part -> metric -> interval
    command: str = ""
    machine: Machine | None = None  # that the run began on; None: of a version that did not record it
    resumed_on: list[Machine] = field(default_factory=list)  # other ones that it was resumed on


@dataclass(frozen=True, kw_only=True)
class Int8Result:
    """What eight bits cost this model, on whose texts, and whether that was allowed."""

    passed: bool
    metric: str  # of the task, or "cosine"
    before: float  # in float; of "cosine" 1
    after: float  # in eight bits
    allowed: float  # points that may be lost; of "cosine" the least
    rows: int
    data: str  # where they came from
    worst: float | None = None  # of "cosine": of the text that lost most
    float_steps: int = 0  # dense steps that stay in float


@dataclass(frozen=True, kw_only=True)
class Passport:
    """Who made a model folder and what must still be true of it."""

    format: int = FORMAT_VERSION
    clearhead: str = ""
    family: str = ""
    head: str | None = None
    labels: list[str] = field(default_factory=list)
    golden: dict[str, list[int]] = field(default_factory=dict)  # probe text -> token ids
    target_golden: dict[str, list[int]] = field(default_factory=dict)
    pruned: dict[str, dict[str, list[int]]] = field(default_factory=dict)  # part -> block -> heads
    trained: TrainingRecord | None = None
    int8: Int8Result | None = None


def read_passport(folder: Path) -> Passport | None:
    """The passport of a folder, or None when it has none."""
    if not has_entry(folder, PASSPORT_FILE):
        return None
    data: Any = read_json(resolve_inside(folder, PASSPORT_FILE))
    passport = decode_dataclass(data, Passport, PASSPORT_FILE)
    if passport.trained is not None:
        settings = rename_stored(passport.trained.settings, TRAINING_SETTINGS | PLAN_SETTINGS)
        passport = replace(passport, trained=replace(passport.trained, settings=settings))
    if passport.format > FORMAT_VERSION:
        newer = to_printable(passport.format, 20)
        raise CheckpointError(
            f"{PASSPORT_FILE} has format {newer}, and this version reads up to {FORMAT_VERSION}: upgrade."
        )
    check_label_names(passport.labels, PASSPORT_FILE, unique=False)  # a checkpoint of others may name two alike
    check_label_names([] if passport.trained is None else passport.trained.labels, PASSPORT_FILE)
    return passport


def check_label_names(names: Sequence[str], file: str, *, unique: bool = True) -> None:
    """Refuse label names that cannot be written or told apart: half a surrogate pair, NUL, the same name twice."""
    if wrong := [name for name in names if INVALID_CHARS.search(name)]:
        raise CheckpointError(
            f"{file} has the label {to_printable(wrong[0], 40)!r}, which holds NUL or half a character."
        )
    if unique and len(set(names)) != len(names):
        twice = Counter(names).most_common(1)[0][0]
        raise CheckpointError(
            f"{file} has the label {to_printable(twice, 40)!r} twice, so that nobody could tell them apart."
        )


def write_passport(folder: Path, passport: Passport) -> None:
    """Save it beside the weights."""
    import msgspec

    write_json(folder / PASSPORT_FILE, msgspec.to_builtins(passport))


def check_tokenization(promised: dict[str, list[int]], now: dict[str, list[int]]) -> None:
    """Refuse a tokenizer that gives other ids than it did when the model was saved."""
    for text, ids in promised.items():
        if text in now and now[text] != ids:
            raise TokenizerError(
                f"The tokenizer changed since this model was saved: {text[:40]!r} gave {to_printable(ids[:8])} and "
                "now gives "
                f"{now[text][:8]}. Restore the tokenizer files, or train again."
            )


def check_labels(passport: Passport, labels: Sequence[str]) -> None:
    """Refuse a folder whose label names are not those that the model was saved with."""
    if not passport.labels or list(labels) == passport.labels:
        return
    if len(labels) != len(passport.labels):
        changed = f"{len(passport.labels)} labels became {len(labels)}"
    else:
        place = next(i for i, (old, new) in enumerate(zip(passport.labels, labels, strict=True)) if old != new)
        changed = (
            f"label {place} was {to_printable(passport.labels[place], 40)!r} and is {to_printable(labels[place], 40)!r}"
        )
    said = f"The labels changed since this model was saved: {changed}."
    raise CheckpointError(f"{said} Restore config.json, or train again.")
