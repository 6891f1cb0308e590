"""Decoding over the Runner protocol: greedy, sampling and beam search drive core and engine alike.

A `Decoding` holds the settings, `plan_of` adds what the model folder says, and a `Decoder` turns token ids into
`Hypothesis` values.
"""

from clearhead.decode.beam_search import BeamStep, StepCallback
from clearhead.decode.decoder import Decoder
from clearhead.decode.generation_config import DecodingPlan, resolve_plan
from clearhead.decode.prompt import DecodingInput
from clearhead.decode.results import Generated, Hypothesis
from clearhead.decode.settings import Decoding

__all__ = [
    "BeamStep",
    "Decoder",
    "Decoding",
    "DecodingInput",
    "DecodingPlan",
    "Generated",
    "Hypothesis",
    "StepCallback",
    "resolve_plan",
]
