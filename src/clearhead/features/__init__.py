"""Frozen features under a linear model: choice of layers and pooling, sweeps, learned layer weights, word vectors."""
