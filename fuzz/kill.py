"""Kill a training run at random instants, resume it, and compare every bit with a run that was left alone.

    python fuzz/kill.py --count 200

Each instant is a run of its own: begun in a child process, killed with SIGKILL, resumed to the end in another child.
One instant in four is drawn from the whole time of a run, the others from its training: so many steps and a while.
Weights, optimiser state, passport, metrics and log (but for its timings) must be the same bytes. `fuzz/crash.py` kills
every command that writes, at its file operations.
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
SETTINGS["save_every"] = 0.0  # a state after every step
SETTINGS["keep_state"] = True  # the optimizer's state is compared too
TIMED = ("seconds",)
Instant = tuple[int, float]  # steps in the log, and seconds after that


def main() -> None:
    """Run the instants and tell what differs."""
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    arguments.add_argument("--count", type=int, default=200, help="instants")
    arguments.add_argument("--seed", type=int, default=0)
    arguments.add_argument("--rows", type=int, default=200, help="rows of a run")
    chosen = arguments.parse_args()
    import torch

    torch.set_num_threads(1)  # before the first fork: a pool of threads does not survive it
    warm_up()
    place = Path(tempfile.mkdtemp(prefix="clearhead-kill-"))
    model = tiny_model(place)
    data = write_csv(place / "rows.csv", make_sentiment_rows(chosen.rows))
    begun = time.perf_counter()
    run(place / "whole", lambda: train(data, model))
    whole = time.perf_counter() - begun
    lines = [json.loads(line) for line in (place / "whole" / "run" / "log.jsonl").read_text().splitlines()]
    truth = contents(place / "whole" / "run")
    draw = random.Random(chosen.seed)
    found: Counter[str] = Counter()
    for number in range(chosen.count):
        anywhere = draw.random() < 0.25
        steps = 0 if anywhere else draw.randint(1, len(lines))
        wait = draw.random() * (whole if anywhere else 5 * max(line["seconds"] for line in lines))
        differs = killed(place / f"instant-{number}", (steps, wait), data, model, truth, found)
        if differs:
            print(f"instant {number} ({steps} steps and {wait:.3f} s): {', '.join(differs)} differ")
            found["findings"] += 1
        shutil.rmtree(place / f"instant-{number}")
    shutil.rmtree(place)
    told = ", ".join(f"{count} {what}" for what, count in found.items() if what != "findings")
    print(f"{chosen.count} instants ({told}): {found['findings']} findings")
    sys.exit(bool(found["findings"]))


def killed(
    place: Path, instant: Instant, data: Path, model: Path, truth: dict[str, bytes], found: Counter[str]
) -> list[str]:
    """Kill a run at an instant and resume it: the names of files that are not as they should be."""
    if run(place, lambda: train(data, model), instant):
        found["ended before the kill"] += 1
    elif not (place / "run" / "run.json").exists():
        found["killed before the run began"] += 1
        shutil.rmtree(place)
        run(place, lambda: train(data, model))
    else:
        states = place / "run" / "state" / "latest.json"
        done = (place / "run" / "model.safetensors").exists()
        found["killed at the end" if done else "killed in training" if states.exists() else "killed in step one"] += 1
        run(place, resume)
    now = contents(place / "run")
    return sorted(name for name in truth.keys() | now.keys() if truth.get(name) != now.get(name))


def run(place: Path, job: Callable[[], object], instant: Instant | None = None) -> bool:
    """Run a job in a child process; True when it came to its end before it was killed."""
    place.mkdir(exist_ok=True)
    child = os.fork()
    if child == 0:
        os.chdir(place)
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
        log, (steps, wait) = place / "run" / "log.jsonl", instant
        ended = 0
        while not ended and steps and (not log.exists() or log.read_bytes().count(b"\n") < steps):
            ended, status = os.waitpid(child, os.WNOHANG)
            time.sleep(0.001)
        if not ended:
            time.sleep(wait)
            os.kill(child, signal.SIGKILL)
            status = os.waitpid(child, 0)[1]
    else:
        status = os.waitpid(child, 0)[1]
    if os.WIFEXITED(status) and os.WEXITSTATUS(status) != 0:
        raise SystemExit(f"the run in {place} failed")
    return os.WIFEXITED(status)


def train(data: Path, model: Path) -> object:
    """The run that is killed."""
    from clearhead.api import train as api_train

    return api_train(data, output="run", model=str(model), command="train", report=False, **SETTINGS)


def resume() -> object:
    """And gone on with."""
    from clearhead.api import train as api_train

    return None if Path("run/metrics.json").exists() else api_train(resume="run", report=False)


def contents(folder: Path) -> dict[str, bytes]:
    """Every file that must be the same, by its name; times are left out of the log."""
    made = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if not path.is_file() or name in ("report.html",) or name.startswith("tensorboard"):
            continue
        made[name] = path.read_bytes()
        if path.name == "log.jsonl":
            lines = [json.loads(line) for line in made[name].splitlines()]
            made[name] = json.dumps([{k: v for k, v in line.items() if k not in TIMED} for line in lines]).encode()
    return made


if __name__ == "__main__":
    main()
