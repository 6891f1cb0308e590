"""Beside other busy processes: what is left of training, features, fits and embedding, against a fair share.

    python benchmarks/contention.py [--quick] [--rounds 5] [--seconds 2] [--jobs finetune,fit] [--spinning]

Every job is a process of its own that works for some seconds when it is told to. Each round measures all jobs alone,
beside one process that only computes, and beside two of them. On c cores with k such processes a scheduler that is
fair to threads gives c threads c / (c + k) of the machine. What it really gives, also where others use the machine, is
measured in the same round by a yardstick: c processes that count and never wait for each other. The share of a job is

    (its speed beside k processes / its speed alone) / (the same of the yardstick)

1 is fair; a job on fewer threads than cores can have more. The promise: the median over the rounds is never below 0.6.
The exit code is 1 where it is. `--spinning` also runs each job as it was before: OpenMP's and the engine's threads
spin, BLAS uses all cores, tiny models use all threads. It is shown beside, and nothing is promised about it. Speeds are
real ones (tokens, texts or fits a second), so that both can be compared; on a machine that has other work, alone is not
alone, and the first line says how much of the machine others used.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path

CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
BESIDE = (0, 1, 2)  # processes that only compute
PROMISE = 0.6
YARDSTICK = "yardstick"
SPINNING = {  # as it was: what is set wins over what clearhead chooses
    "GOMP_SPINCOUNT": "300000",
    "OPENBLAS_NUM_THREADS": str(CORES),
    "OMP_NUM_THREADS": str(CORES),
}


class Pace:
    """Work is counted until a turn is over; then its speed is printed, and the next turn waited for."""

    def __init__(self) -> None:
        self.end = self.begun = self.done = 0.0

    def count(self, amount: float) -> None:
        """So much more is done."""
        self.done += amount
        if time.perf_counter() < self.end:
            return
        if self.begun:
            print(json.dumps(self.done / (time.perf_counter() - self.begun)), flush=True)
        else:
            print("ready", flush=True)
        line = sys.stdin.readline()
        if not line:
            os._exit(0)
        self.begun, self.done = time.perf_counter(), 0.0
        self.end = self.begun + float(line)


def texts() -> list[str]:
    """Sentences of many lengths."""
    from clearhead.deploy.sentences import SENTENCES

    return [f"{first} {second}" for first, second in product(SENTENCES, SENTENCES) if first != second]


def finetune(pace: Pace, folder: Path) -> None:
    """`clearhead train`: tokens of steps of the default model."""
    import clearhead
    from clearhead.jobs.events import RunEvents

    rows = [{"text": text, "label": "long" if len(text) > 80 else "short"} for text in texts()]
    told = RunEvents(training_step=lambda step: pace.count(step.tokens))
    clearhead.train(rows, output=folder / "run", epochs=1000, save_every=1e6, report=False, events=told)


def pretrain(pace: Pace, folder: Path) -> None:
    """`clearhead pretrain` of a tiny model: tokens of its steps."""
    import clearhead
    from clearhead.jobs.events import RunEvents

    (folder / "text.txt").write_text("\n".join(texts()))
    told = RunEvents(training_step=lambda step: pace.count(step.tokens))
    config = '{"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 128}'
    clearhead.pretrain(
        folder / "text.txt",
        output=folder / "run",
        config=config,
        vocab_size=600,
        max_length=32,
        max_steps=10**7,
        batch_tokens=1024,
        save_every=1e6,
        report=False,
        events=told,
    )


def features(pace: Pace, folder: Path) -> None:  # noqa: ARG001
    """Features of texts: tokens through the engine, many texts at a time."""
    import clearhead

    model, some = clearhead.load("default", head=None), texts()[:64]
    tokens = sum(len(one) for one in model.tokenizer.encode_ids(some))
    while True:
        model.embed(some)
        pace.count(tokens)


def embed(pace: Pace, folder: Path) -> None:  # noqa: ARG001
    """Single texts in the engine, each on all its threads: texts."""
    import clearhead

    model, some = clearhead.load("default", head=None), texts()[:64]
    while True:
        for text in some:
            model.embed([text])
            pace.count(1)


def fit(pace: Pace, folder: Path) -> None:  # noqa: ARG001
    """The logistic regressions of `--layers sweep` on 2,000 rows: fits."""
    import numpy as np

    from clearhead.classic import fit_linear
    from clearhead.data import LabelSpace

    draw = np.random.default_rng(0)
    matrix = draw.normal(size=(2000, 384))
    truth = (matrix[:, :40].sum(1) + 3 * draw.normal(size=2000) > 0).astype(np.int64)
    while True:
        fit_linear(matrix, truth, LabelSpace(names=("no", "yes"), kind="classes"), strength=0.001)
        pace.count(1)


def count(pace: Pace, folder: Path) -> None:  # noqa: ARG001
    """A part of the yardstick."""
    while True:
        sum(range(20_000))
        pace.count(1)


JOBS: dict[str, Callable[[Pace, Path], None]] = {
    "finetune": finetune,
    "features": features,
    "fit": fit,
    "embed": embed,
    "pretrain": pretrain,
}


def child(name: str, *, spinning: bool) -> None:
    """Be one of the jobs."""
    if spinning:
        import clearhead.engine.session as session

        session.spin_settings = lambda threads, version: {  # noqa: ARG005
            "session.intra_op.allow_spinning": str(int(threads > 1))
        }
    with tempfile.TemporaryDirectory() as folder:
        (JOBS | {YARDSTICK: count})[name](Pace(), Path(folder))


class Job:
    """Processes that work at once when they are told to."""

    def __init__(self, name: str, *, spinning: bool = False) -> None:
        self.name, self.spinning = name, spinning
        command = [sys.executable, __file__, "--child", name, *(["--spinning"] if spinning else [])]
        environment = os.environ | {"HF_HUB_OFFLINE": "1"} | (SPINNING if spinning else {})
        self.processes = [
            subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                env=environment,
            )
            for _ in range(CORES if name == YARDSTICK else 1)
        ]
        self.answers()
        self.speeds: dict[int, list[float]] = {beside: [] for beside in BESIDE}

    def answers(self) -> list[str]:
        """A line of each process."""
        lines = [process.stdout.readline() for process in self.processes if process.stdout is not None]
        if not all(lines):
            raise SystemExit(f"{self.name} stopped while it was measured")
        return lines

    def take(self, seconds: float) -> float:
        """The speed of one turn."""
        for process in self.processes:
            assert process.stdin is not None
            print(seconds, file=process.stdin, flush=True)
        return sum(float(line) for line in self.answers())

    def close(self) -> None:
        """End the processes."""
        for process in self.processes:
            with process:  # its pipes are closed, and it is waited for
                process.kill()


@contextmanager
def busy(beside: int) -> Iterator[None]:
    """Processes that only compute, while this lasts."""
    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(beside)]
    try:
        yield
    finally:
        for other in others:
            other.kill()
            other.wait()


def used_by_others(seconds: float = 1.0) -> float | None:
    """The share of the machine that is used while every process of ours waits."""
    place = Path("/proc/stat")
    if not place.exists():
        return None

    def read() -> tuple[int, int]:
        figures = [int(figure) for figure in place.read_text().split("\n", 1)[0].split()[1:9]]
        return sum(figures), figures[3] + figures[4]

    before, idle = read()
    time.sleep(seconds)
    after, later = read()
    return 1 - (later - idle) / max(after - before, 1)


def shares(speeds: dict[int, list[float]], yardstick: dict[int, list[float]], beside: int) -> list[float]:
    """Of each round: what a job keeps beside so many processes, against what the yardstick keeps."""
    mine = [busy / alone for busy, alone in zip(speeds[beside], speeds[0], strict=True)]
    fair = [busy / alone for busy, alone in zip(yardstick[beside], yardstick[0], strict=True)]
    return [one / other for one, other in zip(mine, fair, strict=True)]


def table(jobs: list[Job], yardstick: Job) -> tuple[list[str], list[str]]:
    """The lines to print, and what is below the promise."""
    lines = [f"{'':<20}{'alone':>10}" + "".join(f"{f'beside {k}':>10}{'share':>7}{'(range)':>14}" for k in BESIDE[1:])]
    failed = []
    for job in [*jobs, yardstick]:
        title = f"{job.name}, spinning" if job.spinning else job.name
        line = f"{title:<20}{statistics.median(job.speeds[0]):>10,.1f}"
        for beside in BESIDE[1:]:
            found = shares(job.speeds, yardstick.speeds, beside)
            if job is yardstick:  # what it keeps, beside what c / (c + k) would be
                found = [one / alone for one, alone in zip(job.speeds[beside], job.speeds[0], strict=True)]
            middle = statistics.median(found)
            line += f"{statistics.median(job.speeds[beside]):>10,.1f}{middle:>7.2f}"
            line += f"{f'({min(found):.2f}-{max(found):.2f})':>14}"
            if middle < PROMISE and not job.spinning and job is not yardstick:
                failed.append(f"{title} beside {beside}: {middle:.2f} of its fair share")
        lines.append(line)
    fair = ", ".join(f"{CORES / (CORES + beside):.2f} beside {beside}" for beside in BESIDE[1:])
    return [*lines, f"the yardstick's share is of its own speed alone; fair on an idle machine: {fair}"], failed


def main() -> None:
    """Print a table, and fail where a job has less than it was promised."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="turns of half a second")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0, help="of a turn, at least")
    parser.add_argument("--jobs", default=",".join(JOBS), help="some of them, with commas")
    parser.add_argument("--spinning", action="store_true", help="also as it was before")
    parser.add_argument("--child", default=None, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        child(given.child, spinning=given.spinning)
        return
    names = given.jobs.split(",")
    if wrong := [name for name in names if name not in JOBS]:
        raise SystemExit(f"there is no job {wrong[0]}; there are {', '.join(JOBS)}")
    seconds, rounds = 0.5 if given.quick else given.seconds, max(given.rounds, 5)
    yardstick = Job(YARDSTICK)
    jobs = [Job(name, spinning=old) for name in names for old in ((False, True) if given.spinning else (False,))]
    try:
        others = used_by_others()
        known = "" if others is None else f"; other processes use {100 * others:.0f} % of the machine"
        print(f"{CORES} cores, {rounds} rounds of {seconds:g} s{known}")
        for job in (*jobs, yardstick):
            job.take(seconds)  # warm
        for _ in range(rounds):
            for beside in BESIDE:
                with busy(beside):
                    for job in (*jobs, yardstick):
                        job.speeds[beside].append(job.take(seconds))
    finally:
        for job in (*jobs, yardstick):
            job.close()
    lines, failed = table(jobs, yardstick)
    print("\n".join(lines))
    if failed:
        raise SystemExit(f"promised at least {PROMISE} of a fair share; " + "; ".join(failed))


if __name__ == "__main__":
    main()
