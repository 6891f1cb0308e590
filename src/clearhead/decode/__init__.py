"""Decoding over the Runner protocol: greedy search, sampling and beam search for core and engine alike.

`Decoding` holds the settings, `resolve_plan` completes them from the model folder, and a `Decoder` turns token ids into
`Hypothesis` values.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from clearhead.decode.beam_search import BeamStep, StepCallback
    from clearhead.decode.decoder import Decoder
    from clearhead.decode.generation_config import DecodingPlan, resolve_plan
    from clearhead.decode.prompt import DecodingInput
    from clearhead.decode.results import GeneratedText, Hypothesis
    from clearhead.decode.settings import Decoding
else:
    from clearhead.lazy import export_lazily

    export_lazily(
        __name__,
        {
            "beam_search": ("BeamStep", "StepCallback"),
            "decoder": ("Decoder",),
            "generation_config": ("DecodingPlan", "resolve_plan"),
            "prompt": ("DecodingInput",),
            "results": ("GeneratedText", "Hypothesis"),
            "settings": ("Decoding",),
        },
    )

__all__ = [
    "BeamStep",
    "Decoder",
    "Decoding",
    "DecodingInput",
    "DecodingPlan",
    "GeneratedText",
    "Hypothesis",
    "StepCallback",
    "resolve_plan",
]
