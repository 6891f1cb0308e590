"""Kill a training run at random instants, resume it, and compare every bit with an uninterrupted run.

    python fuzz/kill.py --count 200

Each instant is a separate run: started in a child process, killed with SIGKILL, and resumed to the end in another one.
A quarter of the instants are drawn from the duration of the whole run, the others from training: a number of steps plus
a delay. Weights, optimizer state, passport, metrics and log (except for its timings) must be identical bytes.
`fuzz/crash.py` kills every writing command at its file operations.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from fuzz.warm_up import warm_up
from tests.tiny_models import make_sentiment_rows, tiny_model, write_csv

SETTINGS: dict[str, Any] = {"epochs": 3, "learning_rate": 3e-3, "batch_size": 16, "threads": 1}
SETTINGS["save_every"] = 0.0  # save the state after every step
SETTINGS["keep_state"] = True  # the optimizer's state is compared too
TIMING_KEYS = ("seconds",)
Instant = tuple[int, float]  # logged steps, and seconds after the last of them


def main() -> None:
    """Kill runs at random instants, and report differences."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--count", type=int, default=200, help="number of instants")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rows", type=int, default=200, help="number of training rows")
    arguments = parser.parse_args()
    import torch

    torch.set_num_threads(1)  # before the first fork, because thread pools do not survive it
    warm_up()
    folder = Path(tempfile.mkdtemp(prefix="clearhead-kill-"))
    model = tiny_model(folder)
    data = write_csv(folder / "rows.csv", make_sentiment_rows(arguments.rows))
    start = time.perf_counter()
    run_job(folder / "whole", lambda: train_run(data, model))
    run_seconds = time.perf_counter() - start
    log_lines = [json.loads(line) for line in (folder / "whole" / "run" / "log.jsonl").read_text().splitlines()]
    expected = read_results(folder / "whole" / "run")
    rng = random.Random(arguments.seed)
    counts: Counter[str] = Counter()
    for index in range(arguments.count):
        in_any_phase = rng.random() < 0.25
        steps = 0 if in_any_phase else rng.randint(1, len(log_lines))
        wait = rng.random() * (run_seconds if in_any_phase else 5 * max(line["seconds"] for line in log_lines))
        differing = kill_and_resume(folder / f"instant-{index}", (steps, wait), data, model, expected, counts)
        if differing:
            print(f"instant {index} ({steps} steps + {wait:.3f} s): different files: {', '.join(differing)}")
            counts["findings"] += 1
        shutil.rmtree(folder / f"instant-{index}")
    shutil.rmtree(folder)
    summary = ", ".join(f"{count} {title}" for title, count in counts.items() if title != "findings")
    print(f"{arguments.count} instants ({summary}): {counts['findings']} findings")
    sys.exit(bool(counts["findings"]))


def kill_and_resume(
    folder: Path, instant: Instant, data: Path, model: Path, expected: dict[str, bytes], counts: Counter[str]
) -> list[str]:
    """Kill a run at an instant and resume it; returns the names of files that differ."""
    if run_job(folder, lambda: train_run(data, model), instant):
        counts["finished before the kill"] += 1
    elif not (folder / "run" / "run.json").exists():
        counts["killed before run.json was written"] += 1
        shutil.rmtree(folder)
        run_job(folder, lambda: train_run(data, model))
    else:
        state_file = folder / "run" / "state" / "latest.json"
        is_saved = (folder / "run" / "model.safetensors").exists()
        counts[
            "killed after training"
            if is_saved
            else "killed in training"
            if state_file.exists()
            else "killed before the first step"
        ] += 1
        run_job(folder, resume_run)
    actual = read_results(folder / "run")
    return sorted(name for name in expected.keys() | actual.keys() if expected.get(name) != actual.get(name))


def run_job(folder: Path, job: Callable[[], object], instant: Instant | None = None) -> bool:
    """Run a job in a child process; True if it finished before it was killed."""
    folder.mkdir(exist_ok=True)
    child_id = os.fork()
    if child_id == 0:
        os.chdir(folder)
        code = 1
        try:
            job()
            code = 0
        except BaseException as error:
            print(f"{type(error).__name__}: {error}", flush=True)
        finally:
            os._exit(code)
    status = 0
    if instant is not None:
        log, (steps, wait) = folder / "run" / "log.jsonl", instant
        ended_id = 0
        while not ended_id and steps and (not log.exists() or log.read_bytes().count(b"\n") < steps):
            ended_id, status = os.waitpid(child_id, os.WNOHANG)
            time.sleep(0.001)
        if not ended_id:
            time.sleep(wait)
            os.kill(child_id, signal.SIGKILL)
            status = os.waitpid(child_id, 0)[1]
    else:
        status = os.waitpid(child_id, 0)[1]
    if os.WIFEXITED(status) and os.WEXITSTATUS(status) != 0:
        raise SystemExit(f"the run in {folder} failed")
    return os.WIFEXITED(status)


def train_run(data: Path, model: Path) -> object:
    """Train the run to be killed."""
    from clearhead.api import train as api_train

    return api_train(data, output="run", model=str(model), command="train", report=False, **SETTINGS)


def resume_run() -> object:
    """Resume the killed run."""
    from clearhead.api import train as api_train

    return None if Path("run/metrics.json").exists() else api_train(resume="run", report=False)


def read_results(folder: Path) -> dict[str, bytes]:
    """Read all files that must be identical, without the timings of the log."""
    files = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if not path.is_file() or name in ("report.html",) or name.startswith("tensorboard"):
            continue
        files[name] = path.read_bytes()
        if path.name == "log.jsonl":
            lines = [json.loads(line) for line in files[name].splitlines()]
            files[name] = json.dumps(
                [{k: v for k, v in line.items() if k not in TIMING_KEYS} for line in lines]
            ).encode()
    return files


if __name__ == "__main__":
    main()
