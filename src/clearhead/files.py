"""Files of settings: JSON read with limits, frozen dataclasses decoded strictly, files written whole."""

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

MAX_JSON_BYTES = 16 << 20  # no config file of a model comes near this
PARTIAL_SUFFIX = ".clearhead-part"  # how the name of what is being written ends
SCRATCH_PREFIX = "clearhead-scratch-"  # how folders for temporary files are called
TEMPORARY_NAME = re.compile(r"\..+\.[a-z0-9_]{8}")  # as mkstemp names them
MAX_NAME_BYTES = 255  # bytes of a file's name, on every file system that is in use
MAX_REASON_CHARS = 300  # letters of what a decoder says is wrong, for it may repeat a value
MAX_PATH_CHARS = 240  # letters of a path in a message
INVALID_CHARS = re.compile("[\0\ud800-\udfff]")  # what no file of text can hold: NUL, half a surrogate pair
MAX_DEPTH = 64  # nor does any nest so deep; what reads the values later may recurse

T = TypeVar("T")


def read_json(path: Path, *, max_bytes: int = MAX_JSON_BYTES, unique_keys: bool = False) -> dict[str, Any]:
    """One JSON object from a file, or one sentence that says what is wrong with the file."""
    try:
        data = read_bytes(path, max_bytes=max_bytes)
        value = json.loads(
            data.decode("utf-8-sig"), object_pairs_hook=_reject_duplicate_keys(path) if unique_keys else None
        )
    except UnicodeDecodeError:
        raise ConfigError(f"{path.name} is not UTF-8 text, so it cannot be read as JSON.") from None
    except RecursionError:
        raise UnsafeError(f"{path.name} is nested too deeply to be a settings file.") from None
    except ValueError as error:
        raise ConfigError(f"{path.name} is not valid JSON: {error}.") from None
    if not isinstance(value, dict):
        raise ConfigError(f"{path.name} holds a JSON {type(value).__name__}, expected an object of settings.")
    check_depth(value, path.name)
    return value


def check_depth(value: Any, name: str) -> None:
    """Refuse values within values within values, one level at a time."""
    level = [value]
    for _ in range(MAX_DEPTH):
        parts = (part.values() if isinstance(part, dict) else part for part in level)
        level = [inner for part in parts for inner in part if isinstance(inner, dict | list)]
        if not level:
            return
    raise UnsafeError(f"{name} is nested too deeply to be a settings file.")


def to_printable(text: object, max_length: int = 80) -> str:
    """A text out of a file as it may stand in a message: one line, printable, not too long."""
    plain = str(text)
    line = "".join(letter if letter.isprintable() else "?" for letter in plain[:max_length])
    return line if len(plain) <= max_length else line + "..."


def read_bytes(path: Path, *, max_bytes: int) -> bytes:
    """A regular file's bytes, unless it is larger than it can reasonably be."""
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise UnsafeError(f"{path.name} is not a regular file, so it is not opened.")
        if status.st_size > max_bytes:
            raise UnsafeError(f"{path.name} has {status.st_size:,} bytes, more than the {max_bytes:,} that are read.")
        return path.read_bytes()
    except OSError as error:
        raise CheckpointError(f"{path.name} cannot be read: {error.strerror or error}.") from error


def _reject_duplicate_keys(path: Path) -> Callable[[list[tuple[str, Any]]], dict[str, Any]]:
    def build(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        made = dict(pairs)
        if len(made) != len(pairs):
            raise UnsafeError(f"{path.name} gives the same name twice, so it is not clear which one counts.")
        return made

    return build


def decode_dataclass(data: Any, kind: type[T], what: str) -> T:
    """Strictly from plain values to a frozen dataclass: unknown keys and wrong types are named."""
    import msgspec

    try:
        return msgspec.convert(data, kind, strict=True)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{what}: {to_printable(str(error), MAX_REASON_CHARS)}.") from None
    except UnicodeError:  # half a surrogate pair in a name
        raise ConfigError(f"{what} holds a name that is not Unicode text.") from None


def partial_path(path: Path) -> Path:
    """Where something lies while it is written, hidden beside it: always the same name, so that nothing piles up."""
    name = f".{path.name}{PARTIAL_SUFFIX}"
    if len(os.fsencode(name)) > MAX_NAME_BYTES:
        name = f".{hashlib.sha256(os.fsencode(path.name)).hexdigest()}{PARTIAL_SUFFIX}"
    return path.with_name(name)


@contextmanager
def atomic_file(path: Path) -> Iterator[IO[bytes]]:
    """Write under a temporary name, flush to disk, rename: the file is whole or not there.

    The rename is the last file operation. What a killed process left under the temporary name is written over.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, part = _open_partial_file(path)
    except (OSError, ValueError) as error:
        raise ClearheadError(f"{format_path(path)} cannot be written: {describe_os_error(error)}.") from error
    try:
        with os.fdopen(handle, "wb") as file:  # locked until it is closed
            try:
                yield file
                file.flush()
                os.fsync(file.fileno())
                os.fchmod(file.fileno(), 0o644)
                part.replace(path)
            except BaseException:
                part.unlink(missing_ok=True)
                raise
    except OSError as error:
        raise ClearheadError(f"{format_path(path)} cannot be written: {describe_os_error(error)}.") from error


def _open_partial_file(path: Path) -> tuple[int, Path]:
    """The temporary file of a path, empty and locked; one under a name of its own where another process writes it."""
    part, handle = partial_path(path), -1
    with suppress(OSError):
        handle = os.open(part, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
        if try_lock(handle, part):
            os.ftruncate(handle, 0)
            return handle, part
    if handle >= 0:
        os.close(handle)
    handle, name = tempfile.mkstemp(prefix=".clearhead.", dir=path.parent)
    return handle, Path(name)


def try_lock(handle: int, path: Path) -> bool | None:
    """Whether a file or folder of this user is locked by this process from now on; None where there are no locks.

    A lock ends with its process, however that ends: what nobody has locked was left by one that was killed.
    """
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    with suppress(OSError):  # it was removed or renamed meanwhile
        status = os.fstat(handle)
        plain = stat.S_ISDIR(status.st_mode) or (stat.S_ISREG(status.st_mode) and status.st_nlink == 1)
        return plain and status.st_uid == os.geteuid() and os.path.samestat(status, path.lstat())
    return False


@contextmanager
def explain_write_errors(place: Path) -> Iterator[None]:
    """One sentence where something cannot be written: a full disk, say."""
    try:
        yield
    except OSError as error:
        raise ClearheadError(f"{format_path(place)} cannot be written: {describe_os_error(error)}.") from error


def format_path(path: object) -> str:
    """A path as it may stand in a message: one line, printable, its end more than its middle."""
    name = str(path)
    return to_printable(name if len(name) <= MAX_PATH_CHARS else f"{name[:60]}...{name[-60:]}", MAX_PATH_CHARS)


def describe_os_error(error: OSError | ValueError) -> str:
    """Why the system refused a file."""
    if isinstance(error, OSError):
        return str(error.strerror or error)
    return "its name has characters that no file name can have here"


def is_occupied(folder: Path) -> bool:
    """Whether something is there: a file, or a folder with more in it than a killed process left half written."""
    try:
        if not folder.is_dir():
            _check_parent(folder)
            return folder.exists() or folder.is_symlink()
        return any(not path.name.endswith(PARTIAL_SUFFIX) for path in folder.iterdir())
    except (OSError, ValueError) as error:
        raise InputError(f"{format_path(folder)} cannot be used: {describe_os_error(error)}.") from None


@contextmanager
def explain_read_errors(place: Path) -> Iterator[None]:
    """One sentence where a file cannot be read, or where something else stands in its place: a pipe would never end."""
    try:
        if not stat.S_ISREG(place.stat().st_mode):
            raise UnsafeError(f"{place.name} is not a regular file, so it is not opened.")
        yield
    except OSError as error:
        raise CheckpointError(f"{place} cannot be read: {error.strerror or error}.") from error


def _check_parent(folder: Path) -> None:
    """Refuse before the work what could not be made after it."""
    parent = next(path for path in folder.absolute().parents if path.exists())
    if not parent.is_dir():
        raise InputError(f"{format_path(folder)} cannot be made: Not a directory.")
    if not os.access(parent, os.W_OK | os.X_OK):
        raise InputError(f"{format_path(folder)} cannot be made: Permission denied.")


def check_output_folder(folder: Path) -> None:
    """Refuse a folder that is there already, unless it is empty."""
    try:
        taken = folder.exists() and (not folder.is_dir() or any(folder.iterdir()))
    except (OSError, ValueError) as error:
        raise InputError(f"{format_path(folder)} cannot be made: {describe_os_error(error)}.") from None
    if taken:
        raise InputError(f"{folder} is there already and not empty; name a new folder.")


@contextmanager
def atomic_folder(folder: Path) -> Iterator[Path]:
    """A folder to write into, renamed to the one that is meant when all is well: that one is whole or not there.

    The rename is the last file operation. What a killed process left under the temporary name is removed.
    """
    check_output_folder(folder)
    try:
        target = folder.resolve()
        if target == Path.cwd():
            raise InputError(f"{folder} is the folder that you are in, and it would be replaced; name another one.")
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, made = _make_partial_folder(target)
    except (OSError, ValueError) as error:
        raise ClearheadError(f"{format_path(folder)} cannot be made: {describe_os_error(error)}.") from error
    try:
        yield made
        made.chmod(0o755)
        made.replace(target)
    except BaseException as error:
        shutil.rmtree(made, ignore_errors=True)
        if isinstance(error, ClearheadError) and str(made) in str(error):
            said = str(error).replace(str(made), str(folder))  # the name that people know
            raise ClearheadError(said) from error
        if isinstance(error, OSError):
            raise ClearheadError(f"{folder} cannot be written: {describe_os_error(error)}.") from error
        raise
    finally:
        os.close(handle)


def _make_partial_folder(target: Path) -> tuple[int, Path]:
    """The temporary folder of a folder, empty and locked; one under a name of its own where another process has it."""
    part = partial_path(target)
    with suppress(FileExistsError):
        part.mkdir(0o700)
    handle = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    alone = try_lock(handle, part)
    if not alone:
        os.close(handle)
        if alone is None:
            with suppress(OSError):  # something is in it
                part.rmdir()
        part = Path(tempfile.mkdtemp(prefix=".clearhead.", dir=target.parent))
        handle = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    for left in part.iterdir():
        shutil.rmtree(left) if left.is_dir() and not left.is_symlink() else left.unlink()
    return handle, part


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """A folder in the system's place for temporary files; those that killed processes left there are removed."""
    place = Path(tempfile.gettempdir())
    for left in place.glob(f"{SCRATCH_PREFIX}????????"):
        _remove_dead(left)
    while True:
        made = Path(tempfile.mkdtemp(prefix=SCRATCH_PREFIX))
        with suppress(OSError):  # another process took it for one that was left
            handle = os.open(made, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            if try_lock(handle, made) is not False:
                break
            os.close(handle)
    try:
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)
        os.close(handle)


def _remove_dead(path: Path) -> None:
    """Remove a temporary file or folder, unless some process still has it open."""
    with suppress(OSError):
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            if try_lock(handle, path):
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        finally:
            os.close(handle)


def remove_leftovers(folder: Path) -> None:
    """Remove what `atomic_file` and `atomic_folder` left when a process was killed; what has other names stays."""
    for path in [*folder.rglob(".*")]:
        random = TEMPORARY_NAME.fullmatch(path.name) and (path.is_file() or path.name.startswith(".clearhead."))
        if path.name.endswith(PARTIAL_SUFFIX) or random:
            _remove_dead(path)


def remove_file(path: Path) -> None:
    """Remove a file, and what was left of writing it."""
    path.unlink(missing_ok=True)
    partial_path(path).unlink(missing_ok=True)


def write_json(path: Path, value: Any) -> None:
    """A settings file that people can read and diff."""
    with atomic_file(path) as file:
        try:
            text = (json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode()
        except UnicodeEncodeError:  # half a surrogate pair, which JSON can hold and UTF-8 cannot
            text = (json.dumps(value, indent=2) + "\n").encode()
        file.write(text)
