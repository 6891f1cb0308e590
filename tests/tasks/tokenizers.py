"""Tokenizers of every kind that taggers and answerers must get along with, each made once."""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path

from clearhead.text import Tokenizer, load_tokenizer
from tests.text.tokenizer_folders import LEGACY_WRITERS

KINDS = ("bert_cased", "distilbert", "roberta", "roberta_prefixed", "xlm_roberta", "albert", "deberta")


@cache
def make_tokenizer(kind: str) -> Tokenizer:
    """Word pieces, byte-level pairs or sentence pieces, learned on the spot."""
    folder = Path(tempfile.mkdtemp(prefix=f"clearhead-{kind}-"))
    model_type = LEGACY_WRITERS[kind](folder)
    return load_tokenizer(folder, model_type, {"model_type": model_type}).source
