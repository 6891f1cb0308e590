"""Aspect sentiment: what a review speaks of, and what it thinks of each aspect.

`job` trains the two models, a tagger that finds aspects and a pair classifier that judges each of them; `predictor`
answers with both as one; `reviews` reads the rows and `inspection` describes them.
"""
