"""The decoding options that `translate` and `generate` share; each command has its own defaults."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from clearhead.cli.options import DECODING

STANDARD_OUTPUT = Path("-")
OF_DECODING = Parameter(group=DECODING)
MaxLength = Annotated[int, Parameter(group=DECODING)]


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class DecodingOptions:
    """How tokens are selected.

    Parameters
    ----------
    num_return_sequences
        Number of outputs per text, best first; at most --num-beams, unless --sample.
    min_length
        Minimum number of tokens of an output.
    length_penalty
        Values above 0 favor longer outputs, values below 0 shorter ones (default: 1).
    sample
        Sample tokens from the predicted distribution, without beams.
    temperature
        Sampling temperature: lower is more deterministic, higher is more random.
    top_k
        Sample only from the k most likely tokens.
    top_p
        Sample only from the most likely tokens whose probabilities sum to p.
    min_p
        Sample only tokens at least p times as likely as the most likely one.
    seed
        Random seed of sampling (default: 0).
    no_repeat_ngram_size
        Never repeat this many consecutive tokens.
    repetition_penalty
        Values above 1 penalize tokens that have already occurred.
    prefix
        Text that every output starts with.
    bad_words
        A word that no output may contain; repeatable.
    stop
        A text at which an output ends; repeatable.
    """

    num_return_sequences: Annotated[int, OF_DECODING] = 1
    min_length: Annotated[int | None, OF_DECODING] = None
    length_penalty: Annotated[float, OF_DECODING] = 1.0
    sample: Annotated[bool, OF_DECODING] = False
    temperature: Annotated[float | None, OF_DECODING] = None
    top_k: Annotated[int | None, OF_DECODING] = None
    top_p: Annotated[float | None, OF_DECODING] = None
    min_p: Annotated[float | None, OF_DECODING] = None
    seed: Annotated[int, OF_DECODING] = 0
    no_repeat_ngram_size: Annotated[int, OF_DECODING] = 0
    repetition_penalty: Annotated[float | None, OF_DECODING] = None
    prefix: Annotated[str, OF_DECODING] = ""
    bad_words: Annotated[list[str] | None, OF_DECODING] = None
    stop: Annotated[list[str] | None, OF_DECODING] = None

    def to_settings(self, *, num_beams: int, max_length: int) -> dict[str, Any]:
        """The fields of `Decoding`, as `Model.generate` takes them."""
        lists = {"bad_words": tuple(self.bad_words or ()), "stop": tuple(self.stop or ())}
        return vars(self) | lists | {"num_beams": 1 if self.sample else num_beams, "max_length": max_length}
