"""The next word and the word before, as ELMo learns them: one network reads forward, one backward."""

from __future__ import annotations

import numpy as np

from clearhead.pretraining.batch import PretrainBatch
from clearhead.pretraining.example_spans import sample_texts
from clearhead.pretraining.objective import PretrainObjective, TextPairs
from clearhead.pretraining.vocab_info import VocabInfo


def make_bidirectional_batch(texts: TextPairs, vocab: VocabInfo, rng: np.random.Generator) -> PretrainBatch:  # noqa: ARG001
    """A batch of neighbors: of each token but the last the one after it, of each but the first the one before it.

    Place 2t asks the forward state of token t, place 2t + 1 the backward one.
    """
    opens, closes = np.array(vocab.prefix_ids, np.int64), np.array(vocab.suffix_ids, np.int64)
    rows = [np.concatenate([opens, text, closes]) for text, *_ in texts]
    ids = np.concatenate(rows)
    lengths = np.array([len(row) for row in rows], np.int64)
    ends = np.cumsum(lengths)
    forth, back = np.ones(len(ids), bool), np.ones(len(ids), bool)
    forth[ends - 1] = False  # the last token has none after it
    back[ends - lengths] = False  # the first has none before it
    after, before = np.roll(ids, -1), np.roll(ids, 1)
    second = back.copy()
    second[1:] &= back[:-1]  # is there a token before the one before it?
    asked = np.stack([forth, back], 1).ravel()
    words = np.stack([after, before], 1).ravel()
    known = np.stack([ids, np.where(second, np.roll(ids, 2), -1)], 1).ravel()
    return PretrainBatch(
        ids=ids,
        lengths=lengths,
        positions=np.flatnonzero(asked),
        labels=words[asked],
        previous_ids=known[asked],
        targets_per_token=2,
    )


BIDIRECTIONAL = PretrainObjective(
    name="bilm",
    title="the next word and the word before",
    sample_spans=sample_texts,
    make_batch=make_bidirectional_batch,
    max_text_tokens=lambda length, vocab: length - len(vocab.prefix_ids) - len(vocab.suffix_ids),
    heads=("bilm",),
    losses=("words",),
)
