"""What training must know of tagged rows: how much each counts, how they are split, and tags that no token has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from clearhead.data.labels import LabelSpace
from clearhead.data.table import TokenTable
from clearhead.tasks.packed import PackedDataset
from clearhead.tasks.ragged import RaggedArray
from clearhead.tasks.tag.alignment import INHERITS
from clearhead.tasks.tag.decoding import OUTSIDE, fill_gaps

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]


def weights(data: PackedDataset) -> Array:
    """Every word counts alike, so that a row counts by its words."""
    import numpy as np

    places = data.annotations.word_tokens[data.table_rows]
    return np.bincount(places.row_indices, weights=places.values >= 0, minlength=len(data))


def strata(targets: RaggedArray, space: LabelSpace) -> tuple[Array, str]:
    """Rows go by the rarest type of tag in them."""
    import numpy as np

    made = np.zeros((len(targets), len(space)), np.uint8)
    made[targets.row_indices, targets.values] = 1
    if OUTSIDE in space.ids:
        made[:, space.ids[OUTSIDE]] = 0
    return made, "multilabel"


def unread(table: TokenTable) -> tuple[str, Array]:
    """Rows with a tag that no token can say: on a word that the tokenizer drops, or joins with the one before."""
    import numpy as np

    assert table.space is not None
    places, targets, space = table.annotations.word_tokens, table.labels, table.space
    reached = np.where(places.values >= 0, targets.values, space.ids.get(OUTSIDE, -1))
    lone = np.where(places.values >= 0, 0.0, np.where(places.values == INHERITS, np.inf, np.nan))
    fill_gaps(reached, np.zeros((len(reached), len(space))), lone[:, None], targets.bounds, space)
    what = "a tag on a word without a token of its own: it cannot be learned"
    return what, np.unique(targets.row_indices[reached != targets.values])
