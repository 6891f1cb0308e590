"""Open files, pipes and handles as streams of bytes and lines, and detect their encoding."""

from __future__ import annotations

import codecs
import gzip
import io
import re
import stat
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import IO, Any

from clearhead.data.sources.source import DAMAGED_FILE, TOO_LONG, WRONG_ENCODING
from clearhead.errors import InputError
from clearhead.files import to_printable

HEAD_BYTES = 1 << 18  # used to detect the format of a file
MAX_SCANNED_BYTES = 64 << 20  # used to detect its encoding
MAX_RECORD_CHARS = 20_000_000  # of a line or of a quoted row; a longer one is a bad row
MAX_NAME_CHARS = 300  # of a file name in a message; file systems allow 255
CHUNK_BYTES = 1 << 16

BOMS = (
    (codecs.BOM_UTF8, "utf-8-sig", "UTF-8 with BOM"),
    (codecs.BOM_UTF32_LE, "utf-32", "UTF-32"),  # before UTF-16, whose BOM is a prefix of this one
    (codecs.BOM_UTF32_BE, "utf-32", "UTF-32"),
    (codecs.BOM_UTF16_LE, "utf-16", "UTF-16"),
    (codecs.BOM_UTF16_BE, "utf-16", "UTF-16"),
)
ENCODING_TITLES = {"utf-8": "UTF-8", "latin-1": "Latin-1", "cp1252": "Windows-1252 (Latin-1)"}
# for domain names and Python source code
NON_FILE_ENCODINGS = ("idna", "punycode", "unicode-escape", "raw-unicode-escape")
SURROGATE = re.compile("[\ud800-\udfff]")
# typical non-ASCII characters of Latin-1 and Windows-1252 texts: letters in or at the end of words, and punctuation
_LETTERS = "À-ÖØ-öø-ýßŠšŒœŽžŸ"
LATIN_LETTER = re.compile(f"(?<=[A-Za-z{_LETTERS}])[{_LETTERS}]|[{_LETTERS}](?=[A-Za-z{_LETTERS}])|[àáèéíóúÀÉ]")
LATIN_SIGN = re.compile("[‘’“”‚„–—…•€™«»¡¿°£§©®·´ªº½¼¾±²³\xa0\xad]")
STREAM_ERRORS = (OSError, EOFError, zlib.error)  # gzip raises all three

Line = tuple[int, str, str | None]  # number, text with newline, problem


@dataclass(frozen=True, kw_only=True)
class Blob:
    """A byte stream that can be opened, and its first bytes."""

    name: str
    open: Callable[[], IO[bytes]]
    head: bytes  # up to HEAD_BYTES bytes, decompressed
    is_compressed: bool
    is_reopenable: bool
    path: Path | None = None
    is_stdin: bool = False

    @property
    def is_piped(self) -> bool:
        """Whether the data comes from a pipe whose name does not indicate a format."""
        return (self.is_stdin or not self.is_reopenable) and not self.suffix

    @property
    def is_complete(self) -> bool:
        """Whether `head` contains all data."""
        return len(self.head) < HEAD_BYTES

    @property
    def in_memory(self) -> Blob:
        """The same data without reopening the file, if `head` contains all of it."""
        return replace(self, open=lambda: io.BytesIO(self.head)) if self.is_complete else self

    @property
    def suffix(self) -> str:
        """The suffix of the uncompressed file: `.csv` for `a.csv.gz`."""
        path = Path(self.name.lower())
        return (path.with_suffix("") if path.suffix == ".gz" else path).suffix


class _ChunkReader(io.RawIOBase):
    """A binary file object that reads from an iterable of chunks."""

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self._chunks = iter(chunks)
        self._remainder = b""

    def readable(self) -> bool:
        return True

    def readinto(self, target: Any) -> int:
        while not self._remainder:
            chunk = next(self._chunks, None)
            if chunk is None:
                return 0
            self._remainder = chunk
        count = min(len(target), len(self._remainder))
        target[:count] = self._remainder[:count]
        self._remainder = self._remainder[count:]
        return count


def open_path(path: Path) -> Blob:
    """Open a file, gzipped or not, or a named pipe."""
    path_name = to_printable(path, MAX_NAME_CHARS)
    try:
        mode = path.stat().st_mode
        if stat.S_ISFIFO(mode):
            return open_handle(path.open("rb"), path.name, close=True)
        if not stat.S_ISREG(mode):
            raise InputError(f"{path_name} is not a regular file, so it is not opened.")
        with path.open("rb") as file:
            is_compressed = file.read(2) == b"\x1f\x8b"

        def open_content() -> IO[bytes]:
            return gzip.open(path, "rb") if is_compressed else path.open("rb")  # type: ignore[return-value]

        with open_content() as content:
            head = content.read(HEAD_BYTES)
    except FileNotFoundError:
        raise InputError(f"{path_name} not found.") from None
    except ValueError:  # contains NUL
        raise InputError(f"{path_name} is not a valid file name.") from None
    except STREAM_ERRORS as error:
        raise InputError(f"{path_name} cannot be read: {getattr(error, 'strerror', None) or error}.") from None
    return Blob(
        name=to_printable(path.name, MAX_NAME_CHARS),
        open=open_content,
        head=head,
        is_compressed=is_compressed,
        is_reopenable=True,
        path=path,
    )


def open_handle(handle: Any, name: str | None = None, *, close: bool = False) -> Blob:
    """Wrap an open file, binary or text; a file that is not seekable can be read only once."""
    handle_name = name or getattr(handle, "name", None)
    label = to_printable(handle_name, MAX_NAME_CHARS) if isinstance(handle_name, str) and handle_name else "the input"
    label = "standard input" if label == "<stdin>" else label
    is_stdin = any(handle is stdin for stdin in (sys.stdin, getattr(sys.stdin, "buffer", None)) if stdin is not None)
    handle = getattr(handle, "buffer", handle)
    try:
        start = handle.tell() if handle.seekable() else None
    except (OSError, AttributeError, ValueError):
        start = None

    def open_stream() -> IO[bytes]:
        if start is not None:
            handle.seek(start)
        raw = io.BufferedReader(_ChunkReader(_read_chunks(handle, close=close)))
        return gzip.GzipFile(fileobj=raw) if raw.peek(2)[:2] == b"\x1f\x8b" else raw  # type: ignore[return-value]

    try:
        content = open_stream()
        head = content.read(HEAD_BYTES)
    except (*STREAM_ERRORS, ValueError) as error:
        raise InputError(f"{label} cannot be read: {error}.") from None
    is_compressed = isinstance(content, gzip.GzipFile)
    if start is not None:
        return Blob(
            name=label, open=open_stream, head=head, is_compressed=is_compressed, is_reopenable=True, is_stdin=is_stdin
        )

    def open_remainder() -> IO[bytes]:
        return io.BufferedReader(_ChunkReader(chain([head] if head else [], _read_chunks(content))))

    return Blob(
        name=label, open=open_remainder, head=head, is_compressed=is_compressed, is_reopenable=False, is_stdin=is_stdin
    )


def _read_chunks(handle: Any, *, close: bool = False) -> Iterator[bytes]:
    while chunk := handle.read(CHUNK_BYTES):
        yield chunk.encode("utf-8", "surrogatepass") if isinstance(chunk, str) else bytes(chunk)
    if close:
        handle.close()


def detect_encoding(blob: Blob, requested: str | None) -> tuple[str, str]:
    """Detect the encoding; return its Python name and its usual name."""
    if requested is not None:
        try:
            b"a".decode(requested)
        except (LookupError, UnicodeError):
            raise InputError(f"Unknown encoding {requested!r}; try 'utf-8' or 'latin-1'.") from None
        canonical = codecs.lookup(requested).name
        if canonical in NON_FILE_ENCODINGS:
            raise InputError(f"Encoding {requested!r} is not for text files; try 'utf-8' or 'latin-1'.")
        with_bom = canonical == "utf-8" and blob.head.startswith(codecs.BOM_UTF8)
        return ("utf-8-sig" if with_bom else requested), ENCODING_TITLES.get(canonical, requested)
    for bom, encoding, title in BOMS:
        if blob.head.startswith(bom):
            return encoding, title
    head = blob.head[:4096]
    for encoding, bytes_at_zero in (("utf-16-le", head[1::2]), ("utf-16-be", head[0::2])):
        if len(head) >= 16 and bytes_at_zero.count(0) > 0.7 * len(bytes_at_zero):
            return encoding, "UTF-16 without BOM"
    invalid = _find_invalid_utf8(blob)
    if not invalid or not _is_latin(invalid):
        return "utf-8", "UTF-8"
    encoding = "cp1252" if any(0x80 <= byte <= 0x9F for byte in invalid) else "latin-1"
    return encoding, ENCODING_TITLES[encoding]


def _find_invalid_utf8(blob: Blob) -> bytes:
    """Return the first chunk that is not valid UTF-8, or empty bytes."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    scanned = 0
    current = b""
    with blob.in_memory.open() if blob.is_reopenable else io.BytesIO(blob.head) as file:
        try:
            while scanned < MAX_SCANNED_BYTES and (chunk := file.read(1 << 20)):
                scanned += len(chunk)
                current, previous = chunk, current[-8:]
                decoder.decode(chunk)
        except UnicodeDecodeError:
            return previous + current
        except STREAM_ERRORS:
            return b""  # the reader reports the position of the damage
    return b""


def _is_latin(data: bytes) -> bool:
    """Whether bytes that are not valid UTF-8 look like Latin-1, and not like damaged UTF-8."""
    invalid_count = len(SURROGATE.findall(data.decode("utf-8", "surrogateescape")))
    valid_count = sum(1 for letter in data.decode("utf-8", "ignore") if letter > "\x7f")
    if valid_count > 4 * invalid_count:
        return False
    text = data.decode("cp1252", "replace")
    non_ascii_count = sum(1 for letter in text if letter > "\x7f")
    return len(LATIN_LETTER.findall(text)) + len(LATIN_SIGN.findall(text)) >= 0.8 * non_ascii_count


def decode_head(blob: Blob, encoding: str) -> str:
    """Decode the beginning of a file, up to the last complete line."""
    text = codecs.getincrementaldecoder(encoding)("replace").decode(blob.head, final=blob.is_complete)
    if blob.is_complete:
        return text
    end = text.rfind(detect_newline(text)) + 1
    return text[:end] or text


def detect_newline(text: str) -> str:
    """Detect the newline character; old Mac files use a lone carriage return."""
    return "\r" if "\r" in text and "\n" not in text else "\n"


def read_lines(blob: Blob, encoding: str, newline: str) -> Iterator[Line]:
    """Yield lines with their numbers and problems."""
    # lone surrogates mark undecodable bytes; valid input never decodes to them
    errors = "surrogatepass" if encoding.startswith(("utf-16", "utf-32")) else "surrogateescape"
    number = 0
    with io.TextIOWrapper(blob.open(), encoding=encoding, errors=errors, newline=newline) as file:
        while True:
            number += 1
            try:
                line = file.readline(MAX_RECORD_CHARS + 1)
                problem = None
                if len(line) > MAX_RECORD_CHARS:
                    problem = TOO_LONG
                    remainder = line
                    line = line[:100]
                    while remainder and not remainder.endswith(newline):
                        remainder = file.readline(MAX_RECORD_CHARS)
            except UnicodeDecodeError:
                yield number, "", WRONG_ENCODING
                return
            except STREAM_ERRORS:
                yield number, "", DAMAGED_FILE
                return
            if not line:
                return
            if problem is None and not line.isascii() and SURROGATE.search(line):
                problem = WRONG_ENCODING
            yield number, line, problem
