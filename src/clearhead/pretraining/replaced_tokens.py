"""Replaced tokens, as ELECTRA learns them: a small generator fills the masks, and the model tells which words are its.

The masks are all hidden (nothing is left or replaced by chance): what the generator says there is what is replaced.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from clearhead.pretraining.batch import PretrainBatch
from clearhead.pretraining.masking import MASKED_TOKENS, choose_targets, pack_texts
from clearhead.pretraining.objective import TextPairs
from clearhead.pretraining.vocab_info import VocabInfo


def make_generator_batch(texts: TextPairs, vocab: VocabInfo, rng: np.random.Generator) -> PretrainBatch:
    """A batch for the generator."""
    ids, lengths, segments, _ = pack_texts(texts, vocab)
    places = choose_targets(ids, lengths, vocab, rng)
    read = ids.copy()
    read[places] = vocab.mask_id
    before = np.where(places > 0, ids[places - 1], -1)
    return PretrainBatch(
        ids=read, lengths=lengths, segments=segments, positions=places, labels=ids[places], previous_ids=before
    )


REPLACED_TOKENS = replace(
    MASKED_TOKENS,
    name="rtd",
    title="replaced tokens",
    make_batch=make_generator_batch,
    heads=("replaced",),
    losses=("words", "replaced"),
)
