"""Writer of the ONNX file format: the few protocol-buffer messages that a graph needs, as bytes.

Serializing them takes a page of code and no dependency; a test reads the files with the `onnx` package and its checker.
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
Dims = Sequence[int | str]  # a dimension is a number, or a name if it is dynamic


def encode_varint(value: int) -> bytes:
    """Encode an integer as a varint; negative ones as 64 bits."""
    value &= (1 << 64) - 1
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def encode_int(field: int, value: int) -> bytes:
    """Encode an integer field."""
    return encode_varint(field << 3) + encode_varint(value)


def encode_bytes(field: int, value: bytes | str) -> bytes:
    """Encode a field of text, bytes or a nested message."""
    raw = value.encode() if isinstance(value, str) else value
    return encode_varint(field << 3 | 2) + encode_varint(len(raw)) + raw


def encode_node(op: str, inputs: Iterable[str], outputs: Iterable[str], name: str, **attributes: Attribute) -> bytes:
    """Encode an operator; `domain` names its operator set."""
    domain = attributes.pop("domain", "")
    parts = [encode_bytes(1, item) for item in inputs] + [encode_bytes(2, item) for item in outputs]
    parts += [encode_bytes(3, name), encode_bytes(4, op)]
    parts += [encode_bytes(5, _encode_attribute(key, value)) for key, value in attributes.items()]
    return b"".join(parts) + (encode_bytes(7, str(domain)) if domain else b"")


def _encode_attribute(name: str, value: Attribute) -> bytes:
    header = encode_bytes(1, name)
    if isinstance(value, str):
        return header + encode_bytes(4, value) + encode_int(20, 3)
    if isinstance(value, int):
        return header + encode_int(3, value) + encode_int(20, 2)
    if isinstance(value, float):
        return header + _encode_float(2, value) + encode_int(20, 1)
    if all(isinstance(item, int) for item in value):
        return header + b"".join(encode_int(8, int(item)) for item in value) + encode_int(20, 7)
    return header + b"".join(_encode_float(7, item) for item in value) + encode_int(20, 6)


def _encode_float(field: int, value: float) -> bytes:
    return encode_varint(field << 3 | 5) + struct.pack("<f", value)


def encode_tensor(name: str, array: Any) -> bytes:
    """Encode a constant with its data."""
    return _encode_tensor_header(name, array) + encode_bytes(9, array.tobytes())


def encode_external_tensor(name: str, array: Any, location: str, offset: int = 0) -> bytes:
    """Encode a constant whose data is in another file, or in memory under its name."""
    entries = {"location": location, "offset": str(offset), "length": str(array.nbytes)}
    encoded_entries = [
        encode_bytes(13, encode_bytes(1, key) + encode_bytes(2, value)) for key, value in entries.items()
    ]
    return _encode_tensor_header(name, array) + b"".join(encoded_entries) + encode_int(14, 1)


def _encode_tensor_header(name: str, array: Any) -> bytes:
    return (
        b"".join(encode_int(1, dim) for dim in array.shape)
        + encode_int(2, TYPES[array.dtype.name])
        + encode_bytes(8, name)
    )


def encode_value_info(name: str, dtype: str, dims: Dims) -> bytes:
    """Encode the name, type and dimensions of an input or output."""
    encoded_dims = [
        encode_bytes(1, encode_int(1, dim) if isinstance(dim, int) else encode_bytes(2, dim)) for dim in dims
    ]
    return encode_bytes(1, name) + encode_bytes(
        2, encode_bytes(1, encode_int(1, TYPES[dtype]) + encode_bytes(2, b"".join(encoded_dims)))
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
    """Encode a complete model."""
    graph = b"".join(
        [
            *(encode_bytes(1, item) for item in nodes),
            encode_bytes(2, "clearhead"),
            *(encode_bytes(5, item) for item in constants),
            *(encode_bytes(11, item) for item in inputs),
            *(encode_bytes(12, item) for item in outputs),
        ]
    )
    opsets = [encode_bytes(8, encode_bytes(1, domain) + encode_int(2, OPSETS[domain])) for domain in domains]
    metadata = [encode_bytes(14, encode_bytes(1, key) + encode_bytes(2, text)) for key, text in (notes or {}).items()]
    header = encode_int(1, IR_VERSION) + encode_bytes(2, "clearhead") + encode_bytes(3, version)
    return header + encode_bytes(7, graph) + b"".join(opsets) + b"".join(metadata)
