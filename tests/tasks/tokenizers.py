"""One cached tokenizer of each kind that the tag and span tasks must support."""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path

from clearhead.text import Tokenizer, load_tokenizer
from tests.text.tokenizer_folders import LEGACY_WRITERS

KINDS = ("bert_cased", "distilbert", "roberta", "roberta_prefixed", "xlm_roberta", "albert", "deberta")


@cache
def make_tokenizer(kind: str) -> Tokenizer:
    """Train a WordPiece, byte-level BPE or SentencePiece tokenizer."""
    folder = Path(tempfile.mkdtemp(prefix=f"clearhead-{kind}-"))
    model_type = LEGACY_WRITERS[kind](folder)
    return load_tokenizer(folder, model_type, {"model_type": model_type}).source
