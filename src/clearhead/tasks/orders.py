"""Two texts in both orders: where it does not matter which one comes first, a causal model reads them either way.

The OpenAI Transformer adds what it makes of both before its linear layer; here the answers of both are averaged, which
is the same with weights twice as large in that layer.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from clearhead.data.examples import TextRow
from clearhead.data.row_codec import EncodedRow, LengthPolicy, TextEncoder, encode_items
from clearhead.tasks.task import Task


def read_in_both_orders(task: Task) -> Task:
    """The same task, each of whose rows is read twice."""
    return replace(task, rows=replace(task.rows, encode=_pieces, passes_per_row=2))


def _pieces(rows: Sequence[TextRow], tokenizer: TextEncoder, fit: LengthPolicy) -> Iterable[EncodedRow]:
    """The windows of one order, then those of the other; what is cut off is counted once."""
    forth = encode_items([(row.text, row.text_b) for row in rows], tokenizer, fit)
    back = encode_items([(row.text_b, row.text) for row in rows], tokenizer, fit)
    for one, other in zip(forth, back, strict=True):
        yield EncodedRow([*one, *(replace(window, truncated=0) for window in other)])
