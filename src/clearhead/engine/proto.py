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
Sides = Sequence[int | str]  # a side of a tensor is a number, or the name of one that may be any


def varint(value: int) -> bytes:
    """A whole number in groups of seven bits; negative ones as 64 bits."""
    value &= (1 << 64) - 1
    made = bytearray()
    while value > 0x7F:
        made.append(value & 0x7F | 0x80)
        value >>= 7
    made.append(value)
    return bytes(made)


def number(field: int, value: int) -> bytes:
    """A field that is a whole number."""
    return varint(field << 3) + varint(value)


def chunk(field: int, value: bytes | str) -> bytes:
    """A field that is text, bytes or another message."""
    raw = value.encode() if isinstance(value, str) else value
    return varint(field << 3 | 2) + varint(len(raw)) + raw


def node(op: str, inputs: Iterable[str], outputs: Iterable[str], name: str, **attributes: Attribute) -> bytes:
    """One operator; `domain` says whose."""
    domain = attributes.pop("domain", "")
    parts = [chunk(1, one) for one in inputs] + [chunk(2, one) for one in outputs]
    parts += [chunk(3, name), chunk(4, op)]
    parts += [chunk(5, _attribute(key, value)) for key, value in attributes.items()]
    return b"".join(parts) + (chunk(7, str(domain)) if domain else b"")


def _attribute(name: str, value: Attribute) -> bytes:
    head = chunk(1, name)
    if isinstance(value, str):
        return head + chunk(4, value) + number(20, 3)
    if isinstance(value, int):
        return head + number(3, value) + number(20, 2)
    if isinstance(value, float):
        return head + _real(2, value) + number(20, 1)
    if all(isinstance(one, int) for one in value):
        return head + b"".join(number(8, int(one)) for one in value) + number(20, 7)
    return head + b"".join(_real(7, one) for one in value) + number(20, 6)


def _real(field: int, value: float) -> bytes:
    return varint(field << 3 | 5) + struct.pack("<f", value)


def tensor(name: str, array: Any) -> bytes:
    """A constant with its numbers."""
    return _tensor_head(name, array) + chunk(9, array.tobytes())


def outside(name: str, array: Any, place: str, offset: int = 0) -> bytes:
    """A constant whose numbers lie elsewhere: in a file beside the model, or in memory under its name."""
    entries = {"location": place, "offset": str(offset), "length": str(array.nbytes)}
    listed = [chunk(13, chunk(1, key) + chunk(2, value)) for key, value in entries.items()]
    return _tensor_head(name, array) + b"".join(listed) + number(14, 1)


def _tensor_head(name: str, array: Any) -> bytes:
    return b"".join(number(1, side) for side in array.shape) + number(2, TYPES[array.dtype.name]) + chunk(8, name)


def value(name: str, dtype: str, sides: Sides) -> bytes:
    """What goes in or comes out: its name, type and sides."""
    dims = [chunk(1, number(1, side) if isinstance(side, int) else chunk(2, side)) for side in sides]
    return chunk(1, name) + chunk(2, chunk(1, number(1, TYPES[dtype]) + chunk(2, b"".join(dims))))


def model(
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
            *(chunk(1, one) for one in nodes),
            chunk(2, "clearhead"),
            *(chunk(5, one) for one in constants),
            *(chunk(11, one) for one in inputs),
            *(chunk(12, one) for one in outputs),
        ]
    )
    opsets = [chunk(8, chunk(1, domain) + number(2, OPSETS[domain])) for domain in domains]
    said = [chunk(14, chunk(1, key) + chunk(2, text)) for key, text in (notes or {}).items()]
    head = number(1, IR_VERSION) + chunk(2, "clearhead") + chunk(3, version)
    return head + chunk(7, graph) + b"".join(opsets) + b"".join(said)
