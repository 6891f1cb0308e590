"""Multiple choice: selects one of several options, such as the ending of a story or the answer in a test.

`rows` reads questions and options, `decoding` turns option scores into answers, `metrics` measures them.
"""

from __future__ import annotations

from clearhead.tasks.choice.task import CHOICE

__all__ = ["CHOICE"]
