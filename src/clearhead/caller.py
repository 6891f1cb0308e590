"""Settings and verbs in the caller's own terms: keywords and functions in Python, flags and commands in a shell.

A message that names a setting says `setting("text_b", "COLUMN")`; it reads `text_b="COLUMN"` in Python and
`--text-b COLUMN` on the command line, which says so with `speaking`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Protocol

MODEL_METHODS = {
    "embed": "Model.embed",
    "fill": "Model.fill",
    "generate": "Model.generate",
    "translate": "Model.generate",
}


class Caller(Protocol):
    """Whoever called: it knows what settings and verbs are called there."""

    def setting(self, name: str, value: object, of: str | None) -> str:
        """A setting of a verb, with a value where one is named."""
        ...

    def verb(self, name: str) -> str:
        """A verb."""
        ...

    def command(self, name: str, arguments: tuple[str, ...], settings: Mapping[str, object]) -> str:
        """A whole call of a verb."""
        ...


class PythonCaller:
    """A program: settings are keywords, verbs are functions."""

    def setting(self, name: str, value: object, of: str | None) -> str:  # noqa: ARG002
        """`epochs`, or `epochs=3`."""
        if value is None:
            return name
        return f"{name}={json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)}"

    def verb(self, name: str) -> str:
        """`clearhead.train`, or the method of a model."""
        return MODEL_METHODS.get(name, f"clearhead.{name.replace('-', '_')}")

    def command(self, name: str, arguments: tuple[str, ...], settings: Mapping[str, object]) -> str:
        """`clearhead.train(resume="runs/one")`."""
        given = (self.setting(key, value, name) for key, value in settings.items())
        return f"{self.verb(name)}({', '.join((*map(json.dumps, arguments), *given))})"


_callers: list[Caller] = [PythonCaller()]


@contextmanager
def use_caller(caller: Caller) -> Iterator[None]:
    """Messages are for this caller."""
    _callers.append(caller)
    try:
        yield
    finally:
        _callers.remove(caller)


def setting(name: str, value: object = None, *, of: str | None = None) -> str:
    """A setting as the caller writes it; `value` is one to give, or a word in capitals that stands for one.

    It is a setting of the verb that was called, or `of` another one.
    """
    return _callers[-1].setting(name, value, of)


def verb(name: str) -> str:
    """A verb as the caller writes it."""
    return _callers[-1].verb(name)


def command(name: str, *arguments: object, **settings: object) -> str:
    """A whole call of a verb as the caller writes it."""
    return _callers[-1].command(name, tuple(map(str, arguments)), settings)
