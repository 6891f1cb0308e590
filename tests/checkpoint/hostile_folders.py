"""Small valid model folders, and the ways to break one thing in them."""

from __future__ import annotations

import json
import shutil
import string
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import clearhead
from clearhead.errors import ClearheadError
from clearhead.shape import DenseShape, Pooling
from clearhead.text import Tokenizer, load_tokenizer

SECRET = "this-is-the-content-of-a-file-outside"
BERT = {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "max_position_embeddings": 64,
}
WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"
TABLE = "bert.embeddings.word_embeddings.weight"

Spoil = Callable[[Path], None]
Header = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Hostile:
    """One broken thing: which folder it is broken in, the error it must give, words that the sentence must hold."""

    name: str
    spoil: Spoil
    error: type[ClearheadError]
    words: tuple[str, ...]
    seed: str = "bert"


def write_vocabulary(folder: Path) -> Tokenizer:
    """vocab.txt of a few pieces, and its tokenizer."""
    folder.mkdir(parents=True, exist_ok=True)
    special = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
    letters = string.ascii_lowercase + ".,!?'-"
    pieces = [*special, *letters, *(f"##{letter}" for letter in letters), "the", "cat", "sat"]
    (folder / "vocab.txt").write_text("\n".join(pieces) + "\n", encoding="utf-8")
    return load_tokenizer(folder, "bert", {}).source


def make_bert(folder: Path) -> None:
    """A classifier with a tokenizer.json and a passport."""
    tokenizer = write_vocabulary(folder.parent / "vocabulary")
    clearhead.create("bert", config=BERT, head="classify", tokenizer=tokenizer, device="cpu").save(folder)


def make_legacy(folder: Path) -> None:
    """The same with vocab.txt alone and no passport."""
    make_bert(folder)
    write_vocabulary(folder)
    for name in ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "clearhead.json"):
        (folder / name).unlink()


def make_shards(folder: Path) -> None:
    """The same weights in several files."""
    make_bert(folder)
    clearhead.load(folder, device="cpu").save(folder, shard_bytes=4000)


def make_sentences(folder: Path) -> None:
    """A sentence-transformers folder: mean, a dense step, unit length."""
    tokenizer = write_vocabulary(folder.parent / "vocabulary")
    model = clearhead.create("bert", config=BERT, tokenizer=tokenizer, device="cpu")
    model.pooling = Pooling(dense=(DenseShape(inputs=16, outputs=4),), normalize=True, origin="modules.json")
    weight = np.linspace(-1, 1, 64, dtype=np.float32).reshape(4, 16)
    model.dense = ({"weight": weight, "bias": np.zeros(4, np.float32)},)
    model.save(folder)


SEEDS: dict[str, Spoil] = {
    "bert": make_bert,
    "legacy": make_legacy,
    "shards": make_shards,
    "sentences": make_sentences,
}


def raw(name: str, data: bytes) -> Spoil:
    """Put these bytes in the place of a file."""
    return lambda folder: _write(folder / name, data)


def _write(path: Path, data: bytes) -> None:
    path.write_bytes(data)


def large(name: str, size: int) -> Spoil:
    """A file of this many bytes, none of which is on the disk."""

    def spoil(folder: Path) -> None:
        with (folder / name).open("wb") as file:
            file.truncate(size)

    return spoil


def gone(*names: str) -> Spoil:
    """Leave files out."""

    def spoil(folder: Path) -> None:
        for name in names:
            (folder / name).unlink()

    return spoil


def edit(name: str, change: Callable[[Any], Any]) -> Spoil:
    """Change a JSON file in place, or give another value for the whole of it."""

    def spoil(folder: Path) -> None:
        path = folder / name
        value = json.loads(path.read_text("utf-8"))
        made = change(value)
        path.write_text(json.dumps(value if made is None else made), encoding="utf-8")

    return spoil


def keys(name: str, **changes: Any) -> Spoil:
    """Set keys of a JSON file."""
    return edit(name, lambda value: value.update(changes))


def config(**changes: Any) -> Spoil:
    """Set keys of config.json."""
    return keys("config.json", **changes)


def both(*spoils: Spoil) -> Spoil:
    """One after the other."""

    def spoil(folder: Path) -> None:
        for one in spoils:
            one(folder)

    return spoil


def read_tensors(path: Path) -> tuple[Header, bytes]:
    """The header of a safetensors file and the bytes behind it."""
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    return json.loads(data[8 : 8 + length]), data[8 + length :]


def write_tensors(path: Path, header: Header | str, body: bytes) -> None:
    """A safetensors file, whatever its header says."""
    text = (header if isinstance(header, str) else json.dumps(header)).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + body)


def header(change: Callable[[Header], Any], name: str = WEIGHTS) -> Spoil:
    """Change the header of a safetensors file."""

    def spoil(folder: Path) -> None:
        entries, body = read_tensors(folder / name)
        change(entries)
        write_tensors(folder / name, entries, body)

    return spoil


def entry(**changes: Any) -> Spoil:
    """Change what the header says of the word table."""
    return header(lambda entries: entries[TABLE].update(changes))


def number(value: float, name: str = WEIGHTS, at: int = -4) -> Spoil:
    """Put another number among the weights."""

    def spoil(folder: Path) -> None:
        data = bytearray((folder / name).read_bytes())
        place = at % len(data)
        data[place : place + 4] = np.float32(value).tobytes()
        (folder / name).write_bytes(bytes(data))

    return spoil


def outside(folder: Path) -> Path:
    """A place beside the model folder, with a secret in it."""
    place = folder.parent / "outside"
    place.mkdir(exist_ok=True)
    (place / "secret.txt").write_text(SECRET, encoding="utf-8")
    return place


def to_secret(name: str) -> Spoil:
    """A link to a file outside that is no model file."""

    def spoil(folder: Path) -> None:
        (folder / name).unlink(missing_ok=True)
        (folder / name).symlink_to(outside(folder) / "secret.txt")

    return spoil


def moved_out(name: str) -> Spoil:
    """The valid file itself, outside, with a link in its place: a reader that follows the link would succeed."""

    def spoil(folder: Path) -> None:
        kept = outside(folder) / Path(name).name
        shutil.move(folder / name, kept)
        (folder / name).symlink_to(kept)

    return spoil
