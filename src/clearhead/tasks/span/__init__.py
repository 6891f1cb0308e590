"""The answer to a question as a piece of a passage, or none: the task of SQuAD.

`rows` reads questions and passages, `decoding` turns token scores into answers, `metrics` scores them.
"""

from __future__ import annotations

from clearhead.tasks.span.task import SPAN

__all__ = ["SPAN"]
