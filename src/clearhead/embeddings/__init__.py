"""Embed texts: vectors as an array, or as .npy, .jsonl and .parquet files, written in bounded memory and resumable.

`clearhead.embed` is `embed_texts` or, with an output, `embed_file`; the model itself is `clearhead.model`.
"""
