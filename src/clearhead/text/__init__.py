"""Strings to ids and back: load a model folder's tokenizer, encode, window, decode, save."""

from clearhead.text.encoding import Encoding
from clearhead.text.load import TokenizerPair, load_tokenizer
from clearhead.text.tokenizer import Tokenizer

__all__ = ["Encoding", "Tokenizer", "TokenizerPair", "load_tokenizer"]
