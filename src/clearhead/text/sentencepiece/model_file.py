"""SentencePiece model files, read straight from their protobuf bytes: no generated code, no further dependency."""

from __future__ import annotations

import itertools
import math
import struct
from collections.abc import Iterator
from dataclasses import dataclass

from clearhead.errors import TokenizerError

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = 1, 2, 3, 4, 5, 6
UNIGRAM, BPE = 1, 2
TRAINER_FIELDS, NORMALIZER_FIELDS = (3, 24, 35, 40), (2, 3, 4, 5)  # those that are used below

MAX_MODEL_BYTES = 64 << 20  # of a file; that of XLM-V, with 900,000 pieces, has less than a third
MAX_PIECES = 1_000_000
MAX_PIECE_CHARACTERS = 16_000_000  # of all pieces together
MAX_FIELDS = 5_000_000  # of a file; a piece is one of them and has three
MAX_ADDED_TOKENS = 200_000  # added tokens, and pieces like them, that have all to be searched for in every text
MAX_PIECE_LENGTH = 512  # characters, as in SentencePiece's trainer: each place of a text is looked up to this length


@dataclass(frozen=True, slots=True, kw_only=True)
class SentencePiece:
    """One entry of the vocabulary."""

    text: str
    score: float
    kind: int


@dataclass(frozen=True, kw_only=True)
class SentencePieceModel:
    """What a SentencePiece file says, with the defaults of its format."""

    pieces: list[SentencePiece]
    model_type: int = UNIGRAM
    byte_fallback: bool = False
    whitespace_is_suffix: bool = False
    unk_id: int = 0
    charsmap: bytes = b""
    add_dummy_prefix: bool = True
    remove_extra_whitespaces: bool = True
    escape_whitespaces: bool = True


def parse_model(data: bytes, name: str) -> SentencePieceModel:
    """Read a SentencePiece model."""
    if len(data) > MAX_MODEL_BYTES:
        raise TokenizerError(f"{name} has {len(data):,} bytes, more than {MAX_MODEL_BYTES:,}")
    pieces: list[SentencePiece] = []
    count = itertools.count(1)
    trainer: dict[int, int | bytes] = {}
    normalizer: dict[int, int | bytes] = {}
    for field, value in _fields(data, name, count):
        if field == 1 and isinstance(value, bytes):
            pieces.append(_piece(value, name, len(pieces), count))
        elif field == 2 and isinstance(value, bytes):
            trainer.update((f, v) for f, v in _fields(value, name, count) if f in TRAINER_FIELDS)
        elif field == 3 and isinstance(value, bytes):
            normalizer.update((f, v) for f, v in _fields(value, name, count) if f in NORMALIZER_FIELDS)
    _check_sizes(pieces, name)
    unk_id = _number(trainer, 40, 0, name)
    charsmap = normalizer.get(2, b"")
    if not isinstance(charsmap, bytes):
        raise TokenizerError(f"{name}: the table of normalisation is damaged")
    return SentencePieceModel(
        pieces=pieces,
        model_type=_number(trainer, 3, UNIGRAM, name),
        byte_fallback=bool(_number(trainer, 35, 0, name)),
        whitespace_is_suffix=bool(_number(trainer, 24, 0, name)),
        unk_id=unk_id,
        charsmap=charsmap,
        add_dummy_prefix=bool(_number(normalizer, 3, 1, name)),
        remove_extra_whitespaces=bool(_number(normalizer, 4, 1, name)),
        escape_whitespaces=bool(_number(normalizer, 5, 1, name)),
    )


def _check_sizes(pieces: list[SentencePiece], name: str) -> None:
    if not pieces:
        raise TokenizerError(f"{name} holds no pieces: it is no SentencePiece model")
    if (size := sum(len(piece.text) for piece in pieces)) > MAX_PIECE_CHARACTERS:
        raise TokenizerError(f"{name}: the pieces have {size:,} characters, more than {MAX_PIECE_CHARACTERS:,}")
    if (added := sum(piece.kind in (CONTROL, USER_DEFINED) for piece in pieces)) > MAX_ADDED_TOKENS:
        raise TokenizerError(f"{name} holds {added:,} control and user-defined pieces, more than {MAX_ADDED_TOKENS:,}")


def _piece(data: bytes, name: str, index: int, count: Iterator[int]) -> SentencePiece:
    text, score, kind = b"", 0.0, NORMAL
    if index >= MAX_PIECES:
        raise TokenizerError(f"{name} holds more than {MAX_PIECES:,} pieces")
    for field, value in _fields(data, name, count):
        if field == 1 and isinstance(value, bytes):
            text = value
        elif field == 2 and isinstance(value, bytes) and len(value) == 4:
            (score,) = struct.unpack("<f", value)
        elif field == 3 and isinstance(value, int):
            kind = value
    if not math.isfinite(score):
        raise TokenizerError(f"{name}: the score of piece {index} is {score}")
    try:
        letters = text.decode()
    except UnicodeDecodeError as error:
        raise TokenizerError(f"{name}: piece {index} is not UTF-8 text") from error
    if len(letters) > MAX_PIECE_LENGTH:
        raise TokenizerError(f"{name}: piece {index} has {len(letters):,} characters, more than {MAX_PIECE_LENGTH}")
    return SentencePiece(text=letters, score=score, kind=kind)


def _number(fields: dict[int, int | bytes], key: int, default: int, name: str) -> int:
    value = fields.get(key, default)
    if not isinstance(value, int):
        raise TokenizerError(f"{name}: field {key} should be a number")
    return value - 2**64 if value >= 2**63 else value  # a negative number is written as 64 bits


def _fields(data: bytes, name: str, count: Iterator[int]) -> Iterator[tuple[int, int | bytes]]:
    """The fields of one message: numbers as int, everything else as the bytes it is; `count` counts those of a file."""
    position = 0
    while position < len(data):
        if next(count) > MAX_FIELDS:
            raise TokenizerError(f"{name} has more than {MAX_FIELDS:,} fields")
        tag, position = _varint(data, position, name)
        field, wire = tag >> 3, tag & 7
        if wire == 0:
            number, position = _varint(data, position, name)
            yield field, number
            continue
        if wire == 2:
            size, position = _varint(data, position, name)
        else:
            size = {1: 8, 5: 4}.get(wire, -1)
        if field == 0 or size < 0 or position + size > len(data):
            raise TokenizerError(f"{name} is no SentencePiece model, or is damaged near byte {position} of a message")
        yield field, data[position : position + size]
        position += size


def _varint(data: bytes, position: int, name: str) -> tuple[int, int]:
    if position < len(data) and data[position] < 0x80:  # most have one byte
        return data[position], position + 1
    value = 0
    for shift in range(0, 70, 7):
        if position >= len(data):
            break
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & (2**64 - 1), position
    raise TokenizerError(f"{name} is no SentencePiece model, or is cut off near byte {position} of a message")
