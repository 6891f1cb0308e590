"""The flags of every verb, out of the signatures of their functions: what a message may name."""

from __future__ import annotations

import inspect
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from importlib import import_module
from types import UnionType
from typing import Any, get_args, get_type_hints

from cyclopts import Parameter

from clearhead.cli import VERBS

ALIASES = {  # settings whose flags have other names
    "slices": "slice",
    "bad_words": "forbid",
    "num_beams": "beam",
    "num_return_sequences": "best",
    "no_repeat_ngram_size": "no_repeat_ngram",
}
SHORT = {"--output": "-o"}
COLUMNS = frozenset({"text", "text_b", "label", "source", "target", "id", "group"})  # often columns of the user's own


@cache
def flags_of(verb: str) -> dict[str, tuple[str, ...]]:
    """Settings of a verb by their names in Python, each with its flags."""
    module, name = VERBS[verb][0].split(":")
    function = getattr(import_module(f"clearhead.cli.{module}"), name)
    hints = get_type_hints(function, include_extras=True)
    made: dict[str, tuple[str, ...]] = {}
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY:
            made |= _flags(parameter.name, hints[parameter.name])
    return made


def _flags(name: str, hint: Any) -> dict[str, tuple[str, ...]]:
    for group in (hint, *get_args(hint)) if isinstance(hint, UnionType) else (hint,):
        if is_dataclass(group):
            return {field.name: (_flag(field.name),) for field in fields(group)}
    named = next((part.name for part in get_args(hint) if isinstance(part, Parameter) and part.name), ())
    return {name: tuple(named) or (_flag(name),)}


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def every_flag() -> Iterator[str]:
    """All flags of all verbs, and the `--no-` forms of what can be switched off."""
    yield from ("--help", "--version", "--install-completion")
    for verb in VERBS:
        for flags in flags_of(verb).values():
            yield from flags
            yield from (f"--no-{flag.removeprefix('--')}" for flag in flags if flag.startswith("--"))


def in_flags(message: str, verb: str | None) -> str:
    """A message with its settings as flags where the verb has them: checks of plans name them as Python does.

    Only what can be nothing else is changed: names with an underscore, and plain words that something is said of.
    """
    known = {} if verb is None else {name: flags[0] for name, flags in flags_of(verb).items() if name not in COLUMNS}
    for name, flag in known.items():
        if flag.startswith("--"):
            alone = rf"(?<![\w./'\"=-]){name}(?![\w/'\"=(-]|\.\w)"
            spoken_of = rf"(?:^|(?<=: )|(?<=, )){name}(?= (?:must |is for |is '))"
            message = re.sub(alone if "_" in name else spoken_of, flag, message)
            message = re.sub(rf"(?<![\w./'\"-]){name}=(?=[a-z0-9])", f"{flag} ", message)
    return message


class ShellCaller:
    """A person who typed a verb: its settings are flags, or pairs for --set."""

    def __init__(self, verb: str | None) -> None:
        self._verb = verb

    def setting(self, name: str, value: object, of: str | None) -> str:
        """`--epochs 3`; `--set stride=16` where the verb has no flag of its own; the bare name where it has neither."""
        verb = of or self._verb
        known = flags_of(verb) if verb is not None else {}
        flags = known.get(name) or known.get(ALIASES.get(name, name))
        if flags:
            flag = SHORT.get(flags[0], flags[0])
            return flag if value is None or value is True else f"{flag} {value}"
        if value is None:
            return name
        return f"--set {name}={value}" if "set" in known else f"{name}={value}"

    def verb(self, name: str) -> str:
        """`clearhead train`."""
        return f"clearhead {name}"

    def command(self, name: str, arguments: tuple[str, ...], settings: Mapping[str, object]) -> str:
        """`clearhead train --resume runs/one`."""
        given = (
            self.setting(key, shlex.quote(value) if isinstance(value, str) else value, name)
            for key, value in settings.items()
        )
        return " ".join((self.verb(name), *given, *map(shlex.quote, arguments)))
