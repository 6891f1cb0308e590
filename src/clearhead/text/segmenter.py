"""Cutting a normalised text into the pieces of a SentencePiece model, as SentencePiece itself does."""

from __future__ import annotations

import heapq
import re
from array import array
from collections.abc import Callable
from functools import lru_cache

from clearhead.errors import TokenizerError
from clearhead.text.charsmap import SPACE
from clearhead.text.pieces import BPE, BYTE, NORMAL, UNIGRAM, UNUSED, USER_DEFINED, PieceModel

Cut = Callable[[str], list[str]]
Segmenter = Callable[[str], list[tuple[str, int, int]]]  # pieces with their place in the text
LIMIT = 100_000.0  # a path score beyond it, up or down, is set back to zero


def segmenter(model: PieceModel, name: str) -> Segmenter:
    """The function that cuts a normalised text into pieces; unknown stretches come out as one piece, or as bytes."""
    if model.model not in (UNIGRAM, BPE):
        raise TokenizerError(f"{name} holds a word or character model; only unigram and BPE are supported")
    scores = {p.text: p.score for p in model.pieces if p.kind in (NORMAL, USER_DEFINED) and p.text}
    if not scores:
        raise TokenizerError(f"{name} holds no pieces that could match a text")
    cut = _unigram(model) if model.model == UNIGRAM else _pairs(model, scores, name)
    as_bytes = model.byte_fallback and {p.text for p in model.pieces if p.kind == BYTE}

    def segment(text: str) -> list[tuple[str, int, int]]:
        pieces: list[tuple[str, int, int]] = []
        start, unknown = 0, False
        for piece in cut(text):
            end = start + len(piece)
            if piece in scores:
                pieces.append((piece, start, end))
            elif as_bytes:
                for place, letter in enumerate(piece, start):
                    pieces.extend((f"<0x{byte:02X}>", place, place + 1) for byte in letter.encode())
            elif unknown:
                before, begin, _ = pieces.pop()
                pieces.append((before + piece, begin, end))
            else:
                pieces.append((piece, start, end))
            unknown = piece not in scores
            start = end
        return pieces

    return segment


def _unigram(model: PieceModel) -> Cut:
    """The most probable segmentation.

    SentencePiece adds up the score of a path in single precision, so two paths that are equal on paper are told apart
    by rounding, and all that went before has a say. Once the score of the place at hand is beyond 100,000, it is taken
    off every score still in play, so that long lines keep some precision. The same arithmetic is done here to get the
    same ties as release 0.2.2; older releases mix in double precision, never go back to zero and break a few ties the
    other way.
    """
    unknown = _single(min((p.score for p in model.pieces if p.kind == NORMAL), default=0.0) - 10.0)
    # User-defined pieces win over the sum of other pieces; among themselves, the one with more bytes wins.
    scores = {p.text: p.score for p in model.pieces if p.kind == NORMAL and p.text}
    scores |= {
        p.text: _single(0.1 * (len(p.text.encode()) - 1)) for p in model.pieces if p.kind == USER_DEFINED and p.text
    }
    starts = {text[:end] for text in scores for end in range(1, len(text) + 1)}

    def edges(text: str) -> list[list[tuple[int, float]]]:
        """For each place, the lengths and scores of the pieces that start there."""
        found = []
        for start in range(len(text)):
            here = []
            for end in range(start + 1, len(text) + 1):
                part = text[start:end]
                if part not in starts:
                    break
                if (score := scores.get(part)) is not None:
                    here.append((end - start, score))
            if not here or here[0][0] > 1:  # no piece for the character alone
                here.append((1, unknown))
            found.append(here)
        return found

    words = lru_cache(maxsize=50_000)(edges)
    crossing = any(SPACE in text[1:] for text in scores)
    longest = max(map(len, scores), default=1)

    def cut(text: str) -> list[str]:
        graph = edges(text) if crossing else [here for word in _words(text) for here in words(word)]
        best, origin = array("f", [0.0]) * (len(text) + 1), [-1] * (len(text) + 1)
        rounded = array("f", [0.0])  # storing a number here and reading it back rounds it to single precision
        for start, here in enumerate(graph):
            so_far = best[start]
            if so_far < -LIMIT or so_far > LIMIT:
                for end in range(start, min(start + longest, len(text)) + 1):
                    best[end] -= so_far  # a place not reached yet gets its score when it is
                so_far = 0.0
            for length, score in here:
                end = start + length
                total = so_far + score
                if origin[end] < 0:
                    best[end], origin[end] = total, start
                elif total > best[end]:  # rounding may still make them equal
                    rounded[0] = total
                    if rounded[0] > best[end]:
                        best[end], origin[end] = total, start
        pieces, end = [], len(text)
        while end > 0:
            pieces.append(text[origin[end] : end])
            end = origin[end]
        return pieces[::-1]

    return cut


def _single(value: float) -> float:
    return array("f", [value])[0]


def _words(text: str) -> list[str]:
    """The text cut before each blank."""
    first, *rest = text.split(SPACE)
    return ([first] if first else []) + [SPACE + word for word in rest]


def _splitter(model: PieceModel) -> Cut:
    """Cut a text into ordinary text and user-defined pieces by turns, the longest piece first."""
    users = sorted((p.text for p in model.pieces if p.kind == USER_DEFINED and p.text), key=len, reverse=True)
    if not users:
        return lambda text: [text]
    return re.compile(f"({'|'.join(map(re.escape, users))})").split  # literal strings: no pattern is taken from a file


def _pairs(model: PieceModel, scores: dict[str, float], name: str) -> Cut:
    """Merge the best-scored neighbours again and again, the leftmost first among equals."""
    if any(p.kind == UNUSED for p in model.pieces):
        raise TokenizerError(f"{name} is a BPE model with unused pieces, which is not supported")
    split = _splitter(model)
    if any(SPACE in text[1:] for text in scores):
        return lambda text: _merged(split(text), scores)
    merge = lru_cache(maxsize=50_000)(lambda word: tuple(_merged(split(word), scores)))

    def cut(text: str) -> list[str]:
        # No piece reaches over a blank, so words can be cut one by one and remembered.
        return [piece for word in _words(text) for piece in merge(word)]

    return cut


def _merged(parts: list[str], scores: dict[str, float]) -> list[str]:
    """Merge ordinary text (even places) character by character; user-defined pieces (odd places) stay as they are."""
    symbols: list[str] = []
    frozen: list[bool] = []
    for place, part in enumerate(parts):
        symbols.extend([part] if place % 2 else part)
        frozen.extend([place % 2 == 1] * (len(symbols) - len(frozen)))
    before, after = list(range(-1, len(symbols) - 1)), [*range(1, len(symbols)), -1]
    agenda: list[tuple[float, int, int, str]] = []

    def consider(left: int, right: int) -> None:
        if left >= 0 and right >= 0 and not frozen[left] and not frozen[right]:
            piece = symbols[left] + symbols[right]
            if piece in scores:
                heapq.heappush(agenda, (-scores[piece], left, right, piece))

    for left in range(len(symbols) - 1):
        consider(left, left + 1)
    while agenda:
        _, left, right, piece = heapq.heappop(agenda)
        if not symbols[left] or not symbols[right] or symbols[left] + symbols[right] != piece:
            continue  # one of the two has been merged in the meantime
        symbols[left], symbols[right] = piece, ""
        after[left] = after[right]
        if after[right] >= 0:
            before[after[right]] = left
        consider(before[left], left)
        consider(left, after[left])
    return [symbol for symbol in symbols if symbol]
