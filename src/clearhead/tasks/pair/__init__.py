"""Two texts, one label or several: entailment, paraphrase, the sentiment of a text towards an aspect.

Everything after reading the two texts is as in `classify`.
"""
