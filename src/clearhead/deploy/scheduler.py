"""Runtimes that take turns at the same texts, each in a process of its own."""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from clearhead.deploy.process import Child
from clearhead.deploy.runtimes import RUNTIMES
from clearhead.errors import ClearheadError, InputError
from clearhead.files import to_printable
from clearhead.progress import Progress

STARTS = 2  # of each runtime: the first brings files into the system's cache, the faster one counts
PATIENCE = 900.0  # seconds that a runtime may take to load
COMPARED = 32  # texts whose vectors are laid beside the float ones
TURNS = ((20, 1000), (16, 8192))  # fewest and most texts of a turn, one at a time and together
SLOWER = 4  # times as long as the first may another take for the same texts; beyond that it gets fewer
MOST_SLOWER = 50  # times as long without an answer, and it is stopped


@dataclass(kw_only=True)
class Side:
    """One runtime while it is measured."""

    name: str
    child: Child | None = None
    left_out: str | None = None
    warm: tuple[float, float] = (1.0, 1.0)  # seconds of a text, alone and together
    loads: list[float] = field(default_factory=list)
    alone: list[float] = field(default_factory=list)  # milliseconds
    together: list[float] = field(default_factory=list)  # texts per second, by round
    vectors: Any = None
    memory: dict[str, float | None] = field(default_factory=dict)


@dataclass(kw_only=True)
class Race:
    """All runtimes that are measured, and how far that is."""

    sides: Sequence[Side]
    patience: float
    rounds: int
    progress: Progress
    done: int = 0

    @property
    def running(self) -> list[Side]:
        """Those that are not left out."""
        return [side for side in self.sides if side.left_out is None]

    def start(self, jobs: Sequence[Path], kept: ExitStack) -> None:
        """Fresh processes up to their first answer, in turns; the last ones stay."""
        for start in range(STARTS):
            for side, job in zip(self.sides, jobs, strict=True):
                self._start(side, job, kept, last=start == STARTS - 1)

    def _start(self, side: Side, job: Path, kept: ExitStack, *, last: bool) -> None:
        if side.left_out is not None:
            return
        command = [sys.executable, "-P", "-m", "clearhead.deploy.worker", str(job)]
        child = kept.enter_context(Child(RUNTIMES[side.name].title, command))
        answer = child.answer(self.patience)
        spent = time.perf_counter() - child.begun
        if self._heard(side, answer) is not None:
            side.loads.append(spent)
            side.child = child
        if not last or side.left_out is not None:
            child.close()
        self._report()

    def measure(self, texts: int, turn: float) -> float | None:
        """Every runtime at the same texts, one after the other, round by round; the tokens of a text on average."""
        if not self.running:
            raise InputError(f"No runtime could be measured: {self.sides[0].left_out}")
        for side in self.running:
            self._warm(side)
        pace = self.running[0]
        alone, together = (self._count(pace, place, turn) for place in (0, 1))
        longest = max(alone * pace.warm[0], together * pace.warm[1])
        self.patience = min(self.patience, 60 + MOST_SLOWER * longest)
        own = next((side for side in self.running if side.name != "sentence-transformers"), pace)
        lengths = (self.ask(own, do="tokens", count=texts) or {}).get("tokens")
        for number in range(self.rounds):
            for side in self.running:
                count = min(alone, self._count(side, 0, SLOWER * turn))
                said = self.ask(side, do="alone", first=number * alone, count=count)
                side.alone += [] if said is None else said["ms"]
            for side in self.running:
                count = min(together, self._count(side, 1, SLOWER * turn))
                said = self.ask(side, do="together", first=number * together, count=count)
                side.together += [] if said is None else [count / max(said["seconds"], 1e-9)]
                self._report()
        for side in self.running:
            side.memory = self.ask(side, do="memory") or {}
            side.vectors = (self.ask(side, do="vectors", count=COMPARED) or {}).get("vectors")
        return None if not lengths else statistics.fmean(lengths)

    def _warm(self, side: Side) -> None:
        """Not counted: whatever is made at first use is made now, and tells how long a text takes about."""
        for _ in range(2):
            one = self.ask(side, do="alone", count=5)
            many = self.ask(side, do="together", count=2 * TURNS[1][0])
            if one is not None and many is not None:
                side.warm = statistics.median(one["ms"]) / 1000, many["seconds"] / (2 * TURNS[1][0])

    def _count(self, side: Side, place: int, seconds: float) -> int:
        """How many texts a runtime does in so many seconds, alone (0) or together (1), within limits."""
        least, most = TURNS[place]
        return min(max(int(seconds / max(side.warm[place], 1e-6)), least), most)

    def ask(self, side: Side, **question: Any) -> dict[str, Any] | None:
        """A question to one runtime; None from now on if it could not do it."""
        if side.left_out is not None or side.child is None:
            return None
        return self._heard(side, side.child.ask(question, self.patience))

    def _heard(self, side: Side, answer: dict[str, Any]) -> dict[str, Any] | None:
        """An answer; a runtime that refuses is left out with its reason, unless it is the first."""
        if "error" not in answer:
            return answer
        said = " ".join(str(answer["error"]).split())
        if side is self.running[0]:
            raise ClearheadError(to_printable(said, 600))
        side.left_out = to_printable(said, 200)
        return None

    def _report(self) -> None:
        self.done += 1
        self.progress("measuring", self.done, len(self.running) * (STARTS + self.rounds))
