"""Which token stands for which word: the first of each, as BERT's authors have it."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from clearhead.data.examples import TextRow
from clearhead.data.row_codec import EncodedRow, LengthPolicy, TextEncoder
from clearhead.tasks.ragged import RaggedArray, compute_bounds
from clearhead.tasks.tag.rows import Words
from clearhead.text.encoding import Encoding

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

INHERITS = -1  # a word inside a token that stands for an earlier one
NOTHING = -2  # a word of which the tokenizer leaves nothing


def pieces(rows: Sequence[TextRow], tokenizer: TextEncoder, fit: LengthPolicy) -> Iterable[EncodedRow]:
    """Tokens of each text, in windows where it is long, and the token that each word is read from."""
    # words of a list are read as the text that they make: byte-level tokens know whether a space stands before them
    whole = tokenizer.encode_batch([row.text for row in rows], max_length=fit.token_level_limit)
    for row, encoding in zip(rows, whole, strict=True):
        windows = fit.apply(encoding)
        yield EncodedRow(windows, places(row.extra, windows))


def places(words: Words, windows: Sequence[Encoding]) -> Array:
    """The token that each word is read from: its first, in the window where it has most text on both sides.

    Counted over the windows laid end to end; below 0 for a word that has no token of its own.
    """
    import numpy as np

    found = np.full(len(words.offsets), NOTHING, np.int32)
    room = np.full(len(words.offsets), -1, np.int64)
    begin, ends = 0, [end for _, end in words.offsets]
    for window in windows:
        own = [place for place, side in enumerate(window.sides) if side is not None]
        for word, token in _first_tokens(window, words.offsets, ends).items():
            margin = min(token - own[0], own[-1] - token)
            if token < 0:
                found[word] = max(found[word], INHERITS)
            elif margin > room[word]:
                room[word], found[word] = margin, begin + token
        begin += len(window)
    return found


def _first_tokens(window: Encoding, borders: Sequence[tuple[int, int]], ends: Sequence[int]) -> dict[int, int]:
    """The first token of each word by where both stand; a token stands for the first word that it covers."""
    first: dict[int, int] = {}
    word = bisect_right(ends, next((start for (start, end) in window.offsets if end > start), 0))
    for token, ((start, end), side) in enumerate(zip(window.offsets, window.sides, strict=True)):
        if side is None or end <= start:
            continue
        while word < len(borders) and borders[word][1] <= start:
            word += 1
        if word < len(borders) and borders[word][0] < end and first.get(word, INHERITS) == INHERITS:
            first[word] = token
        later = word + 1
        while later < len(borders) and borders[later][0] < end:
            first.setdefault(later, INHERITS)
            later += 1
    return first


@dataclass(frozen=True, kw_only=True)
class TagAnnotations:
    """Of every word the token it is read from, counted from the first token of its row."""

    word_tokens: RaggedArray

    def pack(self, rows: Array, windows: Array, begins: Array) -> dict[str, Array]:  # noqa: ARG002
        """For rows laid end to end, each beginning at a token: the tokens that are read, and whose they are."""
        import numpy as np

        some = self.word_tokens[rows]
        owners = some.row_indices
        known = some.values >= 0
        reads = (some.values + begins[owners])[known].astype(np.int64)
        return {"token_indices": reads, "token_rows": owners[known], "has_token": known}


def marks(found: Sequence[Array], truths: Sequence[Any] | None, fit: LengthPolicy) -> TagAnnotations:
    """Of all rows."""
    import numpy as np

    return TagAnnotations(
        word_tokens=RaggedArray(values=np.concatenate(found), bounds=compute_bounds([len(one) for one in found]))
    )
