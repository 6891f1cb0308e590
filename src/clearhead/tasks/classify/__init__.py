"""One text, one label or several: sentiment, intent, topic.

`decoding` turns logits into labels, `metrics` scores them, `examples` picks the rows of an error analysis.
"""
