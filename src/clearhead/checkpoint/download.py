"""Bring the files of one commit into the cache, each held to what the hub announced."""

from __future__ import annotations

import errno
import hashlib
import os
import re
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from clearhead.errors import ClearheadError, HubError, UnsafeError
from clearhead.progress import Progress

from .reference import is_commit, read_shard_names, select_files

_MAX_FILES = 50_000  # no model repository comes near; a listing beyond it is not one


@dataclass(frozen=True, kw_only=True)
class _RemoteFile:
    """What the hub says about one file, so that the file can be held to it."""

    size: int | None
    sha256: str | None  # of large files
    blob: str | None  # git's hash, of the others


def cache_folder(repo: str) -> Path:
    """Name the folder of a repository in the Hugging Face cache, which every program here shares."""
    from huggingface_hub import constants

    return Path(constants.HF_HUB_CACHE) / ("models--" + repo.replace("/", "--"))


def download_revision(
    repo: str, revision: str | None, *, token: str | None, progress: Progress | None, pickle: bool
) -> tuple[Path, str, bool]:
    """Bring a revision into the cache; give its folder, its commit, and whether anything had to be downloaded."""
    commit, listed = _list_files(repo, revision, token)
    folder = cache_folder(repo) / "snapshots" / commit
    fetched = False

    def get(name: str) -> None:
        nonlocal fetched
        if name not in listed:
            raise HubError(f"'{repo}' is broken on the hub: its index names {name}, which is not there")
        with _explain_hub_errors(repo, commit, name):
            fetched |= _download_file(repo, commit, name, listed[name], folder / name, token=token, progress=progress)

    # The root's weights come last, so a snapshot that has them has everything.
    for name in select_files(listed, f"{repo}@{revision}" if revision else repo, pickle=pickle):
        get(name)
        if name.endswith(".index.json"):
            for shard in read_shard_names(folder / name):
                get((PurePosixPath(name).parent / shard).as_posix())
    if not is_commit(revision):
        _write_ref(cache_folder(repo) / "refs" / (revision or "main"), commit)
    return folder, commit, fetched


def _list_files(repo: str, revision: str | None, token: str | None) -> tuple[str, dict[str, _RemoteFile]]:
    from huggingface_hub import HfApi, constants

    with _explain_hub_errors(repo, revision):
        # Without a timeout of ours the request would wait for ever.
        info = HfApi(library_name="clearhead").model_info(
            repo, revision=revision or "main", files_metadata=True, timeout=constants.HF_HUB_ETAG_TIMEOUT, token=token
        )
        commit, siblings = _parse_hash(info.sha, 40), info.siblings or []
        listed = {
            str(file.rfilename): _RemoteFile(
                size=_parse_size(file.lfs.size if file.lfs else file.size),
                sha256=_parse_hash(file.lfs.sha256, 64) if file.lfs else None,
                blob=None if file.lfs else _parse_hash(file.blob_id, 40),
            )
            for file in siblings[: _MAX_FILES + 1]
        }
    if commit is None or (is_commit(revision) and commit != revision):
        raise HubError(f"the hub gave no usable commit for '{repo}': check that HF_ENDPOINT is a Hugging Face hub")
    if len(siblings) > _MAX_FILES:
        raise HubError(f"'{repo}' lists more than {_MAX_FILES} files, which no model does: it was not fetched")
    return commit, listed


def _download_file(
    repo: str, commit: str, name: str, listed: _RemoteFile, path: Path, *, token: str | None, progress: Progress | None
) -> bool:
    from huggingface_hub import get_session, hf_hub_download

    if path.is_file():
        if listed.size in (None, path.stat().st_size):
            return False
        _remove_cached_file(path)
    hooks = get_session().event_hooks["response"]
    if _refuse_unsafe_etag not in hooks:
        hooks.append(_refuse_unsafe_etag)
    hf_hub_download(
        repo,
        name,
        revision=commit,
        token=token,
        library_name="clearhead",
        tqdm_class=_make_progress_class(name, progress),
    )
    if wrong := _find_mismatch(path, listed):
        _remove_cached_file(path)
        raise HubError(f"{name} of '{repo}' came with another {wrong} than the hub announced: try again")
    return True


def _refuse_unsafe_etag(response: Any) -> None:
    # huggingface_hub 2.4 makes a file name of this header without looking at it: '../../x' would leave the cache.
    if response.request.method == "HEAD":
        for header in ("ETag", "X-Linked-Etag"):
            tag = response.headers.get(header, "").removeprefix("W/")
            if "/" in tag or "\\" in tag:
                raise UnsafeError(f"the hub gave the file tag {tag[:60]!r}, which leaves the cache: check HF_ENDPOINT")


def _remove_cached_file(path: Path) -> None:
    for place in (path.resolve(), path):  # the snapshot holds links to the blobs
        place.unlink(missing_ok=True)


def _find_mismatch(path: Path, listed: _RemoteFile) -> str | None:
    if not path.is_file():
        return "commit"
    size = path.stat().st_size
    if listed.size not in (None, size):
        return "size"
    with path.open("rb") as file:
        if listed.sha256 and hashlib.file_digest(file, "sha256").hexdigest() != listed.sha256:
            return "sha256"
        if listed.blob:
            digest = hashlib.sha1(b"blob %d\0" % size, usedforsecurity=False)  # how git names a file
            while block := file.read(2**20):
                digest.update(block)
            return None if digest.hexdigest() == listed.blob else "hash"
    return None


def _write_ref(ref: Path, commit: str) -> None:
    # Written whole and after the files: a branch in the cache never points to half a model. A cache that cannot be
    # written to still serves this call.
    with suppress(OSError):
        if not ref.is_file() or ref.read_text("ascii") != commit:
            ref.parent.mkdir(parents=True, exist_ok=True)
            new = ref.with_name(f".{uuid.uuid4().hex}.new")
            new.write_text(commit, "ascii")
            new.replace(ref)


def _make_progress_class(name: str, progress: Progress | None) -> Any:
    # huggingface_hub draws a tqdm bar unless it is handed a class of its shape; this one only counts.
    class Meter:
        def __init__(self, *_: Any, total: int | None = None, initial: int = 0, **__: Any) -> None:
            self.total, self.n = total, initial

        def __enter__(self) -> Meter:
            return self

        def __exit__(self, *_: Any) -> None: ...

        def update(self, n: int = 1) -> None:
            self.n += n
            if progress is not None:
                progress(name, self.n, self.total)

        def _nothing(self, *_: Any, **__: Any) -> None: ...

        update_transfer = set_postfix_str = set_transfer_postfix_str = refresh = close = _nothing

    return Meter


def _parse_size(value: object) -> int | None:
    return value if isinstance(value, int) and value >= 0 else None


def _parse_hash(value: object, length: int) -> str | None:
    return value if isinstance(value, str) and re.fullmatch(rf"[0-9a-f]{{{length}}}", value) else None


@contextmanager
def _explain_hub_errors(repo: str, revision: str | None, file: str | None = None) -> Iterator[None]:
    try:
        yield
    except ClearheadError:
        raise
    except Exception as error:  # whatever a hub, a network or a disk can make huggingface_hub raise
        cause = _find_cause(error)
        # The words of the cause may hold the token when it is the token that cannot be sent.
        raise HubError(_explain_error(cause, repo, revision, file)) from (None if _is_bad_token(cause) else cause)


def _find_cause(error: BaseException) -> BaseException:
    from huggingface_hub.errors import LocalEntryNotFoundError

    while isinstance(error, LocalEntryNotFoundError) and error.__cause__ is not None:
        error = error.__cause__
    return error


def _class_names(error: BaseException | None) -> set[str]:
    # By name: huggingface_hub moved from httpx to httpx2, and both name their errors alike.
    return {kind.__name__ for kind in type(error).__mro__}


def _status(error: BaseException | None) -> int:
    return int(getattr(getattr(error, "response", None), "status_code", 0))


def _is_bad_token(error: BaseException) -> bool:
    return bool(_class_names(error) & {"LocalProtocolError", "UnicodeEncodeError"})


def is_unavailable(error: BaseException | None) -> bool:
    """Tell whether a hub error comes from a hub that is away or overloaded, rather than from its answer."""
    return "TransportError" in _class_names(error) or _status(error) in (408, 429) or _status(error) >= 500


def _explain_error(error: BaseException, repo: str, revision: str | None, file: str | None) -> str:
    what = f"{file} of '{repo}'" if file else f"'{repo}'"
    kinds, status = _class_names(error), _status(error)
    number = error.errno if isinstance(error, OSError) and not status else None
    if _is_bad_token(error):
        return "the token holds characters that cannot be sent: check HF_TOKEN"
    if "GatedRepoError" in kinds:
        return f"'{repo}' is gated: accept its terms on the hub, then set HF_TOKEN to a token of that account"
    if "RevisionNotFoundError" in kinds:
        return f"'{repo}' has no revision '{revision or 'main'}': check the branch, tag or commit after '@'"
    if "EntryNotFoundError" in kinds and status:
        return f"the hub lists {what} and yet does not have it: try again, or ask for another revision"
    if "RepositoryNotFoundError" in kinds or status in (401, 404):
        return (
            f"the hub has no model '{repo}', or it is private: check the name (there is no such folder here either), "
            "or set HF_TOKEN to a token that may read it"
        )
    if status == 403:
        return f"the hub does not let you read {what}: set HF_TOKEN to a token that may"
    if status == 429:
        return f"the hub asks for a pause before {what} (429): wait a few minutes, or set HF_TOKEN for a higher limit"
    if status:
        return f"the hub answered {status} for {what}: try again later"
    if "TimeoutException" in kinds:
        return f"the hub took too long over {what}: check the connection and try again"
    if "TransportError" in kinds:
        return f"the hub could not be reached for {what}: check the connection and HF_ENDPOINT"
    if number in (errno.ENOSPC, errno.EDQUOT):
        return f"the disk is full, so {what} could not be kept: free some space, or set HF_HOME to another disk"
    if number is not None:
        return f"{what} could not be kept in the cache ({os.strerror(number)}): check HF_HOME and its permissions"
    if type(error) is OSError:
        return f"{what} came in another size than the hub announced: try again"
    return f"the hub's answer about {what} makes no sense ({type(error).__name__}): check HF_ENDPOINT, or try again"
