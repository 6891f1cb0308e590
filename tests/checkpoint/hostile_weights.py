"""What a safetensors file and an index of shards can say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from clearhead.errors import CheckpointError, ClearheadError, TensorError, UnsafeError
from tests.checkpoint.hostile_folders import (
    INDEX,
    TABLE,
    WEIGHTS,
    Header,
    Hostile,
    Spoil,
    config,
    edit,
    entry,
    gone,
    header,
    large,
    moved_out,
    number,
    raw,
    read_tensors,
    write_tensors,
)

FIRST = "model-00001-of-"
BIG = (1 << 40,) * 3


def case(name: str, spoil: Spoil, *words: str, error: type[ClearheadError], **more: Any) -> Hostile:
    """All of these name the file, or a tensor."""
    return Hostile(name=name, spoil=spoil, error=error, words=words or (WEIGHTS,), **more)


def promise(length: int) -> Spoil:
    """Another length of the header."""

    def spoil(folder: Path) -> None:
        data = (folder / WEIGHTS).read_bytes()
        (folder / WEIGHTS).write_bytes(length.to_bytes(8, "little") + data[8:])

    return spoil


def text(header_text: str) -> Spoil:
    """A header that is this text."""
    return lambda folder: write_tensors(folder / WEIGHTS, header_text, b"\0" * 64)


def long_header(folder: Path) -> None:
    """A header of 99 MB, all of it blank and none of it on the disk."""
    with (folder / WEIGHTS).open("wb") as file:
        file.write((99 << 20).to_bytes(8, "little"))
        file.truncate(100 << 20)


def cut(folder: Path) -> None:
    """Half of the file."""
    data = (folder / WEIGHTS).read_bytes()
    (folder / WEIGHTS).write_bytes(data[: len(data) // 2])


def overlap(entries: Header) -> None:
    """Two tensors in the same bytes."""
    entries["bert.encoder.layer.0.attention.self.key.weight"]["data_offsets"] = entries[
        "bert.encoder.layer.0.attention.self.query.weight"
    ]["data_offsets"]


def twice(folder: Path) -> None:
    """One name two times in the header."""
    entries, body = read_tensors(folder / WEIGHTS)
    once = json.dumps(entries)
    write_tensors(folder / WEIGHTS, once[:-1] + f", {json.dumps(TABLE)}: {json.dumps(entries[TABLE])}}}", body)


def two_spellings(folder: Path) -> None:
    """The same tensor under its old name and its new one, with other values."""
    entries, body = read_tensors(folder / WEIGHTS)
    name = "bert.embeddings.LayerNorm.weight"
    size = entries[name]["data_offsets"][1] - entries[name]["data_offsets"][0]
    entries[name.replace("weight", "gamma")] = entries[name] | {"data_offsets": [len(body), len(body) + size]}
    write_tensors(folder / WEIGHTS, entries, body + b"\0\0\x40\x40" * (size // 4))


def drop(*names: str) -> Spoil:
    """Take tensors out of the header."""
    return header(lambda entries: [entries.pop(name) for name in names] and None)


def strangers(count: int, name: str) -> Spoil:
    """Tensors without a number in them, under names that no family has."""
    empty = {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}
    return header(lambda entries: entries.update({f"{name}{i}": empty for i in range(count)}))


def as_double(folder: Path) -> None:
    """A number that single precision does not have."""
    import numpy as np

    entries, body = read_tensors(folder / WEIGHTS)
    numbers = np.full(2, 1e300).tobytes()
    entries["classifier.bias"] = {"dtype": "F64", "shape": [2], "data_offsets": [len(body), len(body) + len(numbers)]}
    write_tensors(folder / WEIGHTS, entries, body + numbers)


UNSAFE = (
    case("weights empty", raw(WEIGHTS, b""), error=UnsafeError),
    case("weights of four bytes", raw(WEIGHTS, b"\1\0\0\0"), error=UnsafeError),
    case("weights cut off", cut, error=UnsafeError),
    case("weights all zero", large(WEIGHTS, 1 << 40), error=CheckpointError),
    case("header of 2^63 bytes", promise(1 << 63), WEIGHTS, "header", error=UnsafeError),
    case("header longer than the file", promise(1 << 20), WEIGHTS, "header", error=UnsafeError),
    case("header of 99 MB", long_header, WEIGHTS, "header", error=UnsafeError),
    case("tensors overlap", header(overlap), WEIGHTS, "same bytes", error=UnsafeError),
    case("offsets beyond the file", entry(data_offsets=[0, 1 << 50]), WEIGHTS, TABLE, error=UnsafeError),
    case("offsets backwards", entry(data_offsets=[64, 0]), WEIGHTS, TABLE, error=UnsafeError),
    case("offsets and sizes disagree", entry(shape=[3, 3]), WEIGHTS, TABLE, error=UnsafeError),
    case("an absurd size", entry(shape=BIG), WEIGHTS, TABLE, error=UnsafeError),
    case("an absurd size of nothing", entry(shape=[0, 1 << 59], data_offsets=[0, 0]), TABLE, error=TensorError),
)
BROKEN = (
    case("no weights at all", gone(WEIGHTS), error=CheckpointError),
    case("header not JSON", text("{nothing"), WEIGHTS, "header", error=CheckpointError),
    case("header a list", text("[1]"), WEIGHTS, "header", error=CheckpointError),
    case("header deep", text('{"a":' * 100_000), WEIGHTS, "header", error=CheckpointError),
    case("header with a name twice", twice, WEIGHTS, "duplicate", error=CheckpointError),
    case("sizes below zero", entry(shape=[-1, 16]), WEIGHTS, TABLE, error=CheckpointError),
    case("sizes that are no numbers", entry(shape=[True, "16"]), WEIGHTS, TABLE, error=CheckpointError),
    case("too many sides", entry(shape=[1] * 40), WEIGHTS, TABLE, error=CheckpointError),
    case("offsets missing", entry(data_offsets=None), WEIGHTS, TABLE, error=CheckpointError),
    case("an entry that is a text", header(lambda e: e.update({TABLE: "F32"})), WEIGHTS, TABLE, error=CheckpointError),
    case("unknown number type", entry(dtype="F31"), WEIGHTS, TABLE, "F31", error=CheckpointError),
    case("number type a list", entry(dtype=["F32"]), WEIGHTS, TABLE, error=CheckpointError),
    case("a name of control letters", header(lambda e: e.update({"\x1b[2J\n": 1})), WEIGHTS, error=CheckpointError),
)
TENSORS = (
    case("whole numbers for weights", entry(dtype="I32"), TABLE, "I32", error=TensorError),
    case("a single number for a table", entry(shape=[], data_offsets=[0, 4]), TABLE, error=TensorError),
    case("sides turned round", entry(shape=[16, 72]), TABLE, error=TensorError),
    case("a NaN", number(float("nan")), "NaN", error=TensorError),
    case("an infinity", number(float("inf")), "infinity", error=TensorError),
    case("a negative infinity", number(float("-inf")), "infinity", error=TensorError),
    case("too large for single precision", as_double, "classifier.bias", "infinity", error=TensorError),
    case("one tensor missing", drop(TABLE), TABLE, error=TensorError),
    case("thousands missing", config(num_hidden_layers=1000), "bert.encoder.layer.2.", "more", error=TensorError),
    case("another vocabulary", config(vocab_size=66), TABLE, error=TensorError),
    case("another width", config(hidden_size=32), TABLE, error=TensorError),
    case("another family", config(model_type="distilbert", architectures=None), "DistilBERT", TABLE, error=TensorError),
    case("a stranger", strangers(1, "backdoor"), "backdoor0", error=TensorError),
    case("thousands of strangers", strangers(3000, "x" * 300), "more", error=TensorError),
    case("strangers with control letters", strangers(2, "a\nb\x1b[2J"), "a?b", error=TensorError),
    case("two spellings that differ", two_spellings, "LayerNorm.gamma", error=TensorError),
)


def shard(change: Any) -> Spoil:
    """Change the weight_map of the index: first name, all of the map."""
    return edit(INDEX, lambda value: change(min(value["weight_map"]), value["weight_map"]))


def shared_tensor(folder: Path) -> None:
    """One tensor in two shards."""
    files = sorted(folder.glob("model-*.safetensors"))
    entries, body = read_tensors(files[0])
    others, other_body = read_tensors(files[1])
    name = next(name for name in entries if name != "__metadata__")
    start, stop = entries[name]["data_offsets"]
    end = len(other_body)
    others[name] = entries[name] | {"data_offsets": [end, end + stop - start]}
    write_tensors(files[1], others, other_body + body[start:stop])


def point(to: str) -> Spoil:
    """Send one tensor to another file."""
    return shard(lambda name, where: where.update({name: to}))


def same_twice(folder: Path) -> None:
    """The index gives one name two files."""
    text = (folder / INDEX).read_text("utf-8")
    (folder / INDEX).write_text(text.replace('"weight_map": {', f'"weight_map": {{"{TABLE}": "a.safetensors",'))


def lose(folder: Path) -> None:
    """The first shard is gone."""
    next(folder.glob(f"{FIRST}*")).unlink()


def link(folder: Path) -> None:
    """The first shard is a link to its own content outside."""
    moved_out(next(folder.glob(f"{FIRST}*")).name)(folder)


def index(name: str, spoil: Spoil, *words: str, error: type[ClearheadError] = UnsafeError) -> Hostile:
    """These name the index, or a tensor of it."""
    return case(name, spoil, *(words or (INDEX,)), error=error, seed="shards")


SHARDS = (
    index("shard missing", lose, INDEX, FIRST, error=CheckpointError),
    index("shard above the folder", point("../outside.safetensors"), INDEX, "../outside"),
    index("shard with an absolute path", point("/tmp/outside.safetensors"), INDEX, "/tmp/outside"),
    index("shard in a subfolder", point("a/b.safetensors"), INDEX, "a/b"),
    index("shard that is a pickle", point("pytorch_model.bin"), INDEX, "pytorch_model.bin"),
    index("shard with half a surrogate", point("\ud800.safetensors"), "safetensors"),
    index("shard with a NUL", point("a\0.safetensors"), "safetensors"),
    index("shard with a long name", point("x" * 5000 + ".safetensors"), "xxx"),
    index("shard that is a link out", link, FIRST, "link"),
    index("a tensor in two shards", shared_tensor, "again in", error=TensorError),
    index("index without a map", edit(INDEX, lambda value: {"metadata": {}}), error=CheckpointError),
    index("index with a list", edit(INDEX, lambda value: {"weight_map": [1]}), error=CheckpointError),
    index("index with numbers", shard(lambda name, where: where.update({name: 7})), error=CheckpointError),
    index("index with a name twice", same_twice, INDEX, "twice"),
    index("index without a tensor", shard(lambda name, where: where.pop(name) and None), INDEX, error=TensorError),
    index("index vast", large(INDEX, 1 << 40), INDEX, "bytes"),
)


def swapped(folder: Path) -> None:
    """The index sends a tensor to the wrong shard."""
    files = sorted(path.name for path in folder.glob("model-*.safetensors"))
    value = json.loads((folder / INDEX).read_text("utf-8"))
    name = next(name for name, file in value["weight_map"].items() if file == files[0])
    value["weight_map"][name] = files[1]
    (folder / INDEX).write_text(json.dumps(value), encoding="utf-8")


CASES = (
    *UNSAFE,
    *BROKEN,
    *TENSORS,
    *SHARDS,
    index("index and shard disagree", swapped, INDEX, "disagree", error=TensorError),
    case("wide and narrow", config(hidden_size=1 << 16, num_attention_heads=1), TABLE, error=TensorError),
)
