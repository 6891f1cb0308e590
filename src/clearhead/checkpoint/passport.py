"""The passport (clearhead.json): facts about a saved model that are checked whenever it is loaded."""

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
    """The rows that a model was trained or evaluated on."""

    name: str
    rows: int
    sha256: str  # of the texts and labels in order


@dataclass(frozen=True, kw_only=True)
class TrainingRecord:
    """How a model was trained: everything that is needed to predict with it and to trace its origin."""

    task: str
    method: str = "finetune"
    kind: Literal["classes", "multilabel", "number", "tags", "answers", "options", "texts"] = "classes"  # of targets
    labels: list[str] = field(default_factory=list)
    separator: str | None = None
    scheme: str | None = None
    columns: dict[str, str] = field(default_factory=dict)  # role -> column name
    options: list[str] = field(default_factory=list)  # columns of the options
    max_length: int | None = None
    long: str = "window"
    stride: int = 0
    layer: str | int | None = None  # that features are taken from
    layer_scores: list[float] = field(default_factory=list)  # s of weighted layers, embeddings first, and ...
    layer_gamma: float = 1.0  # ... gamma in gamma * sum_j softmax(s)_j h_j
    pooling: list[str] = field(default_factory=list)
    pairs: Literal["together", "separate"] = "together"  # features of text pairs; separate: |a - b| and a * b
    temperature: float = 1.0
    thresholds: list[float] = field(default_factory=list)
    abstain_below: float | None = None
    no_answer: float | None = None  # threshold of the score difference above which a question has no answer
    max_answer: int = 30  # in tokens
    max_tokens: int | None = None  # of a row, in all windows together
    base: str = ""  # the checkpoint that training started from
    data: dict[str, DatasetFingerprint] = field(default_factory=dict)
    seeds: list[int] = field(default_factory=list)
    settings: dict[str, Any] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    metrics: dict[str, dict[str, dict[str, float | None]]] = field(default_factory=dict)  # split -> metric -> interval
    command: str = ""
    machine: Machine | None = None  # that the run started on; None: not recorded by an older version
    resumed_on: list[Machine] = field(default_factory=list)  # other machines that the run was resumed on


@dataclass(frozen=True, kw_only=True)
class Int8Result:
    """The quality of an int8 model compared with its float original, and whether it passed."""

    passed: bool
    metric: str  # of the task, or "cosine"
    before: float  # of the float model; 1 for "cosine"
    after: float  # of the int8 model
    allowed: float  # maximum loss in points; for "cosine", the minimum
    rows: int
    data: str  # source of the rows
    worst: float | None = None  # for "cosine", the minimum over texts
    float_steps: int = 0  # dense layers that stay in float


@dataclass(frozen=True, kw_only=True)
class Passport:
    """The origin of a model folder, and facts that must hold when it is loaded."""

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
    """Read the passport of a folder, or return None if it has none."""
    if not has_entry(folder, PASSPORT_FILE):
        return None
    stored: Any = read_json(resolve_inside(folder, PASSPORT_FILE))
    passport = decode_dataclass(stored, Passport, PASSPORT_FILE)
    if passport.trained is not None:
        settings = rename_stored(passport.trained.settings, TRAINING_SETTINGS | PLAN_SETTINGS)
        passport = replace(passport, trained=replace(passport.trained, settings=settings))
    if passport.format > FORMAT_VERSION:
        found_format = to_printable(passport.format, 20)
        raise CheckpointError(
            f"{PASSPORT_FILE} has format {found_format}, but this version reads only up to {FORMAT_VERSION}; "
            "upgrade Clearhead."
        )
    check_label_names(passport.labels, PASSPORT_FILE, unique=False)  # a foreign checkpoint may have duplicate names
    check_label_names([] if passport.trained is None else passport.trained.labels, PASSPORT_FILE)
    return passport


def check_label_names(names: Sequence[str], file: str, *, unique: bool = True) -> None:
    """Refuse label names with NUL or unpaired surrogates, and duplicates."""
    if invalid := [name for name in names if INVALID_CHARS.search(name)]:
        raise CheckpointError(
            f"{file} has the label {to_printable(invalid[0], 40)!r}, which contains NUL or an unpaired surrogate."
        )
    if unique and len(set(names)) != len(names):
        duplicate = Counter(names).most_common(1)[0][0]
        raise CheckpointError(
            f"{file} has the label {to_printable(duplicate, 40)!r} twice; label names must be unique."
        )


def write_passport(folder: Path, passport: Passport) -> None:
    """Write the passport to a model folder."""
    import msgspec

    write_json(folder / PASSPORT_FILE, msgspec.to_builtins(passport))


def check_tokenization(saved: dict[str, list[int]], current: dict[str, list[int]]) -> None:
    """Refuse a tokenizer that produces other ids than when the model was saved."""
    for text, ids in saved.items():
        if text in current and current[text] != ids:
            raise TokenizerError(
                f"The tokenizer changed since this model was saved: the ids of {text[:40]!r} were "
                f"{to_printable(ids[:8])} and are now {current[text][:8]}. Restore the tokenizer files, or train again."
            )


def check_labels(passport: Passport, labels: Sequence[str]) -> None:
    """Refuse a folder whose label names differ from those that the model was saved with."""
    if not passport.labels or list(labels) == passport.labels:
        return
    if len(labels) != len(passport.labels):
        change = f"the number of labels was {len(passport.labels)} and is now {len(labels)}"
    else:
        index = next(
            i for i, (saved, current) in enumerate(zip(passport.labels, labels, strict=True)) if saved != current
        )
        saved, current = (to_printable(names[index], 40) for names in (passport.labels, labels))
        change = f"label {index} was {saved!r} and is now {current!r}"
    message = f"The labels changed since this model was saved: {change}."
    raise CheckpointError(f"{message} Restore config.json, or train again.")
