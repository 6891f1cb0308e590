"""Sentence order prediction with masked tokens, as in ALBERT: which of two consecutive spans comes first?"""

from __future__ import annotations

from dataclasses import replace

from clearhead.pretraining.example_spans import sample_ordered_pairs
from clearhead.pretraining.next_sentence import NEXT_SENTENCE

SENTENCE_ORDER = replace(
    NEXT_SENTENCE, name="mlm+sop", title="masked tokens and sentence order", sample_spans=sample_ordered_pairs
)
