"""A tag for every word: names in a text, parts of speech, aspects of a review.

`rows` reads cells, `alignment` maps words to tokens, `decoding` turns logits into tags, `metrics` scores entities.
"""
