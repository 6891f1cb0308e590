"""What an objective of pre-training is: a value that makes batches with targets out of text."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from clearhead.pretraining.batch import PretrainBatch
from clearhead.pretraining.example_spans import SpanSampler
from clearhead.pretraining.vocab_info import VocabInfo

Array = np.ndarray[Any, Any]
TextPairs = list[tuple[Array, Array | None, int]]  # the ids of a text, perhaps of a second one, and if they go together


@dataclass(frozen=True, kw_only=True)
class PretrainObjective:
    """A way to learn without labels: how texts are cut, what is asked about them, and of which heads."""

    name: str
    title: str
    sample_spans: SpanSampler
    make_batch: Callable[[TextPairs, VocabInfo, np.random.Generator], PretrainBatch]
    max_text_tokens: Callable[[int, VocabInfo], int]  # tokens of text in an example of a length
    heads: tuple[str, ...]  # of the network, the first that its family has
    losses: tuple[str, ...]  # what is learned: "words", "pairs", "replaced"
    min_text_tokens: Callable[[VocabInfo], int] = lambda _: 1  # tokens of a text that can be learned from
    find_problem: Callable[[VocabInfo], str] = lambda _: ""  # what a vocabulary lacks for it, in a sentence
