"""Convert SentencePiece pieces to text, with the same result as the `sentencepiece` library."""

from __future__ import annotations

import codecs
from collections.abc import Callable

from clearhead.text.sentencepiece.model_file import BYTE, CONTROL, UNKNOWN, SentencePieceModel
from clearhead.text.subwords import METASPACE

REPLACE_EACH_BYTE = "clearhead.one_per_byte"  # name of the error handler of decode_utf8


def make_joiner(model: SentencePieceModel) -> Callable[[list[str]], str]:
    """Return a function that joins pieces to text: byte pieces are decoded, control pieces dropped."""
    kinds_by_piece = {piece.text: piece.kind for piece in model.pieces}
    byte_values = {
        piece.text: bytes.fromhex(piece.text.removeprefix("<0x").removesuffix(">"))
        for piece in model.pieces
        if piece.kind == BYTE
    }
    strip_first_space = model.add_dummy_prefix or model.remove_extra_whitespaces

    def join(pieces: list[str]) -> str:
        texts: list[str] = []  # contains no empty strings
        pending_bytes = bytearray()
        for piece in pieces:
            kind = kinds_by_piece.get(piece)
            if kind == BYTE:
                pending_bytes += byte_values[piece]
                continue
            if pending_bytes:
                texts.append(decode_utf8(bytes(pending_bytes)))
                pending_bytes.clear()
            if kind == UNKNOWN:
                text = " ⁇ "
            elif kind == CONTROL:
                text = ""
            elif kind is None:
                text = piece  # piece of the other language, whose ▁ is replaced later
            else:
                text = (piece.lstrip(METASPACE) if strip_first_space and not texts else piece).replace(METASPACE, " ")
            if text:
                texts.append(text)
        return "".join(texts) + decode_utf8(bytes(pending_bytes))

    return join


def decode_utf8(data: bytes) -> str:
    """Decode UTF-8 with one U+FFFD for each invalid byte; Python's "replace" handler writes fewer."""
    return data.decode(errors=REPLACE_EACH_BYTE)


def _replace_byte(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeDecodeError):
        raise error
    return "\ufffd", error.start + 1


codecs.register_error(REPLACE_EACH_BYTE, _replace_byte)
