"""Text classification with one or several labels: sentiment, intent, topic.

`decoding` turns logits into labels, `metrics` measures them, `examples` selects rows for the error analysis.
"""

from __future__ import annotations

from clearhead.tasks.classify.task import CLASSIFY

__all__ = ["CLASSIFY"]
