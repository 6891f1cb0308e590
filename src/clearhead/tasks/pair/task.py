"""Two texts, one label: entailment, paraphrase, or the sentiment of a text towards an aspect.

BERT reads both at once, `[CLS] first [SEP] second [SEP]`, and answers from [CLS]: everything after that is classify.
"""

from __future__ import annotations

from dataclasses import replace

from clearhead.tasks.classify.decoding import CLASSIFY

PAIR = replace(CLASSIFY, name="pair", about="two texts, one label or several", second=True)
