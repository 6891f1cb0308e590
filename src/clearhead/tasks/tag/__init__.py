"""A tag for every word: names in a text, parts of speech, aspects of a review.

`rows` reads cells, `alignment` maps words to tokens, `decoding` turns logits into tags, `metrics` scores entities.
"""

from __future__ import annotations

from clearhead.tasks.tag.task import TAG

__all__ = ["TAG"]
