"""Frozen features under a linear model: vectors of a model whose weights do not change.

`layer_choices` and `sweep` choose layers and pooling, `weighted` learns a mixture of layers, `word_vectors` takes
vectors without context, and `taggers` gives each word a vector.
"""
