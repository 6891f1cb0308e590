"""Decoding over the Runner protocol: greedy, sampling and beam search drive core and engine alike."""

from clearhead.decode.beam import Looked, Watch
from clearhead.decode.decoder import Decoder
from clearhead.decode.folder import Plan, plan_of
from clearhead.decode.opening import Given
from clearhead.decode.results import Generated, Hypothesis
from clearhead.decode.settings import Decoding
from clearhead.decode.walk import Answer

__all__ = ["Answer", "Decoder", "Decoding", "Generated", "Given", "Hypothesis", "Looked", "Plan", "Watch", "plan_of"]
