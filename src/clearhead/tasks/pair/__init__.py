"""Two texts, one label or several: entailment, paraphrase, the sentiment of a text towards an aspect.

Everything after reading the two texts is as in `classify`.
"""

from __future__ import annotations

from clearhead.tasks.pair.task import PAIR

__all__ = ["PAIR"]
