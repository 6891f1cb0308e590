"""Word vectors on disk: folders (safetensors + JSON), and files of GloVe and word2vec."""

from __future__ import annotations

import hashlib
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from clearhead.checkpoint.weights import MappedTensors, read_header, resolve_inside, write_safetensors
from clearhead.errors import CheckpointError, InputError, TensorError
from clearhead.files import atomic_folder, decode_dataclass, read_json, to_printable, write_json
from clearhead.progress import Progress, no_progress
from clearhead.words.formats import (
    MAX_ABS_VALUE,
    MAX_WIDTH,
    MAX_WORD_BYTES,
    read_file,
    write_binary,
    write_text,
)
from clearhead.words.vectors import WordVectors

FORMAT = 1
CARD_FILE, TENSORS_FILE = "words.json", "words.safetensors"
MAX_CARD_BYTES = 512 << 20  # bytes; three million words with counts take 80 MB
TEXT_SUFFIXES, BINARY_SUFFIXES = (".txt", ".vec"), (".bin",)


@dataclass(frozen=True, kw_only=True)
class VectorCard:
    """The content of words.json."""

    format: int
    width: int
    words: list[str]
    counts: list[int] | None = None
    sha256: str = ""  # of words.safetensors: files of different saves are detected
    learned: dict[str, Any] = field(
        default_factory=dict
    )  # settings and statistics of the training, if trained by clearhead


def is_file_name(path: Path) -> bool:
    """Whether vectors with this name are written as a single word2vec file."""
    return path.suffix.lower() in (*TEXT_SUFFIXES, *BINARY_SUFFIXES)


def check_limit(limit: int | None) -> None:
    """Refuse an invalid number of words."""
    if limit is not None and limit < 1:
        raise InputError(f"limit must be an integer >= 1, got {limit}.")


def load_vectors(
    reference: str | os.PathLike[str], *, limit: int | None = None, progress: Progress = no_progress
) -> WordVectors:
    """Load vectors from a folder, or from a GloVe or word2vec file; `limit` loads only the first words."""
    path = Path(reference).expanduser()
    check_limit(limit)
    if not path.is_dir():
        return read_file(path, limit=limit, progress=progress)
    vectors = read_vectors(path)
    return vectors if limit is None or limit >= len(vectors) else vectors.select(range(limit))


def save_vectors(
    output: str | os.PathLike[str], vectors: WordVectors, *, learned: dict[str, Any] | None = None
) -> Path:
    """Write word2vec text (.txt, .vec), word2vec binary (.bin), or a new folder for any other name."""
    path = Path(output)
    if path.suffix.lower() in TEXT_SUFFIXES:
        write_text(path, vectors)
    elif path.suffix.lower() in BINARY_SUFFIXES:
        write_binary(path, vectors)
    else:
        with atomic_folder(path) as folder:
            write_vectors(folder, vectors, learned)
    return path


def write_vectors(folder: Path, vectors: WordVectors, learned: dict[str, Any] | None = None) -> None:
    """Write the two files of a folder; words.json is last and contains the hash of the other."""
    write_safetensors(folder / TENSORS_FILE, {"vectors": vectors.matrix})
    card = VectorCard(
        format=FORMAT,
        width=vectors.width,
        words=list(vectors.words),
        counts=None if vectors.counts is None else [int(count) for count in vectors.counts],
        sha256=_hash_file(folder / TENSORS_FILE),
        learned=learned or {},
    )
    write_json(folder / CARD_FILE, asdict(card))


def read_vectors(folder: Path) -> WordVectors:
    """Read and validate a folder that was written by `write_vectors`."""
    card = decode_dataclass(
        read_json(resolve_inside(folder, CARD_FILE), max_bytes=MAX_CARD_BYTES, unique_keys=True), VectorCard, CARD_FILE
    )
    if card.format != FORMAT:
        raise CheckpointError(
            f"{CARD_FILE} has format {to_printable(card.format, 20)}, but this version reads {FORMAT}; "
            "upgrade Clearhead."
        )
    if not card.words or not 1 <= card.width <= MAX_WIDTH:
        raise CheckpointError(f"{CARD_FILE} has no words, or a width outside 1 to {MAX_WIDTH:,}.")
    counts = [0] * len(card.words) if card.counts is None else card.counts
    if len(counts) != len(card.words) or not all(0 <= count < 1 << 62 for count in counts):
        raise CheckpointError(f"{CARD_FILE} has {len(card.words):,} words, but its counts do not match them.")
    if len(set(card.words)) != len(card.words):
        raise CheckpointError(f"{CARD_FILE} contains a word twice, so its vector is ambiguous.")
    for word in card.words:
        if not 1 <= len(word) <= MAX_WORD_BYTES or not _is_encodable(word):
            raise CheckpointError(
                f"{CARD_FILE} has {to_printable(word, 40)!r}; a word must have 1 to {MAX_WORD_BYTES} characters."
            )
    path = resolve_inside(folder, TENSORS_FILE)
    stored = read_header(path)
    size = (len(card.words), card.width)
    if stored.keys() != {"vectors"} or stored["vectors"].size != size or stored["vectors"].dtype != "F32":
        expected = f"{size[0]:,} x {size[1]:,}"
        raise TensorError(
            f"{TENSORS_FILE} must contain only the tensor vectors with {expected} F32 numbers, as in {CARD_FILE}."
        )
    if card.sha256 != _hash_file(path):
        raise CheckpointError(
            f"{TENSORS_FILE} does not match the hash in {CARD_FILE}: it is damaged, or from another save."
        )
    matrix = MappedTensors(stored, writable=False).array("vectors")
    if not (matrix.min() >= -MAX_ABS_VALUE and matrix.max() <= MAX_ABS_VALUE):  # also false for NaN
        raise TensorError(f"{TENSORS_FILE} contains NaN, infinity or numbers above {MAX_ABS_VALUE:g}.")
    word_counts = None if card.counts is None else np.array(counts, np.int64)
    return WordVectors(words=tuple(card.words), matrix=matrix, counts=word_counts, name=to_printable(folder.name))


def _is_encodable(word: str) -> bool:
    try:
        word.encode()
    except UnicodeEncodeError:  # a lone surrogate
        return False
    return True


def _hash_file(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
