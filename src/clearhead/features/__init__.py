"""Linear models on frozen features, the vectors of a model whose weights do not change.

`layer_choices` and `sweep` choose layers and pooling, `weighted` learns a mixture of layers, `word_vectors` uses
static word vectors, and `taggers` fits linear models on the vector of each word.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from clearhead.features.sweep import sweep_texts
    from clearhead.features.taggers import fit_tagger, select_tags, sweep_words
    from clearhead.features.weighted import LayerWeights, learn_text_weights, learn_word_weights
    from clearhead.features.word_vectors import fit_word_vectors
else:
    from clearhead.lazy import export_lazily

    export_lazily(
        __name__,
        {
            "sweep": ("sweep_texts",),
            "taggers": ("fit_tagger", "select_tags", "sweep_words"),
            "weighted": ("LayerWeights", "learn_text_weights", "learn_word_weights"),
            "word_vectors": ("fit_word_vectors",),
        },
    )

__all__ = [
    "LayerWeights",
    "fit_tagger",
    "fit_word_vectors",
    "learn_text_weights",
    "learn_word_weights",
    "select_tags",
    "sweep_texts",
    "sweep_words",
]
