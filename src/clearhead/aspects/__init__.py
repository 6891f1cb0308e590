"""Aspect-based sentiment: the aspects that a review mentions, and its sentiment towards each of them.

`job` trains two models, a tagger that finds aspects and a pair classifier for their polarity; `predictor` combines
both; `reviews` reads the rows and `inspection` describes them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from clearhead.aspects.describe import describe_aspects
    from clearhead.aspects.inspection import inspect_reviews
    from clearhead.aspects.job import AspectJob
    from clearhead.aspects.predictor import AspectScorer, load_aspects
    from clearhead.aspects.reviews import to_spans_source
else:
    from clearhead.lazy import export_lazily

    export_lazily(
        __name__,
        {
            "describe": ("describe_aspects",),
            "inspection": ("inspect_reviews",),
            "job": ("AspectJob",),
            "predictor": ("AspectScorer", "load_aspects"),
            "reviews": ("to_spans_source",),
        },
    )

__all__ = [
    "AspectJob",
    "AspectScorer",
    "describe_aspects",
    "inspect_reviews",
    "load_aspects",
    "to_spans_source",
]
