"""One of several options: the end of a story, the answer in a test.

`rows` reads questions and options, `decoding` turns a score for each option into an answer, `metrics` scores it.
"""

from __future__ import annotations

from clearhead.tasks.choice.task import CHOICE

__all__ = ["CHOICE"]
