"""Whom a run tells what it does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from clearhead.training.loop import Step


@dataclass(frozen=True, kw_only=True)
class Told:
    """Whom a run tells what it does; the defaults are nobody."""

    say: Callable[[str], None] = lambda _: None
    step: Callable[[Step], None] | None = None
    begun: Callable[[Path], None] = lambda _: None  # from here on the run can be resumed
    count: Callable[[str, int, int | None], None] = lambda *_: None  # (what is done, how far, of how much)
    seed: Callable[[int, int, int], None] = lambda *_: None  # (this seed, its place, how many)
    download: Callable[[str, int, int | None], None] | None = None
