"""The models on this machine: aliases, those that come with the package, and the Hugging Face cache.

Only config.json, small settings and file sizes are read; a folder that is damaged is listed with the reason.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from clearhead.checkpoint.folder import detect_model_type, read_config
from clearhead.checkpoint.passport import read_passport
from clearhead.checkpoint.reference import ALIASES, SHIPPED, find_missing_files, is_commit, is_hub_id
from clearhead.errors import ClearheadError
from clearhead.families import family_of
from clearhead.files import read_bytes, to_printable

MAX_FOLDERS = 5000  # of a cache that are listed
MAX_FILES = 2000  # of a model folder whose sizes are added up
MAX_LISTED_MODELS = 8  # models that an error message names
FILL_HEADS = ("masked", "pretrain")  # heads that guess masked words
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
    """A model that can be named here, and what it is as far as its small files tell."""

    name: str  # what to write where a model is asked for
    source: Literal["alias", "shipped", "cache"]
    path: str | None  # None: it is not on this machine
    stands_for: str | None = None  # of an alias: the hub id
    family: str | None = None
    head: str | None = None  # as `describe` calls it; None: no head, or not known
    kind: str = ""  # what it does, in words
    bytes: int = 0
    problem: str | None = None  # why it cannot be loaded

    @property
    def usable(self) -> bool:
        """Whether it is here and whole."""
        return self.path is not None and self.problem is None

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self) | {"usable": self.usable}


def list_models(cache: Path, default: Path | None) -> list[LocalModel]:
    """Aliases, shipped models and those of a cache, in this order; `default` is where the default model is."""
    made = [_describe_alias(name, repo, default) for name, repo in ALIASES.items()]
    made += [describe_folder(name, "shipped", folder) for name, folder in SHIPPED.items()]
    return made + sorted(_list_cached(cache), key=lambda model: model.name.lower())


def _describe_alias(name: str, repo: str, folder: Path | None) -> LocalModel:
    if folder is None:
        return LocalModel(name=name, source="alias", path=None, stands_for=repo)
    model = describe_folder(name, "alias", folder)
    return LocalModel(**asdict(model) | {"stands_for": repo})


def _list_cached(cache: Path) -> Iterator[LocalModel]:
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


def _select_snapshot(place: Path) -> tuple[Path | None, bool]:
    """The snapshot of the main branch, or else the newest one, which only its commit can name."""
    try:
        commit = read_bytes(place / "refs" / "main", max_bytes=64).decode("ascii", "replace").strip()
        if is_commit(commit) and (place / "snapshots" / commit).is_dir():
            return place / "snapshots" / commit, True
    except (ClearheadError, OSError, ValueError):
        pass
    try:
        with os.scandir(place / "snapshots") as entries:
            found = [entry for entry in islice(entries, MAX_FOLDERS) if is_commit(entry.name) and entry.is_dir()]
        newest = max(found, key=lambda entry: (entry.stat().st_mtime, entry.name), default=None)
        return None if newest is None else Path(newest.path), False
    except OSError:
        return None, False


def describe_folder(name: str, source: Literal["alias", "shipped", "cache"], folder: Path) -> LocalModel:
    """What a folder's small files say of it; damage is a sentence, never an error."""
    known: dict[str, Any] = {"name": name, "source": source, "path": str(folder)}
    try:
        known |= _read_facts(folder)
    except (ClearheadError, OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        known["problem"] = to_printable(" ".join(str(error).split()) or type(error).__name__, 160)
    return LocalModel(**known)


def _read_facts(folder: Path) -> dict[str, Any]:
    size = _folder_bytes(folder)
    if missing := find_missing_files(folder, pickle=False):
        return {
            "bytes": size,
            "problem": f"incomplete: {', '.join(to_printable(name, 60) for name in missing[:3])} not found",
        }
    config = read_config(folder)
    family = family_of(detect_model_type(config, ()))
    passport = read_passport(folder)
    named = config.get("architectures")
    title = named[0] if isinstance(named, list) and named and isinstance(named[0], str) else ""
    head = family.architectures.get(title) if passport is None or passport.head is None else passport.head
    trained = None if passport is None else passport.trained
    kind = HEAD_DESCRIPTIONS.get(str(head), "encoder")
    if (folder / "modules.json").is_file():
        kind = "sentence encoder"
    if trained is not None:
        kind = f"trained to {to_printable(trained.task, 30)}"
    return {"family": family.title, "head": head, "kind": kind, "bytes": size}


def _folder_bytes(folder: Path) -> int:
    """The sizes of the files directly in a folder; of links, those of the files they point to."""
    total = 0
    with os.scandir(folder) as entries:
        for entry in islice(entries, MAX_FILES):
            try:
                total += entry.stat().st_size if entry.is_file() else 0
            except OSError:
                continue
    return total


def format_models(models: Iterable[LocalModel], heads: Iterable[str] | None = None) -> str:
    """The usable models as they stand in an error message, with what they do; empty where there are none."""
    wanted = None if heads is None else set(heads)
    found: dict[str, str] = {}
    paths: set[str | None] = set()
    for model in models:
        if model.usable and model.path not in paths and (wanted is None or model.head in wanted):
            found[model.name] = model.kind
            paths.add(model.path)  # an alias and its repository are one model
    listed = ", ".join(
        name if wanted else f"{name} ({kind})" for name, kind in islice(found.items(), MAX_LISTED_MODELS)
    )
    return listed + (", …" if len(found) > MAX_LISTED_MODELS else "")


def format_bytes(count: int) -> str:
    """Bytes as people read them."""
    if count >= 1e9:
        return f"{count / 1e9:.1f} GB"
    return f"{count / 1e6:.1f} MB" if count >= 1e5 else f"{count / 1e3:.1f} kB"
