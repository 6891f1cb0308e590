"""The flags of every command, read from the signatures of its function, so that messages can name them."""

from __future__ import annotations

import inspect
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import cache
from importlib import import_module
from types import UnionType
from typing import Any, get_args, get_type_hints

from cyclopts import Parameter

from clearhead.cli import VERBS
from clearhead.cli.screen import print_note

ALIASES = {"slices": "slice", "column": "text", "max_length": "max_length"}  # settings whose flags have other names
SHORT = {"--output": "-o"}
COLUMNS = frozenset({"text", "text_b", "label", "source", "target", "id", "group"})  # often names of columns in data
REMOVED_IN = "0.3"
FORMER_DECODING_FLAGS = {
    "--beam": "--num-beams",
    "--best": "--num-return-sequences",
    "--no-repeat-ngram": "--no-repeat-ngram-size",
    "--forbid": "--bad-words",
}
FORMER_TEXT_FLAGS = {"--column": "--text", "--format": "--input-format"}
FORMER_FLAGS = {  # command -> former flag -> current flag
    "ask": {"--best": "--top"},
    "bench": FORMER_TEXT_FLAGS,
    "embed": FORMER_TEXT_FLAGS,
    "evaluate": {"--format": "--input-format"},
    "explain": {"--beam": "--num-beams"},
    "generate": FORMER_DECODING_FLAGS | FORMER_TEXT_FLAGS,
    "learn-tokenizer": {"--size": "--vocab-size"},
    "pretrain": {
        "--rate": "--learning-rate",
        "--vocabulary": "--vocab-size",
        "--steps": "--max-steps",
        "--length": "--max-length",
    },
    "quantize": {"--allowed": "--max-drop", "--least-cosine": "--min-cosine"},
    "train": {"--rate": "--learning-rate", "--batch-rows": "--batch-size"},
    "translate": FORMER_DECODING_FLAGS | FORMER_TEXT_FLAGS,
    "word2vec": {"--rate": "--learning-rate"},
}


def replace_former_flags(arguments: Sequence[str], verb: str | None) -> list[str]:
    """Replace former flags by their current names, with one deprecation note each; arguments after `--` are texts."""
    current_flags = FORMER_FLAGS.get(verb or "", {})
    end = list(arguments).index("--") if "--" in arguments else len(arguments)
    replaced, noted = [], set()
    for argument in arguments[:end]:
        flag, equals, value = argument.partition("=")
        current = current_flags.get(flag)
        if current is not None and flag not in noted:
            print_note(f"clearhead: {flag} is deprecated and will be removed in {REMOVED_IN}; use {current}.")
            noted.add(flag)
        replaced.append(argument if current is None else f"{current}{equals}{value}")
    return [*replaced, *arguments[end:]]


def function_of(verb: str) -> Callable[..., None]:
    """The function of a command."""
    module, name = VERBS[verb][0].split(":")
    function: Callable[..., None] = getattr(import_module(f"clearhead.cli.{module}"), name)
    return function


def format_optional_arguments(verb: str) -> str:
    """The arguments of a command that may be omitted, as its usage line shows them: [TEXT] [SECOND], or FILES..."""
    labels = []
    for parameter in inspect.signature(function_of(verb)).parameters.values():
        if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            labels.append(f"[{parameter.name.upper()}...]")
        elif parameter.kind is inspect.Parameter.POSITIONAL_ONLY and parameter.default is not inspect.Parameter.empty:
            labels.append(f"[{parameter.name.upper()}]")
    return " ".join(labels)


@cache
def flags_of(verb: str) -> dict[str, tuple[str, ...]]:
    """The flags of each setting of a command, by the setting's name in Python."""
    function = function_of(verb)
    hints = get_type_hints(function, include_extras=True)
    flags: dict[str, tuple[str, ...]] = {}
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY:
            flags |= _flags_of_parameter(parameter.name, hints[parameter.name])
    return flags


def _flags_of_parameter(name: str, hint: Any) -> dict[str, tuple[str, ...]]:
    for kind in (hint, *get_args(hint)) if isinstance(hint, UnionType) else (hint,):
        if is_dataclass(kind):
            field_hints = get_type_hints(kind, include_extras=True)
            return {
                key: value
                for field in fields(kind)
                for key, value in _flags_of_parameter(field.name, field_hints[field.name]).items()
            }
    explicit_names = [part.name for part in get_args(hint) if isinstance(part, Parameter) and part.name]
    return {name: tuple(explicit_names[-1]) if explicit_names else (_to_flag(name),)}


def _to_flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def every_flag() -> Iterator[str]:
    """All flags of all commands, and the `--no-` forms of those that can be switched off."""
    yield from ("--help", "--version", "--install-completion", "--verbose")
    for verb in VERBS:
        for flags in flags_of(verb).values():
            yield from flags
            yield from (f"--no-{flag.removeprefix('--')}" for flag in flags if flag.startswith("--"))


def name_flags(message: str, verb: str | None) -> str:
    """A message with settings as flags if the command has them; checks of plans name settings as Python does.

    Only unambiguous names are replaced: names with an underscore, and plain words that are the subject of a sentence.
    """
    flags = {} if verb is None else {name: flags[0] for name, flags in flags_of(verb).items() if name not in COLUMNS}
    for name, flag in flags.items():
        if flag.startswith("--"):
            anywhere = rf"(?<![\w./'\"=-]){name}(?![\w/'\"=(-]|\.\w)"
            as_subject = rf"(?:^|(?<=: )|(?<=, )){name}(?= (?:must |is for |is '))"
            message = re.sub(anywhere if "_" in name else as_subject, flag, message)
            message = re.sub(rf"(?<![\w./'\"-]){name}=(?=[a-z0-9])", f"{flag} ", message)
    return message


class ShellCaller:
    """A user of the shell: settings are flags, or pairs for --set."""

    def __init__(self, verb: str | None) -> None:
        self._verb = verb

    def setting(self, name: str, value: object, of: str | None) -> str:
        """`--epochs 3`; `--set stride=16` if the command has no such flag; the bare name if it has no --set either."""
        verb = of or self._verb
        flags_by_setting = flags_of(verb) if verb is not None else {}
        flags = flags_by_setting.get(name) or flags_by_setting.get(ALIASES.get(name, name))
        if flags:
            flag = SHORT.get(flags[0], flags[0])
            return flag if value is None or value is True else f"{flag} {value}"
        if value is None:
            return name
        return f"--set {name}={value}" if "set" in flags_by_setting else f"{name}={value}"

    def verb(self, name: str) -> str:
        """`clearhead train`."""
        return f"clearhead {name}"

    def command(self, name: str, arguments: tuple[str, ...], settings: Mapping[str, object]) -> str:
        """`clearhead train --resume runs/one`."""
        options = (
            self.setting(key, shlex.quote(value) if isinstance(value, str) else value, name)
            for key, value in settings.items()
        )
        return " ".join((self.verb(name), *options, *map(shlex.quote, arguments)))
