"""Defects of safetensors files and shard indexes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from clearhead.errors import CheckpointError, ClearheadError, TensorError, UnsafeError
from tests.checkpoint.hostile_folders import (
    EMBEDDINGS,
    INDEX,
    WEIGHTS,
    Damage,
    Header,
    HostileCase,
    delete,
    edit_embeddings_entry,
    edit_header,
    edit_json,
    make_sparse,
    overwrite,
    read_tensors,
    replace_by_link,
    set_config,
    write_number,
    write_tensors,
)

FIRST_SHARD = "model-00001-of-"
HUGE_SHAPE = (1 << 40,) * 3


def make_case(name: str, damage: Damage, *words: str, error: type[ClearheadError], **options: Any) -> HostileCase:
    """Return a case whose message names the file or a tensor."""
    return HostileCase(name=name, damage=damage, error=error, words=words or (WEIGHTS,), **options)


def declare_header_length(length: int) -> Damage:
    """Declare another header length."""

    def damage(folder: Path) -> None:
        data = (folder / WEIGHTS).read_bytes()
        (folder / WEIGHTS).write_bytes(length.to_bytes(8, "little") + data[8:])

    return damage


def write_header(header_text: str) -> Damage:
    """Write this text as the header."""
    return lambda folder: write_tensors(folder / WEIGHTS, header_text, b"\0" * 64)


def write_long_header(folder: Path) -> None:
    """Write a sparse file with an empty header of 99 MB."""
    with (folder / WEIGHTS).open("wb") as file:
        file.write((99 << 20).to_bytes(8, "little"))
        file.truncate(100 << 20)


def truncate(folder: Path) -> None:
    """Truncate the file to half its size."""
    data = (folder / WEIGHTS).read_bytes()
    (folder / WEIGHTS).write_bytes(data[: len(data) // 2])


def overlap_tensors(entries: Header) -> None:
    """Store two tensors in the same bytes."""
    entries["bert.encoder.layer.0.attention.self.key.weight"]["data_offsets"] = entries[
        "bert.encoder.layer.0.attention.self.query.weight"
    ]["data_offsets"]


def duplicate_name(folder: Path) -> None:
    """Write a name twice into the header."""
    entries, body = read_tensors(folder / WEIGHTS)
    header = json.dumps(entries)
    write_tensors(
        folder / WEIGHTS, header[:-1] + f", {json.dumps(EMBEDDINGS)}: {json.dumps(entries[EMBEDDINGS])}}}", body
    )


def store_two_spellings(folder: Path) -> None:
    """Store a tensor under its old and its new name with different values."""
    entries, body = read_tensors(folder / WEIGHTS)
    name = "bert.embeddings.LayerNorm.weight"
    size = entries[name]["data_offsets"][1] - entries[name]["data_offsets"][0]
    entries[name.replace("weight", "gamma")] = entries[name] | {"data_offsets": [len(body), len(body) + size]}
    write_tensors(folder / WEIGHTS, entries, body + b"\0\0\x40\x40" * (size // 4))


def drop_tensors(*names: str) -> Damage:
    """Remove tensors from the header."""
    return edit_header(lambda entries: [entries.pop(name) for name in names] and None)


def add_unknown_tensors(count: int, name: str) -> Damage:
    """Add empty tensors under unknown names."""
    empty = {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}
    return edit_header(lambda entries: entries.update({f"{name}{i}": empty for i in range(count)}))


def store_overflow(folder: Path) -> None:
    """Store a float64 value that overflows in float32."""
    import numpy as np

    entries, body = read_tensors(folder / WEIGHTS)
    values = np.full(2, 1e300).tobytes()
    entries["classifier.bias"] = {"dtype": "F64", "shape": [2], "data_offsets": [len(body), len(body) + len(values)]}
    write_tensors(folder / WEIGHTS, entries, body + values)


UNSAFE_CASES = (
    make_case("weights empty", overwrite(WEIGHTS, b""), error=UnsafeError),
    make_case("weights of four bytes", overwrite(WEIGHTS, b"\1\0\0\0"), error=UnsafeError),
    make_case("weights cut off", truncate, error=UnsafeError),
    make_case("weights all zero", make_sparse(WEIGHTS, 1 << 40), error=CheckpointError),
    make_case("header of 2^63 bytes", declare_header_length(1 << 63), WEIGHTS, "header", error=UnsafeError),
    make_case("header longer than the file", declare_header_length(1 << 20), WEIGHTS, "header", error=UnsafeError),
    make_case("header of 99 MB", write_long_header, WEIGHTS, "header", error=UnsafeError),
    make_case("tensors overlap", edit_header(overlap_tensors), WEIGHTS, "same bytes", error=UnsafeError),
    make_case(
        "offsets beyond the file",
        edit_embeddings_entry(data_offsets=[0, 1 << 50]),
        WEIGHTS,
        EMBEDDINGS,
        error=UnsafeError,
    ),
    make_case("offsets backwards", edit_embeddings_entry(data_offsets=[64, 0]), WEIGHTS, EMBEDDINGS, error=UnsafeError),
    make_case(
        "offsets and sizes disagree", edit_embeddings_entry(shape=[3, 3]), WEIGHTS, EMBEDDINGS, error=UnsafeError
    ),
    make_case("a huge size", edit_embeddings_entry(shape=HUGE_SHAPE), WEIGHTS, EMBEDDINGS, error=UnsafeError),
    make_case(
        "a huge size of an empty tensor",
        edit_embeddings_entry(shape=[0, 1 << 59], data_offsets=[0, 0]),
        EMBEDDINGS,
        error=TensorError,
    ),
)
HEADER_CASES = (
    make_case("no weights at all", delete(WEIGHTS), error=CheckpointError),
    make_case("header not JSON", write_header("{nothing"), WEIGHTS, "header", error=CheckpointError),
    make_case("header a list", write_header("[1]"), WEIGHTS, "header", error=CheckpointError),
    make_case("header deep", write_header('{"a":' * 100_000), WEIGHTS, "header", error=CheckpointError),
    make_case("header with a name twice", duplicate_name, WEIGHTS, "duplicate", error=CheckpointError),
    make_case("sizes below zero", edit_embeddings_entry(shape=[-1, 16]), WEIGHTS, EMBEDDINGS, error=CheckpointError),
    make_case(
        "sizes that are not numbers",
        edit_embeddings_entry(shape=[True, "16"]),
        WEIGHTS,
        EMBEDDINGS,
        error=CheckpointError,
    ),
    make_case("too many dimensions", edit_embeddings_entry(shape=[1] * 40), WEIGHTS, EMBEDDINGS, error=CheckpointError),
    make_case("offsets missing", edit_embeddings_entry(data_offsets=None), WEIGHTS, EMBEDDINGS, error=CheckpointError),
    make_case(
        "an entry that is a string",
        edit_header(lambda e: e.update({EMBEDDINGS: "F32"})),
        WEIGHTS,
        EMBEDDINGS,
        error=CheckpointError,
    ),
    make_case(
        "unknown number type", edit_embeddings_entry(dtype="F31"), WEIGHTS, EMBEDDINGS, "F31", error=CheckpointError
    ),
    make_case("number type a list", edit_embeddings_entry(dtype=["F32"]), WEIGHTS, EMBEDDINGS, error=CheckpointError),
    make_case(
        "a name with control characters",
        edit_header(lambda e: e.update({"\x1b[2J\n": 1})),
        WEIGHTS,
        error=CheckpointError,
    ),
)
TENSOR_CASES = (
    make_case("integers for weights", edit_embeddings_entry(dtype="I32"), EMBEDDINGS, "I32", error=TensorError),
    make_case(
        "a scalar for a table",
        edit_embeddings_entry(shape=[], data_offsets=[0, 4]),
        EMBEDDINGS,
        error=TensorError,
    ),
    make_case("transposed dimensions", edit_embeddings_entry(shape=[16, 72]), EMBEDDINGS, error=TensorError),
    make_case("a NaN", write_number(float("nan")), "NaN", error=TensorError),
    make_case("an infinity", write_number(float("inf")), "infinity", error=TensorError),
    make_case("a negative infinity", write_number(float("-inf")), "infinity", error=TensorError),
    make_case("too large for single precision", store_overflow, "classifier.bias", "infinity", error=TensorError),
    make_case("one tensor missing", drop_tensors(EMBEDDINGS), EMBEDDINGS, error=TensorError),
    make_case(
        "thousands missing", set_config(num_hidden_layers=1000), "bert.encoder.layer.2.", "more", error=TensorError
    ),
    make_case("another vocabulary", set_config(vocab_size=66), EMBEDDINGS, error=TensorError),
    make_case("another width", set_config(hidden_size=32), EMBEDDINGS, error=TensorError),
    make_case(
        "another family",
        set_config(model_type="distilbert", architectures=None),
        "DistilBERT",
        EMBEDDINGS,
        error=TensorError,
    ),
    make_case("an unknown tensor", add_unknown_tensors(1, "backdoor"), "backdoor0", error=TensorError),
    make_case("thousands of unknown tensors", add_unknown_tensors(3000, "x" * 300), "more", error=TensorError),
    make_case(
        "unknown tensors with control characters", add_unknown_tensors(2, "a\nb\x1b[2J"), "a?b", error=TensorError
    ),
    make_case("two spellings that differ", store_two_spellings, "LayerNorm.gamma", error=TensorError),
)


def edit_weight_map(change: Any) -> Damage:
    """Change the weight_map of the index; `change` gets its first name and the map."""
    return edit_json(INDEX, lambda index: change(min(index["weight_map"]), index["weight_map"]))


def duplicate_tensor(folder: Path) -> None:
    """Store a tensor in two shards."""
    shards = sorted(folder.glob("model-*.safetensors"))
    header, body = read_tensors(shards[0])
    second_header, second_body = read_tensors(shards[1])
    name = next(name for name in header if name != "__metadata__")
    start, stop = header[name]["data_offsets"]
    end = len(second_body)
    second_header[name] = header[name] | {"data_offsets": [end, end + stop - start]}
    write_tensors(shards[1], second_header, second_body + body[start:stop])


def point_to_file(file_name: str) -> Damage:
    """Map one tensor to another file."""
    return edit_weight_map(lambda name, weight_map: weight_map.update({name: file_name}))


def duplicate_name_in_index(folder: Path) -> None:
    """Write a name twice into the index."""
    text = (folder / INDEX).read_text("utf-8")
    (folder / INDEX).write_text(text.replace('"weight_map": {', f'"weight_map": {{"{EMBEDDINGS}": "a.safetensors",'))


def delete_first_shard(folder: Path) -> None:
    """Delete the first shard."""
    next(folder.glob(f"{FIRST_SHARD}*")).unlink()


def link_first_shard(folder: Path) -> None:
    """Replace the first shard with a link to the same file outside."""
    replace_by_link(next(folder.glob(f"{FIRST_SHARD}*")).name)(folder)


def make_index_case(name: str, damage: Damage, *words: str, error: type[ClearheadError] = UnsafeError) -> HostileCase:
    """Return a case whose message names the index or a tensor."""
    return make_case(name, damage, *(words or (INDEX,)), error=error, seed="shards")


SHARD_CASES = (
    make_index_case("shard missing", delete_first_shard, INDEX, FIRST_SHARD, error=CheckpointError),
    make_index_case("shard above the folder", point_to_file("../outside.safetensors"), INDEX, "../outside"),
    make_index_case("shard with an absolute path", point_to_file("/tmp/outside.safetensors"), INDEX, "/tmp/outside"),
    make_index_case("shard in a subfolder", point_to_file("a/b.safetensors"), INDEX, "a/b"),
    make_index_case("shard that is a pickle", point_to_file("pytorch_model.bin"), INDEX, "pytorch_model.bin"),
    make_index_case("shard with half a surrogate", point_to_file("\ud800.safetensors"), "safetensors"),
    make_index_case("shard with a NUL", point_to_file("a\0.safetensors"), "safetensors"),
    make_index_case("shard with a long name", point_to_file("x" * 5000 + ".safetensors"), "xxx"),
    make_index_case("shard that is a link out", link_first_shard, FIRST_SHARD, "link"),
    make_index_case("a tensor in two shards", duplicate_tensor, "again in", error=TensorError),
    make_index_case("index without a map", edit_json(INDEX, lambda value: {"metadata": {}}), error=CheckpointError),
    make_index_case("index with a list", edit_json(INDEX, lambda value: {"weight_map": [1]}), error=CheckpointError),
    make_index_case(
        "index with numbers", edit_weight_map(lambda name, where: where.update({name: 7})), error=CheckpointError
    ),
    make_index_case("index with a name twice", duplicate_name_in_index, INDEX, "duplicate keys"),
    make_index_case(
        "index without a tensor",
        edit_weight_map(lambda name, where: where.pop(name) and None),
        INDEX,
        error=TensorError,
    ),
    make_index_case("index of 1 TB", make_sparse(INDEX, 1 << 40), INDEX, "bytes"),
)


def swap_shards(folder: Path) -> None:
    """Map a tensor to the wrong shard."""
    shards = sorted(path.name for path in folder.glob("model-*.safetensors"))
    index = json.loads((folder / INDEX).read_text("utf-8"))
    name = next(name for name, file in index["weight_map"].items() if file == shards[0])
    index["weight_map"][name] = shards[1]
    (folder / INDEX).write_text(json.dumps(index), encoding="utf-8")


CASES = (
    *UNSAFE_CASES,
    *HEADER_CASES,
    *TENSOR_CASES,
    *SHARD_CASES,
    make_index_case("index and shard disagree", swap_shards, INDEX, "disagree", error=TensorError),
    make_case(
        "another width and a single head",
        set_config(hidden_size=1 << 16, num_attention_heads=1),
        EMBEDDINGS,
        error=TensorError,
    ),
)
