"""Worker processes that answer requests one at a time, with a timeout for each answer."""

from __future__ import annotations

import json
import subprocess
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from queue import Empty, Queue
from threading import Thread
from types import TracebackType
from typing import Any

from clearhead.errors import ClearheadError
from clearhead.files import to_printable

EXIT_TIMEOUT = 5.0  # seconds until a process that should exit is killed


class WorkerProcess:
    """A child process that exchanges lines of JSON; a crash or timeout raises ClearheadError."""

    def __init__(self, title: str, command: Sequence[str]) -> None:
        self.title = title
        self.started_at = time.perf_counter()
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115
        try:
            self.process = subprocess.Popen(  # noqa: S603
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._stderr
            )
        except OSError as error:
            self._stderr.close()
            raise ClearheadError(f"{title} could not be started: {error.strerror or error}.") from None
        self._answers: Queue[bytes | None] = Queue()
        self._reader = Thread(target=self._read_lines, daemon=True)
        self._reader.start()

    def _read_lines(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._answers.put(line)
        self._answers.put(None)

    def request(self, request: dict[str, Any], timeout: float) -> dict[str, Any]:
        """Send a request and return its answer."""
        assert self.process.stdin is not None
        with suppress(OSError):  # the process has exited; read_answer reports it
            self.process.stdin.write(json.dumps(request).encode() + b"\n")
            self.process.stdin.flush()
        return self.read_answer(timeout)

    def read_answer(self, timeout: float) -> dict[str, Any]:
        """Return the next answer; the first one comes without a request, when the runtime is loaded."""
        try:
            line = self._answers.get(timeout=timeout)
        except Empty:
            self.close(at_once=True)
            raise ClearheadError(f"{self.title} did not answer within {timeout:.0f} seconds and was stopped.") from None
        try:
            answer = None if line is None else json.loads(line)
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            self.close(at_once=line is not None)
            reason = self.last_error_line() or f"exit code {self.process.returncode}"
            raise ClearheadError(f"{self.title} exited during the measurement: {reason}.")
        return answer

    def last_error_line(self) -> str:
        """Return the last line that the process wrote to stderr."""
        if self._stderr.closed:
            return self._last_error_line
        self._stderr.seek(0, 2)
        self._stderr.seek(max(0, self._stderr.tell() - 4096))
        lines = self._stderr.read().decode(errors="replace").strip().splitlines()
        return to_printable(lines[-1].strip().rstrip("."), 200) if lines else ""

    def close(self, *, at_once: bool = False) -> None:
        """Stop the process; kill it if it does not exit."""
        if self._stderr.closed:
            return
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        if at_once:
            self.process.kill()
        with suppress(OSError):  # unsent input
            self.process.stdin.close()
        try:
            self.process.wait(EXIT_TIMEOUT)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._reader.join(EXIT_TIMEOUT)
        if not self._reader.is_alive():  # otherwise a grandchild holds the pipe
            self.process.stdout.close()
        self._last_error_line = self.last_error_line()
        self._stderr.close()

    def __enter__(self) -> WorkerProcess:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(at_once=kind is not None)
