"""Segment normalized text into SentencePiece pieces, with the same result as the `sentencepiece` library."""

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
# Returns pieces with start and end. All parts of a text share one budget.
Segmenter = Callable[[str, StepBudget], list[tuple[str, int, int]]]
MAX_PATH_SCORE = 100_000.0  # path scores with a larger absolute value are reset to zero
MAX_CACHED_WORDS, MAX_CACHED_LENGTH = 50_000, 32  # words, and characters per word: at most 150 MB
FREE_STEPS_PER_CHARACTER = 8  # trie steps per character that are not charged to the budget
STEPS_PER_BYTE = 10  # cost of each byte token


def make_segmenter(model: SentencePieceModel, name: str) -> Segmenter:
    """Return a function that segments normalized text; unknown spans become a single piece, or byte pieces."""
    if model.model_type not in (UNIGRAM, BPE):
        raise TokenizerError(f"{name} contains a word or character model; only unigram and BPE are supported.")
    scores = {piece.text: piece.score for piece in model.pieces if piece.kind in (NORMAL, USER_DEFINED) and piece.text}
    if not scores:
        raise TokenizerError(f"{name} contains no pieces that could match a text.")
    split_text = (
        _make_unigram_splitter(model, name) if model.model_type == UNIGRAM else _make_bpe_splitter(model, scores, name)
    )
    byte_pieces = model.byte_fallback and {piece.text for piece in model.pieces if piece.kind == BYTE}

    def segment(text: str, budget: StepBudget) -> list[tuple[str, int, int]]:
        pieces: list[tuple[str, int, int]] = []
        start, unknown_start = 0, -1  # start of the current unknown span, -1 if there is none
        for piece in split_text(text, budget):
            end = start + len(piece)
            if piece in scores:
                if unknown_start >= 0:
                    pieces.append((text[unknown_start:start], unknown_start, start))
                    unknown_start = -1
                pieces.append((piece, start, end))
            elif byte_pieces:
                for position, character in enumerate(piece, start):
                    utf8_bytes = character.encode()
                    budget.spend(STEPS_PER_BYTE * len(utf8_bytes))
                    pieces.extend((f"<0x{byte:02X}>", position, position + 1) for byte in utf8_bytes)
            elif unknown_start < 0:
                unknown_start = start
            start = end
        if unknown_start >= 0:
            pieces.append((text[unknown_start:start], unknown_start, start))
        return pieces

    return segment


def _make_unigram_splitter(model: SentencePieceModel, name: str) -> SplitText:
    """Return a function that finds the most probable segmentation.

    SentencePiece accumulates path scores in single precision, so rounding, which depends on all preceding scores,
    decides between paths of equal score. If the absolute score at a position exceeds 100,000, it is subtracted from
    all scores in use to preserve precision in long lines. This function uses the same arithmetic to break ties as
    release 0.2.2 does; older releases also use double precision, never reset scores and break a few ties differently.
    """
    unknown_score = _to_float32(
        min((piece.score for piece in model.pieces if piece.kind == NORMAL), default=0.0) - 10.0
    )
    # User-defined pieces take precedence over any combination of other pieces; among them, more bytes win.
    scores = {piece.text: piece.score for piece in model.pieces if piece.kind == NORMAL and piece.text}
    scores |= {
        piece.text: _to_float32(0.1 * (len(piece.text.encode()) - 1))
        for piece in model.pieces
        if piece.kind == USER_DEFINED and piece.text
    }
    root = build_trie(scores.items(), name)
    unknown_characters = {character for character, node in root.items() if END not in node}
    max_piece_length = max(map(len, scores), default=1)

    def split_text(text: str, budget: StepBudget) -> list[str]:
        best_scores, piece_starts = array("f", [0.0]) * (len(text) + 1), [-1] * (len(text) + 1)
        float32_buffer = array("f", [0.0])  # storing a number in this array rounds it to single precision

        def update_path(end: int, start: int, path_score: float) -> None:
            if piece_starts[end] < 0:
                best_scores[end], piece_starts[end] = path_score, start
            elif path_score > best_scores[end]:  # may be equal after rounding
                float32_buffer[0] = path_score
                if float32_buffer[0] > best_scores[end]:
                    best_scores[end], piece_starts[end] = path_score, start

        for start in range(len(text)):
            score = best_scores[start]
            if score < -MAX_PATH_SCORE or score > MAX_PATH_SCORE:
                for end in range(start, min(start + max_piece_length, len(text)) + 1):
                    best_scores[end] -= score  # positions that no path reaches yet get their score later
                budget.spend(max_piece_length)
                score = 0.0
            node, end = root, start
            for character in text[start : start + max_piece_length]:
                if (child := node.get(character)) is None:
                    break
                node = child
                end += 1
                if END in node:
                    path_score = score + node[END]
                    if piece_starts[end] < 0:
                        best_scores[end], piece_starts[end] = path_score, start
                    elif path_score > best_scores[end]:
                        update_path(end, start, path_score)
            if end - start > FREE_STEPS_PER_CHARACTER:
                budget.spend(end - start)
            if end == start or text[start] in unknown_characters:  # no piece matches this single character
                update_path(start + 1, start, score + unknown_score)
        pieces, end = [], len(text)
        while end > 0:
            pieces.append(text[piece_starts[end] : end])
            end = piece_starts[end]
        return pieces[::-1]

    return split_text


def _to_float32(value: float) -> float:
    return array("f", [value])[0]


def _split_words(text: str) -> list[str]:
    """Split text before each ▁."""
    head, *tail = text.split(METASPACE)
    return ([head] if head else []) + [METASPACE + word for word in tail]


def _make_bpe_splitter(model: SentencePieceModel, scores: dict[str, float], name: str) -> SplitText:
    """Return a function that repeatedly merges the adjacent pair with the highest score, leftmost first on ties."""
    if any(piece.kind == UNUSED for piece in model.pieces):
        raise TokenizerError(f"{name} is a BPE model with unused pieces, which is not supported.")
    split = make_splitter(
        build_literal_trie((piece.text for piece in model.pieces if piece.kind == USER_DEFINED), name)
    )
    merge_entries = {text: (-score, text) for text, score in scores.items()}
    if any(METASPACE in text[1:] for text in scores):
        return lambda text, budget: _merge_symbols(split(text, budget), merge_entries)

    @lru_cache(maxsize=MAX_CACHED_WORDS)
    def merge_word(word: str) -> tuple[str, ...]:
        return tuple(_merge_symbols(split(word, StepBudget(len(word))), merge_entries))

    def split_text(text: str, budget: StepBudget) -> list[str]:
        # No piece crosses a ▁, so words can be segmented independently and cached.
        pieces: list[str] = []
        for word in _split_words(text):
            is_cached = len(word) <= MAX_CACHED_LENGTH
            pieces += merge_word(word) if is_cached else _merge_symbols(split(word, budget), merge_entries)
        return pieces

    return split_text


def _merge_symbols(parts: list[str], merge_entries: dict[str, tuple[float, str]]) -> list[str]:
    """Merge the characters of ordinary text (even positions); keep user-defined pieces (odd positions) unchanged."""
    symbols: list[str] = []
    is_frozen: list[bool] = []
    for index, part in enumerate(parts):
        symbols.extend([part] if index % 2 else part)
        is_frozen.extend([index % 2 == 1] * (len(symbols) - len(is_frozen)))
    previous_indices, next_indices = list(range(-1, len(symbols) - 1)), [*range(1, len(symbols)), -1]
    queue: list[tuple[float, int, int, str]] = []

    def push_pair(left_index: int, right_index: int) -> None:
        if left_index >= 0 and right_index >= 0 and not is_frozen[left_index] and not is_frozen[right_index]:
            entry = merge_entries.get(symbols[left_index] + symbols[right_index])
            if entry is not None:
                # entry[1] is the string of the model, not a copy
                heapq.heappush(queue, (entry[0], left_index, right_index, entry[1]))

    for left_index in range(len(symbols) - 1):
        push_pair(left_index, left_index + 1)
    while queue:
        _, left_index, right_index, piece = heapq.heappop(queue)
        if not symbols[left_index] or not symbols[right_index] or symbols[left_index] + symbols[right_index] != piece:
            continue  # one of the two has already been merged
        symbols[left_index], symbols[right_index] = piece, ""
        next_indices[left_index] = next_indices[right_index]
        if next_indices[right_index] >= 0:
            previous_indices[next_indices[right_index]] = left_index
        push_pair(previous_indices[left_index], left_index)
        push_pair(left_index, next_indices[left_index])
    return [symbol for symbol in symbols if symbol]
