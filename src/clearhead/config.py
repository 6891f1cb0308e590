"""Files of settings: JSON read with limits, frozen dataclasses decoded strictly, files written whole."""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, TypeVar

from clearhead.errors import CheckpointError, ClearheadError, ConfigError, InputError, UnsafeError

MOST_JSON = 16 << 20  # no config file of a model comes near this
HALF_WRITTEN = re.compile(r"\..+\.[a-z0-9_]{8}")  # as mkstemp names them
MOST_DEPTH = 64  # nor does any nest so deep; what reads the values later may recurse

T = TypeVar("T")


def read_json(path: Path, *, most: int = MOST_JSON, unique: bool = False) -> dict[str, Any]:
    """One JSON object from a file, or one sentence that says what is wrong with the file."""
    try:
        data = read_bytes(path, most=most)
        value = json.loads(data.decode("utf-8-sig"), object_pairs_hook=_unique(path) if unique else None)
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
    for _ in range(MOST_DEPTH):
        parts = (part.values() if isinstance(part, dict) else part for part in level)
        level = [inner for part in parts for inner in part if isinstance(inner, dict | list)]
        if not level:
            return
    raise UnsafeError(f"{name} is nested too deeply to be a settings file.")


def shown(text: object, most: int = 80) -> str:
    """A text out of a file as it may stand in a message: one line, printable, not too long."""
    plain = str(text)
    line = "".join(letter if letter.isprintable() else "?" for letter in plain[:most])
    return line if len(plain) <= most else line + "..."


def read_bytes(path: Path, *, most: int) -> bytes:
    """A regular file's bytes, unless it is larger than it can reasonably be."""
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise UnsafeError(f"{path.name} is not a regular file, so it is not opened.")
        if status.st_size > most:
            raise UnsafeError(f"{path.name} has {status.st_size:,} bytes, more than the {most:,} that are read.")
        return path.read_bytes()
    except OSError as error:
        raise CheckpointError(f"{path.name} cannot be read: {error.strerror or error}.") from error


def _unique(path: Path) -> Callable[[list[tuple[str, Any]]], dict[str, Any]]:
    def build(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        made = dict(pairs)
        if len(made) != len(pairs):
            raise UnsafeError(f"{path.name} gives the same name twice, so it is not clear which one counts.")
        return made

    return build


def decode(data: Any, kind: type[T], what: str) -> T:
    """Strictly from plain values to a frozen dataclass: unknown keys and wrong types are named."""
    import msgspec

    try:
        return msgspec.convert(data, kind, strict=True)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{what}: {error}.") from None


@contextmanager
def whole_file(path: Path) -> Iterator[IO[bytes]]:
    """Write under a temporary name, flush to disk, rename: the file is whole or not there."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    except OSError as error:
        raise ClearheadError(f"{path} cannot be written: {error.strerror or error}.") from error
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        Path(name).chmod(0o644)
        Path(name).replace(path)
    except OSError as error:
        raise ClearheadError(f"{path} cannot be written: {error.strerror or error}.") from error
    finally:
        Path(name).unlink(missing_ok=True)


@contextmanager
def writing(place: Path) -> Iterator[None]:
    """One sentence where something cannot be written: a full disk, say."""
    try:
        yield
    except OSError as error:
        raise ClearheadError(f"{place} cannot be written: {error.strerror or error}.") from error


def check_new(folder: Path) -> None:
    """Refuse a folder that is there already, unless it is empty."""
    try:
        taken = folder.exists() and (not folder.is_dir() or any(folder.iterdir()))
    except OSError as error:
        raise InputError(f"{folder} cannot be made: {error.strerror or error}.") from None
    if taken:
        raise InputError(f"{folder} is there already and not empty; name a new folder.")


@contextmanager
def whole_folder(folder: Path) -> Iterator[Path]:
    """A folder to write into, renamed to the one that is meant when all is well: that one is whole or not there."""
    check_new(folder)
    target = folder.resolve()
    if target == Path.cwd():
        raise InputError(f"{folder} is the folder that you are in, and it would be replaced; name another one.")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        made = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    except OSError as error:
        raise ClearheadError(f"{folder} cannot be made: {error.strerror or error}.") from error
    try:
        yield made
        made.chmod(0o755)
        made.replace(target)
    except ClearheadError as error:
        if str(made) not in str(error):
            raise
        raise ClearheadError(str(error).replace(str(made), str(folder))) from error  # the name that people know
    except OSError as error:
        raise ClearheadError(f"{folder} cannot be written: {error.strerror or error}.") from error
    finally:
        shutil.rmtree(made, ignore_errors=True)


def sweep(folder: Path) -> None:
    """Remove what `whole_file` left when its process was killed; files under other names stay."""
    for path in folder.rglob(".*"):
        if HALF_WRITTEN.fullmatch(path.name) and path.is_file() and not path.is_symlink():
            path.unlink(missing_ok=True)


def write_json(path: Path, value: Any) -> None:
    """A settings file that people can read and diff."""
    with whole_file(path) as file:
        try:
            text = (json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode()
        except UnicodeEncodeError:  # half a surrogate pair, which JSON can hold and UTF-8 cannot
            text = (json.dumps(value, indent=2) + "\n").encode()
        file.write(text)
