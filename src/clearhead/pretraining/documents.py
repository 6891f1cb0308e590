"""Documents out of files, one chunk of text after the other: memory does not grow with them."""

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
}  # what tells a folder that was made from one of texts
TEXT_SUFFIXES = (".txt", ".text", ".md", ".rst", ".tok", ".raw", "")
WRAP_WIDTH = 100  # characters: lines that are never longer, and seldom end as sentences do, were wrapped
SENTENCE_ENDS = tuple(".!?:;…\"'”’)]}»。！？")
DOCUMENT_LINE = 300  # characters of a mean line that is a text of its own
SCANNED_LINES = 200_000  # lines that are looked at to tell what a line is


@dataclass(frozen=True, kw_only=True)
class Chunk:
    """A piece of a document."""

    text: str
    starts_document: bool  # a document begins with it


def find_corpus_files(names: Sequence[str | os.PathLike[str]]) -> list[Path]:
    """Files, the files of folders, and what patterns stand for; each once, in order."""
    found: dict[Path, Path] = {}  # by where they lie: a link, or another way to write a name, is the same text
    for name in names:
        place = Path(name)
        there = _exists(name)
        if there and place.is_dir():
            made = sorted(_walk_text_files(place))
            if not made:
                endings = ", ".join((*TEXT_SUFFIXES[:-1], *TABLES))
                raise InputError(f"The folder {to_printable(place, MAX_NAME_CHARS)} holds no text files ({endings}).")
        elif there and not place.is_file():
            raise InputError(
                f"{to_printable(name, MAX_NAME_CHARS)} is no file; a pipe cannot be read twice, as text is here."
            )
        elif there:
            made = [place]
        elif any(letter in str(name) for letter in "*?["):
            every = sorted(glob.glob(str(name), recursive=True))  # noqa: PTH207 (a pattern may begin anywhere)
            made = [Path(one) for one in every if Path(one).is_file() and not _is_run_output(Path(one))]
            if not made:
                raise InputError(f"Nothing is called {to_printable(name, MAX_NAME_CHARS)}.")
        else:
            raise InputError(f"{to_printable(name, MAX_NAME_CHARS)} is not there.")
        for one in made:
            found.setdefault(one.resolve(), one)
    if not found:
        raise InputError("There is no text to learn from: name files, folders or patterns.")
    return list(found.values())


def _exists(name: str | os.PathLike[str]) -> bool:
    if not str(name).strip():
        raise InputError("The name of a file is empty.")
    try:
        return Path(name).exists()
    except (OSError, ValueError):  # a text, say, which is no name
        return False


def make_absolute(names: Sequence[str]) -> list[str]:
    """The same names from anywhere, so that a run can go on in another folder; patterns stay patterns."""
    here = Path.cwd()
    return [str(here / name) if _exists(name) else str(Path(glob.escape(str(here)), name)) for name in names]


def _walk_text_files(folder: Path) -> Iterator[Path]:
    """The text files of a folder and the folders in it; hidden ones, and those of runs and models, are passed over."""
    for place, folders, names in os.walk(folder):
        if Path(place) != folder and not OUTPUT_FILES.isdisjoint(names):
            folders.clear()
            continue
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in names:
            path = Path(place, name)
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
    """The documents of files in order; a row of a table is one, and of plain text what `documents` says."""
    said = [] if notes is None else notes
    if columns is not None and not any(map(is_table, files)):
        raise InputError(f"text says columns of tables, and {to_printable(files[0].name)} is plain text; leave it out.")
    some = False
    for file in files:
        full = False
        made = (
            _read_table(file, columns, encoding, said)
            if is_table(file)
            else _read_plain_text(file, encoding, documents, said)
        )
        for chunk in made:
            full = some = True
            yield chunk
        if not full:
            said.append(f"{to_printable(file.name)} holds no text.")
    if not some:
        raise InputError("The files hold no text to learn from.")


def _read_table(file: Path, columns: str | None, encoding: str | None, notes: list[str]) -> Iterator[Chunk]:
    last = 0
    for number, text in read_numbered_cells(file, columns, encoding, notes):
        if not text.isspace():
            yield Chunk(text=text, starts_document=number != last)
            last = number


def _read_plain_text(file: Path, encoding: str | None, documents: Documents, notes: list[str]) -> Iterator[Chunk]:
    if not file.stat().st_size:
        return
    lay = detect_layout(file, encoding)
    if documents != "auto":
        wrapped = lay.wrapped and documents != "lines"
        lay = TextLayout(documents=documents, wrapped=wrapped, note=lay.note if wrapped else "")
    if lay.note:
        notes.append(f"{to_printable(file.name)}: {lay.note}")
    last, fresh, held = 0, True, ""
    for number, line in read_numbered_lines(file, encoding, notes):
        if line.isspace() or not line:
            if held:
                yield Chunk(text=held, starts_document=fresh)
                held, fresh = "", False
            fresh = fresh or lay.documents == "blank"
            continue
        begins, last = number != last, number
        if lay.documents == "lines":
            yield Chunk(text=line, starts_document=begins)
        elif lay.wrapped:
            held = f"{held} {line.strip()}" if held else line.strip()
            if len(held) > WRAP_WIDTH * WRAP_WIDTH:
                yield Chunk(text=held, starts_document=fresh)
                held, fresh = "", False
        else:
            yield Chunk(text=line, starts_document=fresh)
            fresh = False
    if held:
        yield Chunk(text=held, starts_document=fresh)


@dataclass(frozen=True, kw_only=True)
class TextLayout:
    """How a plain file is laid out."""

    documents: Documents
    wrapped: bool = False  # a sentence goes on in the next line
    note: str = ""


def detect_layout(file: Path, encoding: str | None) -> TextLayout:
    """What a line and a blank line mean in a file, by looking at its first lines."""
    lines = letters = ended = blanks = longest = 0
    last = 0
    for number, line in read_numbered_lines(file, encoding, []):
        if number > SCANNED_LINES:
            break
        text = line.strip()
        if not text:
            blanks += 1 if lines else 0
            continue
        lines += number != last
        last = number
        letters += len(text)
        longest = max(longest, len(text))
        ended += text.endswith(SENTENCE_ENDS)
    if not lines:
        return TextLayout(documents="blank")
    wrapped = lines >= 20 and longest <= WRAP_WIDTH and ended < 0.5 * lines and letters > 30 * lines
    if wrapped:
        joined = "its lines are wrapped, and were joined up to each blank line."
        return TextLayout(documents="blank", wrapped=True, note=joined)
    if blanks:
        return TextLayout(documents="blank")
    if lines > 1 and letters >= DOCUMENT_LINE * lines:
        return TextLayout(
            documents="lines", note="it has no blank lines and long ones, so that each line is a document."
        )
    more = "" if lines == 1 else f" (say {setting('documents', 'lines')} if each line is one)"
    return TextLayout(documents="file", note=f"it has no blank lines, and is one document{more}.")
