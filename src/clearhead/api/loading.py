"""Public functions that open or create models; this module imports nothing else, so that loading is fast."""

from clearhead.model.loading import create, has_tokenizer, load, load_tokenizers

__all__ = ["create", "has_tokenizer", "load", "load_tokenizers"]
