"""Vectors of texts as files: .npy, .jsonl, .parquet and others, written in bounded memory and resumable."""
