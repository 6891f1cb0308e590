"""Cutting a normalised text into the pieces of a SentencePiece model, as SentencePiece itself does."""

from __future__ import annotations

import heapq
from array import array
from collections.abc import Callable
from functools import lru_cache

from clearhead.errors import TokenizerError
from clearhead.text.sentencepiece.model_file import BPE, BYTE, NORMAL, UNIGRAM, UNUSED, USER_DEFINED, SentencePieceModel
from clearhead.text.sentencepiece.trie import END, StepBudget, build_literal_trie, build_trie, make_splitter
from clearhead.text.subwords import METASPACE

SplitText = Callable[[str, StepBudget], list[str]]
# Pieces with their place in the text; a text in several parts has one budget for all of them.
Segmenter = Callable[[str, StepBudget], list[tuple[str, int, int]]]
MAX_PATH_SCORE = 100_000.0  # a path score beyond it, up or down, is set back to zero
MAX_CACHED_WORDS, MAX_CACHED_LENGTH = 50_000, 32  # and characters of a word, so that they take at most 150 MB
FREE_STEPS = 8  # letters that are walked along for each character of ordinary text, part of its price
STEPS_PER_BYTE = 10  # steps, for each byte that is a token


def make_segmenter(model: SentencePieceModel, name: str) -> Segmenter:
    """The function that cuts a normalised text into pieces; unknown stretches come out as one piece, or as bytes."""
    if model.model_type not in (UNIGRAM, BPE):
        raise TokenizerError(f"{name} holds a word or character model; only unigram and BPE are supported")
    scores = {p.text: p.score for p in model.pieces if p.kind in (NORMAL, USER_DEFINED) and p.text}
    if not scores:
        raise TokenizerError(f"{name} holds no pieces that could match a text")
    cut = _unigram(model, name) if model.model_type == UNIGRAM else _pairs(model, scores, name)
    as_bytes = model.byte_fallback and {p.text for p in model.pieces if p.kind == BYTE}

    def segment(text: str, budget: StepBudget) -> list[tuple[str, int, int]]:
        pieces: list[tuple[str, int, int]] = []
        start, unknown = 0, -1  # where the unknown stretch at hand begins
        for piece in cut(text, budget):
            end = start + len(piece)
            if piece in scores:
                if unknown >= 0:
                    pieces.append((text[unknown:start], unknown, start))
                    unknown = -1
                pieces.append((piece, start, end))
            elif as_bytes:
                for place, letter in enumerate(piece, start):
                    raw = letter.encode()
                    budget.spend(STEPS_PER_BYTE * len(raw))
                    pieces.extend((f"<0x{byte:02X}>", place, place + 1) for byte in raw)
            elif unknown < 0:
                unknown = start
            start = end
        if unknown >= 0:
            pieces.append((text[unknown:start], unknown, start))
        return pieces

    return segment


def _unigram(model: SentencePieceModel, name: str) -> SplitText:
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
    root = build_trie(scores.items(), name)
    unknown_letters = {letter for letter, node in root.items() if END not in node}
    longest = max(map(len, scores), default=1)

    def cut(text: str, budget: StepBudget) -> list[str]:
        best, origin = array("f", [0.0]) * (len(text) + 1), [-1] * (len(text) + 1)
        rounded = array("f", [0.0])  # storing a number here and reading it back rounds it to single precision

        def reach(end: int, start: int, total: float) -> None:
            if origin[end] < 0:
                best[end], origin[end] = total, start
            elif total > best[end]:  # rounding may still make them equal
                rounded[0] = total
                if rounded[0] > best[end]:
                    best[end], origin[end] = total, start

        for start in range(len(text)):
            so_far = best[start]
            if so_far < -MAX_PATH_SCORE or so_far > MAX_PATH_SCORE:
                for end in range(start, min(start + longest, len(text)) + 1):
                    best[end] -= so_far  # a place not reached yet gets its score when it is
                budget.spend(longest)
                so_far = 0.0
            node, end = root, start
            for letter in text[start : start + longest]:
                if (child := node.get(letter)) is None:
                    break
                node = child
                end += 1
                if END in node:
                    total = so_far + node[END]
                    if origin[end] < 0:
                        best[end], origin[end] = total, start
                    elif total > best[end]:
                        reach(end, start, total)
            if end - start > FREE_STEPS:
                budget.spend(end - start)
            if end == start or text[start] in unknown_letters:  # no piece for the character alone
                reach(start + 1, start, so_far + unknown)
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
    first, *rest = text.split(METASPACE)
    return ([first] if first else []) + [METASPACE + word for word in rest]


def _pairs(model: SentencePieceModel, scores: dict[str, float], name: str) -> SplitText:
    """Merge the best-scored neighbours again and again, the leftmost first among equals."""
    if any(p.kind == UNUSED for p in model.pieces):
        raise TokenizerError(f"{name} is a BPE model with unused pieces, which is not supported")
    split = make_splitter(build_literal_trie((p.text for p in model.pieces if p.kind == USER_DEFINED), name))
    ranked = {text: (-score, text) for text, score in scores.items()}
    if any(METASPACE in text[1:] for text in scores):
        return lambda text, budget: _merged(split(text, budget), ranked)

    @lru_cache(maxsize=MAX_CACHED_WORDS)
    def merge(word: str) -> tuple[str, ...]:
        return tuple(_merged(split(word, StepBudget(len(word))), ranked))

    def cut(text: str, budget: StepBudget) -> list[str]:
        # No piece reaches over a blank, so words can be cut one by one and remembered.
        pieces: list[str] = []
        for word in _words(text):
            pieces += merge(word) if len(word) <= MAX_CACHED_LENGTH else _merged(split(word, budget), ranked)
        return pieces

    return cut


def _merged(parts: list[str], ranked: dict[str, tuple[float, str]]) -> list[str]:
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
            found = ranked.get(symbols[left] + symbols[right])
            if found is not None:
                heapq.heappush(agenda, (found[0], left, right, found[1]))  # the model's own text: no copies

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
