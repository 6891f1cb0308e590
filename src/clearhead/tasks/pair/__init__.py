"""Text-pair classification: entailment, paraphrase, sentiment towards an aspect.

Everything after encoding the two texts is the same as in `classify`.
"""

from __future__ import annotations

from clearhead.tasks.pair.task import PAIR

__all__ = ["PAIR"]
