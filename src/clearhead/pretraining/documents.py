"""Documents of files, streamed as chunks of text: memory use does not grow with the files."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from clearhead.caller import setting
from clearhead.data.sources.files import MAX_NAME_CHARS
from clearhead.data.sources.lines import TABLES, is_table, read_numbered_cells, read_numbered_lines
from clearhead.errors import InputError
from clearhead.files import to_printable

Documents = Literal["auto", "blank", "lines", "file"]
OUTPUT_FILES = {
    "run.json",
    "model.safetensors",
    "tokenizer.json",
}  # a folder with one of these is an output of clearhead, not text
TEXT_SUFFIXES = (".txt", ".text", ".md", ".rst", ".tok", ".raw", "")
WRAP_WIDTH = 100  # characters: if no line is longer and few end a sentence, the lines are hard-wrapped
SENTENCE_ENDS = tuple(".!?:;…\"'”’)]}»。！？")
DOCUMENT_LINE = 300  # mean characters of lines that are documents
SCANNED_LINES = 200_000  # lines that determine the layout of a file


@dataclass(frozen=True, kw_only=True)
class Chunk:
    """A chunk of a document."""

    text: str
    starts_document: bool  # the first chunk of a document


def find_corpus_files(names: Sequence[str | os.PathLike[str]]) -> list[Path]:
    """Resolve files, folders and glob patterns to text files, in order and without duplicates."""
    files: dict[Path, Path] = {}  # by resolved path: links and other spellings are the same text
    for name in names:
        path = Path(name)
        exists = _exists(name)
        if exists and path.is_dir():
            matches = sorted(_walk_text_files(path))
            if not matches:
                endings = ", ".join((*TEXT_SUFFIXES[:-1], *TABLES))
                raise InputError(f"Folder {to_printable(path, MAX_NAME_CHARS)} contains no text files ({endings}).")
        elif exists and not path.is_file():
            raise InputError(
                f"{to_printable(name, MAX_NAME_CHARS)} is not a regular file; the text is read twice, "
                "which a pipe does not support."
            )
        elif exists:
            matches = [path]
        elif any(letter in str(name) for letter in "*?["):
            globbed = sorted(glob.glob(str(name), recursive=True))  # noqa: PTH207 (a pattern may be absolute)
            matches = [Path(match) for match in globbed if Path(match).is_file() and not _is_run_output(Path(match))]
            if not matches:
                raise InputError(f"No file matches {to_printable(name, MAX_NAME_CHARS)}.")
        else:
            raise InputError(f"{to_printable(name, MAX_NAME_CHARS)} does not exist.")
        for match in matches:
            files.setdefault(match.resolve(), match)
    if not files:
        raise InputError("No training text: pass files, folders or glob patterns.")
    return list(files.values())


def _exists(name: str | os.PathLike[str]) -> bool:
    if not str(name).strip():
        raise InputError("A file name is empty.")
    try:
        return Path(name).exists()
    except (OSError, ValueError):  # not a valid path, e.g. a pasted text
        return False


def make_absolute(names: Sequence[str]) -> list[str]:
    """Return absolute names, so that a run can be resumed from another working folder; patterns remain patterns."""
    working_folder = Path.cwd()
    return [
        str(working_folder / name) if _exists(name) else str(Path(glob.escape(str(working_folder)), name))
        for name in names
    ]


def _walk_text_files(folder: Path) -> Iterator[Path]:
    """Iterate over the text files of a folder tree, except hidden ones and those of runs and models."""
    for parent, folders, names in os.walk(folder):
        if Path(parent) != folder and not OUTPUT_FILES.isdisjoint(names):
            folders.clear()
            continue
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in names:
            path = Path(parent, name)
            if not name.startswith(".") and _is_text(path) and path.is_file():
                yield path


def _is_run_output(path: Path) -> bool:
    return any((folder / "run.json").exists() for folder in path.parents[:2])


def _is_text(path: Path) -> bool:
    name = Path(path.stem) if path.suffix.lower() == ".gz" else path
    return name.suffix.lower() in (*TEXT_SUFFIXES, *TABLES)


def read_chunks(
    files: Sequence[Path],
    *,
    columns: str | None = None,
    encoding: str | None = None,
    documents: Documents = "auto",
    notes: list[str] | None = None,
) -> Iterator[Chunk]:
    """Iterate over the documents of files in order: rows of tables, or parts of plain text according to `documents`."""
    all_notes = [] if notes is None else notes
    if columns is not None and not any(map(is_table, files)):
        raise InputError(f"text applies only to tables, but {to_printable(files[0].name)} is plain text; omit it.")
    has_text = False
    for file in files:
        file_has_text = False
        chunks = (
            _read_table(file, columns, encoding, all_notes)
            if is_table(file)
            else _read_plain_text(file, encoding, documents, all_notes)
        )
        for chunk in chunks:
            file_has_text = has_text = True
            yield chunk
        if not file_has_text:
            all_notes.append(f"{to_printable(file.name)} contains no text.")
    if not has_text:
        raise InputError("The files contain no text.")


def _read_table(file: Path, columns: str | None, encoding: str | None, notes: list[str]) -> Iterator[Chunk]:
    last_number = 0
    for number, text in read_numbered_cells(file, columns, encoding, notes):
        if not text.isspace():
            yield Chunk(text=text, starts_document=number != last_number)
            last_number = number


def _read_plain_text(file: Path, encoding: str | None, documents: Documents, notes: list[str]) -> Iterator[Chunk]:
    if not file.stat().st_size:
        return
    layout = detect_layout(file, encoding)
    if documents != "auto":
        wrapped = layout.wrapped and documents != "lines"
        layout = TextLayout(documents=documents, wrapped=wrapped, note=layout.note if wrapped else "")
    if layout.note:
        notes.append(f"{to_printable(file.name)}: {layout.note}")
    last_number, starts_document, paragraph = 0, True, ""
    for number, line in read_numbered_lines(file, encoding, notes):
        if line.isspace() or not line:
            if paragraph:
                yield Chunk(text=paragraph, starts_document=starts_document)
                paragraph, starts_document = "", False
            starts_document = starts_document or layout.documents == "blank"
            continue
        starts_line, last_number = number != last_number, number
        if layout.documents == "lines":
            yield Chunk(text=line, starts_document=starts_line)
        elif layout.wrapped:
            paragraph = f"{paragraph} {line.strip()}" if paragraph else line.strip()
            if len(paragraph) > WRAP_WIDTH * WRAP_WIDTH:
                yield Chunk(text=paragraph, starts_document=starts_document)
                paragraph, starts_document = "", False
        else:
            yield Chunk(text=line, starts_document=starts_document)
            starts_document = False
    if paragraph:
        yield Chunk(text=paragraph, starts_document=starts_document)


@dataclass(frozen=True, kw_only=True)
class TextLayout:
    """The layout of a plain text file."""

    documents: Documents
    wrapped: bool = False  # lines are hard-wrapped
    note: str = ""


def detect_layout(file: Path, encoding: str | None) -> TextLayout:
    """Detect from the first lines of a file whether its documents are lines, parts between blank lines, or the file."""
    lines = characters = sentence_ends = blank_lines = longest = 0
    last_number = 0
    for number, line in read_numbered_lines(file, encoding, []):
        if number > SCANNED_LINES:
            break
        text = line.strip()
        if not text:
            blank_lines += 1 if lines else 0
            continue
        lines += number != last_number
        last_number = number
        characters += len(text)
        longest = max(longest, len(text))
        sentence_ends += text.endswith(SENTENCE_ENDS)
    if not lines:
        return TextLayout(documents="blank")
    is_wrapped = lines >= 20 and longest <= WRAP_WIDTH and sentence_ends < 0.5 * lines and characters > 30 * lines
    if is_wrapped:
        note = "lines are hard-wrapped and were joined up to each blank line."
        return TextLayout(documents="blank", wrapped=True, note=note)
    if blank_lines:
        return TextLayout(documents="blank")
    if lines > 1 and characters >= DOCUMENT_LINE * lines:
        return TextLayout(documents="lines", note="no blank lines and long lines: each line is a document.")
    hint = "" if lines == 1 else f" (set {setting('documents', 'lines')} if each line is a document)"
    return TextLayout(documents="file", note=f"no blank lines: the file is one document{hint}.")
