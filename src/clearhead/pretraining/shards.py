"""Token ids on disk: shards that are written whole, checked by their hashes, mapped into memory and never read whole.

    corpus/00000.tokens     ids, two bytes each (four where the vocabulary is large)
    corpus/00000.sentences  where each sentence begins, counted from the first token of the shard
    corpus/00000.documents  the sentence that each document begins with
    corpus/index.json       what the shards were made from, and the hash of each

A document that does not fit goes on in the next shard as another one.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from clearhead.errors import CheckpointError, InputError
from clearhead.files import decode_dataclass, explain_write_errors, read_json, to_printable, write_json
from clearhead.pretraining.documents import Chunk
from clearhead.progress import Progress, no_progress

if TYPE_CHECKING:
    from clearhead.text import Tokenizer

Array = np.ndarray[Any, Any]

INDEX_FILE = "index.json"
FORMAT = 1
SHARD_FILES = ("tokens", "sentences", "documents")
SHARD_TOKENS = 1 << 24  # tokens
CHUNK_SENTENCES = 4096  # sentences that are cut into tokens together
MAX_SENTENCES = 1 << 40  # sentences of a shard
SMALL_VOCAB_SIZE = 1 << 16  # a vocabulary whose ids have two bytes


@dataclass(frozen=True, kw_only=True)
class Shard:
    """What is in one shard."""

    tokens: int
    sentences: int
    documents: int
    taken: int  # sentences of the text that were read for it, also those that gave no token
    hashes: dict[str, str]  # SHA-256 by the end of the file's name


@dataclass(frozen=True, kw_only=True)
class CorpusIndex:
    """What a folder of shards says of itself."""

    format: int = FORMAT
    source: str = ""  # a hash of everything that the ids depend on: files, tokenizer, settings
    bytes: int = 2  # of an id
    whole: bool = False  # all of the text is in it
    shards: list[Shard] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)  # what reading had to say


class Corpus:
    """Shards as one long row of ids, mapped into memory."""

    def __init__(self, folder: Path, index: CorpusIndex) -> None:
        self.folder, self.index = folder, index
        kind = np.dtype("<u2" if index.bytes == 2 else "<u4")
        self._document_counts = np.concatenate([[0], np.cumsum([shard.documents for shard in index.shards])]).astype(
            np.int64
        )
        sizes = [shard.tokens for shard in index.shards]
        self.shard_starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        self._tokens = [self._map_file(number, "tokens", kind) for number in range(len(sizes))]
        self._sentences = [self._map_file(number, "sentences", np.dtype("<i8")) for number in range(len(sizes))]
        self._documents = [self._map_file(number, "documents", np.dtype("<i8")) for number in range(len(sizes))]

    def _map_file(self, number: int, end: str, kind: np.dtype[Any]) -> Array:
        return np.memmap(self.folder / f"{number:05d}.{end}", kind, "r")

    @property
    def tokens(self) -> int:
        """How many tokens there are."""
        return int(self.shard_starts[-1])

    @property
    def sentences(self) -> int:
        """How many sentences there are."""
        return sum(shard.sentences for shard in self.index.shards)

    @property
    def documents(self) -> int:
        """How many documents there are."""
        return sum(shard.documents for shard in self.index.shards)

    def ids(self, start: int, length: int) -> Array:
        """Some tokens in a row, all of one shard."""
        shard = int(np.searchsorted(self.shard_starts, start, "right")) - 1
        first = start - int(self.shard_starts[shard])
        return np.asarray(self._tokens[shard][first : first + length], np.int64)

    def sentence_bounds(self, number: int, first: int = 0, last: int | None = None) -> Array:
        """Where each sentence of a document (or of some) begins and where the last ends, in tokens of the corpus."""
        shard, begin, end = self._locate_document(number)
        starts = self._sentences[shard]
        first, last = begin + first, end if last is None else min(begin + last, end)
        after = int(starts[last]) if last < len(starts) else self.index.shards[shard].tokens
        return np.append(starts[first:last], after) + int(self.shard_starts[shard])

    def token_range(self, number: int, first: int, last: int) -> tuple[int, int]:
        """Where some sentences of a document begin and end, in tokens of the corpus."""
        shard, begin, _ = self._locate_document(number)
        starts = self._sentences[shard]
        ends = (
            int(starts[one]) if one < len(starts) else self.index.shards[shard].tokens
            for one in (begin + first, begin + last)
        )
        one, other = (int(self.shard_starts[shard]) + end for end in ends)
        return one, other

    def count_sentences(self, number: int) -> int:
        """How many sentences a document has."""
        _, begin, end = self._locate_document(number)
        return end - begin

    def _locate_document(self, number: int) -> tuple[int, int, int]:
        """The shard of a document, its first sentence there, and the one after its last."""
        shard = int(np.searchsorted(self._document_counts, number, "right")) - 1
        firsts, place = self._documents[shard], number - int(self._document_counts[shard])
        last = int(firsts[place + 1]) if place + 1 < len(firsts) else len(self._sentences[shard])
        return shard, int(firsts[place]), last

    def iterate_tokens(self, size: int = 1 << 20) -> Iterator[Array]:
        """All tokens, some at a time."""
        for tokens in self._tokens:
            for begin in range(0, len(tokens), size):
                yield np.asarray(tokens[begin : begin + size], np.int64)


def hash_source(files: Sequence[Path], tokenizer: Tokenizer, **settings: Any) -> str:
    """A hash of what the ids depend on: the bytes of every file, the vocabulary, and how text is cut."""
    found = hashlib.sha256(repr(sorted(settings.items())).encode())
    found.update(repr(tokenizer.golden()).encode())
    found.update(str(tokenizer.vocab_size).encode())
    for file in files:
        try:
            found.update(f"{file.name} {hash_file(file)}".encode())
        except OSError as error:
            raise InputError(f"{file} cannot be read: {error.strerror or error}.") from None
    return found.hexdigest()


def hash_file(path: Path) -> str:
    """SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def make_corpus(
    folder: Path,
    source: str,
    tokenizer: Tokenizer,
    read: Callable[[list[str]], Iterable[Chunk]],
    *,
    shard: int = SHARD_TOKENS,
    progress: Progress = no_progress,
) -> Corpus:
    """Cut sentences into tokens and write them down; what was written before is checked and kept."""
    index = _read_index(folder, source)
    if index is not None and index.whole:
        return Corpus(folder, index)
    with explain_write_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    size = 2 if tokenizer.vocab_size <= SMALL_VOCAB_SIZE else 4
    index = index or CorpusIndex(source=source, bytes=size)
    notes: list[str] = []
    text = iter(read(notes))
    done = sum(one.taken for one in index.shards)
    for _ in islice(text, done):
        pass  # these are in the shards
    while True:
        with explain_write_errors(folder):
            made = _write_shard(folder, len(index.shards), text, tokenizer, index.bytes, shard, progress)
        if made is None:
            break
        index = CorpusIndex(source=source, bytes=size, shards=[*index.shards, made])
        write_json(folder / INDEX_FILE, asdict(index))
    if not sum(one.tokens for one in index.shards):
        raise InputError("The text gives no tokens to learn from.")
    index = CorpusIndex(source=source, bytes=size, shards=index.shards, whole=True, notes=list(dict.fromkeys(notes)))
    write_json(folder / INDEX_FILE, asdict(index))
    return Corpus(folder, index)


def _read_index(folder: Path, source: str) -> CorpusIndex | None:
    """The index of shards that were made from the same text and are as they were written."""
    if not (folder / INDEX_FILE).exists():
        return None
    index = decode_dataclass(read_json(folder / INDEX_FILE), CorpusIndex, INDEX_FILE)
    if index.format != FORMAT or index.source != source:
        raise CheckpointError(
            f"{folder} was made from another text, tokenizer or setting: restore them, or begin a new run."
        )
    if index.bytes not in (2, 4) or (index.whole and not index.shards):
        raise CheckpointError(f"{folder / INDEX_FILE} is damaged; remove {folder} to make it anew.")
    for number, shard in enumerate(index.shards):
        counts = {"tokens": shard.tokens, "sentences": shard.sentences, "documents": shard.documents}
        for end in SHARD_FILES:
            path = folder / f"{number:05d}.{end}"
            size = counts[end] * (index.bytes if end == "tokens" else 8)
            if (
                not path.is_file()
                or path.stat().st_size != size
                or not size
                or hash_file(path) != shard.hashes.get(end)
            ):
                raise CheckpointError(f"{path} is not as it was written; remove {folder} to make it anew.")
        if not shard.sentences <= shard.taken < MAX_SENTENCES:
            taken = to_printable(shard.taken, 30)
            raise CheckpointError(f"{folder / INDEX_FILE} is damaged: {taken} sentences cannot have been read.")
    return index


def _write_shard(
    folder: Path,
    number: int,
    text: Iterator[Chunk],
    tokenizer: Tokenizer,
    size: int,
    most: int,
    progress: Progress,
) -> Shard | None:
    """The next shard, or None where the text has ended."""
    starts: list[Array] = []
    firsts: list[int] = []
    tokens = taken = count = 0
    kind = np.dtype("<u2" if size == 2 else "<u4")
    parts = {end: folder / f".{number:05d}.{end}.part" for end in SHARD_FILES}
    fresh = True  # of a shard
    with parts["tokens"].open("wb") as file:
        while tokens < most and (some := list(islice(text, CHUNK_SENTENCES))):
            taken += len(some)
            # a blank between two sentences is part of the second for tokenizers that know blanks
            pieces = tokenizer.encode_plain([one.text if one.starts_document else f" {one.text}" for one in some])
            full: list[list[int]] = []
            for one, ids in zip(some, pieces, strict=True):
                fresh = fresh or one.starts_document
                if not ids:
                    continue
                if fresh:
                    firsts.append(count + len(full))
                    fresh = False
                full.append(ids)
            lengths = np.array([len(ids) for ids in full], np.int64)
            starts.append(tokens + np.cumsum(lengths) - lengths)
            # not tofile, which says nothing where a disk is full
            file.write(np.fromiter((one for ids in full for one in ids), kind, int(lengths.sum())).tobytes())
            tokens, count = tokens + int(lengths.sum()), count + len(full)
            progress("cutting text into tokens", tokens, None)
        file.flush()
        os.fsync(file.fileno())
    if not tokens:
        parts["tokens"].unlink()
        return None
    parts["sentences"].write_bytes(np.concatenate(starts).astype("<i8").tobytes())
    parts["documents"].write_bytes(np.array(firsts, "<i8").tobytes())
    hashes = {}
    for end, part in parts.items():
        hashes[end] = hash_file(part)
        part.replace(folder / f"{number:05d}.{end}")
    return Shard(tokens=tokens, sentences=count, documents=len(firsts), taken=taken, hashes=hashes)
