"""List the models on this machine: aliases, shipped models and the Hugging Face cache.

Only config.json, small settings files and file sizes are read; a damaged folder is listed with the problem.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from clearhead.checkpoint.config import detect_model_type, read_config
from clearhead.checkpoint.passport import read_passport
from clearhead.checkpoint.reference import ALIASES, SHIPPED, find_missing_files, is_commit, is_hub_id
from clearhead.errors import ClearheadError
from clearhead.families import family_of
from clearhead.files import read_bytes, to_printable

MAX_FOLDERS = 5000  # of the cache
MAX_FILES = 2000  # of a model folder, when adding up sizes
MAX_LISTED_MODELS = 8  # in an error message
FILL_HEADS = ("masked", "pretrain")  # heads that predict masked tokens
HEAD_DESCRIPTIONS = {
    "masked": "masked words",
    "pretrain": "masked words and sentence pairs",
    "next": "next sentence",
    "causal": "next word",
    "bilm": "next and previous word",
    "seq2seq": "sequence to sequence",
    "encode": "encoder",
    "replaced": "replaced tokens",
    "classify": "classifier",
    "tag": "tagger",
    "span": "answers in passages",
    "choice": "multiple choice",
}


@dataclass(frozen=True, kw_only=True)
class LocalModel:
    """A model that can be loaded by name, described from its configuration files."""

    name: str  # the model reference to pass
    source: Literal["alias", "shipped", "cache"]
    path: str | None  # None: not on this machine
    stands_for: str | None = None  # hub id of an alias
    family: str | None = None
    head: str | None = None  # as in `describe`; None: no head, or unknown
    kind: str = ""  # a phrase for what it predicts
    bytes: int = 0
    problem: str | None = None  # why it cannot be loaded

    @property
    def usable(self) -> bool:
        """Whether the model is on this machine and complete."""
        return self.path is not None and self.problem is None

    def to_json(self) -> dict[str, Any]:
        """Return the fields as JSON values."""
        return asdict(self) | {"usable": self.usable}


def list_models(cache: Path, default_folder: Path | None) -> list[LocalModel]:
    """List aliases, shipped models and the models of a cache; `default_folder` contains the default model."""
    models = [_describe_alias(name, repo, default_folder) for name, repo in ALIASES.items()]
    models += [describe_folder(name, "shipped", folder) for name, folder in SHIPPED.items()]
    return models + sorted(_list_cached_models(cache), key=lambda model: model.name.lower())


def _describe_alias(name: str, repo: str, folder: Path | None) -> LocalModel:
    if folder is None:
        return LocalModel(name=name, source="alias", path=None, stands_for=repo)
    model = describe_folder(name, "alias", folder)
    return LocalModel(**asdict(model) | {"stands_for": repo})


def _list_cached_models(cache: Path) -> Iterator[LocalModel]:
    try:
        with os.scandir(cache) as entries:
            names = [entry.name for entry in islice(entries, MAX_FOLDERS) if entry.name.startswith("models--")]
    except OSError:
        return
    for name in names:
        repo = name.removeprefix("models--").replace("--", "/", 1)
        if not is_hub_id(repo):
            continue
        folder, is_main = _select_snapshot(cache / name)
        if folder is None:
            yield LocalModel(name=repo, source="cache", path=str(cache / name), problem="no snapshot is complete")
        else:
            yield describe_folder(repo if is_main else f"{repo}@{folder.name}", "cache", folder)


def _select_snapshot(repo_folder: Path) -> tuple[Path | None, bool]:
    """Return the snapshot of the main branch and True, or the newest other snapshot and False."""
    try:
        commit = read_bytes(repo_folder / "refs" / "main", max_bytes=64).decode("ascii", "replace").strip()
        if is_commit(commit) and (repo_folder / "snapshots" / commit).is_dir():
            return repo_folder / "snapshots" / commit, True
    except (ClearheadError, OSError, ValueError):
        pass
    try:
        with os.scandir(repo_folder / "snapshots") as entries:
            snapshots = [entry for entry in islice(entries, MAX_FOLDERS) if is_commit(entry.name) and entry.is_dir()]
        newest = max(snapshots, key=lambda entry: (entry.stat().st_mtime, entry.name), default=None)
        return None if newest is None else Path(newest.path), False
    except OSError:
        return None, False


def describe_folder(name: str, source: Literal["alias", "shipped", "cache"], folder: Path) -> LocalModel:
    """Describe a model folder from its configuration files; damage is reported in `problem`, never raised."""
    facts: dict[str, Any] = {"name": name, "source": source, "path": str(folder)}
    try:
        facts |= _read_facts(folder)
    except (ClearheadError, OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        facts["problem"] = to_printable(" ".join(str(error).split()) or type(error).__name__, 160)
    return LocalModel(**facts)


def _read_facts(folder: Path) -> dict[str, Any]:
    size = _sum_file_sizes(folder)
    if missing := find_missing_files(folder, pickle=False):
        return {
            "bytes": size,
            "problem": f"incomplete: {', '.join(to_printable(name, 60) for name in missing[:3])} not found",
        }
    config = read_config(folder)
    family = family_of(detect_model_type(config, ()))
    passport = read_passport(folder)
    architectures = config.get("architectures")
    class_name = architectures[0] if isinstance(architectures, list) and architectures else ""
    saved_head = family.architectures.get(class_name) if isinstance(class_name, str) else None
    head = saved_head if passport is None or passport.head is None else passport.head
    training = None if passport is None else passport.trained
    kind = HEAD_DESCRIPTIONS.get(str(head), "encoder")
    if (folder / "modules.json").is_file():
        kind = "sentence encoder"
    if training is not None:
        kind = f"trained to {to_printable(training.task, 30)}"
    return {"family": family.title, "head": head, "kind": kind, "bytes": size}


def _sum_file_sizes(folder: Path) -> int:
    """Add up the sizes of the files directly in a folder, following links."""
    total = 0
    with os.scandir(folder) as entries:
        for entry in islice(entries, MAX_FILES):
            try:
                total += entry.stat().st_size if entry.is_file() else 0
            except OSError:
                continue
    return total


def format_models(models: Iterable[LocalModel], heads: Iterable[str] | None = None) -> str:
    """List the usable models for an error message, with what they predict unless `heads` restricts them."""
    allowed_heads = None if heads is None else set(heads)
    kinds: dict[str, str] = {}
    paths: set[str | None] = set()
    for model in models:
        if model.usable and model.path not in paths and (allowed_heads is None or model.head in allowed_heads):
            kinds[model.name] = model.kind
            paths.add(model.path)  # an alias and its repository are one model
    names = ", ".join(
        name if allowed_heads else f"{name} ({kind})" for name, kind in islice(kinds.items(), MAX_LISTED_MODELS)
    )
    return names + (", …" if len(kinds) > MAX_LISTED_MODELS else "")


def format_bytes(count: int) -> str:
    """Format a number of bytes, as in 1.2 GB."""
    if count >= 1e9:
        return f"{count / 1e9:.1f} GB"
    return f"{count / 1e6:.1f} MB" if count >= 1e5 else f"{count / 1e3:.1f} kB"
