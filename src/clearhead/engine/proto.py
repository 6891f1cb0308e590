"""The ONNX file format by hand: the few messages that a graph needs, as bytes.

A model is nested protocol-buffer messages. Writing them takes a page and no dependency; a test reads them back with the
`onnx` package and its checker.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

TYPES = {
    "float32": 1,
    "uint8": 2,
    "int8": 3,
    "int32": 6,
    "int64": 7,
    "bool": 9,
    "float16": 10,
    "float64": 11,
}
IR_VERSION = 9
OPSETS = {"": 18, "com.microsoft": 1}
Attribute = int | float | str | Sequence[int] | Sequence[float]
Dims = Sequence[int | str]  # a side of a tensor is a number, or the name of one that may be any


def encode_varint(value: int) -> bytes:
    """A whole number in groups of seven bits; negative ones as 64 bits."""
    value &= (1 << 64) - 1
    made = bytearray()
    while value > 0x7F:
        made.append(value & 0x7F | 0x80)
        value >>= 7
    made.append(value)
    return bytes(made)


def encode_int(field: int, value: int) -> bytes:
    """A field that is a whole number."""
    return encode_varint(field << 3) + encode_varint(value)


def encode_bytes(field: int, value: bytes | str) -> bytes:
    """A field that is text, bytes or another message."""
    raw = value.encode() if isinstance(value, str) else value
    return encode_varint(field << 3 | 2) + encode_varint(len(raw)) + raw


def encode_node(op: str, inputs: Iterable[str], outputs: Iterable[str], name: str, **attributes: Attribute) -> bytes:
    """One operator; `domain` says whose."""
    domain = attributes.pop("domain", "")
    parts = [encode_bytes(1, one) for one in inputs] + [encode_bytes(2, one) for one in outputs]
    parts += [encode_bytes(3, name), encode_bytes(4, op)]
    parts += [encode_bytes(5, _encode_attribute(key, value)) for key, value in attributes.items()]
    return b"".join(parts) + (encode_bytes(7, str(domain)) if domain else b"")


def _encode_attribute(name: str, value: Attribute) -> bytes:
    head = encode_bytes(1, name)
    if isinstance(value, str):
        return head + encode_bytes(4, value) + encode_int(20, 3)
    if isinstance(value, int):
        return head + encode_int(3, value) + encode_int(20, 2)
    if isinstance(value, float):
        return head + _encode_float(2, value) + encode_int(20, 1)
    if all(isinstance(one, int) for one in value):
        return head + b"".join(encode_int(8, int(one)) for one in value) + encode_int(20, 7)
    return head + b"".join(_encode_float(7, one) for one in value) + encode_int(20, 6)


def _encode_float(field: int, value: float) -> bytes:
    return encode_varint(field << 3 | 5) + struct.pack("<f", value)


def encode_tensor(name: str, array: Any) -> bytes:
    """A constant with its numbers."""
    return _encode_tensor_header(name, array) + encode_bytes(9, array.tobytes())


def encode_external_tensor(name: str, array: Any, place: str, offset: int = 0) -> bytes:
    """A constant whose numbers lie elsewhere: in a file beside the model, or in memory under its name."""
    entries = {"location": place, "offset": str(offset), "length": str(array.nbytes)}
    listed = [encode_bytes(13, encode_bytes(1, key) + encode_bytes(2, value)) for key, value in entries.items()]
    return _encode_tensor_header(name, array) + b"".join(listed) + encode_int(14, 1)


def _encode_tensor_header(name: str, array: Any) -> bytes:
    return (
        b"".join(encode_int(1, side) for side in array.shape)
        + encode_int(2, TYPES[array.dtype.name])
        + encode_bytes(8, name)
    )


def encode_value_info(name: str, dtype: str, sides: Dims) -> bytes:
    """What goes in or comes out: its name, type and sides."""
    dims = [encode_bytes(1, encode_int(1, side) if isinstance(side, int) else encode_bytes(2, side)) for side in sides]
    return encode_bytes(1, name) + encode_bytes(
        2, encode_bytes(1, encode_int(1, TYPES[dtype]) + encode_bytes(2, b"".join(dims)))
    )


def encode_model(
    nodes: Iterable[bytes],
    constants: Iterable[bytes],
    inputs: Iterable[bytes],
    outputs: Iterable[bytes],
    *,
    version: str = "",
    notes: Mapping[str, str] | None = None,
    domains: Iterable[str] = OPSETS,
) -> bytes:
    """A whole model file."""
    graph = b"".join(
        [
            *(encode_bytes(1, one) for one in nodes),
            encode_bytes(2, "clearhead"),
            *(encode_bytes(5, one) for one in constants),
            *(encode_bytes(11, one) for one in inputs),
            *(encode_bytes(12, one) for one in outputs),
        ]
    )
    opsets = [encode_bytes(8, encode_bytes(1, domain) + encode_int(2, OPSETS[domain])) for domain in domains]
    said = [encode_bytes(14, encode_bytes(1, key) + encode_bytes(2, text)) for key, text in (notes or {}).items()]
    head = encode_int(1, IR_VERSION) + encode_bytes(2, "clearhead") + encode_bytes(3, version)
    return head + encode_bytes(7, graph) + b"".join(opsets) + b"".join(said)
