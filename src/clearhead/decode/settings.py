"""Decoding: every setting of how a decoder chooses its words, as one frozen value."""

from __future__ import annotations

from dataclasses import dataclass, fields
from math import isfinite
from numbers import Real
from typing import Any, Literal

from clearhead.caller import setting
from clearhead.errors import InputError
from clearhead.html import short_repr

EarlyStopping = bool | Literal["never"]
MAX_COUNT = 1 << 20  # of anything that is counted here: beyond it, a mistake


@dataclass(frozen=True, kw_only=True)
class Decoding:
    """How a decoder chooses its words; None leaves a choice to the model's folder."""

    beam: int = 1  # hypotheses kept at each step; 1: the likeliest word each time (greedy)
    best: int = 1  # answers for each text, best first: at most `beam`, or that many samples
    max_length: int = 128  # new tokens, at most; the prefix does not count
    min_length: int | None = None  # new tokens before the end symbol is allowed
    length_penalty: float = 1.0  # a hypothesis is judged by sum(log p) / length ** this
    coverage_penalty: float = 0.0  # GNMT's beta: how much source words that nothing looked at count against it
    early_stopping: EarlyStopping | None = None  # True: as soon as `beam` are finished; "never": nothing could win
    groups: int = 1  # the beam in so many groups, each of which avoids the words of those before it
    diversity: float = 0.0  # log probability that a word loses for each group that has chosen it in this step
    sample: bool = False  # draw each word by its probability
    temperature: float | None = None  # below 1 sharper, above 1 flatter; for samples, like the three below
    top_k: int | None = None  # draw among the k likeliest; 0: all
    top_p: float | None = None  # draw among the likeliest that together have this probability
    min_p: float | None = None  # draw among those at least this times as likely as the likeliest
    seed: int = 0  # the same seed and text give the same sample, alone or among others
    repetition_penalty: float | None = None  # words that were said count as this much less likely
    no_repeat_ngram: int = 0  # no so many words in a row twice
    prefix: str | tuple[int, ...] = ()  # what every answer begins with
    forbidden: tuple[str | tuple[int, ...], ...] = ()  # words, or words in a row, that no answer has
    stop: tuple[str, ...] = ()  # texts at which an answer ends; they are not part of it

    def __repr__(self) -> str:
        """The settings that differ from the defaults."""

        given = ((one.name, getattr(self, one.name), one.default) for one in fields(self))
        return short_repr("Decoding", *(f"{name}={value!r}" for name, value, default in given if value != default))

    def __post_init__(self) -> None:
        for name, least in (("beam", 1), ("best", 1), ("max_length", 1), ("groups", 1), ("no_repeat_ngram", 0)):
            _check_int(name, getattr(self, name), least)
        for name, least in (("min_length", 0), ("top_k", 0)):
            if getattr(self, name) is not None:
                _check_int(name, getattr(self, name), least)
        _check_int("seed", self.seed, 0, 1 << 64)
        if not isinstance(self.sample, bool):
            raise InputError(f"sample must be true or false, and it is {_quote(self.sample)}.")
        if not (self.early_stopping is None or isinstance(self.early_stopping, bool) or self.early_stopping == "never"):
            raise InputError(f"early_stopping must be true, false or 'never', and it is {_quote(self.early_stopping)}.")
        _check_number("length_penalty", self.length_penalty, -10.0, 10.0)
        _check_number("coverage_penalty", self.coverage_penalty, 0.0, 1e6)
        _check_number("diversity", self.diversity, 0.0, 1e6)
        for name, low, high in (("temperature", 1e-4, 1e4), ("top_p", 0.0, 1.0), ("min_p", 0.0, 1.0)):
            if getattr(self, name) is not None:
                _check_number(name, getattr(self, name), low, high)
        if self.repetition_penalty is not None:
            _check_number("repetition_penalty", self.repetition_penalty, 1e-4, 1e4)
        object.__setattr__(self, "prefix", _text_or_ids("prefix", self.prefix))
        listed = ((one,) if _is_id(one) else one for one in _as_tuple("forbidden", self.forbidden))
        object.__setattr__(self, "forbidden", tuple(_text_or_ids("forbidden", one) for one in listed))
        stops = _as_tuple("stop", self.stop)
        if not all(isinstance(one, str) and one for one in stops):
            raise InputError(f"{setting('stop')} must be texts of at least one letter.")
        object.__setattr__(self, "stop", stops)
        self._check_together()

    def _check_together(self) -> None:
        """What no single setting can see."""
        if self.min_length is not None and self.min_length > self.max_length:
            least, most = setting("min_length"), setting("max_length")
            raise InputError(f"{least} is {self.min_length}, more than {most}, which is {self.max_length}.")
        if self.sample and self.beam > 1:
            beam = f"{setting('beam')} is {self.beam}"
            said = f"{setting('sample')} draws one answer at a time, and {beam}"
            raise InputError(f"{said}; {setting('best')} gives several samples.")
        if not self.sample:
            for name in ("temperature", "top_k", "top_p", "min_p"):
                if getattr(self, name) is not None:
                    said = setting(name)
                    raise InputError(f"{said} is for samples: set {setting('sample')}, too, or leave {said} out.")
            if self.best > self.beam:
                best = f"{setting('best')} is {self.best}"
                raise InputError(f"{best}, and a beam of {self.beam} finds at most {self.beam} answers.")
        if self.beam % self.groups:
            raise InputError(f"A beam of {self.beam} cannot be shared among {self.groups} groups evenly.")
        if self.diversity and self.groups == 1:
            raise InputError("diversity keeps groups apart, and there is one group; set groups, too.")
        if self.coverage_penalty and self.beam == 1:
            penalty = setting("coverage_penalty")
            raise InputError(f"{penalty} judges the hypotheses of a beam, and {setting('beam')} is 1.")


def _check_int(name: str, value: Any, least: int, most: int = MAX_COUNT) -> None:
    if not _is_id(value) or not least <= value <= most:
        raise InputError(f"{setting(name)} must be an integer >= {least}, got {_quote(value)}.")


def _check_number(name: str, value: Any, low: float, high: float) -> None:
    number = isinstance(value, Real) and value is not True and value is not False
    if not number or not isfinite(value) or not low <= value <= high:
        raise InputError(f"{setting(name)} must be a number from {low:g} to {high:g}, got {_quote(value)}.")


def _is_id(value: Any) -> bool:
    return hasattr(value, "__index__") and not isinstance(value, bool)


def _as_tuple(name: str, value: Any) -> tuple[Any, ...]:
    """Several values; one text is itself the only one."""
    if isinstance(value, str):
        return (value,)
    try:
        return tuple(value)
    except TypeError:
        raise InputError(f"{setting(name)} must be a list, and it is {_quote(value)}.") from None


def _text_or_ids(name: str, value: Any) -> str | tuple[int, ...]:
    """A text, or the ids of its words."""
    if isinstance(value, str):
        return value
    ids = _as_tuple(name, value)
    if not all(_is_id(one) and 0 <= one < 1 << 31 for one in ids) or (name == "forbidden" and not ids):
        raise InputError(f"{setting(name)} must be a text or token ids, and it is {_quote(value)}.")
    return tuple(int(one) for one in ids)


def _quote(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
