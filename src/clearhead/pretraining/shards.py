"""Token ids on disk: shards that are written atomically, verified by hashes and mapped into memory.

    corpus/00000.tokens     ids, two bytes each (four for large vocabularies)
    corpus/00000.sentences  the first token of each sentence, relative to the shard
    corpus/00000.documents  the first sentence of each document
    corpus/index.json       the source of the shards, and their hashes

A document that does not fit continues in the next shard as a separate document.
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
CHUNK_SENTENCES = 4096  # sentences that are tokenized together
MAX_SENTENCES = 1 << 40  # limit of `taken`, against damaged files
SMALL_VOCAB_SIZE = 1 << 16  # largest vocabulary with two-byte ids


@dataclass(frozen=True, kw_only=True)
class Shard:
    """Sizes and hashes of a shard."""

    tokens: int
    sentences: int
    documents: int
    taken: int  # sentences read from the text, including those without tokens
    hashes: dict[str, str]  # SHA-256 by file suffix


@dataclass(frozen=True, kw_only=True)
class CorpusIndex:
    """The content of index.json."""

    format: int = FORMAT
    source: str = ""  # hash of everything that determines the ids: files, tokenizer, settings
    bytes: int = 2  # per id
    whole: bool = False  # the text is complete
    shards: list[Shard] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)  # from reading the text


class Corpus:
    """Shards as one sequence of ids, mapped into memory."""

    def __init__(self, folder: Path, index: CorpusIndex) -> None:
        self.folder, self.index = folder, index
        id_type = np.dtype("<u2" if index.bytes == 2 else "<u4")
        self._document_counts = np.concatenate([[0], np.cumsum([shard.documents for shard in index.shards])]).astype(
            np.int64
        )
        sizes = [shard.tokens for shard in index.shards]
        self.shard_starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        self._tokens = [self._map_file(number, "tokens", id_type) for number in range(len(sizes))]
        self._sentences = [self._map_file(number, "sentences", np.dtype("<i8")) for number in range(len(sizes))]
        self._documents = [self._map_file(number, "documents", np.dtype("<i8")) for number in range(len(sizes))]

    def _map_file(self, number: int, suffix: str, dtype: np.dtype[Any]) -> Array:
        return np.memmap(self.folder / f"{number:05d}.{suffix}", dtype, "r")

    @property
    def tokens(self) -> int:
        """Number of tokens."""
        return int(self.shard_starts[-1])

    @property
    def sentences(self) -> int:
        """Number of sentences."""
        return sum(shard.sentences for shard in self.index.shards)

    @property
    def documents(self) -> int:
        """Number of documents."""
        return sum(shard.documents for shard in self.index.shards)

    def ids(self, start: int, length: int) -> Array:
        """Return consecutive tokens of one shard."""
        shard = int(np.searchsorted(self.shard_starts, start, "right")) - 1
        first = start - int(self.shard_starts[shard])
        return np.asarray(self._tokens[shard][first : first + length], np.int64)

    def sentence_bounds(self, number: int, first: int = 0, last: int | None = None) -> Array:
        """Return the first token of each sentence first ... last - 1 of a document, and the end of the last one."""
        shard, begin, end = self._locate_document(number)
        starts = self._sentences[shard]
        first, last = begin + first, end if last is None else min(begin + last, end)
        after = int(starts[last]) if last < len(starts) else self.index.shards[shard].tokens
        return np.append(starts[first:last], after) + int(self.shard_starts[shard])

    def token_range(self, number: int, first: int, last: int) -> tuple[int, int]:
        """Return the first token of some sentences of a document, and the one after their last."""
        shard, begin, _ = self._locate_document(number)
        starts = self._sentences[shard]
        ends = (
            int(starts[sentence]) if sentence < len(starts) else self.index.shards[shard].tokens
            for sentence in (begin + first, begin + last)
        )
        sentence, last_token = (int(self.shard_starts[shard]) + end for end in ends)
        return sentence, last_token

    def count_sentences(self, number: int) -> int:
        """Return the number of sentences of a document."""
        _, begin, end = self._locate_document(number)
        return end - begin

    def _locate_document(self, number: int) -> tuple[int, int, int]:
        """Return the shard of a document, its first sentence there, and the one after its last."""
        shard = int(np.searchsorted(self._document_counts, number, "right")) - 1
        first_sentences, index = self._documents[shard], number - int(self._document_counts[shard])
        last = int(first_sentences[index + 1]) if index + 1 < len(first_sentences) else len(self._sentences[shard])
        return shard, int(first_sentences[index]), last

    def iterate_tokens(self, size: int = 1 << 20) -> Iterator[Array]:
        """Iterate over all tokens in chunks."""
        for tokens in self._tokens:
            for start in range(0, len(tokens), size):
                yield np.asarray(tokens[start : start + size], np.int64)


def hash_source(files: Sequence[Path], tokenizer: Tokenizer, **settings: Any) -> str:
    """Hash everything that determines the ids: the bytes of every file, the tokenizer and the settings."""
    digest = hashlib.sha256(repr(sorted(settings.items())).encode())
    digest.update(repr(tokenizer.golden()).encode())
    digest.update(str(tokenizer.vocab_size).encode())
    for file in files:
        try:
            digest.update(f"{file.name} {hash_file(file)}".encode())
        except OSError as error:
            raise InputError(f"{file} cannot be read: {error.strerror or error}.") from None
    return digest.hexdigest()


def hash_file(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def make_corpus(
    folder: Path,
    source: str,
    tokenizer: Tokenizer,
    read_sentences: Callable[[list[str]], Iterable[Chunk]],
    *,
    shard_tokens: int = SHARD_TOKENS,
    progress: Progress = no_progress,
) -> Corpus:
    """Tokenize sentences and write them as shards; existing shards are verified and kept."""
    index = _read_index(folder, source)
    if index is not None and index.whole:
        return Corpus(folder, index)
    with explain_write_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    id_bytes = 2 if tokenizer.vocab_size <= SMALL_VOCAB_SIZE else 4
    index = index or CorpusIndex(source=source, bytes=id_bytes)
    notes: list[str] = []
    sentences = iter(read_sentences(notes))
    read_count = sum(stored.taken for stored in index.shards)
    for _ in islice(sentences, read_count):
        pass  # these are in existing shards
    while True:
        with explain_write_errors(folder):
            new_shard = _write_shard(
                folder, len(index.shards), sentences, tokenizer, index.bytes, shard_tokens, progress
            )
        if new_shard is None:
            break
        index = CorpusIndex(source=source, bytes=id_bytes, shards=[*index.shards, new_shard])
        write_json(folder / INDEX_FILE, asdict(index))
    if not sum(stored.tokens for stored in index.shards):
        raise InputError("The text contains no tokens.")
    index = CorpusIndex(
        source=source, bytes=id_bytes, shards=index.shards, whole=True, notes=list(dict.fromkeys(notes))
    )
    write_json(folder / INDEX_FILE, asdict(index))
    return Corpus(folder, index)


def _read_index(folder: Path, source: str) -> CorpusIndex | None:
    """Read the index of existing shards, and verify that their source is the same and the files are intact."""
    if not (folder / INDEX_FILE).exists():
        return None
    index = decode_dataclass(read_json(folder / INDEX_FILE), CorpusIndex, INDEX_FILE)
    if index.format != FORMAT or index.source != source:
        raise CheckpointError(
            f"{folder} was created from another text, tokenizer or setting; restore it, or start a new run."
        )
    if index.bytes not in (2, 4) or (index.whole and not index.shards):
        raise CheckpointError(f"{folder / INDEX_FILE} is damaged; remove {folder} to rebuild it.")
    for number, shard in enumerate(index.shards):
        counts = {"tokens": shard.tokens, "sentences": shard.sentences, "documents": shard.documents}
        for suffix in SHARD_FILES:
            path = folder / f"{number:05d}.{suffix}"
            size = counts[suffix] * (index.bytes if suffix == "tokens" else 8)
            if (
                not path.is_file()
                or path.stat().st_size != size
                or not size
                or hash_file(path) != shard.hashes.get(suffix)
            ):
                raise CheckpointError(
                    f"{path} is damaged: its size or hash does not match; remove {folder} to rebuild it."
                )
        if not shard.sentences <= shard.taken < MAX_SENTENCES:
            sentences_read = to_printable(shard.taken, 30)
            raise CheckpointError(
                f"{folder / INDEX_FILE} is damaged: impossible number of sentences, {sentences_read}."
            )
    return index


def _write_shard(
    folder: Path,
    number: int,
    sentences: Iterator[Chunk],
    tokenizer: Tokenizer,
    id_bytes: int,
    max_tokens: int,
    progress: Progress,
) -> Shard | None:
    """Write the next shard, or return None at the end of the text."""
    sentence_starts: list[Array] = []
    document_starts: list[int] = []
    tokens = sentences_read = sentence_count = 0
    id_type = np.dtype("<u2" if id_bytes == 2 else "<u4")
    parts = {suffix: folder / f".{number:05d}.{suffix}.part" for suffix in SHARD_FILES}
    starts_document = True  # of a shard
    with parts["tokens"].open("wb") as file:
        while tokens < max_tokens and (chunk := list(islice(sentences, CHUNK_SENTENCES))):
            sentences_read += len(chunk)
            # tokenizers that encode spaces need the one between two sentences
            encoded = tokenizer.encode_plain(
                [sentence.text if sentence.starts_document else f" {sentence.text}" for sentence in chunk]
            )
            sentence_ids: list[list[int]] = []
            for sentence, ids in zip(chunk, encoded, strict=True):
                starts_document = starts_document or sentence.starts_document
                if not ids:
                    continue
                if starts_document:
                    document_starts.append(sentence_count + len(sentence_ids))
                    starts_document = False
                sentence_ids.append(ids)
            lengths = np.array([len(ids) for ids in sentence_ids], np.int64)
            sentence_starts.append(tokens + np.cumsum(lengths) - lengths)
            # not tofile, which does not report a full disk
            file.write(
                np.fromiter(
                    (sentence for ids in sentence_ids for sentence in ids), id_type, int(lengths.sum())
                ).tobytes()
            )
            tokens, sentence_count = tokens + int(lengths.sum()), sentence_count + len(sentence_ids)
            progress("tokenizing text", tokens, None)
        file.flush()
        os.fsync(file.fileno())
    if not tokens:
        parts["tokens"].unlink()
        return None
    parts["sentences"].write_bytes(np.concatenate(sentence_starts).astype("<i8").tobytes())
    parts["documents"].write_bytes(np.array(document_starts, "<i8").tobytes())
    hashes = {}
    for suffix, part in parts.items():
        hashes[suffix] = hash_file(part)
        part.replace(folder / f"{number:05d}.{suffix}")
    return Shard(
        tokens=tokens, sentences=sentence_count, documents=len(document_starts), taken=sentences_read, hashes=hashes
    )
