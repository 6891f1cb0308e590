"""Convert SentencePiece pieces to text, with the same result as the `sentencepiece` library."""

from __future__ import annotations

import codecs
from collections.abc import Callable

from clearhead.text.sentencepiece.model_file import BYTE, CONTROL, UNKNOWN, SentencePieceModel
from clearhead.text.subwords import METASPACE

REPLACE_EACH_BYTE = "clearhead.one_per_byte"  # name of the error handler of decode_utf8


def make_joiner(model: SentencePieceModel) -> Callable[[list[str]], str]:
    """Return a function that joins pieces to text: byte pieces are decoded, control pieces dropped."""
    kinds = {p.text: p.kind for p in model.pieces}
    raws = {p.text: bytes.fromhex(p.text.removeprefix("<0x").removesuffix(">")) for p in model.pieces if p.kind == BYTE}
    trim = model.add_dummy_prefix or model.remove_extra_whitespaces

    def join(pieces: list[str]) -> str:
        out: list[str] = []  # contains no empty strings
        raw = bytearray()
        for piece in pieces:
            kind = kinds.get(piece)
            if kind == BYTE:
                raw += raws[piece]
                continue
            if raw:
                out.append(decode_utf8(bytes(raw)))
                raw.clear()
            if kind == UNKNOWN:
                text = " ⁇ "
            elif kind == CONTROL:
                text = ""
            elif kind is None:
                text = piece  # piece of the other language, whose ▁ is replaced later
            else:
                text = (piece.lstrip(METASPACE) if trim and not out else piece).replace(METASPACE, " ")
            if text:
                out.append(text)
        return "".join(out) + decode_utf8(bytes(raw))

    return join


def decode_utf8(data: bytes) -> str:
    """Decode UTF-8 with one U+FFFD for each invalid byte; Python's "replace" handler writes fewer."""
    return data.decode(errors=REPLACE_EACH_BYTE)


def _replace_byte(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeDecodeError):
        raise error
    return "\ufffd", error.start + 1


codecs.register_error(REPLACE_EACH_BYTE, _replace_byte)
