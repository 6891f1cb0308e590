"""Decoding: every setting of beam search and sampling, as one frozen value."""

from __future__ import annotations

from dataclasses import dataclass, fields
from math import isfinite
from numbers import Real
from typing import Any, Literal

from clearhead.caller import setting
from clearhead.deprecation import renamed_fields
from clearhead.errors import InputError
from clearhead.html import short_repr

EarlyStopping = bool | Literal["never"]
MAX_COUNT = 1 << 20  # upper limit of every integer setting
FORMER_NAMES = {
    "beam": "num_beams",
    "best": "num_return_sequences",
    "groups": "num_beam_groups",
    "diversity": "diversity_penalty",
    "no_repeat_ngram": "no_repeat_ngram_size",
    "forbidden": "bad_words",
}


@renamed_fields(**FORMER_NAMES)
@dataclass(frozen=True, kw_only=True)
class Decoding:
    """Decoding strategy and its settings; None means the value of the model folder."""

    num_beams: int = 1  # hypotheses kept per step; 1 is greedy decoding
    num_return_sequences: int = 1  # answers per text, best first: at most `num_beams`, or the number of samples
    max_length: int = 128  # maximum number of new tokens, without the prefix
    min_length: int | None = None  # minimum number of new tokens before the end token
    length_penalty: float = 1.0  # a hypothesis is scored by sum(log p) / length ** length_penalty
    coverage_penalty: float = 0.0  # GNMT's beta: penalizes hypotheses that leave source tokens unattended
    early_stopping: EarlyStopping | None = None  # True: after `num_beams` finished ones; "never": when none can improve
    num_beam_groups: int = 1  # diverse beam search: groups that the beams are divided into
    diversity_penalty: float = 0.0  # subtracted from the log probability of a token per earlier group that chose it
    sample: bool = False  # draw tokens at random by their probabilities
    temperature: float | None = None  # sampling: lower is more deterministic, higher is more random
    top_k: int | None = None  # sampling: only the k most likely tokens; 0: all
    top_p: float | None = None  # sampling: only the most likely tokens whose probabilities add up to top_p
    min_p: float | None = None  # sampling: only tokens at least this likely relative to the most likely one
    seed: int = 0  # sampling: the same seed and text give the same answer in any batch
    repetition_penalty: float | None = None  # above 1: tokens that already occurred are less likely
    no_repeat_ngram_size: int = 0  # no n-gram of this size occurs twice; 0: off
    prefix: str | tuple[int, ...] = ()  # the beginning of every answer
    bad_words: tuple[str | tuple[int, ...], ...] = ()  # words or token sequences that never occur in an answer
    stop: tuple[str, ...] = ()  # an answer ends before the first of these texts

    def __repr__(self) -> str:
        """The settings that differ from the defaults."""

        settings = ((field.name, getattr(self, field.name), field.default) for field in fields(self))
        return short_repr("Decoding", *(f"{name}={value!r}" for name, value, default in settings if value != default))

    def __post_init__(self) -> None:
        for name in ("num_beams", "num_return_sequences", "max_length", "num_beam_groups"):
            _check_int(name, getattr(self, name), 1)
        for name in ("no_repeat_ngram_size", "min_length", "top_k"):
            if getattr(self, name) is not None or name == "no_repeat_ngram_size":
                _check_int(name, getattr(self, name), 0)
        _check_int("seed", self.seed, 0, 1 << 64)
        if not isinstance(self.sample, bool):
            raise InputError(f"{setting('sample')} must be true or false, got {_quote(self.sample)}.")
        if not (self.early_stopping is None or isinstance(self.early_stopping, bool) or self.early_stopping == "never"):
            raise InputError(f"early_stopping must be true, false or 'never', got {_quote(self.early_stopping)}.")
        _check_number("length_penalty", self.length_penalty, -10.0, 10.0)
        _check_number("coverage_penalty", self.coverage_penalty, 0.0, 1e6)
        _check_number("diversity_penalty", self.diversity_penalty, 0.0, 1e6)
        for name, low, high in (("temperature", 1e-4, 1e4), ("top_p", 0.0, 1.0), ("min_p", 0.0, 1.0)):
            if getattr(self, name) is not None:
                _check_number(name, getattr(self, name), low, high)
        if self.repetition_penalty is not None:
            _check_number("repetition_penalty", self.repetition_penalty, 1e-4, 1e4)
        object.__setattr__(self, "prefix", _as_text_or_ids("prefix", self.prefix))
        bad_words = ((word,) if _is_int(word) else word for word in _as_tuple("bad_words", self.bad_words))
        object.__setattr__(self, "bad_words", tuple(_as_text_or_ids("bad_words", word) for word in bad_words))
        stop_texts = _as_tuple("stop", self.stop)
        if not all(isinstance(text, str) and text for text in stop_texts):
            raise InputError(f"{setting('stop')} must be one or more non-empty texts.")
        object.__setattr__(self, "stop", stop_texts)
        self._check_combinations()

    def _check_combinations(self) -> None:
        """Reject settings that contradict each other."""
        num_beams = f"{setting('num_beams')} is {self.num_beams}"
        if self.min_length is not None and self.min_length > self.max_length:
            limit = f"{setting('max_length')} ({self.max_length})"
            raise InputError(f"{setting('min_length')} ({self.min_length}) must not be greater than {limit}.")
        if self.sample and self.num_beams > 1:
            several = f"use {setting('num_return_sequences')} for several samples"
            raise InputError(f"{setting('sample')} cannot be combined with beam search ({num_beams}); {several}.")
        if not self.sample:
            for name in ("temperature", "top_k", "top_p", "min_p"):
                if getattr(self, name) is not None:
                    raise InputError(f"{setting(name)} requires {setting('sample')}.")
            if self.num_return_sequences > self.num_beams:
                count = f"{setting('num_return_sequences')} ({self.num_return_sequences})"
                raise InputError(f"{count} must not be greater than {setting('num_beams')} ({self.num_beams}).")
        if self.num_beams % self.num_beam_groups:
            raise InputError(f"{num_beams}, which is not divisible by num_beam_groups ({self.num_beam_groups}).")
        if self.diversity_penalty and self.num_beam_groups == 1:
            raise InputError("diversity_penalty requires num_beam_groups >= 2.")
        if self.coverage_penalty and self.num_beams == 1:
            raise InputError(f"{setting('coverage_penalty')} requires beam search, but {num_beams}.")


def _check_int(name: str, value: Any, low: int, high: int = MAX_COUNT) -> None:
    if not _is_int(value) or value < low:
        raise InputError(f"{setting(name)} must be an integer >= {low}, got {_quote(value)}.")
    if value > high:
        raise InputError(f"{setting(name)} must be at most {high}, got {_quote(value)}.")


def _check_number(name: str, value: Any, low: float, high: float) -> None:
    is_number = isinstance(value, Real) and not isinstance(value, bool)
    if not is_number or not isfinite(value) or not low <= value <= high:
        raise InputError(f"{setting(name)} must be a number from {low:g} to {high:g}, got {_quote(value)}.")


def _is_int(value: Any) -> bool:
    return hasattr(value, "__index__") and not isinstance(value, bool)


def _as_tuple(name: str, value: Any) -> tuple[Any, ...]:
    """Return the elements of a list; a text is a list with one element."""
    if isinstance(value, str):
        return (value,)
    try:
        return tuple(value)
    except TypeError:
        raise InputError(f"{setting(name)} must be a list, got {_quote(value)}.") from None


def _as_text_or_ids(name: str, value: Any) -> str | tuple[int, ...]:
    """Return a text, or its token ids as integers."""
    if isinstance(value, str):
        return value
    ids = _as_tuple(name, value)
    if not all(_is_int(token_id) and 0 <= token_id < 1 << 31 for token_id in ids) or (name == "bad_words" and not ids):
        raise InputError(f"{setting(name)} must be a text or token ids, got {_quote(value)}.")
    return tuple(int(token_id) for token_id in ids)


def _quote(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
