"""Mutations of files: bytes, lines, JSON, safetensors headers, and replacements such as links and pipes."""

from __future__ import annotations

import json
import os
import random
import struct
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

SECRET = "the-secret-of-the-planted-file"
NUMBERS = (
    0,
    1,
    -1,
    2,
    3,
    4,
    5,
    7,
    8,
    9,
    16,
    63,
    64,
    65,
    127,
    128,
    255,
    256,
    1023,
    1024,
    65_535,
    65_536,
    2**24,
    2**31 - 1,
    2**31,
    2**32,
    2**53,
    2**63 - 1,
    2**63,
    2**64,
    10**9,
    10**12,
    10**30,
    -(10**12),
    10**400,
    0.0,
    -0.0,
    0.5,
    1.5,
    1e-300,
    1e308,
    -1e308,
    float("nan"),
    float("inf"),
    float("-inf"),
)
TEXTS = (
    "",
    " ",
    "a",
    "the",
    "##",
    "\x00",
    "a\nb",
    "\x1b[2J",
    "\ud800",
    "\U0001f600",
    "▁",
    "Ġ",
    "[MASK]",
    "<mask>",
    "</s>",
    "..",
    "../secret.txt",
    "../../secret.txt",
    "/etc/passwd",
    "\\\\host\\share",
    "config.json",
    "model.safetensors",
    "x" * 5000,
    "os.system",
    "__import__",
    "gelu",
    "float32",
    "F16",
    "BF16",
    "I64",
    "bert",
    "t5",
    "gpt2",
    "albert",
    "Sequence",
    "Split",
    "Precompiled",
    "Metaspace",
    "ByteLevel",
    "Whitespace",
    "Digits",
    "Replace",
    "Strip",
    "NFKC",
    "Lowercase",
    "Prepend",
    "TemplateProcessing",
    "BertProcessing",
    "RobertaProcessing",
    "ByteFallback",
    "Fuse",
    "WordPiece",
    "BPE",
    "Unigram",
    "WordLevel",
    "BertTokenizer",
    "T5TokenizerFast",
    "PreTrainedTokenizerFast",
    "MarianTokenizer",
    "LlamaTokenizer",
    "(a+)+$",
    "((",
    "(?=.*)",
    "\\p{L}+",
    ".{1,1000}{1,1000}",
    "left",
    "right",
)
PATTERN = {"type": "Split", "pattern": {"Regex": "(a|a)*b"}, "behavior": "Isolated", "invert": False}
SHAPES: tuple[Any, ...] = (None, True, False, [], {}, [[]], [None], {"a": 1}, {"": {}}, [0] * 300, PATTERN)

Rng = random.Random
Doc = dict[str, Any] | list[Any]


def damage(data: bytes, rng: Rng) -> bytes:
    """Flip, cut, insert or repeat bytes, regardless of the format."""
    position = rng.randrange(len(data) + 1)
    kind = rng.randrange(7)
    if kind == 0 or not data:
        return data[:position] + rng.randbytes(rng.choice((1, 2, 8, 64))) + data[position:]
    if kind == 1:
        return data[:position]
    if kind == 2:
        return data[:position] + data[position + rng.choice((1, 2, 8, 200)) :]
    if kind == 3:
        return (
            data[:position]
            + data[position : position + rng.choice((4, 64, 500))] * rng.choice((2, 20))
            + data[position:]
        )
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 8, 40))):
        index = rng.randrange(len(changed))
        changed[index] = rng.choice((changed[index] ^ 1 << rng.randrange(8), rng.randrange(256), 0, 0xFF, 0x22, 0x7B))
    return bytes(changed)


def mutate_lines(data: bytes, rng: Rng) -> bytes:
    """Delete, repeat, shuffle or replace lines of a vocabulary or of merges."""
    lines = data.split(b"\n")
    for _ in range(rng.choice((1, 1, 3, 30))):
        index = rng.randrange(len(lines))
        kind = rng.randrange(6)
        if kind == 0 and len(lines) > 1:
            del lines[index]
        elif kind == 1:
            lines.insert(index, lines[rng.randrange(len(lines))])
        elif kind == 2:
            rng.shuffle(lines)
        else:
            lines[index] = rng.choice(TEXTS).encode("utf-8", "replace") + rng.choice(
                (b"", b" a", b" a b", b"\r", b"\xff")
            )
    return b"\n".join(lines)


def draw_odd_value(rng: Rng) -> Any:
    """Draw an unusual value."""
    return deepcopy(
        rng.choice(rng.choice((NUMBERS, NUMBERS, TEXTS, SHAPES)))
    )  # later mutations must not change the constants


def list_containers(value: Any) -> list[Doc]:
    """List all objects and lists in a JSON value, outermost first."""
    containers = [value] if isinstance(value, dict | list) else []
    for container in containers:
        children = container.values() if isinstance(container, dict) else container[:200]
        containers.extend(child for child in children if isinstance(child, dict | list))
        if len(containers) > 2000:
            break
    return containers


def change_value(value: Any, rng: Rng) -> None:
    """Change a random position of a JSON value, with a preference for shallow ones."""
    containers = [container for container in list_containers(value) if container]
    if not containers:
        return
    container = containers[min(int(len(containers) * rng.random() ** 2), len(containers) - 1)]
    key: Any = rng.choice(list(container)) if isinstance(container, dict) else rng.randrange(len(container))
    old_value = container[key]
    kind = rng.randrange(14)
    if kind == 0:
        del container[key]
    elif kind == 1 and isinstance(container, dict):
        container[rng.choice((*TEXTS, "auto_map", "trust_remote_code", "vocab_file"))] = container.pop(key)
    elif kind == 2 and isinstance(container, dict):
        container[rng.choice((f"{key}_", "auto_map", "added_tokens_decoder", "extra_special_tokens"))] = draw_odd_value(
            rng
        )
    elif kind == 3 and isinstance(container, list):
        container.insert(key, old_value if rng.random() < 0.5 else draw_odd_value(rng))
    elif kind in (4, 5, 8, 9) and isinstance(old_value, int | float) and abs(old_value) < 1e300:
        container[key] = rng.choice(
            (
                old_value + 1,
                old_value - 1,
                old_value * 2,
                old_value // 2,
                -old_value,
                abs(old_value),
                str(old_value),
                bool(old_value),
            )
        )
    elif kind in (8, 9) and isinstance(old_value, str):
        container[key] = rng.choice((old_value + "x", old_value[1:], old_value.upper(), old_value * 2, old_value[::-1]))
    elif kind == 6:
        other_container = rng.choice(containers)
        container[key] = rng.choice(
            list(other_container.values()) if isinstance(other_container, dict) else other_container
        )
    elif kind == 7:
        container[key] = rng.choice(([old_value], {"content": old_value}, [old_value] * 50, {str(key): old_value}))
    else:
        container[key] = draw_odd_value(rng)


def encode_json(value: Any, rng: Rng) -> bytes:
    """Encode JSON, occasionally with a duplicate key, deep nesting or a very long number."""
    try:
        text = json.dumps(value)
    except ValueError:  # the value contains itself
        return b'{"circle": true}'
    kind = rng.randrange(14)
    position = text.find("{", rng.randrange(len(text))) + 1
    if kind == 0 and position:
        key = json.dumps(rng.choice(list(value) or [""]) if isinstance(value, dict) else "a")
        comma = "" if text[position : position + 1] == "}" else ","
        return f"{text[:position]}{key}: {json.dumps(draw_odd_value(rng))}{comma}{text[position:]}".encode()
    if kind == 1 and position:
        depth = rng.choice((30, 70, 300, 900, 20_000))
        comma = "" if text[position : position + 1] == "}" else ","
        return f'{text[:position]}"deep": {"[" * depth}{"]" * depth}{comma}{text[position:]}'.encode()
    if kind == 2:
        return text.replace("1", "1" * rng.choice((20, 300, 5000)), 1).encode()
    return text.encode(rng.choice(("utf-8", "utf-8", "utf-8", "utf-8-sig", "utf-16")))


def mutate_json(data: bytes, rng: Rng) -> bytes:
    """Change one or a few values of a JSON file."""
    value = json.loads(data)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        change_value(value, rng)
    return encode_json(value, rng)


def mutate_tensors(data: bytes, rng: Rng) -> bytes:
    """Change the header of a safetensors file, or insert NaN, infinite and extreme weights."""
    length = int.from_bytes(data[:8], "little")
    header, body = json.loads(data[8 : 8 + length]), data[8 + length :]
    kind = rng.randrange(8)
    if kind == 0:
        size = rng.choice((0, 1, length - 1, length + 1, len(data), 2**31, 2**63, 2**64 - 1))
        return size.to_bytes(8, "little") + data[8:]
    if kind == 1 and body:
        weights = bytearray(body)
        bad_value = rng.choice((float("nan"), float("inf"), 3e38, 1e-44, 0.0))
        for _ in range(rng.choice((1, 5, 500))):
            struct.pack_into("<f", weights, rng.randrange(len(weights) // 4) * 4, bad_value)
        return data[: 8 + length] + bytes(weights)
    names = [name for name in header if name != "__metadata__"]
    name = rng.choice(names)
    if kind == 2:
        header[rng.choice((*TEXTS, *names, name + "_", name.replace("weight", "gamma")))] = header.pop(name)
    elif kind == 3:
        header[name]["dtype"] = rng.choice(("F64", "F16", "BF16", "I64", "I32", "U8", "BOOL", "F8_E4M3", 7, None))
    elif kind == 4:
        shape = header[name]["shape"]
        header[name]["shape"] = rng.choice(([], [0], shape[::-1], [*shape, 1], [1, *shape], [-1, *shape], [2**40] * 3))
    elif kind == 5:
        start, stop = header[name]["data_offsets"]
        offset = rng.choice((start + 1, start - 1, 0, stop, 2**62, -4))
        header[name]["data_offsets"] = rng.choice(([offset, stop], [start, offset], [stop, start], [start, stop + 4]))
    else:
        change_value(header, rng)
    text = encode_json(header, rng)
    return len(text).to_bytes(8, "little") + text + body


Mutation = Callable[[bytes, Rng], bytes]


def list_mutations(path: Path) -> list[tuple[str, Mutation]]:
    """List the mutations for a file name; format-aware ones are listed several times, so they are drawn more often."""
    blind: list[tuple[str, Mutation]] = [("bytes", damage)]
    if path.suffix == ".json":
        return blind + [("json", mutate_json)] * 4
    if path.suffix == ".safetensors":
        return blind + [("header", mutate_tensors)] * 3
    if path.suffix == ".txt":
        return blind + [("lines", mutate_lines)] * 2
    return blind


def _delete(path: Path, _outside: Path) -> None:
    path.unlink()


def _truncate(path: Path, _outside: Path) -> None:
    path.unlink()
    path.touch()


def _replace_by_folder(path: Path, _outside: Path) -> None:
    path.unlink()
    path.mkdir()


def _replace_by_pipe(path: Path, _outside: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def _link_outside(path: Path, outside: Path) -> None:
    """Move the valid file outside and link to it: loading succeeds if the link is followed, which is a finding."""
    target = outside / f"outside-{path.name}"
    target.unlink(missing_ok=True)
    path.replace(target)
    path.symlink_to(target)


def _link_secret(path: Path, outside: Path) -> None:
    path.unlink()
    path.symlink_to("../" * (len(path.relative_to(outside).parts) - 1) + "secret.txt")


def _link_to_itself(path: Path, _outside: Path) -> None:
    path.unlink()
    path.symlink_to(path.name)


FILE_REPLACEMENTS: dict[str, Callable[[Path, Path], None]] = {
    "gone": _delete,
    "empty": _truncate,
    "folder": _replace_by_folder,
    "pipe": _replace_by_pipe,
    "link out": _link_outside,
    "link to the secret": _link_secret,
    "link in a circle": _link_to_itself,
}
