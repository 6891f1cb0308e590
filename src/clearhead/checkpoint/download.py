"""Download the files of a commit to the cache and verify their sizes and hashes."""

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

_MAX_FILES = 50_000  # of a repository; far more than any model has


@dataclass(frozen=True, kw_only=True)
class _RemoteFile:
    """The size and hash of a file according to the hub."""

    size: int | None
    sha256: str | None  # of a large file
    blob: str | None  # Git's hash, of any other file


def cache_folder(repo: str) -> Path:
    """Return the folder of a repository in the shared Hugging Face cache."""
    from huggingface_hub import constants

    return Path(constants.HF_HUB_CACHE) / ("models--" + repo.replace("/", "--"))


def download_revision(
    repo: str, revision: str | None, *, token: str | None, progress: Progress | None, pickle: bool
) -> tuple[Path, str, bool]:
    """Download a revision to the cache; return its folder, its commit, and whether any file was downloaded."""
    commit, remote_files = _list_files(repo, revision, token)
    folder = cache_folder(repo) / "snapshots" / commit
    has_downloaded = False

    def fetch(name: str) -> None:
        nonlocal has_downloaded
        if name not in remote_files:
            raise HubError(f"'{repo}' is incomplete on the hub: its index lists {name}, which does not exist.")
        with _explain_hub_errors(repo, commit, name):
            has_downloaded |= _download_file(
                repo, commit, name, remote_files[name], folder / name, token=token, progress=progress
            )

    # the weights in the root come last, so a snapshot that has them is complete
    for name in select_files(remote_files, f"{repo}@{revision}" if revision else repo, pickle=pickle):
        fetch(name)
        if name.endswith(".index.json"):
            for shard in read_shard_names(folder / name):
                fetch((PurePosixPath(name).parent / shard).as_posix())
    if not is_commit(revision):
        _write_ref(cache_folder(repo) / "refs" / (revision or "main"), commit)
    return folder, commit, has_downloaded


def _list_files(repo: str, revision: str | None, token: str | None) -> tuple[str, dict[str, _RemoteFile]]:
    from huggingface_hub import HfApi, constants

    with _explain_hub_errors(repo, revision):
        # without an explicit timeout, the request could block forever
        info = HfApi(library_name="clearhead").model_info(
            repo, revision=revision or "main", files_metadata=True, timeout=constants.HF_HUB_ETAG_TIMEOUT, token=token
        )
        commit, siblings = _parse_hash(info.sha, 40), info.siblings or []
        remote_files = {
            str(sibling.rfilename): _RemoteFile(
                size=_parse_size(sibling.lfs.size if sibling.lfs else sibling.size),
                sha256=_parse_hash(sibling.lfs.sha256, 64) if sibling.lfs else None,
                blob=None if sibling.lfs else _parse_hash(sibling.blob_id, 40),
            )
            for sibling in siblings[: _MAX_FILES + 1]
        }
    if commit is None or (is_commit(revision) and commit != revision):
        raise HubError(f"The hub returned no valid commit for '{repo}'. Check that HF_ENDPOINT is a Hugging Face hub.")
    if len(siblings) > _MAX_FILES:
        raise HubError(f"'{repo}' has more than {_MAX_FILES} files, too many for a model; nothing was downloaded.")
    return commit, remote_files


def _download_file(
    repo: str, commit: str, name: str, remote: _RemoteFile, path: Path, *, token: str | None, progress: Progress | None
) -> bool:
    from huggingface_hub import get_session, hf_hub_download

    if path.is_file():
        if remote.size in (None, path.stat().st_size):
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
    if mismatch := _find_mismatch(path, remote):
        _remove_cached_file(path)
        raise HubError(f"{name} of '{repo}' does not have the {mismatch} that the hub announced. Try again.")
    return True


def _refuse_unsafe_etag(response: Any) -> None:
    # huggingface_hub 2.4 uses this header as a file name without validation: '../../x' would leave the cache
    if response.request.method == "HEAD":
        for header in ("ETag", "X-Linked-Etag"):
            tag = response.headers.get(header, "").removeprefix("W/")
            if "/" in tag or "\\" in tag:
                raise UnsafeError(
                    f"The hub sent the ETag {tag[:60]!r}, a path that leaves the cache. Check HF_ENDPOINT."
                )


def _remove_cached_file(path: Path) -> None:
    for target in (path.resolve(), path):  # the snapshot contains links to blobs
        target.unlink(missing_ok=True)


def _find_mismatch(path: Path, remote: _RemoteFile) -> str | None:
    if not path.is_file():
        return "commit"
    size = path.stat().st_size
    if remote.size not in (None, size):
        return "size"
    with path.open("rb") as file:
        if remote.sha256 and hashlib.file_digest(file, "sha256").hexdigest() != remote.sha256:
            return "sha256"
        if remote.blob:
            digest = hashlib.sha1(b"blob %d\0" % size, usedforsecurity=False)  # Git's blob hash
            while block := file.read(2**20):
                digest.update(block)
            return None if digest.hexdigest() == remote.blob else "hash"
    return None


def _write_ref(ref: Path, commit: str) -> None:
    # written atomically and after the files, so a branch in the cache never points to an incomplete model;
    # a read-only cache is not an error
    with suppress(OSError):
        if not ref.is_file() or ref.read_text("ascii") != commit:
            ref.parent.mkdir(parents=True, exist_ok=True)
            temporary = ref.with_name(f".{uuid.uuid4().hex}.new")
            temporary.write_text(commit, "ascii")
            temporary.replace(ref)


def _make_progress_class(name: str, progress: Progress | None) -> Any:
    # huggingface_hub draws a tqdm bar unless it gets a class with the same methods; this one only counts
    class ByteCounter:
        def __init__(self, *_: Any, total: int | None = None, initial: int = 0, **__: Any) -> None:
            self.total, self.n = total, initial

        def __enter__(self) -> ByteCounter:
            return self

        def __exit__(self, *_: Any) -> None: ...

        def update(self, n: int = 1) -> None:
            self.n += n
            if progress is not None:
                progress(name, self.n, self.total)

        def _ignore(self, *_: Any, **__: Any) -> None: ...

        update_transfer = set_postfix_str = set_transfer_postfix_str = refresh = close = _ignore

    return ByteCounter


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
    except Exception as error:  # huggingface_hub raises many kinds for failures of hub, network and disk
        cause = _find_cause(error)
        # if the token cannot be sent, the message of the cause may contain it
        raise HubError(_explain_error(cause, repo, revision, file)) from (None if _is_bad_token(cause) else cause)


def _find_cause(error: BaseException) -> BaseException:
    from huggingface_hub.errors import LocalEntryNotFoundError

    while isinstance(error, LocalEntryNotFoundError) and error.__cause__ is not None:
        error = error.__cause__
    return error


def _list_class_names(error: BaseException | None) -> set[str]:
    # by name, because huggingface_hub moved from httpx to httpx2, whose errors have the same names
    return {error_class.__name__ for error_class in type(error).__mro__}


def _get_status(error: BaseException | None) -> int:
    return int(getattr(getattr(error, "response", None), "status_code", 0))


def _is_bad_token(error: BaseException) -> bool:
    return bool(_list_class_names(error) & {"LocalProtocolError", "UnicodeEncodeError"})


def is_unavailable(error: BaseException | None) -> bool:
    """Whether an error means that the hub is unreachable or overloaded."""
    return "TransportError" in _list_class_names(error) or _get_status(error) in (408, 429) or _get_status(error) >= 500


def _explain_error(error: BaseException, repo: str, revision: str | None, file: str | None) -> str:
    subject = f"{file} of '{repo}'" if file else f"'{repo}'"
    class_names, status = _list_class_names(error), _get_status(error)
    error_number = error.errno if isinstance(error, OSError) and not status else None
    if _is_bad_token(error):
        return "The token contains characters that cannot be sent. Check HF_TOKEN."
    if "GatedRepoError" in class_names:
        return f"'{repo}' is gated. Accept its terms on the hub, then set HF_TOKEN to a token of that account."
    if "RevisionNotFoundError" in class_names:
        return f"'{repo}' has no revision '{revision or 'main'}'. Check the branch, tag or commit after '@'."
    if "EntryNotFoundError" in class_names and status:
        return f"The hub lists {subject}, but does not have it. Try again, or use another revision."
    if "RepositoryNotFoundError" in class_names or status in (401, 404):
        return (
            f"The hub has no model '{repo}', or it is private. Check the name (there is no such local folder either), "
            "or set HF_TOKEN to a token with read access."
        )
    if status == 403:
        return f"The hub denies access to {subject}. Set HF_TOKEN to a token with read access."
    if status == 429:
        return f"The hub limits requests for {subject} (429). Wait a few minutes, or set HF_TOKEN for a higher limit."
    if status:
        return f"The hub returned status {status} for {subject}. Try again later."
    if "TimeoutException" in class_names:
        return f"The request to the hub for {subject} timed out. Check the connection and try again."
    if "TransportError" in class_names:
        return f"The hub cannot be reached for {subject}. Check the connection and HF_ENDPOINT."
    if error_number in (errno.ENOSPC, errno.EDQUOT):
        return f"The disk is full, so {subject} cannot be stored. Free some space, or set HF_HOME to another disk."
    if error_number is not None:
        reason = os.strerror(error_number)
        return f"{subject} cannot be written to the cache ({reason}). Check HF_HOME and its permissions."
    if type(error) is OSError:
        return f"{subject} does not have the size that the hub announced. Try again."
    return f"The hub sent an invalid response for {subject} ({type(error).__name__}). Check HF_ENDPOINT, or try again."
