"""Embed texts: vectors as an array, or as .npy, .jsonl and .parquet files, written in bounded memory and resumable.

`clearhead.embed` is `embed_texts` or, with an output, `embed_file`; the model itself is `clearhead.model`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from clearhead.embeddings.job import EmbedOptions, embed_file, embed_texts
    from clearhead.embeddings.vector_files import Vectors, find_model_folder
else:
    from clearhead.lazy import export_lazily

    export_lazily(
        __name__,
        {
            "job": ("EmbedOptions", "embed_file", "embed_texts"),
            "vector_files": ("Vectors", "find_model_folder"),
        },
    )

__all__ = [
    "EmbedOptions",
    "Vectors",
    "embed_file",
    "embed_texts",
    "find_model_folder",
]
