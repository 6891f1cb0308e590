"""Text to ids and back: tokenizers as they are read, learned, bounded and saved.

Also the only place that splits text into words (`words`) and recognizes subword markers (`subwords`). The tokenizers
themselves are imported when they are used, so that splitting words costs nothing more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from clearhead.text.encoding import Encoding
    from clearhead.text.loader import TokenizerPair, load_tokenizer
    from clearhead.text.tokenizer import Tokenizer

__all__ = ["Encoding", "Tokenizer", "TokenizerPair", "load_tokenizer"]

_HOMES = {"Encoding": "encoding", "Tokenizer": "tokenizer", "TokenizerPair": "loader", "load_tokenizer": "loader"}


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name not in _HOMES:
        raise AttributeError(f"module 'clearhead.text' has no attribute {name!r}")
    return getattr(import_module(f"clearhead.text.{_HOMES[name]}"), name)
