"""Replaced token detection, as in ELECTRA: a generator fills the masks, and the model detects the replaced tokens.

All targets become [MASK] (none stays unchanged or becomes a random token); the generator's predictions replace them.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from clearhead.pretraining.batch import PretrainBatch
from clearhead.pretraining.masking import MASKED_TOKENS, choose_targets, pack_texts
from clearhead.pretraining.objective import TextPairs
from clearhead.pretraining.vocab_info import VocabInfo


def make_generator_batch(texts: TextPairs, vocab: VocabInfo, rng: np.random.Generator) -> PretrainBatch:
    """Build a batch for the generator."""
    ids, lengths, segments, _ = pack_texts(texts, vocab)
    positions = choose_targets(ids, lengths, vocab, rng)
    masked = ids.copy()
    masked[positions] = vocab.mask_id
    previous_ids = np.where(positions > 0, ids[positions - 1], -1)
    return PretrainBatch(
        ids=masked,
        lengths=lengths,
        segments=segments,
        positions=positions,
        labels=ids[positions],
        previous_ids=previous_ids,
    )


REPLACED_TOKENS = replace(
    MASKED_TOKENS,
    name="rtd",
    title="replaced tokens",
    make_batch=make_generator_batch,
    heads=("replaced",),
    losses=("words", "replaced"),
)
