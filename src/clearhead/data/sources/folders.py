"""Read a folder with one subfolder of text files per label, or with one folder of these per split."""

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

MAX_SAMPLE_FILES = 200  # used to detect the encoding


def open_folder(folder: Path, encoding: str | None) -> Source:
    """Open a folder of text files, labeled by the subfolder they are in."""
    folder_name = to_printable(folder, MAX_NAME_CHARS)
    try:
        subfolders = _list_sorted(folder, want_folders=True)
        has_splits = bool(subfolders) and all(subfolder.name.casefold() in SPLIT_ALIASES for subfolder in subfolders)
        if has_splits and not all(_list_sorted(subfolder, want_folders=True) for subfolder in subfolders):
            has_splits = False  # train/ and test/ that contain files directly are labels
        sample = [path for _, _, path in _iter_text_files(folder, has_splits=has_splits, max_files=MAX_SAMPLE_FILES)]
    except OSError as error:
        raise InputError(f"{folder_name} cannot be read: {error.strerror or error}.") from None
    if not sample:
        files = ", ".join(to_printable(path.name) for path in _list_sorted(folder, want_folders=False)[:10])
        raise InputError(
            f"{folder_name} has no subfolders with text files, one per label"
            + (f"; name one of its files: {files}." if files else ".")
        )
    fallback = encoding or _detect_fallback_encoding(sample)
    labels = sorted({label for label, _, _ in _iter_label_folders(folder, has_splits=has_splits)})
    description = f"a folder of text files, {'UTF-8' if fallback == 'utf-8' else encoding or 'UTF-8, else ' + fallback}"
    label_list = ", ".join(to_printable(label, 40) for label in labels[:10]) + (", ..." if len(labels) > 10 else "")
    return Source(
        name=to_printable(folder.name or folder, MAX_NAME_CHARS),
        kind="folder",
        path=folder,
        columns=("text", "label", "file", *(("split",) if has_splits else ())),
        encoding=fallback,
        messages=(f"{description}; labels by subfolder: {label_list}",),
        open=lambda: _read_rows(folder, has_splits=has_splits, encoding=encoding, fallback=fallback),
    )


def _list_sorted(folder: Path, *, want_folders: bool) -> list[Path]:
    """List the files or subfolders of a folder in natural order: file 2 before file 10."""
    paths = [path for path in folder.iterdir() if not path.name.startswith(".") and path.is_dir() == want_folders]
    return sorted(paths, key=_natural_key)


def _natural_key(path: Path) -> list[tuple[int, str]]:
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d{1,18})", path.name) if part]


def _iter_label_folders(folder: Path, *, has_splits: bool) -> Iterator[tuple[str, str | None, Path]]:
    for subfolder in _list_sorted(folder, want_folders=True):
        if has_splits:
            yield from (
                (label_folder.name, subfolder.name, label_folder)
                for label_folder in _list_sorted(subfolder, want_folders=True)
            )
        else:
            yield subfolder.name, None, subfolder


def _iter_text_files(
    folder: Path, *, has_splits: bool, max_files: int | None = None
) -> Iterator[tuple[str, str | None, Path]]:
    for label, split, label_folder in _iter_label_folders(folder, has_splits=has_splits):
        for count, path in enumerate(_list_sorted(label_folder, want_folders=False)):
            if max_files is not None and count >= max_files:
                break
            yield label, split, path


def _detect_fallback_encoding(paths: list[Path]) -> str:
    for path in paths:
        try:
            if path.is_file():  # opening a named pipe would block
                with path.open("rb") as file:
                    file.read(1 << 20).decode("utf-8", "strict")
        except UnicodeDecodeError as error:
            if error.end < (1 << 20) - 4:
                return "cp1252" if any(0x80 <= byte <= 0x9F for byte in error.object[error.start :]) else "latin-1"
        except OSError:
            continue
    return "utf-8"


def _read_rows(folder: Path, *, has_splits: bool, encoding: str | None, fallback: str) -> Rows:
    number = 0
    try:
        for label, split, path in _iter_text_files(folder, has_splits=has_splits):
            number += 1
            name = str(path.relative_to(folder))
            text, problem, reason = _read_text(path, encoding, fallback)
            if problem is not None:
                yield BadRow(number, f"{to_printable(name, MAX_NAME_CHARS)}: {reason}", excerpt(text), None, problem)
                continue
            values = {"text": text, "label": label, "file": name}
            yield Row(number, values | {"split": split} if has_splits else values)
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
    first_encoding = encoding or ("utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig")
    text = ""
    for name in (first_encoding, fallback):
        try:
            text = data.decode(name)
            break
        except UnicodeDecodeError:
            continue
    else:
        return "", WRONG_ENCODING, f"not text in {first_encoding if first_encoding != 'utf-8-sig' else 'UTF-8'}"
    if "\0" in text:
        return text, NUL_BYTE, "contains a NUL byte"
    if len(text) > MAX_RECORD_CHARS:
        return text, TOO_LONG, f"longer than {MAX_RECORD_CHARS:,} characters"
    return (text, WRONG_ENCODING, "contains a lone surrogate") if SURROGATE.search(text) else (text, None, "")
