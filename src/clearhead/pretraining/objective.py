"""A pre-training objective: a value that builds batches with targets from text."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from clearhead.pretraining.batch import PretrainBatch
from clearhead.pretraining.example_spans import SpanSampler
from clearhead.pretraining.vocab_info import VocabInfo

Array = np.ndarray[Any, Any]
TextPairs = list[tuple[Array, Array | None, int]]  # ids of a text, of an optional second one, and the label of the pair


@dataclass(frozen=True, kw_only=True)
class PretrainObjective:
    """How texts become examples and batches with targets, and which heads predict them."""

    name: str
    title: str
    sample_spans: SpanSampler
    make_batch: Callable[[TextPairs, VocabInfo, np.random.Generator], PretrainBatch]
    max_text_tokens: Callable[[int, VocabInfo], int]  # tokens of text in an example of max_length tokens
    heads: tuple[str, ...]  # the first one that the family has is used
    losses: tuple[str, ...]  # "words", "pairs", "replaced"
    min_text_tokens: Callable[[VocabInfo], int] = lambda _: 1  # tokens of the shortest usable text
    find_problem: Callable[[VocabInfo], str] = lambda _: (
        ""
    )  # a message about what the vocabulary lacks, or an empty string
