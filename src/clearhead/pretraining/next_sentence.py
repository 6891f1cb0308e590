"""Next sentence prediction with masked tokens, as in BERT: does B follow A, or is it from another document?"""

from __future__ import annotations

from dataclasses import replace

from clearhead.pretraining.example_spans import sample_pairs
from clearhead.pretraining.masking import MASKED_TOKENS

NEXT_SENTENCE = replace(
    MASKED_TOKENS,
    name="mlm+nsp",
    title="masked tokens and next sentence",
    sample_spans=sample_pairs,
    max_text_tokens=lambda length, vocab: (
        length - len(vocab.prefix_ids) - len(vocab.separator_ids) - len(vocab.suffix_ids)
    ),
    heads=("pretrain",),
    losses=("words", "pairs"),
)
