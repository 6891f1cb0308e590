"""Next and previous token prediction, as in ELMo: one network reads forward, one backward."""

from __future__ import annotations

import numpy as np

from clearhead.pretraining.batch import PretrainBatch
from clearhead.pretraining.example_spans import sample_texts
from clearhead.pretraining.objective import PretrainObjective, TextPairs
from clearhead.pretraining.vocab_info import VocabInfo


def make_bidirectional_batch(texts: TextPairs, vocab: VocabInfo, rng: np.random.Generator) -> PretrainBatch:  # noqa: ARG001
    """Build a batch that predicts the next token of all but the last, and the previous one of all but the first.

    Position 2t is predicted from the forward state of token t, position 2t + 1 from the backward state.
    """
    prefix, suffix = np.array(vocab.prefix_ids, np.int64), np.array(vocab.suffix_ids, np.int64)
    rows = [np.concatenate([prefix, text, suffix]) for text, *_ in texts]
    ids = np.concatenate(rows)
    lengths = np.array([len(row) for row in rows], np.int64)
    ends = np.cumsum(lengths)
    has_next, has_previous = np.ones(len(ids), bool), np.ones(len(ids), bool)
    has_next[ends - 1] = False  # the last token has no next token
    has_previous[ends - lengths] = False  # the first has no previous token
    next_ids, previous = np.roll(ids, -1), np.roll(ids, 1)
    has_second_previous = has_previous.copy()
    has_second_previous[1:] &= has_previous[:-1]  # whether the previous token has a previous one
    is_target = np.stack([has_next, has_previous], 1).ravel()
    labels = np.stack([next_ids, previous], 1).ravel()
    contexts = np.stack([ids, np.where(has_second_previous, np.roll(ids, 2), -1)], 1).ravel()
    return PretrainBatch(
        ids=ids,
        lengths=lengths,
        positions=np.flatnonzero(is_target),
        labels=labels[is_target],
        previous_ids=contexts[is_target],
        targets_per_token=2,
    )


BIDIRECTIONAL = PretrainObjective(
    name="bilm",
    title="next and previous token",
    sample_spans=sample_texts,
    make_batch=make_bidirectional_batch,
    max_text_tokens=lambda length, vocab: length - len(vocab.prefix_ids) - len(vocab.suffix_ids),
    heads=("bilm",),
    losses=("words",),
)
