"""Fuzz the readers of data files: `python fuzz/data.py --count 10000 --seed 0 [--jobs 2] [--minutes M] [--only N]`."""

from __future__ import annotations

import argparse
import json
import os
import resource
import select
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
if __name__ == "__main__":
    sys.path[0] = str(ROOT)  # not fuzz/ itself
from fuzz.drive import START_SECONDS, Tally, print_report, worker_environment  # noqa: E402

HANG_SECONDS = 40.0  # generous for a busy machine; 5 seconds of CPU time are a finding anyway
MAX_MEMORY = 3 << 29  # 1.5 GB on top of the libraries


def main() -> int:
    """Read all files; the exit code is 1 if anything was found."""
    arguments = _parse_arguments()
    if arguments.worker is not None:
        return _run_worker(arguments)
    numbers = range(arguments.count) if arguments.only is None else range(arguments.only, arguments.only + 1)
    with tempfile.TemporaryDirectory(prefix="clearhead-fuzz-") as base:
        run = WorkerPool(arguments, Path(base), numbers)
        tally = run.run_all()
    print_report(tally, arguments)
    return 1 if tally.findings or not tally.done else 0


def _parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="fuzz/data.py", description="Read mutated data files.")
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--only", type=int, help="read only the file with this number, and print its outcome")
    parser.add_argument("--keep", type=Path, default=Path("fuzz-findings"), help="folder for findings")
    parser.add_argument("--worker", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--numbers", type=int, nargs=3, help=argparse.SUPPRESS)
    return parser.parse_args()


def make_tokenizer(folder: Path) -> object:
    """Create a small WordPiece tokenizer of words and letters."""
    from clearhead.text import load_tokenizer
    from fuzz.seeds import write_wordpiece

    folder.mkdir(parents=True, exist_ok=True)
    write_wordpiece(folder)
    return load_tokenizer(folder, "bert", {}).source


def _run_worker(arguments: argparse.Namespace) -> int:
    """Read files in a child process, and print one line of JSON for each."""
    from fuzz.case import FuzzCase, Outcome
    from fuzz.data_case import check_file
    from fuzz.data_files import build_case

    base: Path = arguments.worker
    out = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # a panic in Rust writes to stderr before it is caught
    tokenizer = make_tokenizer(base / "tokenizer")
    for number in range(12):  # triggers all lazy imports before memory is limited
        _, file, path = build_case(-1, number, base)
        check_file(file, path, number, tokenizer)
    memory_used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (memory_used + MAX_MEMORY, memory_used + MAX_MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    out.write("ready\n")
    for number in range(*arguments.numbers):
        try:
            case, file, path = build_case(arguments.seed, number, base)
            outcome = check_file(file, path, number, tokenizer)
        except Exception:  # a bug of the fuzzer must not go unnoticed
            case = FuzzCase(number=number, seed="?", file="?", kind="?")
            outcome = Outcome(word="the fuzzer failed", detail=traceback.format_exc(), finding=True)
        out.write(json.dumps([asdict(case), asdict(outcome)]) + "\n")
    return 0


class WorkerPool:
    """Worker processes that may crash, hang or run out of memory, each monitored by a thread, and their results."""

    start_seconds: float = START_SECONDS

    def __init__(self, arguments: argparse.Namespace, base: Path, numbers: range) -> None:
        self._arguments, self._base, self._numbers = arguments, base, numbers
        self._lock = threading.Lock()
        self._started = time.monotonic()
        self._end: float = self._started + 60 * arguments.minutes
        self.tally = Tally()

    def run_all(self) -> Tally:
        """Run all numbers, in one child process per job."""
        jobs = max(1, min(self._arguments.jobs, len(self._numbers)))
        with ThreadPoolExecutor(jobs) as pool:
            list(pool.map(lambda job: self._run_job(job, jobs), range(jobs)))
        return self.tally

    def command(self) -> list[str]:
        """The command of a child process, without its numbers."""
        return [sys.executable, str(ROOT / "fuzz" / "data.py"), "--seed", str(self._arguments.seed)]

    def _run_job(self, job: int, jobs: int) -> None:
        folder = self._base / f"work-{job}"
        folder.mkdir()
        next_number, stop = self._numbers.start + job, self._numbers.stop
        while next_number < stop and not self._is_late():
            command = [*self.command(), "--worker", str(folder), "--numbers", str(next_number), str(stop), str(jobs)]
            with subprocess.Popen(command, env=worker_environment(), stdout=subprocess.PIPE, bufsize=0) as child:
                last_number, failure = self._read_results(child, next_number, jobs)
            if failure and not self._is_late():  # the current file crashed or hung the child
                with self._lock:
                    self.tally.done += 1
                    self.tally.outcomes[failure] += 1
                    self._store_finding(last_number, failure)
            next_number = last_number + jobs

    def _is_late(self) -> bool:
        return time.monotonic() > self._end

    def _read_results(self, child: subprocess.Popen[bytes], number: int, jobs: int) -> tuple[int, str]:
        """Read the output of a child; returns the number at which it stopped, and how it failed (empty: it did not)."""
        out = child.stdout
        if out is None:
            raise RuntimeError("the child process has no stdout")
        unread, started = b"", False
        while number < self._numbers.stop:
            ready = select.select([out], [], [], HANG_SECONDS if started else self.start_seconds)[0]
            chunk = os.read(out.fileno(), 1 << 16) if ready else b""
            if not ready or self._is_late():
                child.kill()
            if not started and not chunk:
                raise RuntimeError("a worker could not start because unmutated files cannot be read")
            if not chunk:
                return number, f"crashed with {child.wait()}" if ready else "hung"
            *lines, unread = (unread + chunk).split(b"\n")
            for line in lines:
                if line == b"ready":
                    started = True
                else:
                    self._record(line)
                    number += jobs
        return number, ""

    def _record(self, line: bytes) -> None:
        case, outcome = json.loads(line)
        with self._lock:
            tally = self.tally
            tally.done += 1
            tally.outcomes[outcome["word"]] += 1
            for kind in set(case["kind"].split(" + ")):
                tally.kinds[f"{kind}: {'read' if outcome['word'].startswith('read') else 'refused'}"] += 1
            if self._arguments.only is not None:
                print(f"{case['seed']}, {case['kind']}\n{outcome['word']}: {outcome['detail']}")
            if outcome["finding"]:
                description = (
                    f"{outcome['word']} in {case['seed']} {case['file']!r} ({case['kind']})\n{outcome['detail']}"
                )
                self._store_finding(case["number"], description)
            if tally.done % 500 == 0:
                rate = tally.done / (time.monotonic() - self._started)
                finding_count = len(tally.findings)
                print(f"{tally.done:,} of {len(self._numbers):,}: {finding_count} findings, {rate:.0f}/s", flush=True)

    def _store_finding(self, number: int, text: str) -> None:
        """Store the file, the finding, and the command that reproduces it."""
        from fuzz.data_files import build_case

        command = f"python fuzz/data.py --seed {self._arguments.seed} --only {number}"
        folder: Path = self._arguments.keep / f"data-{self._arguments.seed}-{number}"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        with suppress(Exception):  # if the fuzzer itself failed, there is no file, only its message
            build_case(self._arguments.seed, number, folder)
        (folder / "finding.txt").write_text(f"{command}\n{text}\n", encoding="utf-8", errors="replace")
        first_line = text.splitlines()[0].encode("ascii", "backslashreplace").decode()
        self.tally.findings.append(f"{number}: {first_line}")
        print(f"FINDING {number}: {first_line}   ({command})", flush=True)


if __name__ == "__main__":
    raise SystemExit(main())
