"""Measure runtimes in interleaved rounds on the same texts, each in its own process."""

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

STARTS = 2  # process starts per runtime: the first fills the file cache; the faster one is reported
TIMEOUT = 900.0  # seconds that a runtime may take to load
COMPARED_TEXTS = 32  # texts whose vectors are compared with float
TEXT_LIMITS = ((20, 1000), (16, 8192))  # minimum and maximum texts per round: single texts, one batch
MAX_TIME_RATIO = 4  # a runtime slower than this multiple of the first one gets fewer texts
TIMEOUT_RATIO = 50  # a runtime is stopped after this multiple of the expected time


@dataclass(kw_only=True)
class Contender:
    """A runtime and its measurements."""

    name: str
    process: WorkerProcess | None = None
    left_out: str | None = None
    seconds_per_text: tuple[float, float] = (1.0, 1.0)  # in single calls, in one batch
    load_seconds: list[float] = field(default_factory=list)
    latencies: list[float] = field(default_factory=list)  # milliseconds
    throughputs: list[float] = field(default_factory=list)  # texts per second, by round
    vectors: Any = None
    memory: dict[str, float | None] = field(default_factory=dict)


@dataclass(kw_only=True)
class Scheduler:
    """Start the runtimes, measure them in interleaved rounds, and report progress."""

    contenders: Sequence[Contender]
    timeout: float
    rounds: int
    progress: Progress
    finished_steps: int = 0

    @property
    def running(self) -> list[Contender]:
        """Runtimes that have not failed."""
        return [contender for contender in self.contenders if contender.left_out is None]

    def start(self, jobs: Sequence[Path], stack: ExitStack) -> None:
        """Start each runtime STARTS times up to its first answer; the last processes stay for the measurement."""
        for start in range(STARTS):
            for contender, job in zip(self.contenders, jobs, strict=True):
                self._start(contender, job, stack, last=start == STARTS - 1)

    def _start(self, contender: Contender, job: Path, stack: ExitStack, *, last: bool) -> None:
        if contender.left_out is not None:
            return
        command = [sys.executable, "-P", "-m", "clearhead.deploy.worker", str(job)]
        process = stack.enter_context(WorkerProcess(RUNTIMES[contender.name].title, command))
        answer = process.read_answer(self.timeout)
        load_seconds = time.perf_counter() - process.started_at
        if self._check_answer(contender, answer) is not None:
            contender.load_seconds.append(load_seconds)
            contender.process = process
        if not last or contender.left_out is not None:
            process.close()
        self._report_progress()

    def measure(self, text_count: int, seconds: float) -> float | None:
        """Measure all runtimes on the same texts, round by round; return the mean number of tokens per text."""
        if not self.running:
            raise InputError(f"No runtime could be measured: {self.contenders[0].left_out}")
        for contender in self.running:
            self._warm_up(contender)
        reference = self.running[0]
        single_count, batch_count = (self._count_texts(reference, mode, seconds) for mode in (0, 1))
        longest = max(single_count * reference.seconds_per_text[0], batch_count * reference.seconds_per_text[1])
        self.timeout = min(self.timeout, 60 + TIMEOUT_RATIO * longest)
        token_counter = next(
            (contender for contender in self.running if contender.name != "sentence-transformers"), reference
        )
        lengths = (self.request(token_counter, do="tokens", count=text_count) or {}).get("tokens")
        for round_index in range(self.rounds):
            for contender in self.running:
                count = min(single_count, self._count_texts(contender, 0, MAX_TIME_RATIO * seconds))
                answer = self.request(contender, do="alone", first=round_index * single_count, count=count)
                contender.latencies += [] if answer is None else answer["ms"]
            for contender in self.running:
                count = min(batch_count, self._count_texts(contender, 1, MAX_TIME_RATIO * seconds))
                answer = self.request(contender, do="together", first=round_index * batch_count, count=count)
                contender.throughputs += [] if answer is None else [count / max(answer["seconds"], 1e-9)]
                self._report_progress()
        for contender in self.running:
            contender.memory = self.request(contender, do="memory") or {}
            contender.vectors = (self.request(contender, do="vectors", count=COMPARED_TEXTS) or {}).get("vectors")
        return None if not lengths else statistics.fmean(lengths)

    def _warm_up(self, contender: Contender) -> None:
        """Trigger one-time initialization, and estimate the seconds per text."""
        for _ in range(2):
            single = self.request(contender, do="alone", count=5)
            batch = self.request(contender, do="together", count=2 * TEXT_LIMITS[1][0])
            if single is not None and batch is not None:
                contender.seconds_per_text = (
                    statistics.median(single["ms"]) / 1000,
                    batch["seconds"] / (2 * TEXT_LIMITS[1][0]),
                )

    def _count_texts(self, contender: Contender, mode: int, seconds: float) -> int:
        """Estimate how many texts a runtime processes in `seconds`, one by one (mode 0) or as a batch (mode 1)."""
        minimum, maximum = TEXT_LIMITS[mode]
        return min(max(int(seconds / max(contender.seconds_per_text[mode], 1e-6)), minimum), maximum)

    def request(self, contender: Contender, **request: Any) -> dict[str, Any] | None:
        """Send a request to a runtime; return None if it failed, now or earlier."""
        if contender.left_out is not None or contender.process is None:
            return None
        return self._check_answer(contender, contender.process.request(request, self.timeout))

    def _check_answer(self, contender: Contender, answer: dict[str, Any]) -> dict[str, Any] | None:
        """Return a valid answer; after an error, leave the runtime out, or raise if it is the first one."""
        if "error" not in answer:
            return answer
        message = " ".join(str(answer["error"]).split())
        if contender is self.running[0]:
            raise ClearheadError(to_printable(message, 600))
        contender.left_out = to_printable(message, 200)
        return None

    def _report_progress(self) -> None:
        self.finished_steps += 1
        self.progress("measuring", self.finished_steps, len(self.running) * (STARTS + self.rounds))
