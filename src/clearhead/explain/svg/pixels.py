"""Encode color arrays as PNG images, one pixel per value."""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]


def encode_png(colors: Array) -> bytes:
    """Encode RGB bytes of shape (rows, columns, 3) as PNG."""
    import numpy as np

    rows, columns, _ = colors.shape
    lines = np.concatenate([np.zeros((rows, 1), np.uint8), colors.reshape(rows, -1)], 1).tobytes()
    header = struct.pack(">IIBBBBB", columns, rows, 8, 2, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(lines, 9)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(kind, data) for kind, data in chunks)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
