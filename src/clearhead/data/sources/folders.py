"""A folder with one sub-folder of text files for each label, or with one folder of these for each split."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from clearhead.data.names import SPLIT_ALIASES
from clearhead.data.sources.files import MAX_NAME_CHARS, MAX_RECORD_CHARS, SURROGATE
from clearhead.data.sources.source import (
    DAMAGED_FILE,
    NUL_BYTE,
    TOO_LONG,
    WRONG_ENCODING,
    BadRow,
    Row,
    Rows,
    Source,
    excerpt,
)
from clearhead.errors import InputError
from clearhead.files import to_printable

MAX_SAMPLE_FILES = 200  # files that tell the encoding


def open_folder(folder: Path, encoding: str | None) -> Source:
    """The texts of a folder, labelled by the sub-folder they are in."""
    said = to_printable(folder, MAX_NAME_CHARS)
    try:
        parts = _list_sorted(folder, folders=True)
        split = bool(parts) and all(part.name.casefold() in SPLIT_ALIASES for part in parts)
        if split and not all(_list_sorted(part, folders=True) for part in parts):
            split = False  # train/ and test/ with files in them are labels, unlikely as they are
        first = [path for _, _, path in _iter_text_files(folder, split=split, most=MAX_SAMPLE_FILES)]
    except OSError as error:
        raise InputError(f"{said} cannot be read: {error.strerror or error}.") from None
    if not first:
        files = ", ".join(to_printable(path.name) for path in _list_sorted(folder, folders=False)[:10])
        raise InputError(
            f"{said} holds no sub-folders with text files, one for each label"
            + (f"; name one of its files: {files}." if files else ".")
        )
    fallback = encoding or _detect_fallback_encoding(first)
    labels = sorted({label for label, _, _ in _iter_label_folders(folder, split=split)})
    spoken = f"a folder of text files, {'UTF-8' if fallback == 'utf-8' else encoding or 'UTF-8, else ' + fallback}"
    listed = ", ".join(to_printable(label, 40) for label in labels[:10]) + (", ..." if len(labels) > 10 else "")
    return Source(
        name=to_printable(folder.name or folder, MAX_NAME_CHARS),
        kind="folder",
        path=folder,
        columns=("text", "label", "file", *(("split",) if split else ())),
        encoding=fallback,
        messages=(f"{spoken}; labels by sub-folder: {listed}",),
        open=lambda: _read_rows(folder, split=split, encoding=encoding, fallback=fallback),
    )


def _list_sorted(folder: Path, *, folders: bool) -> list[Path]:
    """What a folder holds in the order people expect: file 2 before file 10."""
    found = [path for path in folder.iterdir() if not path.name.startswith(".") and path.is_dir() == folders]
    return sorted(found, key=_natural_key)


def _natural_key(path: Path) -> list[tuple[int, str]]:
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d{1,18})", path.name) if part]


def _iter_label_folders(folder: Path, *, split: bool) -> Iterator[tuple[str, str | None, Path]]:
    for part in _list_sorted(folder, folders=True):
        if split:
            yield from ((inner.name, part.name, inner) for inner in _list_sorted(part, folders=True))
        else:
            yield part.name, None, part


def _iter_text_files(folder: Path, *, split: bool, most: int | None = None) -> Iterator[tuple[str, str | None, Path]]:
    for label, part, place in _iter_label_folders(folder, split=split):
        for count, path in enumerate(_list_sorted(place, folders=False)):
            if most is not None and count >= most:
                break
            yield label, part, path


def _detect_fallback_encoding(paths: list[Path]) -> str:
    for path in paths:
        try:
            if path.is_file():  # a named pipe would be waited for
                with path.open("rb") as file:
                    file.read(1 << 20).decode("utf-8", "strict")
        except UnicodeDecodeError as error:
            if error.end < (1 << 20) - 4:
                return "cp1252" if any(0x80 <= byte <= 0x9F for byte in error.object[error.start :]) else "latin-1"
        except OSError:
            continue
    return "utf-8"


def _read_rows(folder: Path, *, split: bool, encoding: str | None, fallback: str) -> Rows:
    number = 0
    try:
        for label, part, path in _iter_text_files(folder, split=split):
            number += 1
            name = str(path.relative_to(folder))
            text, problem, reason = _read_text(path, encoding, fallback)
            if problem is not None:
                yield BadRow(number, f"{to_printable(name, MAX_NAME_CHARS)}: {reason}", excerpt(text), None, problem)
                continue
            values = {"text": text, "label": label, "file": name}
            yield Row(number, values | {"split": part} if split else values)
    except OSError as error:
        yield BadRow(number + 1, f"the folder cannot be read further: {error.strerror or error}")


def _read_text(path: Path, encoding: str | None, fallback: str) -> tuple[str, str | None, str]:
    try:
        if not path.is_file():
            return "", DAMAGED_FILE, "not a regular file"
        if path.stat().st_size > 4 * MAX_RECORD_CHARS:
            return "", TOO_LONG, f"longer than {MAX_RECORD_CHARS:,} characters"
        data = path.read_bytes()
    except OSError as error:
        return "", DAMAGED_FILE, f"cannot be read: {error.strerror or error}"
    first = encoding or ("utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig")
    text = ""
    for name in (first, fallback):
        try:
            text = data.decode(name)
            break
        except UnicodeDecodeError:
            continue
    else:
        return "", WRONG_ENCODING, f"not text in {first if first != 'utf-8-sig' else 'UTF-8'}"
    if "\0" in text:
        return text, NUL_BYTE, "holds a NUL byte"
    if len(text) > MAX_RECORD_CHARS:
        return text, TOO_LONG, f"longer than {MAX_RECORD_CHARS:,} characters"
    return (text, WRONG_ENCODING, "holds half a character") if SURROGATE.search(text) else (text, None, "")
