"""What a tokenizer makes of a text, and the two honest ways to make it shorter: cut and count, or windows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from clearhead.errors import InputError
from clearhead.html import short_repr


@dataclass(frozen=True, slots=True, kw_only=True)
class Encoding:
    """One text, or one pair of texts, as parallel lists with one entry for each token."""

    ids: list[int]
    tokens: list[str]
    offsets: list[tuple[int, int]]  # characters [start, end) of the text the token came from; (0, 0) if inserted
    words: list[int | None]  # which word, counted anew in each text; None if inserted
    segments: list[int]  # BERT's A and B as 0 and 1; families without segments count as their files say
    special: list[bool]  # [CLS], [SEP] and their like, put in by the tokenizer
    sides: list[int | None]  # 0 = first text, 1 = second text, None = inserted by the tokenizer
    truncated: int = 0  # tokens that were cut off; 0 means that nothing is lost

    def __len__(self) -> int:
        return len(self.ids)

    def __repr__(self) -> str:
        some = " ".join(self.tokens[:12]) + (" ..." if len(self) > 12 else "")
        cut = f"truncated={self.truncated}" if self.truncated else None
        return short_repr("Encoding", f"{len(self)} tokens: {some}", cut)


@dataclass(frozen=True, slots=True)
class TokenIds:
    """Only what a network reads of a text: made in half the time of a whole Encoding."""

    ids: list[int]
    segments: list[int]
    truncated: int = 0

    def __len__(self) -> int:
        return len(self.ids)


def truncate(encoding: Encoding, max_length: int, *, side: str = "right") -> Encoding:
    """Cut the longer text first until everything fits, keep the special tokens, and count what was cut."""
    check_count(max_length, "max_length", minimum=1)
    if len(encoding) <= max_length:
        return encoding
    kept = compute_kept_positions(encoding.sides, max_length, side)
    return select_tokens(encoding, kept, truncated=encoding.truncated + len(encoding) - max_length)


def compute_kept_positions(
    sides: list[int | None], max_length: int, side: str, whole: Sequence[int] | None = None
) -> list[int]:
    """Which tokens stay when the longer text is cut first; `sides` says which text each token is from.

    Where these are only the first tokens of the texts, `whole` says how many each of them has.
    """
    counts = (sides.count(0), sides.count(1))
    inserted = len(sides) - sum(counts)
    if inserted > max_length:
        raise InputError(
            f"max_length={max_length} leaves no room for the {inserted} special tokens; use at least {inserted}"
        )
    kept = allocate_lengths(max_length - inserted, *((*whole, 0)[:2] if whole is not None else counts))
    positions = []
    for text in (None, 0, 1):
        own = [i for i, s in enumerate(sides) if s == text]
        spare = 0 if text is None else counts[text] - kept[text]
        positions += own[spare:] if side == "left" else own[: len(own) - spare]
    return sorted(positions)


def split_into_windows(encoding: Encoding, *, max_length: int, stride: int, side: int) -> list[Encoding]:
    """Slide over one of the texts so that every token is in a window, with `stride` tokens shared by neighbours."""
    check_count(max_length, "max_length", minimum=1)
    check_count(stride, "stride", minimum=0)
    if len(encoding) <= max_length:
        return [encoding]
    moving = [i for i, s in enumerate(encoding.sides) if s == side]
    fixed = [i for i, s in enumerate(encoding.sides) if s != side]  # special tokens and the other text: in every window
    room = max_length - len(fixed)
    if room <= stride:
        raise InputError(
            f"max_length={max_length} leaves {max(room, 0)} tokens for each window beside {len(fixed)} fixed ones, "
            f"which must be more than stride={stride}; raise max_length above {len(fixed) + stride} or lower stride"
        )
    starts = range(0, max(len(moving) - stride, 1), room - stride)
    return [select_tokens(encoding, sorted(fixed + moving[start : start + room])) for start in starts]


def allocate_lengths(room: int, first: int, second: int) -> tuple[int, int]:
    """How many tokens each of two texts keeps when the longer one is cut first."""
    short = min(first, second)
    if 2 * short <= room:
        return (short, min(second, room - short)) if first <= second else (min(first, room - short), short)
    # Both are cut to the same length; an odd token goes to the longer text, to the second if they are equal.
    half, rest = room // 2, room - room // 2
    return (half, rest) if first <= second else (rest, half)


def select_tokens(encoding: Encoding, positions: Iterable[int], *, truncated: int = 0) -> Encoding:
    """The tokens at these positions as an encoding of their own."""
    at = list(positions)
    return Encoding(
        ids=[encoding.ids[i] for i in at],
        tokens=[encoding.tokens[i] for i in at],
        offsets=[encoding.offsets[i] for i in at],
        words=[encoding.words[i] for i in at],
        segments=[encoding.segments[i] for i in at],
        special=[encoding.special[i] for i in at],
        sides=[encoding.sides[i] for i in at],
        truncated=truncated,
    )


def check_count(value: object, name: str, *, minimum: int) -> None:
    """Refuse a length that is no whole number of at least `least`."""
    if not isinstance(value, int) or isinstance(value, bool) or value < minimum:
        raise InputError(f"{name} must be a whole number of at least {minimum}, not {value!r}")
