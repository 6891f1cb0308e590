"""Text pairs in both orders, for causal models and tasks in which the order of the texts is irrelevant.

GPT adds the final states of both orders before its linear layer; here the outputs of both are averaged, which is
equivalent to weights twice as large in that layer.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from clearhead.data.examples import TextRow
from clearhead.data.row_codec import EncodedRow, LengthPolicy, TextEncoder, encode_items
from clearhead.tasks.task import Task


def read_in_both_orders(task: Task) -> Task:
    """Return the task with rows that are encoded in both orders."""
    return replace(task, rows=replace(task.rows, encode=_encode_both_orders, passes_per_row=2))


def _encode_both_orders(rows: Sequence[TextRow], tokenizer: TextEncoder, fit: LengthPolicy) -> Iterable[EncodedRow]:
    """Encode both orders; truncated tokens are counted once."""
    forward = encode_items([(row.text, row.text_b) for row in rows], tokenizer, fit)
    backward = encode_items([(row.text_b, row.text) for row in rows], tokenizer, fit)
    for forward_windows, backward_windows in zip(forward, backward, strict=True):
        yield EncodedRow([*forward_windows, *(replace(window, truncated=0) for window in backward_windows)])
