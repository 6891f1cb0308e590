"""Small valid model folders, and functions that damage them in one way."""

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
EMBEDDINGS = "bert.embeddings.word_embeddings.weight"

Damage = Callable[[Path], None]
Header = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class HostileCase:
    """A defect of a seed folder, with the expected error and words of its message."""

    name: str
    damage: Damage
    error: type[ClearheadError]
    words: tuple[str, ...]
    seed: str = "bert"


def write_vocabulary(folder: Path) -> Tokenizer:
    """Write a small vocab.txt and return its tokenizer."""
    folder.mkdir(parents=True, exist_ok=True)
    special = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
    letters = string.ascii_lowercase + ".,!?'-"
    tokens = [*special, *letters, *(f"##{letter}" for letter in letters), "the", "cat", "sat"]
    (folder / "vocab.txt").write_text("\n".join(tokens) + "\n", encoding="utf-8")
    return load_tokenizer(folder, "bert", {}).source


def save_bert(folder: Path) -> None:
    """Save a classifier with a tokenizer.json and a passport."""
    tokenizer = write_vocabulary(folder.parent / "vocabulary")
    clearhead.create("bert", config=BERT, head="classify", tokenizer=tokenizer, device="cpu").save(folder)


def save_legacy(folder: Path) -> None:
    """Save the classifier with vocab.txt only, without a passport."""
    save_bert(folder)
    write_vocabulary(folder)
    for name in ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "clearhead.json"):
        (folder / name).unlink()


def save_shards(folder: Path) -> None:
    """Save the classifier in several shards."""
    save_bert(folder)
    clearhead.load(folder, device="cpu").save(folder, shard_bytes=4000)


def save_sentence_encoder(folder: Path) -> None:
    """Save a sentence-transformers folder with mean pooling, a dense layer and normalization."""
    tokenizer = write_vocabulary(folder.parent / "vocabulary")
    model = clearhead.create("bert", config=BERT, tokenizer=tokenizer, device="cpu")
    model.pooling = Pooling(dense=(DenseShape(inputs=16, outputs=4),), normalize=True, origin="modules.json")
    weight = np.linspace(-1, 1, 64, dtype=np.float32).reshape(4, 16)
    model.dense = ({"weight": weight, "bias": np.zeros(4, np.float32)},)
    model.save(folder)


SEEDS: dict[str, Damage] = {
    "bert": save_bert,
    "legacy": save_legacy,
    "shards": save_shards,
    "sentences": save_sentence_encoder,
}


def overwrite(name: str, data: bytes) -> Damage:
    """Replace the content of a file."""
    return lambda folder: _write(folder / name, data)


def _write(path: Path, data: bytes) -> None:
    path.write_bytes(data)


def make_sparse(name: str, size: int) -> Damage:
    """Replace a file with a sparse file of this size."""

    def damage(folder: Path) -> None:
        with (folder / name).open("wb") as file:
            file.truncate(size)

    return damage


def delete(*names: str) -> Damage:
    """Delete files."""

    def damage(folder: Path) -> None:
        for name in names:
            (folder / name).unlink()

    return damage


def edit_json(name: str, change: Callable[[Any], Any]) -> Damage:
    """Change the content of a JSON file in place, or return a new content."""

    def damage(folder: Path) -> None:
        path = folder / name
        content = json.loads(path.read_text("utf-8"))
        changed = change(content)
        path.write_text(json.dumps(content if changed is None else changed), encoding="utf-8")

    return damage


def set_keys(name: str, **changes: Any) -> Damage:
    """Set keys of a JSON file."""
    return edit_json(name, lambda content: content.update(changes))


def set_config(**changes: Any) -> Damage:
    """Set keys of config.json."""
    return set_keys("config.json", **changes)


def apply_all(*steps: Damage) -> Damage:
    """Apply several damages in order."""

    def damage(folder: Path) -> None:
        for step in steps:
            step(folder)

    return damage


def read_tensors(path: Path) -> tuple[Header, bytes]:
    """Read the header of a safetensors file and the bytes after it."""
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    return json.loads(data[8 : 8 + length]), data[8 + length :]


def write_tensors(path: Path, header: Header | str, body: bytes) -> None:
    """Write a safetensors file with any header."""
    text = (header if isinstance(header, str) else json.dumps(header)).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + body)


def edit_header(change: Callable[[Header], Any], name: str = WEIGHTS) -> Damage:
    """Change the header of a safetensors file."""

    def damage(folder: Path) -> None:
        entries, body = read_tensors(folder / name)
        change(entries)
        write_tensors(folder / name, entries, body)

    return damage


def edit_embeddings_entry(**changes: Any) -> Damage:
    """Change the header entry of the word embeddings."""
    return edit_header(lambda entries: entries[EMBEDDINGS].update(changes))


def write_number(value: float, name: str = WEIGHTS, at: int = -4) -> Damage:
    """Overwrite one value of the weights."""

    def damage(folder: Path) -> None:
        data = bytearray((folder / name).read_bytes())
        start = at % len(data)
        data[start : start + 4] = np.float32(value).tobytes()
        (folder / name).write_bytes(bytes(data))

    return damage


def make_outside_folder(folder: Path) -> Path:
    """Create a folder next to the model folder, with a secret file."""
    outside = folder.parent / "outside"
    outside.mkdir(exist_ok=True)
    (outside / "secret.txt").write_text(SECRET, encoding="utf-8")
    return outside


def link_to_secret(name: str) -> Damage:
    """Replace a file with a link to the secret file."""

    def damage(folder: Path) -> None:
        (folder / name).unlink(missing_ok=True)
        (folder / name).symlink_to(make_outside_folder(folder) / "secret.txt")

    return damage


def replace_by_link(name: str) -> Damage:
    """Move a valid file outside and link to it: a reader that follows the link would succeed."""

    def damage(folder: Path) -> None:
        target = make_outside_folder(folder) / Path(name).name
        shutil.move(folder / name, target)
        (folder / name).symlink_to(target)

    return damage
