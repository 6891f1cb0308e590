"""Two texts, one label: entailment, paraphrase, or the sentiment of a text towards an aspect.

BERT reads both at once, `[CLS] first [SEP] second [SEP]`, and answers from [CLS]: everything after that is classify.
"""

from __future__ import annotations

from dataclasses import replace

from clearhead.data.column_layout import ColumnLayout
from clearhead.tasks.classify.task import CLASSIFY

PAIR = replace(
    CLASSIFY,
    name="pair",
    about="two texts, one label or several",
    rows=replace(CLASSIFY.rows, layout=ColumnLayout(second_text=True), is_reversible=True),
    head=replace(CLASSIFY.head, space=lambda names, config: None),  # a checkpoint does not tell how many texts it reads
    answers=replace(CLASSIFY.answers, does="labels pairs of texts"),
)
