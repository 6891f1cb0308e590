"""Replaced tokens, as ELECTRA learns them: a small generator fills the masks, and the model tells which words are its.

The masks are all hidden (nothing is left or replaced by chance): what the generator says there is what is replaced.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from clearhead.pretraining.batch import Kit, Lesson, Texts
from clearhead.pretraining.masking import MASKED, assemble, choose


def hidden(texts: Texts, kit: Kit, rng: np.random.Generator) -> Lesson:
    """A lesson for the generator."""
    ids, lengths, segments, _ = assemble(texts, kit)
    places = choose(ids, lengths, kit, rng)
    read = ids.copy()
    read[places] = kit.mask
    before = np.where(places > 0, ids[places - 1], -1)
    return Lesson(ids=read, lengths=lengths, segments=segments, places=places, words=ids[places], before=before)


REPLACED = replace(
    MASKED, name="rtd", about="replaced tokens", make=hidden, heads=("replaced",), losses=("words", "replaced")
)
