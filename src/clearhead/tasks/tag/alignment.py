"""Alignment of words and tokens: a word is represented by its first token, as in BERT."""

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

SHARED_TOKEN = -1  # the word lies inside the token of an earlier word
NO_TOKEN = -2  # the tokenizer drops the word


def encode_words(rows: Sequence[TextRow], tokenizer: TextEncoder, fit: LengthPolicy) -> Iterable[EncodedRow]:
    """Encode texts, long ones in windows, and align each word with a token."""
    # listed words are encoded as one text, because byte-level tokens include the preceding space
    encodings = tokenizer.encode_batch([row.text for row in rows], max_length=fit.token_level_limit)
    for row, encoding in zip(rows, encodings, strict=True):
        windows = fit.apply(encoding)
        yield EncodedRow(windows, align_words(row.extra, windows))


def align_words(words: Words, windows: Sequence[Encoding]) -> Array:
    """Return the first token of each word, in the window with the most context on both sides.

    Tokens are counted over the concatenated windows; negative values mark words without a token of their own.
    """
    import numpy as np

    word_tokens = np.full(len(words.offsets), NO_TOKEN, np.int32)
    margins = np.full(len(words.offsets), -1, np.int64)
    window_start, ends = 0, [end for _, end in words.offsets]
    for window in windows:
        text_tokens = [index for index, side in enumerate(window.sides) if side is not None]
        for word, token in _find_first_tokens(window, words.offsets, ends).items():
            margin = min(token - text_tokens[0], text_tokens[-1] - token)
            if token < 0:
                word_tokens[word] = max(word_tokens[word], SHARED_TOKEN)
            elif margin > margins[word]:
                margins[word], word_tokens[word] = margin, window_start + token
        window_start += len(window)
    return word_tokens


def _find_first_tokens(
    window: Encoding, word_offsets: Sequence[tuple[int, int]], ends: Sequence[int]
) -> dict[int, int]:
    """Map words to their first tokens by offsets; a token represents the first word that it covers."""
    first_tokens: dict[int, int] = {}
    word = bisect_right(ends, next((start for (start, end) in window.offsets if end > start), 0))
    for token, ((start, end), side) in enumerate(zip(window.offsets, window.sides, strict=True)):
        if side is None or end <= start:
            continue
        while word < len(word_offsets) and word_offsets[word][1] <= start:
            word += 1
        if (
            word < len(word_offsets)
            and word_offsets[word][0] < end
            and first_tokens.get(word, SHARED_TOKEN) == SHARED_TOKEN
        ):
            first_tokens[word] = token
        later_word = word + 1
        while later_word < len(word_offsets) and word_offsets[later_word][0] < end:
            first_tokens.setdefault(later_word, SHARED_TOKEN)
            later_word += 1
    return first_tokens


@dataclass(frozen=True, kw_only=True)
class TagAnnotations:
    """The token of each word, counted from the first token of its row."""

    word_tokens: RaggedArray

    def pack(self, rows: Array, windows: Array, row_starts: Array) -> dict[str, Array]:  # noqa: ARG002
        """Pack the annotations of rows: the token of each word, its row, and which words have a token."""
        import numpy as np

        word_tokens = self.word_tokens[rows]
        word_rows = word_tokens.row_indices
        has_token = word_tokens.values >= 0
        token_indices = (word_tokens.values + row_starts[word_rows])[has_token].astype(np.int64)
        return {"token_indices": token_indices, "token_rows": word_rows[has_token], "has_token": has_token}


def annotate_words(word_tokens: Sequence[Array], truths: Sequence[Any] | None, fit: LengthPolicy) -> TagAnnotations:
    """Build the annotations of all rows."""
    import numpy as np

    return TagAnnotations(
        word_tokens=RaggedArray(
            values=np.concatenate(word_tokens), bounds=compute_bounds([len(tokens) for tokens in word_tokens])
        )
    )
