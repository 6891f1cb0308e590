"""Throughput of training, features, fits and embedding next to other busy processes, compared with a fair share.

    python benchmarks/contention.py [--quick] [--rounds 5] [--seconds 2] [--jobs finetune,fit] [--spinning]

Every job runs in its own process and works for a few seconds on request. Each round measures every job without load,
next to one busy process, and next to two. On c cores with k busy processes, a scheduler that is fair to threads gives
c threads c / (c + k) of the machine. What the scheduler really gives, even if others use the machine, is measured in
the same round by a yardstick: c processes that count and never wait for each other. The share of a job is

    (its speed next to k busy processes / its speed without load) / (the same ratio of the yardstick)

1 is fair; a job with fewer threads than cores can have more. Target: the median over the rounds is at least 0.6, else
the exit code is 1. `--spinning` also runs each job with the former settings, for comparison only: threads of OpenMP and
of the engine spin, BLAS uses all cores, tiny models use all threads. Speeds are tokens, texts or fits per second, so
that both can be compared. The first line of the output reports how much of the machine other processes use.
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
BUSY_COUNTS = (0, 1, 2)  # busy processes next to a job
MIN_SHARE = 0.6
YARDSTICK = "yardstick"
SPINNING = {  # the former settings: environment variables override the choices of clearhead
    "GOMP_SPINCOUNT": "300000",
    "OPENBLAS_NUM_THREADS": str(CORES),
    "OMP_NUM_THREADS": str(CORES),
}


class SpeedMeter:
    """Counts work until a measurement is over, prints the speed and waits for the next measurement."""

    def __init__(self) -> None:
        self.end = self.started = self.amount = 0.0

    def add(self, amount: float) -> None:
        """Count work that was done; block between measurements."""
        self.amount += amount
        if time.perf_counter() < self.end:
            return
        if self.started:
            print(json.dumps(self.amount / (time.perf_counter() - self.started)), flush=True)
        else:
            print("ready", flush=True)
        line = sys.stdin.readline()
        if not line:
            os._exit(0)
        self.started, self.amount = time.perf_counter(), 0.0
        self.end = self.started + float(line)


def make_texts() -> list[str]:
    """Pair the sample sentences to texts of many lengths."""
    from clearhead.deploy.sentences import SENTENCES

    return [f"{first} {second}" for first, second in product(SENTENCES, SENTENCES) if first != second]


def finetune(meter: SpeedMeter, folder: Path) -> None:
    """Fine-tune the default model as `clearhead train` does; count tokens."""
    import clearhead
    from clearhead.jobs.events import RunEvents

    rows = [{"text": text, "label": "long" if len(text) > 80 else "short"} for text in make_texts()]
    events = RunEvents(training_step=lambda step: meter.add(step.tokens))
    clearhead.train(rows, output=folder / "run", epochs=1000, save_every=1e6, report=False, events=events)


def pretrain(meter: SpeedMeter, folder: Path) -> None:
    """Pre-train a tiny model as `clearhead pretrain` does; count tokens."""
    import clearhead
    from clearhead.jobs.events import RunEvents

    (folder / "text.txt").write_text("\n".join(make_texts()))
    events = RunEvents(training_step=lambda step: meter.add(step.tokens))
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
        events=events,
    )


def compute_features(meter: SpeedMeter, folder: Path) -> None:  # noqa: ARG001
    """Embed many texts per call; count tokens."""
    import clearhead

    model, texts = clearhead.load("default", head=None), make_texts()[:64]
    tokens = sum(len(token_ids) for token_ids in model.tokenizer.encode_ids(texts))
    while True:
        model.embed(texts)
        meter.add(tokens)


def embed(meter: SpeedMeter, folder: Path) -> None:  # noqa: ARG001
    """Embed one text per call on all threads; count texts."""
    import clearhead

    model, texts = clearhead.load("default", head=None), make_texts()[:64]
    while True:
        for text in texts:
            model.embed([text])
            meter.add(1)


def fit(meter: SpeedMeter, folder: Path) -> None:  # noqa: ARG001
    """Fit logistic regressions as `--layers sweep` does, on 2,000 rows; count fits."""
    import numpy as np

    from clearhead.classic import fit_linear
    from clearhead.data import LabelSpace

    rng = np.random.default_rng(0)
    matrix = rng.normal(size=(2000, 384))
    labels = (matrix[:, :40].sum(1) + 3 * rng.normal(size=2000) > 0).astype(np.int64)
    while True:
        fit_linear(matrix, labels, LabelSpace(names=("no", "yes"), kind="classes"), strength=0.001)
        meter.add(1)


def count_numbers(meter: SpeedMeter, folder: Path) -> None:  # noqa: ARG001
    """Count numbers: one process of the yardstick."""
    while True:
        sum(range(20_000))
        meter.add(1)


JOBS: dict[str, Callable[[SpeedMeter, Path], None]] = {
    "finetune": finetune,
    "features": compute_features,
    "fit": fit,
    "embed": embed,
    "pretrain": pretrain,
}


def run_job(name: str, *, spinning: bool) -> None:
    """Run a job in this process."""
    if spinning:
        import clearhead.engine.session as session

        session.spin_settings = lambda threads, version: {  # noqa: ARG005
            "session.intra_op.allow_spinning": str(int(threads > 1))
        }
    with tempfile.TemporaryDirectory() as folder:
        (JOBS | {YARDSTICK: count_numbers})[name](SpeedMeter(), Path(folder))


class MeasuredJob:
    """The processes of a job, which work at the same time on request."""

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
        self.read_lines()
        self.speeds: dict[int, list[float]] = {busy_count: [] for busy_count in BUSY_COUNTS}

    def read_lines(self) -> list[str]:
        """Read a line from each process."""
        lines = [process.stdout.readline() for process in self.processes if process.stdout is not None]
        if not all(lines):
            raise SystemExit(f"{self.name} stopped during its measurement")
        return lines

    def measure(self, seconds: float) -> float:
        """Let the job work, and return its speed."""
        for process in self.processes:
            assert process.stdin is not None
            print(seconds, file=process.stdin, flush=True)
        return sum(float(line) for line in self.read_lines())

    def close(self) -> None:
        """Kill the processes."""
        for process in self.processes:
            with process:  # closes its pipes and waits for it
                process.kill()


@contextmanager
def busy_processes(busy_count: int) -> Iterator[None]:
    """Keep a number of busy processes running."""
    processes = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(busy_count)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def measure_other_load(seconds: float = 1.0) -> float | None:
    """Measure the share of the machine that is used while all processes of the benchmark wait."""
    stat_path = Path("/proc/stat")
    if not stat_path.exists():
        return None

    def read_counters() -> tuple[int, int]:
        figures = [int(counter) for counter in stat_path.read_text().split("\n", 1)[0].split()[1:9]]
        return sum(figures), figures[3] + figures[4]

    total_before, idle_before = read_counters()
    time.sleep(seconds)
    total_after, idle_after = read_counters()
    return 1 - (idle_after - idle_before) / max(total_after - total_before, 1)


def compute_shares(speeds: dict[int, list[float]], yardstick: dict[int, list[float]], busy_count: int) -> list[float]:
    """Compare the slowdown of a job with that of the yardstick, round by round."""
    job_ratios = [busy / alone for busy, alone in zip(speeds[busy_count], speeds[0], strict=True)]
    yardstick_ratios = [busy / alone for busy, alone in zip(yardstick[busy_count], yardstick[0], strict=True)]
    return [
        job_ratio / yardstick_ratio for job_ratio, yardstick_ratio in zip(job_ratios, yardstick_ratios, strict=True)
    ]


def make_table(jobs: list[MeasuredJob], yardstick: MeasuredJob) -> tuple[list[str], list[str]]:
    """Format the table, and list the jobs below the target."""
    lines = [
        f"{'':<20}{'alone':>10}"
        + "".join(f"{f'beside {busy_count}':>10}{'share':>7}{'(range)':>14}" for busy_count in BUSY_COUNTS[1:])
    ]
    failed = []
    for job in [*jobs, yardstick]:
        title = f"{job.name}, spinning" if job.spinning else job.name
        line = f"{title:<20}{statistics.median(job.speeds[0]):>10,.1f}"
        for busy_count in BUSY_COUNTS[1:]:
            shares = compute_shares(job.speeds, yardstick.speeds, busy_count)
            if job is yardstick:  # its own slowdown, to be compared with c / (c + k)
                shares = [loaded / alone for loaded, alone in zip(job.speeds[busy_count], job.speeds[0], strict=True)]
            median_share = statistics.median(shares)
            line += f"{statistics.median(job.speeds[busy_count]):>10,.1f}{median_share:>7.2f}"
            line += f"{f'({min(shares):.2f}-{max(shares):.2f})':>14}"
            if median_share < MIN_SHARE and not job.spinning and job is not yardstick:
                failed.append(f"{title} next to {busy_count}: {median_share:.2f} of its fair share")
        lines.append(line)
    fair_shares = ", ".join(f"{CORES / (CORES + busy_count):.2f} beside {busy_count}" for busy_count in BUSY_COUNTS[1:])
    return [
        *lines,
        f"share of the yardstick: relative to its own speed without load; fair on an idle machine: {fair_shares}",
    ], failed


def main() -> None:
    """Print a table, and fail if a job is below the target."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="measure half a second per round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0, help="seconds per measurement, at least")
    parser.add_argument("--jobs", default=",".join(JOBS), help="comma-separated jobs")
    parser.add_argument("--spinning", action="store_true", help="also measure the former settings, for comparison")
    parser.add_argument("--child", default=None, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        run_job(arguments.child, spinning=arguments.spinning)
        return
    names = arguments.jobs.split(",")
    if unknown := [name for name in names if name not in JOBS]:
        raise SystemExit(f"unknown job {unknown[0]}; available: {', '.join(JOBS)}")
    seconds, rounds = 0.5 if arguments.quick else arguments.seconds, max(arguments.rounds, 5)
    yardstick = MeasuredJob(YARDSTICK)
    jobs = [
        MeasuredJob(name, spinning=spinning)
        for name in names
        for spinning in ((False, True) if arguments.spinning else (False,))
    ]
    try:
        other_load = measure_other_load()
        load_note = "" if other_load is None else f"; other processes use {100 * other_load:.0f} % of the machine"
        print(f"{CORES} cores, {rounds} rounds of {seconds:g} s{load_note}")
        for job in (*jobs, yardstick):
            job.measure(seconds)  # warm up
        for _ in range(rounds):
            for busy_count in BUSY_COUNTS:
                with busy_processes(busy_count):
                    for job in (*jobs, yardstick):
                        job.speeds[busy_count].append(job.measure(seconds))
    finally:
        for job in (*jobs, yardstick):
            job.close()
    lines, failed = make_table(jobs, yardstick)
    print("\n".join(lines))
    if failed:
        raise SystemExit(f"below the target of {MIN_SHARE} of a fair share: " + "; ".join(failed))


if __name__ == "__main__":
    main()
