"""Text-pair classification: entailment, paraphrase, sentiment towards an aspect.

The encoder reads both texts at once, `[CLS] first [SEP] second [SEP]`, and classifies from [CLS].
"""

from __future__ import annotations

from dataclasses import replace

from clearhead.data.column_layout import ColumnLayout
from clearhead.tasks.classify.task import CLASSIFY

PAIR = replace(
    CLASSIFY,
    name="pair",
    description="two texts, one or more labels",
    rows=replace(CLASSIFY.rows, layout=ColumnLayout(second_text=True), is_reversible=True),
    # a checkpoint does not state how many texts it reads
    head=replace(CLASSIFY.head, infer_labels=lambda names, config: None),
    answers=replace(CLASSIFY.answers, purpose="labels pairs of texts"),
)
