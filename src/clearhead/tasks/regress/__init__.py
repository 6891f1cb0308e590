"""Regression: predicts a number for one or two texts, such as similarity, urgency or stars."""

from __future__ import annotations

from clearhead.tasks.regress.task import REGRESS

__all__ = ["REGRESS"]
