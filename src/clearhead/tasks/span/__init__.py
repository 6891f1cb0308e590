"""Extractive question answering as in SQuAD: the answer is a span of the passage, or missing.

`rows` reads questions and passages, `decoding` turns token scores into answers, `metrics` measures them.
"""

from __future__ import annotations

from clearhead.tasks.span.task import SPAN

__all__ = ["SPAN"]
