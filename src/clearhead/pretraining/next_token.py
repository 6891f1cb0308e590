"""The next word, as GPT learns it: every word is asked about, given those before it."""

from __future__ import annotations

import numpy as np

from clearhead.pretraining.batch import Kit, Lesson, Objective, Texts
from clearhead.pretraining.example_spans import singles

OPENED = 0.5  # of the texts


def following(texts: Texts, kit: Kit, rng: np.random.Generator) -> Lesson:
    """A lesson of next words: what is read is the text without its last token, what is right is the one after each.

    Half of the texts have the end token before them, as documents in a long row have, and half begin as a prompt does,
    with a word. Where a document ends, the end token is the right answer.
    """
    opens = np.array(kit.opens or ((kit.eos,) if kit.eos is not None else ()), np.int64)
    closes = np.array((kit.eos,) if kit.eos is not None else (), np.int64)
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
    return Lesson(ids=ids, lengths=lengths, places=np.arange(len(ids)), words=words, before=before)


NEXT_WORD = Objective(
    name="clm",
    about="the next word",
    cut=singles,
    make=following,
    room=lambda length, _: length - 2,
    heads=("causal",),
    losses=("words",),
    least=lambda kit: 2 if kit.eos is None and not kit.opens else 1,  # a word needs something before it
)
