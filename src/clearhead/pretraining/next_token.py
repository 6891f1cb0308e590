"""The next word, as GPT learns it: every word is asked about, given those before it."""

from __future__ import annotations

import numpy as np

from clearhead.pretraining.batch import PretrainBatch
from clearhead.pretraining.example_spans import sample_texts
from clearhead.pretraining.objective import PretrainObjective, TextPairs
from clearhead.pretraining.vocab_info import VocabInfo

START_TOKEN_SHARE = 0.5  # of the texts


def make_next_token_batch(texts: TextPairs, vocab: VocabInfo, rng: np.random.Generator) -> PretrainBatch:
    """A batch of next words: what is read is the text without its last token, what is right is the one after each.

    Half of the texts have the end token before them, as documents in a long row have, and half begin as a prompt does,
    with a word. Where a document ends, the end token is the right answer.
    """
    opens = np.array(vocab.prefix_ids or ((vocab.eos_id,) if vocab.eos_id is not None else ()), np.int64)
    closes = np.array((vocab.eos_id,) if vocab.eos_id is not None else (), np.int64)
    opened = rng.random(len(texts)) < START_TOKEN_SHARE
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
    return PretrainBatch(ids=ids, lengths=lengths, positions=np.arange(len(ids)), labels=words, previous_ids=before)


NEXT_TOKEN = PretrainObjective(
    name="clm",
    title="the next word",
    sample_spans=sample_texts,
    make_batch=make_next_token_batch,
    max_text_tokens=lambda length, _: length - 2,
    heads=("causal",),
    losses=("words",),
    min_text_tokens=lambda vocab: (
        2 if vocab.eos_id is None and not vocab.prefix_ids else 1
    ),  # a word needs something before it
)
