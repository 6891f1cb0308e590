"""The next word, as GPT learns it: every word is asked about, given those before it."""

from __future__ import annotations

import numpy as np

from clearhead.pretraining.batch import PretrainBatch
from clearhead.pretraining.example_spans import sample_texts
from clearhead.pretraining.objective import PretrainObjective, TextPairs
from clearhead.pretraining.vocab_info import VocabInfo

OPENED = 0.5  # of the texts


def make_next_token_batch(texts: TextPairs, vocab: VocabInfo, rng: np.random.Generator) -> PretrainBatch:
    """A batch of next words: what is read is the text without its last token, what is right is the one after each.

    Half of the texts have the end token before them, as documents in a long row have, and half begin as a prompt does,
    with a word. Where a document ends, the end token is the right answer.
    """
    opens = np.array(vocab.opens or ((vocab.eos,) if vocab.eos is not None else ()), np.int64)
    closes = np.array((vocab.eos,) if vocab.eos is not None else (), np.int64)
    opened = rng.random(len(texts)) < OPENED
    rows = [
        np.concatenate([opens if begins or len(text) < 2 else opens[:0], text, closes if ends else closes[:0]])
        for begins, (text, _, ends) in zip(opened, texts, strict=True)
    ]
    ids = np.concatenate([row[:-1] for row in rows])
    words = np.concatenate([row[1:] for row in rows])
    lengths = np.array([len(row) - 1 for row in rows], np.int64)
    firsts = np.cumsum(lengths) - lengths
    before = ids.copy()
    before[firsts[opened]] = -1  # the end token of another document tells nothing
    return PretrainBatch(ids=ids, lengths=lengths, places=np.arange(len(ids)), words=words, before=before)


NEXT_WORD = PretrainObjective(
    name="clm",
    about="the next word",
    cut=sample_texts,
    make=make_next_token_batch,
    room=lambda length, _: length - 2,
    heads=("causal",),
    losses=("words",),
    least=lambda vocab: 2 if vocab.eos is None and not vocab.opens else 1,  # a word needs something before it
)
