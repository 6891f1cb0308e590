"""Token classification: a tag for each word, such as named entities, parts of speech or aspects of a review.

`rows` reads cells, `alignment` maps words to tokens, `decoding` turns logits into tags, `metrics` scores entities.
"""

from __future__ import annotations

from clearhead.tasks.tag.task import TAG

__all__ = ["TAG"]
