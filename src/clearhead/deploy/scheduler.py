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

from clearhead.deploy.process import WorkerProcess
from clearhead.deploy.runtimes import RUNTIMES
from clearhead.errors import ClearheadError, InputError
from clearhead.files import to_printable
from clearhead.progress import Progress

STARTS = 2  # of each runtime: the first brings files into the system's cache, the faster one counts
TIMEOUT = 900.0  # seconds that a runtime may take to load
COMPARED_TEXTS = 32  # texts whose vectors are laid beside the float ones
TEXT_LIMITS = ((20, 1000), (16, 8192))  # fewest and most texts of a turn, one at a time and together
MAX_TIME_RATIO = 4  # times as long as the first may another take for the same texts; beyond that it gets fewer
TIMEOUT_RATIO = 50  # times as long without an answer, and it is stopped


@dataclass(kw_only=True)
class Contender:
    """One runtime while it is measured."""

    name: str
    process: WorkerProcess | None = None
    left_out: str | None = None
    seconds_per_text: tuple[float, float] = (1.0, 1.0)  # seconds of a text, alone and together
    load_seconds: list[float] = field(default_factory=list)
    latencies: list[float] = field(default_factory=list)  # milliseconds
    throughputs: list[float] = field(default_factory=list)  # texts per second, by round
    vectors: Any = None
    memory: dict[str, float | None] = field(default_factory=dict)


@dataclass(kw_only=True)
class Scheduler:
    """All runtimes that are measured, and how far that is."""

    contenders: Sequence[Contender]
    timeout: float
    rounds: int
    progress: Progress
    finished_steps: int = 0

    @property
    def running(self) -> list[Contender]:
        """Those that are not left out."""
        return [side for side in self.contenders if side.left_out is None]

    def start(self, jobs: Sequence[Path], kept: ExitStack) -> None:
        """Fresh processes up to their first answer, in turns; the last ones stay."""
        for start in range(STARTS):
            for side, job in zip(self.contenders, jobs, strict=True):
                self._start(side, job, kept, last=start == STARTS - 1)

    def _start(self, side: Contender, job: Path, kept: ExitStack, *, last: bool) -> None:
        if side.left_out is not None:
            return
        command = [sys.executable, "-P", "-m", "clearhead.deploy.worker", str(job)]
        child = kept.enter_context(WorkerProcess(RUNTIMES[side.name].title, command))
        answer = child.read_answer(self.timeout)
        spent = time.perf_counter() - child.started_at
        if self._check_answer(side, answer) is not None:
            side.load_seconds.append(spent)
            side.process = child
        if not last or side.left_out is not None:
            child.close()
        self._report_progress()

    def measure(self, texts: int, turn: float) -> float | None:
        """Every runtime at the same texts, one after the other, round by round; the tokens of a text on average."""
        if not self.running:
            raise InputError(f"No runtime could be measured: {self.contenders[0].left_out}")
        for side in self.running:
            self._warm_up(side)
        pace = self.running[0]
        alone, together = (self._count_texts(pace, place, turn) for place in (0, 1))
        longest = max(alone * pace.seconds_per_text[0], together * pace.seconds_per_text[1])
        self.timeout = min(self.timeout, 60 + TIMEOUT_RATIO * longest)
        own = next((side for side in self.running if side.name != "sentence-transformers"), pace)
        lengths = (self.request(own, do="tokens", count=texts) or {}).get("tokens")
        for number in range(self.rounds):
            for side in self.running:
                count = min(alone, self._count_texts(side, 0, MAX_TIME_RATIO * turn))
                said = self.request(side, do="alone", first=number * alone, count=count)
                side.latencies += [] if said is None else said["ms"]
            for side in self.running:
                count = min(together, self._count_texts(side, 1, MAX_TIME_RATIO * turn))
                said = self.request(side, do="together", first=number * together, count=count)
                side.throughputs += [] if said is None else [count / max(said["seconds"], 1e-9)]
                self._report_progress()
        for side in self.running:
            side.memory = self.request(side, do="memory") or {}
            side.vectors = (self.request(side, do="vectors", count=COMPARED_TEXTS) or {}).get("vectors")
        return None if not lengths else statistics.fmean(lengths)

    def _warm_up(self, side: Contender) -> None:
        """Not counted: whatever is made at first use is made now, and tells how long a text takes about."""
        for _ in range(2):
            one = self.request(side, do="alone", count=5)
            many = self.request(side, do="together", count=2 * TEXT_LIMITS[1][0])
            if one is not None and many is not None:
                side.seconds_per_text = statistics.median(one["ms"]) / 1000, many["seconds"] / (2 * TEXT_LIMITS[1][0])

    def _count_texts(self, side: Contender, place: int, seconds: float) -> int:
        """How many texts a runtime does in so many seconds, alone (0) or together (1), within limits."""
        least, most = TEXT_LIMITS[place]
        return min(max(int(seconds / max(side.seconds_per_text[place], 1e-6)), least), most)

    def request(self, side: Contender, **question: Any) -> dict[str, Any] | None:
        """A question to one runtime; None from now on if it could not do it."""
        if side.left_out is not None or side.process is None:
            return None
        return self._check_answer(side, side.process.request(question, self.timeout))

    def _check_answer(self, side: Contender, answer: dict[str, Any]) -> dict[str, Any] | None:
        """An answer; a runtime that refuses is left out with its reason, unless it is the first."""
        if "error" not in answer:
            return answer
        said = " ".join(str(answer["error"]).split())
        if side is self.running[0]:
            raise ClearheadError(to_printable(said, 600))
        side.left_out = to_printable(said, 200)
        return None

    def _report_progress(self) -> None:
        self.finished_steps += 1
        self.progress("measuring", self.finished_steps, len(self.running) * (STARTS + self.rounds))
