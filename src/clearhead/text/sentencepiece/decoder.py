"""Text made of the pieces of a SentencePiece model, as SentencePiece itself does."""

from __future__ import annotations

import codecs
from collections.abc import Callable

from clearhead.text.sentencepiece.model_file import BYTE, CONTROL, UNKNOWN, SentencePieceModel
from clearhead.text.subwords import METASPACE

REPLACE_EACH_BYTE = "clearhead.one_per_byte"  # how decode_bytes treats errors


def make_joiner(model: SentencePieceModel) -> Callable[[list[str]], str]:
    """The function that makes text of pieces, as SentencePiece does: bytes decoded, control pieces dropped."""
    kinds = {p.text: p.kind for p in model.pieces}
    raws = {p.text: bytes.fromhex(p.text.removeprefix("<0x").removesuffix(">")) for p in model.pieces if p.kind == BYTE}
    trim = model.add_dummy_prefix or model.remove_extra_whitespaces

    def join(pieces: list[str]) -> str:
        out: list[str] = []  # empty texts are left out
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
                text = piece  # a piece of the other language: its ▁ is replaced later
            else:
                text = (piece.lstrip(METASPACE) if trim and not out else piece).replace(METASPACE, " ")
            if text:
                out.append(text)
        return "".join(out) + decode_utf8(bytes(raw))

    return join


def decode_utf8(data: bytes) -> str:
    """UTF-8 with one U+FFFD for each byte that is part of no character; Python alone would write fewer."""
    return data.decode(errors=REPLACE_EACH_BYTE)


def _replace_byte(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeDecodeError):
        raise error
    return "\ufffd", error.start + 1


codecs.register_error(REPLACE_EACH_BYTE, _replace_byte)
