"""Vocabularies learned from text: words are counted, options chosen, and the `tokenizers` library trains on them."""
