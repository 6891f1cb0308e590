"""Read JSON with limits, decode dataclasses strictly, and write files and folders atomically."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, TypeVar

from clearhead.errors import CheckpointError, ClearheadError, ConfigError, InputError, UnsafeError

MAX_JSON_BYTES = 16 << 20  # far more than any config file of a model
PARTIAL_SUFFIX = ".clearhead-part"  # of incomplete files and folders
SCRATCH_PREFIX = "clearhead-scratch-"  # of folders for temporary files
TEMPORARY_NAME = re.compile(r"\..+\.[a-z0-9_]{8}")  # names of mkstemp
MAX_NAME_BYTES = 255  # of a file name, on all common file systems
MAX_REASON_CHARS = 300  # of a decoder error, which may contain a value
MAX_PATH_CHARS = 240  # of a path in a message
INVALID_CHARS = re.compile("[\0\ud800-\udfff]")  # invalid in text files: NUL, lone surrogates
MAX_DEPTH = 64  # of nested values; later code may recurse

T = TypeVar("T")


def read_json(path: Path, *, max_bytes: int = MAX_JSON_BYTES, unique_keys: bool = False) -> dict[str, Any]:
    """Read a JSON object from a file; raise an error with one sentence if that fails."""
    try:
        data = read_bytes(path, max_bytes=max_bytes)
        value = json.loads(
            data.decode("utf-8-sig"), object_pairs_hook=_reject_duplicate_keys(path) if unique_keys else None
        )
    except UnicodeDecodeError:
        raise ConfigError(f"{path.name} is not UTF-8 text, so it cannot be read as JSON.") from None
    except RecursionError:
        raise UnsafeError(f"{path.name} is nested too deeply (more than {MAX_DEPTH} levels).") from None
    except ValueError as error:
        raise ConfigError(f"{path.name} is not valid JSON: {error}.") from None
    if not isinstance(value, dict):
        raise ConfigError(f"{path.name} contains a JSON {type(value).__name__}, expected an object.")
    check_depth(value, path.name)
    return value


def check_depth(value: Any, name: str) -> None:
    """Reject values that are nested too deeply, without recursion."""
    level = [value]
    for _ in range(MAX_DEPTH):
        containers = (container.values() if isinstance(container, dict) else container for container in level)
        level = [inner for container in containers for inner in container if isinstance(inner, dict | list)]
        if not level:
            return
    raise UnsafeError(f"{name} is nested too deeply (more than {MAX_DEPTH} levels).")


def to_printable(text: object, max_length: int = 80) -> str:
    """Make a text safe for a message: a single line, printable, of limited length."""
    full_text = str(text)
    line = "".join(letter if letter.isprintable() else "?" for letter in full_text[:max_length])
    return line if len(full_text) <= max_length else line + "..."


def read_bytes(path: Path, *, max_bytes: int) -> bytes:
    """Read a regular file of limited size."""
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise UnsafeError(f"{path.name} is not a regular file, so it is not opened.")
        if status.st_size > max_bytes:
            raise UnsafeError(f"{path.name} has {status.st_size:,} bytes, more than the maximum of {max_bytes:,}.")
        return path.read_bytes()
    except OSError as error:
        raise CheckpointError(f"{path.name} cannot be read: {error.strerror or error}.") from error


def _reject_duplicate_keys(path: Path) -> Callable[[list[tuple[str, Any]]], dict[str, Any]]:
    def build(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        values = dict(pairs)
        if len(values) != len(pairs):
            raise UnsafeError(f"{path.name} contains duplicate keys, so its values are ambiguous.")
        return values

    return build


def decode_dataclass(data: Any, kind: type[T], source: str) -> T:
    """Decode plain values into a dataclass strictly: unknown keys and wrong types are errors."""
    import msgspec

    try:
        return msgspec.convert(data, kind, strict=True)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{source}: {to_printable(str(error), MAX_REASON_CHARS)}.") from None
    except UnicodeError:  # a lone surrogate in a name
        raise ConfigError(f"{source} contains a name that is not valid Unicode.") from None


def partial_path(path: Path) -> Path:
    """Return the path of an incomplete file or folder: hidden, in the same folder, with a fixed name."""
    name = f".{path.name}{PARTIAL_SUFFIX}"
    if len(os.fsencode(name)) > MAX_NAME_BYTES:
        name = f".{hashlib.sha256(os.fsencode(path.name)).hexdigest()}{PARTIAL_SUFFIX}"
    return path.with_name(name)


@contextmanager
def atomic_file(path: Path) -> Iterator[IO[bytes]]:
    """Write under a temporary name, flush to disk, rename: the file is complete or does not exist.

    The rename is the last file operation. An incomplete file of a killed process is overwritten.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, partial_file = _open_partial_file(path)
    except (OSError, ValueError) as error:
        raise ClearheadError(f"{format_path(path)} cannot be written: {describe_os_error(error)}.") from error
    try:
        with os.fdopen(handle, "wb") as file:  # locked until it is closed
            try:
                yield file
                file.flush()
                os.fsync(file.fileno())
                os.fchmod(file.fileno(), 0o644)
                partial_file.replace(path)
            except BaseException:
                partial_file.unlink(missing_ok=True)
                raise
    except OSError as error:
        raise ClearheadError(f"{format_path(path)} cannot be written: {describe_os_error(error)}.") from error


def _open_partial_file(path: Path) -> tuple[int, Path]:
    """Open the temporary file of a path, empty and locked; use a random name if another process writes it."""
    partial_file, handle = partial_path(path), -1
    with suppress(OSError):
        handle = os.open(partial_file, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
        if try_lock(handle, partial_file):
            os.ftruncate(handle, 0)
            return handle, partial_file
    if handle >= 0:
        os.close(handle)
    handle, name = tempfile.mkstemp(prefix=".clearhead.", dir=path.parent)
    return handle, Path(name)


def try_lock(handle: int, path: Path) -> bool | None:
    """Lock a file or folder of this user; return whether that succeeded (None: the file system has no locks).

    A lock ends with its process. Incomplete files without a lock were left by killed processes.
    """
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    with suppress(OSError):  # removed or renamed in the meantime
        status = os.fstat(handle)
        is_plain = stat.S_ISDIR(status.st_mode) or (stat.S_ISREG(status.st_mode) and status.st_nlink == 1)
        return is_plain and status.st_uid == os.geteuid() and os.path.samestat(status, path.lstat())
    return False


@contextmanager
def explain_write_errors(path: Path) -> Iterator[None]:
    """Raise write errors, such as a full disk, as ClearheadError."""
    try:
        yield
    except OSError as error:
        raise ClearheadError(f"{format_path(path)} cannot be written: {describe_os_error(error)}.") from error


def format_path(path: object) -> str:
    """Format a path for a message: a single printable line, shortened in the middle."""
    name = str(path)
    return to_printable(name if len(name) <= MAX_PATH_CHARS else f"{name[:60]}...{name[-60:]}", MAX_PATH_CHARS)


def describe_os_error(error: OSError | ValueError) -> str:
    """Describe an error of a file operation."""
    if isinstance(error, OSError):
        return str(error.strerror or error)
    return "its name contains invalid characters"


def is_occupied(folder: Path) -> bool:
    """Whether a file, or a folder with anything but incomplete files, exists."""
    try:
        if not folder.is_dir():
            _check_parent(folder)
            return folder.exists() or folder.is_symlink()
        return any(not path.name.endswith(PARTIAL_SUFFIX) for path in folder.iterdir())
    except (OSError, ValueError) as error:
        raise InputError(f"{format_path(folder)} cannot be used: {describe_os_error(error)}.") from None


@contextmanager
def explain_read_errors(path: Path) -> Iterator[None]:
    """Raise read errors as CheckpointError; reject anything but regular files, since a pipe would block."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise UnsafeError(f"{path.name} is not a regular file, so it is not opened.")
        yield
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error.strerror or error}.") from error


def _check_parent(folder: Path) -> None:
    """Raise an error early if a folder cannot be created later."""
    parent = next(path for path in folder.absolute().parents if path.exists())
    if not parent.is_dir():
        raise InputError(f"{format_path(folder)} cannot be created: Not a directory.")
    if not os.access(parent, os.W_OK | os.X_OK):
        raise InputError(f"{format_path(folder)} cannot be created: Permission denied.")


def check_output_folder(folder: Path) -> None:
    """Reject an existing folder, unless it is empty."""
    try:
        is_taken = folder.exists() and (not folder.is_dir() or any(folder.iterdir()))
    except (OSError, ValueError) as error:
        raise InputError(f"{format_path(folder)} cannot be created: {describe_os_error(error)}.") from None
    if is_taken:
        raise InputError(f"{folder} already exists and is not empty; choose a new folder.")


@contextmanager
def atomic_folder(folder: Path) -> Iterator[Path]:
    """Write into a temporary folder that is renamed on success: the folder is complete or does not exist.

    The rename is the last file operation. An incomplete folder of a killed process is removed.
    """
    check_output_folder(folder)
    try:
        target = folder.resolve()
        if target == Path.cwd():
            raise InputError(f"{folder} is the current working directory and would be replaced; choose another folder.")
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, partial_folder = _make_partial_folder(target)
    except (OSError, ValueError) as error:
        raise ClearheadError(f"{format_path(folder)} cannot be created: {describe_os_error(error)}.") from error
    try:
        yield partial_folder
        partial_folder.chmod(0o755)
        partial_folder.replace(target)
    except BaseException as error:
        shutil.rmtree(partial_folder, ignore_errors=True)
        if isinstance(error, ClearheadError) and str(partial_folder) in str(error):
            message = str(error).replace(str(partial_folder), str(folder))  # the name that the user knows
            raise ClearheadError(message) from error
        if isinstance(error, OSError):
            raise ClearheadError(f"{folder} cannot be written: {describe_os_error(error)}.") from error
        raise
    finally:
        os.close(handle)


def _make_partial_folder(target: Path) -> tuple[int, Path]:
    """Create the temporary folder of a folder, empty and locked; use a random name if another process writes it."""
    partial_folder = partial_path(target)
    with suppress(FileExistsError):
        partial_folder.mkdir(0o700)
    handle = os.open(partial_folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    is_locked = try_lock(handle, partial_folder)
    if not is_locked:
        os.close(handle)
        if is_locked is None:
            with suppress(OSError):  # it is not empty
                partial_folder.rmdir()
        partial_folder = Path(tempfile.mkdtemp(prefix=".clearhead.", dir=target.parent))
        handle = os.open(partial_folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    for leftover in partial_folder.iterdir():
        shutil.rmtree(leftover) if leftover.is_dir() and not leftover.is_symlink() else leftover.unlink()
    return handle, partial_folder


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """Create a temporary folder, and remove those of killed processes."""
    parent = Path(tempfile.gettempdir())
    for leftover in parent.glob(f"{SCRATCH_PREFIX}????????"):
        _remove_if_unlocked(leftover)
    while True:
        folder = Path(tempfile.mkdtemp(prefix=SCRATCH_PREFIX))
        with suppress(OSError):  # another process removed it as a leftover
            handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            if try_lock(handle, folder) is not False:
                break
            os.close(handle)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(handle)


def _remove_if_unlocked(path: Path) -> None:
    """Remove a temporary file or folder, unless a process still uses it."""
    with suppress(OSError):
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            if try_lock(handle, path):
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        finally:
            os.close(handle)


def remove_leftovers(folder: Path) -> None:
    """Remove the incomplete files that `atomic_file` and `atomic_folder` leave when a process is killed."""
    for path in [*folder.rglob(".*")]:
        has_random_name = TEMPORARY_NAME.fullmatch(path.name) and (
            path.is_file() or path.name.startswith(".clearhead.")
        )
        if path.name.endswith(PARTIAL_SUFFIX) or has_random_name:
            _remove_if_unlocked(path)


def remove_file(path: Path) -> None:
    """Remove a file and its incomplete version."""
    path.unlink(missing_ok=True)
    partial_path(path).unlink(missing_ok=True)


def write_json(path: Path, value: Any) -> None:
    """Write a readable, indented JSON file."""
    with atomic_file(path) as file:
        try:
            text = (json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode()
        except UnicodeEncodeError:  # a lone surrogate, which is valid in JSON but not in UTF-8
            text = (json.dumps(value, indent=2) + "\n").encode()
        file.write(text)
