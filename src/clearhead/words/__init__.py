"""Context-free word vectors: one vector for each word, read, learned, asked and measured; numpy only."""

from clearhead.words.files import load_vectors, save_vectors
from clearhead.words.vectors import Neighbour, WordVectors

__all__ = ["Neighbour", "WordVectors", "load_vectors", "save_vectors"]
