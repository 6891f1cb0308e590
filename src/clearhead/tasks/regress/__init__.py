"""One text or two, a number: how similar, how urgent, how many stars."""

from __future__ import annotations

from clearhead.tasks.regress.task import REGRESS

__all__ = ["REGRESS"]
