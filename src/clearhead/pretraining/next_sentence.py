"""Next sentence beside masked words, as BERT learns them: does B follow A, or is it from another document?"""

from __future__ import annotations

from dataclasses import replace

from clearhead.pretraining.example_spans import sample_pairs
from clearhead.pretraining.masking import MASKED

NEXT_SENTENCE = replace(
    MASKED,
    name="mlm+nsp",
    about="masked words and next sentence",
    cut=sample_pairs,
    room=lambda length, vocab: length - len(vocab.opens) - len(vocab.between) - len(vocab.closes),
    heads=("pretrain",),
    losses=("words", "pairs"),
)
