"""From plain text to what a network learns from without labels: documents, sentences, shards, objectives (no torch)."""
