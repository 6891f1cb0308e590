"""Translation and generation: parallel data, training, streaming of lines, evaluation and report."""
