"""Training targets of the tag task: row weights, strata for splits, and tags that cannot be learned."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from clearhead.data.labels import LabelSpace
from clearhead.data.table import TokenTable
from clearhead.tasks.packed import PackedDataset
from clearhead.tasks.ragged import RaggedArray
from clearhead.tasks.tag.alignment import SHARED_TOKEN
from clearhead.tasks.tag.decoding import OUTSIDE, fill_gaps

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]


def weight_rows(data: PackedDataset) -> Array:
    """Weight rows by their number of words, so that all words count equally."""
    import numpy as np

    word_tokens = data.annotations.word_tokens[data.table_rows]
    return np.bincount(word_tokens.row_indices, weights=word_tokens.values >= 0, minlength=len(data))


def stratify(targets: RaggedArray, space: LabelSpace) -> tuple[Array, str]:
    """Stratify rows by the tags they contain."""
    import numpy as np

    has_tag = np.zeros((len(targets), len(space)), np.uint8)
    has_tag[targets.row_indices, targets.values] = 1
    if OUTSIDE in space.ids:
        has_tag[:, space.ids[OUTSIDE]] = 0
    return has_tag, "multilabel"


def find_unlearnable(table: TokenTable) -> tuple[str, Array]:
    """Find rows with a tag on a word that the tokenizer drops or joins with the previous word."""
    import numpy as np

    assert table.space is not None
    word_tokens, targets, space = table.annotations.word_tokens, table.labels, table.space
    reachable = np.where(word_tokens.values >= 0, targets.values, space.ids.get(OUTSIDE, -1))
    token_state = np.where(word_tokens.values >= 0, 0.0, np.where(word_tokens.values == SHARED_TOKEN, np.inf, np.nan))
    fill_gaps(reachable, np.zeros((len(reachable), len(space))), token_state[:, None], targets.bounds, space)
    problem = "a tag on a word without its own token, which cannot be learned"
    return problem, np.unique(targets.row_indices[reachable != targets.values])
