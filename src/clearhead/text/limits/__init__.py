"""Limits for untrusted tokenizer files: how much a pipeline can lengthen a text, and how long a pattern can take.

`pipeline_limits` and `vocabulary_limits` check a tokenizer.json before the library builds it; `patterns` checks its
regular expressions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from clearhead.text.limits.pipeline_limits import (
        bound_patterns,
        check_charsmap,
        check_pipeline,
        check_recipe_sections,
        check_text_size,
        measure_normalizer_growth,
    )
    from clearhead.text.limits.vocabulary_limits import (
        check_added_tokens,
        check_normalized_tokens,
        check_scores,
        check_special_token,
    )
else:
    from clearhead.lazy import export_lazily

    export_lazily(
        __name__,
        {
            "pipeline_limits": (
                "bound_patterns",
                "check_charsmap",
                "check_pipeline",
                "check_recipe_sections",
                "check_text_size",
                "measure_normalizer_growth",
            ),
            "vocabulary_limits": (
                "check_added_tokens",
                "check_normalized_tokens",
                "check_scores",
                "check_special_token",
            ),
        },
    )

__all__ = [
    "bound_patterns",
    "check_added_tokens",
    "check_charsmap",
    "check_normalized_tokens",
    "check_pipeline",
    "check_recipe_sections",
    "check_scores",
    "check_special_token",
    "check_text_size",
    "measure_normalizer_growth",
]
