"""Word vectors on disk: the project's own folder (safetensors + JSON), and the files of GloVe and word2vec."""

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
    LARGEST,
    MOST_WIDTH,
    MOST_WORD,
    read_file,
    write_binary,
    write_text,
)
from clearhead.words.vectors import WordVectors

FORMAT = 1
CARD, TENSORS = "words.json", "words.safetensors"
MOST_CARD = 512 << 20  # three million words with their counts take 80 MB
TEXT_ENDINGS, BINARY_ENDINGS = (".txt", ".vec"), (".bin",)


@dataclass(frozen=True, kw_only=True)
class Card:
    """What words.json says."""

    format: int
    width: int
    words: list[str]
    counts: list[int] | None = None
    sha256: str = ""  # of the vectors beside it: those of two saves never mix
    learned: dict[str, Any] = field(default_factory=dict)  # how, where they were learned here


def is_file_name(path: Path) -> bool:
    """Whether vectors of this name are written as one file, as word2vec does."""
    return path.suffix.lower() in (*TEXT_ENDINGS, *BINARY_ENDINGS)


def check_limit(limit: int | None) -> None:
    """One sentence for a number of words that cannot be."""
    if limit is not None and limit < 1:
        raise InputError(f"limit is a number of words from 1 on, and it is {limit}.")


def load_vectors(
    place: str | os.PathLike[str], *, limit: int | None = None, progress: Progress = no_progress
) -> WordVectors:
    """Vectors out of a folder of ours, or a GloVe or word2vec file; `limit` takes the first words alone."""
    path = Path(place).expanduser()
    check_limit(limit)
    if not path.is_dir():
        return read_file(path, limit=limit, progress=progress)
    found = read_vectors(path)
    return found if limit is None or limit >= len(found) else found.select(range(limit))


def save_vectors(place: str | os.PathLike[str], vectors: WordVectors, *, learned: dict[str, Any] | None = None) -> Path:
    """Write word2vec text (.txt, .vec), word2vec binary (.bin), or a new folder for any other name."""
    path = Path(place)
    if path.suffix.lower() in TEXT_ENDINGS:
        write_text(path, vectors)
    elif path.suffix.lower() in BINARY_ENDINGS:
        write_binary(path, vectors)
    else:
        with atomic_folder(path) as folder:
            write_vectors(folder, vectors, learned)
    return path


def write_vectors(folder: Path, vectors: WordVectors, learned: dict[str, Any] | None = None) -> None:
    """The two files of a folder; words.json comes last and vouches for the other."""
    write_safetensors(folder / TENSORS, {"vectors": vectors.matrix})
    card = Card(
        format=FORMAT,
        width=vectors.width,
        words=list(vectors.words),
        counts=None if vectors.counts is None else [int(count) for count in vectors.counts],
        sha256=_digest(folder / TENSORS),
        learned=learned or {},
    )
    write_json(folder / CARD, asdict(card))


def read_vectors(folder: Path) -> WordVectors:
    """Read a folder that `write_vectors` wrote; whatever else it may be is refused with the reason."""
    card = decode_dataclass(read_json(resolve_inside(folder, CARD), max_bytes=MOST_CARD, unique_keys=True), Card, CARD)
    if card.format != FORMAT:
        raise CheckpointError(
            f"{CARD} has format {to_printable(card.format, 20)}, and this version reads {FORMAT}: upgrade."
        )
    if not card.words or not 1 <= card.width <= MOST_WIDTH:
        raise CheckpointError(f"{CARD} names no words, or a width that is not 1 to {MOST_WIDTH:,}.")
    counts = [0] * len(card.words) if card.counts is None else card.counts
    if len(counts) != len(card.words) or not all(0 <= count < 1 << 62 for count in counts):
        raise CheckpointError(f"{CARD} has {len(card.words):,} words, and counts that do not fit them.")
    if len(set(card.words)) != len(card.words):
        raise CheckpointError(f"{CARD} has a word twice, so it is not clear which vector counts.")
    for word in card.words:
        if not 1 <= len(word) <= MOST_WORD or not _is_text(word):
            raise CheckpointError(
                f"{CARD} has {to_printable(word, 40)!r}; a word is a text of 1 to {MOST_WORD} letters."
            )
    path = resolve_inside(folder, TENSORS)
    stored = read_header(path)
    size = (len(card.words), card.width)
    if stored.keys() != {"vectors"} or stored["vectors"].size != size or stored["vectors"].dtype != "F32":
        sides = f"{size[0]:,} x {size[1]:,}"
        raise TensorError(f"{TENSORS} must hold vectors of {sides} F32 numbers, as {CARD} says, and nothing else.")
    if card.sha256 != _digest(path):
        raise CheckpointError(f"{TENSORS} is not the file that {CARD} was saved with: damaged, or of another save.")
    matrix = MappedTensors(stored, writable=False).array("vectors")
    if not (matrix.min() >= -LARGEST and matrix.max() <= LARGEST):  # NaN is neither
        raise TensorError(f"{TENSORS} has NaN, infinity or numbers above {LARGEST:g}.")
    known = None if card.counts is None else np.array(counts, np.int64)
    return WordVectors(words=tuple(card.words), matrix=matrix, counts=known, name=to_printable(folder.name))


def _is_text(word: str) -> bool:
    try:
        word.encode()
    except UnicodeEncodeError:  # half a surrogate pair
        return False
    return True


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
