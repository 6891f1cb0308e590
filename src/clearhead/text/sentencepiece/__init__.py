"""SentencePiece models without the `sentencepiece` library, with resource limits, and Marian's tokenizer on top.

`model_file` parses the protobuf bytes, `normalizer` and `segmenter` convert text to pieces, `decoder` pieces to text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from clearhead.text.sentencepiece.marian import load_marian
    from clearhead.text.sentencepiece.model_file import parse_model
    from clearhead.text.sentencepiece.normalizer import Charsmap
    from clearhead.text.sentencepiece.trie import StepBudget
else:
    from clearhead.lazy import export_lazily

    export_lazily(
        __name__,
        {
            "marian": ("load_marian",),
            "model_file": ("parse_model",),
            "normalizer": ("Charsmap",),
            "trie": ("StepBudget",),
        },
    )

__all__ = [
    "Charsmap",
    "StepBudget",
    "load_marian",
    "parse_model",
]
