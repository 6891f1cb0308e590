"""Models that are ready to use: a runner, tokenizers, a head and a passport.

`load` and `create` return a `Model`; embedding, generation, alignment and description are functions of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from clearhead.model.alignment import Aligner, Alignment, average_rows, sum_columns
    from clearhead.model.describe import Description, describe_model, size_rows, training_facts, training_rows
    from clearhead.model.embedding import Embedder, TruncationWarning
    from clearhead.model.fill import Guess
    from clearhead.model.generation import TextGenerator
    from clearhead.model.layers import Layer, choose_layer, pool, pooling_modes
    from clearhead.model.loading import create, has_tokenizer, load, load_tokenizers, new_shape, require_torch
    from clearhead.model.model import Model
    from clearhead.model.opening import as_model, source_prefix
else:
    from clearhead.lazy import export_lazily

    export_lazily(
        __name__,
        {
            "alignment": ("Aligner", "Alignment", "average_rows", "sum_columns"),
            "describe": ("Description", "describe_model", "size_rows", "training_facts", "training_rows"),
            "embedding": ("Embedder", "TruncationWarning"),
            "fill": ("Guess",),
            "generation": ("TextGenerator",),
            "layers": ("Layer", "choose_layer", "pool", "pooling_modes"),
            "loading": ("create", "has_tokenizer", "load", "load_tokenizers", "require_torch", "new_shape"),
            "model": ("Model",),
            "opening": ("as_model", "source_prefix"),
        },
    )

__all__ = [
    "Aligner",
    "Alignment",
    "Description",
    "Embedder",
    "Guess",
    "Layer",
    "Model",
    "TextGenerator",
    "TruncationWarning",
    "as_model",
    "average_rows",
    "choose_layer",
    "create",
    "describe_model",
    "has_tokenizer",
    "load",
    "load_tokenizers",
    "new_shape",
    "pool",
    "pooling_modes",
    "require_torch",
    "size_rows",
    "source_prefix",
    "sum_columns",
    "training_facts",
    "training_rows",
]
