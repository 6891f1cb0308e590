"""The next word, as GPT learns it: every word is asked about, given those before it."""

from __future__ import annotations

import numpy as np

from clearhead.pretraining.cuts import singles
from clearhead.pretraining.lesson import Kit, Lesson, Objective, Texts


def following(texts: Texts, kit: Kit, rng: np.random.Generator) -> Lesson:  # noqa: ARG001
    """A lesson of next words: what is read is the text without its last token, what is right is the one after each."""
    opens = np.array(kit.opens or ((kit.eos,) if kit.eos is not None else ()), np.int64)
    rows = [np.concatenate([opens, first]) for first, *_ in texts]
    rows = [row for row in rows if len(row) > 1]
    ids = np.concatenate([row[:-1] for row in rows])
    words = np.concatenate([row[1:] for row in rows])
    lengths = np.array([len(row) - 1 for row in rows], np.int64)
    return Lesson(ids=ids, lengths=lengths, places=np.arange(len(ids)), words=words, before=ids)


NEXT_WORD = Objective(
    name="clm",
    about="the next word",
    cut=singles,
    make=following,
    room=lambda length, _: length - 1,
    heads=("causal",),
    losses=("words",),
)
