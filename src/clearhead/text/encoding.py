"""The encoding of a text, and two ways to shorten it: truncation that counts lost tokens, and sliding windows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from clearhead.errors import InputError
from clearhead.html import short_repr


@dataclass(frozen=True, slots=True, kw_only=True)
class Encoding:
    """An encoded text or text pair, as parallel lists with one entry per token."""

    ids: list[int]
    tokens: list[str]
    offsets: list[tuple[int, int]]  # characters [start, end) of the source text; (0, 0) for inserted tokens
    words: list[int | None]  # word index within its text; None for inserted tokens
    segments: list[int]  # token type ids: 0 for BERT's segment A, 1 for B; otherwise as the tokenizer files define
    special: list[bool]  # True for tokens inserted by the tokenizer, such as [CLS] and [SEP]
    sides: list[int | None]  # 0: first text, 1: second text, None: inserted by the tokenizer
    truncated: int = 0  # number of tokens removed by truncation

    def __len__(self) -> int:
        return len(self.ids)

    def __repr__(self) -> str:
        preview = " ".join(self.tokens[:12]) + (" ..." if len(self) > 12 else "")
        truncation = f"truncated={self.truncated}" if self.truncated else None
        return short_repr("Encoding", f"{len(self)} tokens: {preview}", truncation)


@dataclass(frozen=True, slots=True)
class TokenIds:
    """The ids and segments of an encoded text; takes half the time of a full `Encoding`."""

    ids: list[int]
    segments: list[int]
    truncated: int = 0

    def __len__(self) -> int:
        return len(self.ids)


def truncate(encoding: Encoding, max_length: int, *, side: str = "right") -> Encoding:
    """Shorten an encoding to `max_length`, longest text first; special tokens are kept and removed tokens counted."""
    check_count(max_length, "max_length", minimum=1)
    if len(encoding) <= max_length:
        return encoding
    positions = compute_kept_positions(encoding.sides, max_length, side)
    return select_tokens(encoding, positions, truncated=encoding.truncated + len(encoding) - max_length)


def compute_kept_positions(
    sides: list[int | None], max_length: int, side: str, full_counts: Sequence[int] | None = None
) -> list[int]:
    """Return the positions of the tokens that remain when the longer text is truncated first.

    `sides` holds the text that each token belongs to. If only the first tokens of the texts were encoded, `full_counts`
    holds the number of tokens in each complete text.
    """
    counts = (sides.count(0), sides.count(1))
    inserted = len(sides) - sum(counts)
    if inserted > max_length:
        raise InputError(
            f"max_length={max_length} leaves no room for the {inserted} special tokens; use at least {inserted}."
        )
    lengths = allocate_lengths(max_length - inserted, *((*full_counts, 0)[:2] if full_counts is not None else counts))
    positions = []
    for text_index in (None, 0, 1):
        indices = [position for position, token_side in enumerate(sides) if token_side == text_index]
        excess = 0 if text_index is None else counts[text_index] - lengths[text_index]
        positions += indices[excess:] if side == "left" else indices[: len(indices) - excess]
    return sorted(positions)


def split_into_windows(encoding: Encoding, *, max_length: int, stride: int, side: int) -> list[Encoding]:
    """Slide a window over one of the texts so that every token is covered; adjacent windows share `stride` tokens."""
    check_count(max_length, "max_length", minimum=1)
    check_count(stride, "stride", minimum=0)
    if len(encoding) <= max_length:
        return [encoding]
    text_positions = [position for position, token_side in enumerate(encoding.sides) if token_side == side]
    # special tokens and the other text, repeated in every window
    fixed_positions = [position for position, token_side in enumerate(encoding.sides) if token_side != side]
    fixed_count = len(fixed_positions)
    window_size = max_length - fixed_count
    if window_size <= stride:
        raise InputError(
            f"max_length={max_length} leaves {max(window_size, 0)} tokens per window besides {fixed_count} fixed "
            f"tokens, expected more than stride={stride}; set max_length above {fixed_count + stride} "
            "or reduce stride."
        )
    starts = range(0, max(len(text_positions) - stride, 1), window_size - stride)
    windows = [text_positions[start : start + window_size] for start in starts]
    return [select_tokens(encoding, sorted(fixed_positions + positions)) for positions in windows]


def allocate_lengths(max_total: int, first_length: int, second_length: int) -> tuple[int, int]:
    """Return how many tokens each of two texts keeps when the longer one is truncated first."""
    shorter_length = min(first_length, second_length)
    if 2 * shorter_length <= max_total:
        if first_length <= second_length:
            return shorter_length, min(second_length, max_total - shorter_length)
        return min(first_length, max_total - shorter_length), shorter_length
    # Both texts are truncated to the same length. An odd token goes to the longer text, or to the second on a tie.
    smaller_half, larger_half = max_total // 2, max_total - max_total // 2
    return (smaller_half, larger_half) if first_length <= second_length else (larger_half, smaller_half)


def select_tokens(encoding: Encoding, positions: Iterable[int], *, truncated: int = 0) -> Encoding:
    """Return a new encoding of the tokens at these positions."""
    indices = list(positions)
    return Encoding(
        ids=[encoding.ids[i] for i in indices],
        tokens=[encoding.tokens[i] for i in indices],
        offsets=[encoding.offsets[i] for i in indices],
        words=[encoding.words[i] for i in indices],
        segments=[encoding.segments[i] for i in indices],
        special=[encoding.special[i] for i in indices],
        sides=[encoding.sides[i] for i in indices],
        truncated=truncated,
    )


def check_count(value: object, name: str, *, minimum: int) -> None:
    """Raise an InputError unless `value` is an integer >= `minimum`."""
    if not isinstance(value, int) or isinstance(value, bool) or value < minimum:
        raise InputError(f"{name} must be an integer >= {minimum}, got {value!r}.")
