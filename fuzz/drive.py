"""The driver of the model fuzzer: workers that may crash, hang or run out of memory, and a tally of outcomes."""

from __future__ import annotations

import argparse
import json
import os
import resource
import selectors
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO

HANG_SECONDS = 20
START_SECONDS = 120
MAX_MEMORY = 2 << 30  # on top of the libraries
ROOT = Path(__file__).resolve().parents[1]


@dataclass
class Worker:
    """A child process and its current case."""

    process: subprocess.Popen[bytes]
    next: int
    stop: int
    step: int
    last_output: float
    started: bool = False
    unread: bytes = b""


@dataclass
class Tally:
    """The outcomes so far."""

    outcomes: Counter[str] = field(default_factory=Counter)
    kinds: Counter[str] = field(default_factory=Counter)
    findings: list[str] = field(default_factory=list)
    done: int = 0


def main() -> int:
    """Run all cases; the exit code is 1 if anything was found."""
    arguments = _parse_arguments()
    base = Path(tempfile.mkdtemp(prefix="clearhead-fuzz-"))
    try:
        if arguments.worker is not None:
            return _run_worker(arguments)
        subprocess.run([*_command(), "--make", str(base / "seeds")], env=worker_environment(), check=True)
        only, first = arguments.only, arguments.first
        numbers = range(first, first + arguments.count) if only is None else range(only, only + 1)
        tally = _run_workers(arguments, base, numbers)
    finally:
        shutil.rmtree(base, ignore_errors=True)
    print_report(tally, arguments)
    return 1 if tally.findings or not tally.done else 0


def _parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="fuzz/run.py", description="Load mutated model folders.")
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--hostile", type=float, default=0.5, help="share of cases with format-aware hostile mutations")
    parser.add_argument("--first", type=int, default=0, help="number of the first case, to continue a long run")
    parser.add_argument("--only", type=int, help="run only the case with this number, and print its outcome")
    parser.add_argument("--keep", type=Path, default=Path("fuzz-findings"), help="folder for findings")
    parser.add_argument("--make", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--worker", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--numbers", type=int, nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.make is not None:
        from fuzz.seeds import make_seeds

        (arguments.make.parent / "names.json").write_text(json.dumps(make_seeds(arguments.make)))
        raise SystemExit(0)
    return arguments


def _command() -> list[str]:
    return [sys.executable, str(ROOT / "fuzz" / "run.py")]


def worker_environment() -> dict[str, str]:
    threads = {
        "OMP_NUM_THREADS": "1",
        "TOKENIZERS_PARALLELISM": "false",
        "RAYON_NUM_THREADS": "1",
        "HF_HUB_OFFLINE": "1",
    }
    return os.environ | threads | {"PYTHONHASHSEED": "0", "RUST_BACKTRACE": "0"}


def _run_worker(arguments: argparse.Namespace) -> int:
    """Run cases in a child process, and print one line of JSON for each."""
    from fuzz.case import AccessMonitor, FuzzCase, Outcome, build_case, check_case

    base: Path = arguments.worker
    seeds = base.parent / "seeds"
    names: list[str] = json.loads((base.parent / "names.json").read_text())
    monitor = AccessMonitor()
    out = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # a panic in Rust writes to stderr before it is caught
    _load_seeds(seeds, names)
    memory_used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (memory_used + MAX_MEMORY, memory_used + MAX_MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    out.write("ready\n")
    for number in range(*arguments.numbers):
        try:
            case = build_case(arguments.seed, number, seeds, names, base, arguments.hostile)
            outcome = check_case(case, base, monitor)
        except Exception:  # a bug of the fuzzer must not go unnoticed
            case = FuzzCase(number=number, seed="?", file="?", kind="?")
            outcome = Outcome(word="the fuzzer failed", detail=traceback.format_exc(), finding=True)
        out.write(json.dumps([asdict(case), asdict(outcome)]) + "\n")
    return 0


def _load_seeds(seeds: Path, names: list[str]) -> None:
    """Load each seed once, to trigger all lazy imports and verify that the seeds are valid."""
    import clearhead

    for name in names:
        clearhead.load(seeds / name, device="cpu").embed(["the sea"])


def _run_workers(arguments: argparse.Namespace, base: Path, numbers: range) -> Tally:
    tally, started = Tally(), time.monotonic()
    jobs = max(1, min(arguments.jobs, len(numbers)))
    selector = selectors.DefaultSelector()
    for job in range(jobs):
        _start_worker(arguments, base, selector, numbers.start + job, numbers.stop, jobs)
    while selector.get_map():
        for key, _ in selector.select(timeout=1.0):
            worker: Worker = key.data
            chunk = os.read(key.fd, 1 << 16)
            *lines, worker.unread = (worker.unread + chunk).split(b"\n")
            for line in lines:
                _record(line, worker, tally, arguments, started, len(numbers))
            if not chunk:
                _handle_exit(arguments, base, selector, worker, tally)
        now = time.monotonic()
        for key in list(selector.get_map().values()):
            worker = key.data
            if now - worker.last_output > (HANG_SECONDS if worker.started else START_SECONDS):
                worker.process.kill()
                _handle_exit(arguments, base, selector, worker, tally, hung=True)
            elif now - started > arguments.minutes * 60:
                worker.process.kill()
                _close_worker(selector, worker)
    return tally


def _start_worker(
    arguments: argparse.Namespace, base: Path, selector: selectors.BaseSelector, first: int, stop: int, step: int
) -> None:
    if first >= stop:
        return
    folder = base / f"work-{first % step}"
    folder.mkdir(exist_ok=True)
    command = [*_command(), "--worker", str(folder), "--seed", str(arguments.seed), "--hostile", str(arguments.hostile)]
    process = subprocess.Popen(
        [*command, "--numbers", str(first), str(stop), str(step)],
        env=worker_environment(),
        stdout=subprocess.PIPE,
        bufsize=0,
    )
    output: IO[bytes] | None = process.stdout
    if output is not None:
        selector.register(output, selectors.EVENT_READ, Worker(process, first, stop, step, time.monotonic()))


def _record(
    line: bytes, worker: Worker, tally: Tally, arguments: argparse.Namespace, started: float, count: int
) -> None:
    worker.last_output = time.monotonic()
    if line == b"ready":
        worker.started = True
        return
    case, outcome = json.loads(line)
    worker.next = case["number"] + worker.step
    tally.done += 1
    tally.outcomes[outcome["word"]] += 1
    tally.kinds[f"{case['kind']}: {'ran' if outcome['word'] == 'ran' else 'refused'}"] += 1
    if arguments.only is not None:
        print(f"{case['seed']}/{case['file']}, {case['kind']}\n{outcome['word']}: {outcome['detail']}")
    if outcome["finding"]:
        location = f"{case['seed']}/{case['file']} ({case['kind']})"
        _store_finding(arguments, tally, case["number"], f"{outcome['word']} in {location}\n{outcome['detail']}")
    if tally.done % 500 == 0:
        rate = tally.done / (time.monotonic() - started)
        ran = tally.outcomes["ran"]
        print(f"{tally.done:,} of {count:,}: {ran:,} ran, {len(tally.findings)} findings, {rate:.0f}/s", flush=True)


def _handle_exit(
    arguments: argparse.Namespace,
    base: Path,
    selector: selectors.BaseSelector,
    worker: Worker,
    tally: Tally,
    hung: bool = False,
) -> None:
    """Handle the end of a worker; if its current case crashed it, start a new worker at the next case."""
    code = _close_worker(selector, worker)
    if worker.next >= worker.stop:
        return
    if not worker.started:
        raise SystemExit("a worker could not start because unmutated seed folders cannot be loaded")
    tally.done += 1
    outcome = "hung" if hung else f"crashed with {code}"
    tally.outcomes[outcome] += 1
    _store_finding(arguments, tally, worker.next, outcome)
    _start_worker(arguments, base, selector, worker.next + worker.step, worker.stop, worker.step)


def _close_worker(selector: selectors.BaseSelector, worker: Worker) -> int:
    if worker.process.stdout is not None:
        selector.unregister(worker.process.stdout)
        worker.process.stdout.close()
    return worker.process.wait()


def _store_finding(arguments: argparse.Namespace, tally: Tally, number: int, text: str) -> None:
    arguments.keep.mkdir(parents=True, exist_ok=True)
    command = f"python fuzz/run.py --seed {arguments.seed} --hostile {arguments.hostile} --only {number}"
    (arguments.keep / f"{arguments.seed}-{number}.txt").write_text(f"{command}\n{text}\n")
    first_line = text.splitlines()[0]
    tally.findings.append(f"{number}: {first_line}")
    print(f"FINDING {number}: {first_line}   ({command})", flush=True)


def print_report(tally: Tally, arguments: argparse.Namespace) -> None:
    print(f"\n{tally.done:,} cases from seed {arguments.seed}")
    for outcome, count in tally.outcomes.most_common():
        print(f"  {count:7,}  {outcome}")
    print("by mutation")
    for kind, count in sorted(tally.kinds.items()):
        print(f"  {count:7,}  {kind}")
    print(f"{len(tally.findings)} findings" + (f", stored in {arguments.keep}" if tally.findings else ""))
