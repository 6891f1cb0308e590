"""Aspect sentiment: a tagger that finds aspects and a pair classifier that judges each of them."""
