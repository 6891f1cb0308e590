"""Decoding over the Runner protocol: greedy, sampling and beam search drive core and engine alike.

A `Decoding` holds the settings, `plan_of` adds what the model folder says, and a `Decoder` turns token ids into
`Hypothesis` values.
"""

from clearhead.decode.beam_search import Looked, Watch
from clearhead.decode.decoder import Decoder
from clearhead.decode.generation_config import Plan, plan_of
from clearhead.decode.prompt import Given
from clearhead.decode.results import Generated, Hypothesis
from clearhead.decode.settings import Decoding

__all__ = ["Decoder", "Decoding", "Generated", "Given", "Hypothesis", "Looked", "Plan", "Watch", "plan_of"]
