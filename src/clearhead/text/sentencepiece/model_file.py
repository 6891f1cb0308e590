"""Parse SentencePiece model files directly from their protobuf bytes, without the `protobuf` library."""

from __future__ import annotations

import itertools
import math
import struct
from collections.abc import Iterator
from dataclasses import dataclass

from clearhead.errors import TokenizerError

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = 1, 2, 3, 4, 5, 6
UNIGRAM, BPE = 1, 2
TRAINER_FIELDS, NORMALIZER_FIELDS = (3, 24, 35, 40), (2, 3, 4, 5)  # the fields used below

MAX_MODEL_BYTES = 64 << 20  # XLM-V's file, with 900,000 pieces, has less than a third
MAX_PIECES = 1_000_000
MAX_PIECE_CHARACTERS = 16_000_000  # of all pieces in total
MAX_FIELDS = 5_000_000  # per file; a piece counts as four fields
MAX_ADDED_TOKENS = 200_000  # added tokens and control or user-defined pieces, which are searched for in every text
MAX_PIECE_LENGTH = 512  # characters, as in SentencePiece's trainer; bounds the lookups at each position of a text


@dataclass(frozen=True, slots=True, kw_only=True)
class SentencePiece:
    """An entry of the vocabulary."""

    text: str
    score: float
    kind: int


@dataclass(frozen=True, kw_only=True)
class SentencePieceModel:
    """Contents of a SentencePiece file, with the defaults of the format."""

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
    """Parse a SentencePiece model."""
    if len(data) > MAX_MODEL_BYTES:
        raise TokenizerError(f"{name} has {len(data):,} bytes, more than the maximum of {MAX_MODEL_BYTES:,}.")
    pieces: list[SentencePiece] = []
    field_counter = itertools.count(1)
    trainer_fields: dict[int, int | bytes] = {}
    normalizer_fields: dict[int, int | bytes] = {}
    for field, value in _iter_fields(data, name, field_counter):
        if field == 1 and isinstance(value, bytes):
            pieces.append(_parse_piece(value, name, len(pieces), field_counter))
        elif field == 2 and isinstance(value, bytes):
            trainer_fields.update(
                (key, field_value)
                for key, field_value in _iter_fields(value, name, field_counter)
                if key in TRAINER_FIELDS
            )
        elif field == 3 and isinstance(value, bytes):
            normalizer_fields.update(
                (key, field_value)
                for key, field_value in _iter_fields(value, name, field_counter)
                if key in NORMALIZER_FIELDS
            )
    _check_sizes(pieces, name)
    unk_id = _get_integer(trainer_fields, 40, 0, name)
    charsmap = normalizer_fields.get(2, b"")
    if not isinstance(charsmap, bytes):
        raise TokenizerError(f"{name}: the normalization table is corrupt.")
    return SentencePieceModel(
        pieces=pieces,
        model_type=_get_integer(trainer_fields, 3, UNIGRAM, name),
        byte_fallback=bool(_get_integer(trainer_fields, 35, 0, name)),
        whitespace_is_suffix=bool(_get_integer(trainer_fields, 24, 0, name)),
        unk_id=unk_id,
        charsmap=charsmap,
        add_dummy_prefix=bool(_get_integer(normalizer_fields, 3, 1, name)),
        remove_extra_whitespaces=bool(_get_integer(normalizer_fields, 4, 1, name)),
        escape_whitespaces=bool(_get_integer(normalizer_fields, 5, 1, name)),
    )


def _check_sizes(pieces: list[SentencePiece], name: str) -> None:
    if not pieces:
        raise TokenizerError(f"{name} is not a SentencePiece model (no pieces found).")
    if (size := sum(len(piece.text) for piece in pieces)) > MAX_PIECE_CHARACTERS:
        raise TokenizerError(
            f"{name}: the pieces have {size:,} characters, more than the maximum of {MAX_PIECE_CHARACTERS:,}."
        )
    if (special_count := sum(piece.kind in (CONTROL, USER_DEFINED) for piece in pieces)) > MAX_ADDED_TOKENS:
        raise TokenizerError(
            f"{name} has {special_count:,} control and user-defined pieces, more than {MAX_ADDED_TOKENS:,}."
        )


def _parse_piece(data: bytes, name: str, index: int, field_counter: Iterator[int]) -> SentencePiece:
    text, score, kind = b"", 0.0, NORMAL
    if index >= MAX_PIECES:
        raise TokenizerError(f"{name} has more than {MAX_PIECES:,} pieces.")
    for field, value in _iter_fields(data, name, field_counter):
        if field == 1 and isinstance(value, bytes):
            text = value
        elif field == 2 and isinstance(value, bytes) and len(value) == 4:
            (score,) = struct.unpack("<f", value)
        elif field == 3 and isinstance(value, int):
            kind = value
    if not math.isfinite(score):
        raise TokenizerError(f"{name}: the score of piece {index} must be finite, got {score}.")
    try:
        decoded = text.decode()
    except UnicodeDecodeError as error:
        raise TokenizerError(f"{name}: piece {index} is not UTF-8 text.") from error
    if len(decoded) > MAX_PIECE_LENGTH:
        raise TokenizerError(
            f"{name}: piece {index} has {len(decoded):,} characters, more than the maximum of {MAX_PIECE_LENGTH}."
        )
    return SentencePiece(text=decoded, score=score, kind=kind)


def _get_integer(fields: dict[int, int | bytes], key: int, default: int, name: str) -> int:
    value = fields.get(key, default)
    if not isinstance(value, int):
        raise TokenizerError(f"{name}: field {key} must be a number.")
    return value - 2**64 if value >= 2**63 else value  # negative numbers are encoded as 64 bits


def _iter_fields(data: bytes, name: str, field_counter: Iterator[int]) -> Iterator[tuple[int, int | bytes]]:
    """Yield the fields of a message: numbers as int, all others as bytes. The counter limits the fields of the file."""
    position = 0
    while position < len(data):
        if next(field_counter) > MAX_FIELDS:
            raise TokenizerError(f"{name} has more than {MAX_FIELDS:,} fields.")
        tag, position = _read_varint(data, position, name)
        field, wire_type = tag >> 3, tag & 7
        if wire_type == 0:
            number, position = _read_varint(data, position, name)
            yield field, number
            continue
        if wire_type == 2:
            size, position = _read_varint(data, position, name)
        else:
            size = {1: 8, 5: 4}.get(wire_type, -1)
        if field == 0 or size < 0 or position + size > len(data):
            raise TokenizerError(
                f"{name} is not a SentencePiece model, or is corrupt near byte {position} of a message."
            )
        yield field, data[position : position + size]
        position += size


def _read_varint(data: bytes, position: int, name: str) -> tuple[int, int]:
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
    raise TokenizerError(f"{name} is not a SentencePiece model, or is truncated near byte {position} of a message.")
