"""Hostile SentencePiece files and vocabularies: built from scratch, or appended to a valid file."""

from __future__ import annotations

import json
import random
import struct
from collections.abc import Sequence
from typing import Any

Rng = random.Random
Row = tuple[str, float, int]  # text, score and kind of a piece

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, BYTE = 1, 2, 3, 4, 6
KINDS = (NORMAL, NORMAL, USER_DEFINED, USER_DEFINED, CONTROL, 5, BYTE, 0, 9)
UNIGRAM, BPE = 1, 2
PIECE_FIELD, TRAINER_FIELD, NORMALIZER_FIELD = 1, 2, 3
SPECIAL: list[Row] = [("<unk>", 0.0, UNKNOWN), ("<s>", 0.0, CONTROL), ("</s>", 0.0, CONTROL)]
SCORES = (0.0, -1.0, 1.0, -2e5, 2e5, 3e38, -3e38, 1e-45, float("nan"), float("inf"), float("-inf"))
IDS: tuple[Any, ...] = (
    -1,
    -(2**31),
    2**31 - 1,
    2**31,
    2**32 - 1,
    2**32,
    2**53,
    2**63,
    2**64,
    10**30,
    0,
    1,
    1.5,
    True,
    None,
    "1",
    [1],
    {},
)
TOKENS = ("", "a", "▁", "</s>", "\ud800", "\x00", "x" * 513, "x" * 100_000, "▁the", "<0x41>", "\u202egnp")


def encode_varint(value: int) -> bytes:
    """Encode an integer as a protobuf varint."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def encode_bytes_field(field: int, data: bytes) -> bytes:
    """Encode a protobuf field of bytes."""
    return encode_varint(field << 3 | 2) + encode_varint(len(data)) + data


def encode_number_field(field: int, value: int) -> bytes:
    """Encode a protobuf field of an integer."""
    return encode_varint(field << 3) + encode_varint(value)


def encode_piece(text: str, score: float = -1.0, kind: int = NORMAL) -> bytes:
    """Encode one entry of the vocabulary."""
    score_field = encode_varint(2 << 3 | 5) + struct.pack("<f", score)
    return encode_bytes_field(
        PIECE_FIELD, encode_bytes_field(1, text.encode("utf-8", "replace")) + score_field + encode_number_field(3, kind)
    )


def make_piece_file(
    rows: Sequence[Row], *, model: int = UNIGRAM, table: bytes = b"", byte_fallback: bool = False
) -> bytes:
    """Encode a complete SentencePiece model that starts with the usual special pieces."""
    trainer = encode_number_field(3, model) + encode_number_field(35, int(byte_fallback))
    return (
        b"".join(encode_piece(*row) for row in [*SPECIAL, *rows])
        + encode_bytes_field(TRAINER_FIELD, trainer)
        + encode_bytes_field(NORMALIZER_FIELD, encode_bytes_field(2, table))
    )


def make_growing_table(letter: str, replacement: bytes) -> bytes:
    """Build a normalization table with one rule for one ASCII letter."""
    units = [0] * 512
    units[0] = 1 << 10
    node = 1 ^ ord(letter)
    units[node] = ord(letter) | 1 << 8 | 256 << 10
    units[node ^ 256] = 0x80000000
    return _pack_table(units, replacement + b"\0")


def make_cyclic_table(letter: str, *, has_rules: bool = True) -> bytes:
    """Build a normalization table with a cyclic trie: endless matches of a letter, or an endless walk without any."""
    units = [0] * 1024
    units[0] = 1 << 10
    node = 1 ^ ord(letter)
    units[node] = ord(letter) | has_rules << 8 | 512 << 10
    inner_node = node ^ 512
    units[inner_node ^ ord(letter)] = ord(letter) | has_rules << 8 | ord(letter) << 10
    units[inner_node] = 0x80000000
    return _pack_table(units, b"z\0")


def _pack_table(units: list[int], replacements: bytes) -> bytes:
    return struct.pack("<I", len(units) * 4) + struct.pack(f"<{len(units)}I", *units) + replacements


def mutate_pieces(data: bytes, rng: Rng) -> bytes:
    """Append slow, large or invalid fields to a SentencePiece file; the last field of a kind counts."""
    for _ in range(rng.choice((1, 1, 2, 3))):
        data += _make_addition(rng)
    return data


def _make_addition(rng: Rng) -> bytes:
    letter, kind = rng.choice("ae!▁ ㍿"), rng.choice(KINDS)
    count = rng.choice((2, 16, 64, 512, 513, 20_000))
    kind_index = rng.randrange(10)
    if kind_index == 0:  # one long piece
        return encode_piece(letter * rng.choice((511, 512, 513, 5_000, 60_000)), rng.choice(SCORES), kind)
    if kind_index == 1:  # all prefixes of one piece
        return b"".join(
            encode_piece(letter * size, rng.choice((-1.0, -float(size))), kind) for size in range(1, count % 600)
        )
    if kind_index == 2:  # pieces with the same first letter
        return b"".join(encode_piece(f"{letter}{index}", -1.0, kind) for index in range(count))
    if kind_index == 3:  # pieces with a long common prefix
        prefix = letter * rng.choice((10, 100, 500))
        return b"".join(encode_piece(f"{prefix}{index}", -1.0, kind) for index in range(min(count, 3_000)))
    if kind_index == 4:
        return b"".join(encode_piece(name, rng.choice(SCORES), kind) for name in ("a", "the", "▁", letter, "q"))
    if kind_index == 5:
        size = rng.choice((1, 8, 9, 500, 1_023, 1_024, 60_000))
        return encode_bytes_field(
            NORMALIZER_FIELD, encode_bytes_field(2, make_growing_table(rng.choice("ae! "), b"z" * size))
        )
    if kind_index == 6:
        damaged = (b"\0" * 5_000_000, b"\x04\0\0\0" + b"\xff" * 40, b"x")
        table = rng.choice((make_cyclic_table("a"), make_cyclic_table("!", has_rules=False), *damaged))
        return encode_bytes_field(NORMALIZER_FIELD, encode_bytes_field(2, table))
    if kind_index == 7:
        field, value = rng.choice((3, 24, 35, 40, 41)), rng.choice((0, 1, 2, 3, 4, 2**31, 2**63, 2**64 - 1))
        return encode_bytes_field(TRAINER_FIELD, encode_number_field(field, value))
    if kind_index == 8:
        return encode_bytes_field(NORMALIZER_FIELD, encode_number_field(rng.choice((3, 4, 5)), rng.choice((0, 1, 7))))
    return (
        rng.choice((encode_number_field(10, 0), encode_piece("", 0.0, kind), encode_piece("<0xZZ>", 0.0, BYTE))) * count
    )


def mutate_token_ids(data: bytes, rng: Rng) -> bytes:
    """Insert invalid ids or tokens into a vocab.json."""
    ids = json.loads(data)
    for _ in range(rng.choice((1, 1, 2, 5))):
        kind_index = rng.randrange(5)
        if kind_index == 0:
            ids[rng.choice(list(ids))] = rng.choice(IDS)
        elif kind_index == 1:
            ids[rng.choice(TOKENS)] = rng.choice((*IDS, len(ids)))
        elif kind_index == 2:
            ids.pop(rng.choice(("</s>", "<unk>", "<pad>", *list(ids)[:5])), None)
        elif kind_index == 3:
            first_id = len(ids)
            ids |= {f"{rng.choice('aq')}{index}": first_id + index for index in range(rng.choice((10, 30_000)))}
        else:
            ids = {token: index for index, token in enumerate(ids)} if rng.random() < 0.5 else dict.fromkeys(ids, 0)
        ids = ids or {"a": 0}
    return json.dumps(ids).encode()
