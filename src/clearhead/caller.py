"""Format settings and verbs for the caller: keywords and functions in Python, flags and commands in a shell.

A message that contains `setting("text_b", "COLUMN")` shows `text_b="COLUMN"` in Python and `--text-b COLUMN` on the
command line, which registers itself with `use_caller`.
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
    """Formats settings and verbs as the caller writes them."""

    def setting(self, name: str, value: object, of: str | None) -> str:
        """Format a setting of the verb `of`, optionally with a value."""
        ...

    def verb(self, name: str) -> str:
        """Format a verb."""
        ...

    def command(self, name: str, arguments: tuple[str, ...], settings: Mapping[str, object]) -> str:
        """Format a call of a verb."""
        ...


class PythonCaller:
    """Formats settings as keywords and verbs as functions."""

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
        keywords = (self.setting(key, value, name) for key, value in settings.items())
        return f"{self.verb(name)}({', '.join((*map(json.dumps, arguments), *keywords))})"


_callers: list[Caller] = [PythonCaller()]


@contextmanager
def use_caller(caller: Caller) -> Iterator[None]:
    """Format messages for this caller within the context."""
    _callers.append(caller)
    try:
        yield
    finally:
        _callers.remove(caller)


def setting(name: str, value: object = None, *, of: str | None = None) -> str:
    """Format a setting for the caller; `value` is an example or an uppercase placeholder.

    `of` names the verb, if it is not the one that was called.
    """
    return _callers[-1].setting(name, value, of)


def verb(name: str) -> str:
    """Format a verb for the caller."""
    return _callers[-1].verb(name)


def command(name: str, *arguments: object, **settings: object) -> str:
    """Format a call of a verb for the caller."""
    return _callers[-1].command(name, tuple(map(str, arguments)), settings)
