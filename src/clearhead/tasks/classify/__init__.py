"""One text, one label or several: sentiment, intent, topic.

`decoding` turns logits into labels, `metrics` scores them, `examples` picks the rows of an error analysis.
"""

from __future__ import annotations

from clearhead.tasks.classify.task import CLASSIFY

__all__ = ["CLASSIFY"]
