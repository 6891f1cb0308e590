"""The options of decoding that `translate` and `generate` share; what each verb sets by default is its own."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cyclopts import Parameter

STANDARD_OUTPUT = Path("-")


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class DecodingOptions:
    """How the words are chosen, beyond the beam and the longest length.

    Parameters
    ----------
    best
        How many answers to each text, the best first; at most --beam, or that many samples.
    min_length
        Tokens of an answer at least.
    length_penalty
        Above 0 longer answers are preferred, below 0 shorter ones.
    sample
        Draw every word by its probability; --beam is then 1.
    temperature
        Sampling temperature: lower is more deterministic, higher is more random.
    top_k
        Of samples: only the so many likeliest words.
    top_p
        Of samples: only the likeliest words that have so much probability together.
    min_p
        Of samples: only words that are so many times as likely as the likeliest.
    seed
        Of samples.
    no_repeat_ngram
        Never so many tokens in a row twice.
    repetition_penalty
        Above 1: words that were said already become less likely.
    prefix
        What every answer begins with.
    forbid
        A word that no answer may have; may be given several times.
    stop
        A text at which an answer ends; may be given several times.
    """

    best: int = 1
    min_length: int | None = None
    length_penalty: float = 1.0
    sample: bool = False
    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None
    seed: int = 0
    no_repeat_ngram: int = 0
    repetition_penalty: float | None = None
    prefix: str = ""
    forbid: list[str] | None = None
    stop: list[str] | None = None

    def choices(self, *, beam: int, max_length: int) -> dict[str, Any]:
        """Fields of `Decoding`, as `Model.generate` takes them."""
        renamed = ("best", "no_repeat_ngram", "forbid", "stop")
        settings = {name: value for name, value in vars(self).items() if name not in renamed}
        settings |= {"num_return_sequences": self.best, "no_repeat_ngram_size": self.no_repeat_ngram}
        settings |= {"bad_words": tuple(self.forbid or ()), "stop": tuple(self.stop or ())}
        return settings | {"num_beams": 1 if self.sample else beam, "max_length": max_length}
