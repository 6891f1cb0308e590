"""Fuzz resuming: `python fuzz/run_folders.py --count 20000 --seed 0 [--jobs 2] [--minutes M] [--only N]`.

Each case is a copy of a small interrupted run (fine-tuning, several seeds, TF-IDF, translation, pre-training, a ladder,
predictions) with one mutated file. Resuming must work, start over, or be refused with one sentence; anything else is a
finding.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import shutil
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
if __name__ == "__main__":
    sys.path[0] = str(ROOT)  # not fuzz/ itself
from fuzz import data, mutate  # noqa: E402
from fuzz.case import FuzzCase, Outcome  # noqa: E402
from fuzz.drive import print_report  # noqa: E402

MAX_MESSAGE = 2000  # characters of a message, including paths
QUICK: dict[str, Any] = {"learning_rate": 3e-3, "batch_size": 16, "save_every": 0.0, "threads": 1, "epochs": 2}
FILE_REPLACEMENTS = {
    kind: put for kind, put in mutate.FILE_REPLACEMENTS.items() if kind not in ("link out", "link to the secret")
}
MAX_MEMORY = 3 << 29
WORK = "case"  # folder of a case; the rows and the model are next to it


class StopError(Exception):
    """Interrupts a run in place of a kill."""


def stop_after_step(step_number: int) -> Any:
    """Events that interrupt a run after a number of steps."""
    from clearhead.jobs.events import RunEvents

    def step(training_step: Any) -> None:
        if training_step.step >= step_number:
            raise StopError

    return RunEvents(training_step=step)


def make_seeds(base: Path) -> list[str]:
    """Write small interrupted runs to base/seeds; returns their names."""
    from clearhead.api import ladder, load_predictor, predict_file, pretrain, train
    from tests.parallel_rows import make_parallel_rows, write_tsv
    from tests.planted import write_planted_text
    from tests.tiny_models import make_sentiment_rows, tiny_model, write_csv

    seeds = base / "seeds"
    seeds.mkdir(parents=True)
    model = str(tiny_model(base / "tiny"))
    rows, many_rows = (
        write_csv(base / "rows.csv", make_sentiment_rows(60)),
        write_csv(base / "many.csv", make_sentiment_rows(1100)),
    )
    pairs, text = write_tsv(base / "pairs.tsv", make_parallel_rows(40)), write_planted_text(base / "text.txt", 30, 5)
    tiny_config = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 1, "intermediate_size": 16}
    pretrain_settings: dict[str, Any] = {
        "preset": "tiny",
        "vocab_size": 200,
        "max_length": 16,
        "max_steps": 6,
        "evaluations": 3,
    }

    def run_until_stopped(job: Callable[[], object]) -> None:
        with suppress(StopError):
            job()

    run_until_stopped(
        lambda: train(rows, output=seeds / "half", model=model, average_epochs=2, events=stop_after_step(5), **QUICK)
    )
    run_until_stopped(
        lambda: train(rows, output=seeds / "seeds", model=model, seeds=2, events=stop_in_second_seed(), **QUICK)
    )
    train(rows, output=seeds / "words", method="tfidf", report=False)
    run_until_stopped(
        lambda: train(
            pairs,
            output=seeds / "translate",
            task="translate",
            family="rnn",
            vocab_size=120,
            config='{"width": 8, "encoder_layers": 1, "decoder_layers": 1}',
            events=stop_after_step(3),
            **QUICK | {"batch_size": 8},
        )
    )
    run_until_stopped(
        lambda: pretrain(
            text,
            output=seeds / "pretrain",
            events=stop_after_step(5),
            threads=1,
            save_every=0.0,
            objective="mlm",
            config=tiny_config,
            batch_tokens=128,
            **pretrain_settings,
        )
    )
    ladder(rows, output=seeds / "ladder", methods="majority,tfidf", budget=600)
    (seeds / "words" / "metrics.json").unlink()
    (seeds / "predict").mkdir()
    predictor = load_predictor(seeds / "words")

    def halt(done: int, _total: int | None) -> None:
        if done:
            raise StopError

    run_until_stopped(lambda: predict_file(predictor, many_rows, seeds / "predict" / "out.csv", progress=halt))
    return sorted(path.name for path in seeds.iterdir())


def stop_in_second_seed() -> Any:
    """Events that interrupt a run in its second seed."""
    from clearhead.jobs.events import RunEvents

    steps_done: list[int] = []

    def step(training_step: Any) -> None:
        steps_done.append(training_step.step)
        if steps_done.count(3) == 2:
            raise StopError

    return RunEvents(training_step=step)


def resume_run(name: str, folder: Path, base: Path) -> object:
    """Resume a run with the function for its kind, for one step if it trains."""
    from clearhead.api import ladder, load_predictor, predict_file, pretrain, train

    if name == "pretrain":
        return pretrain(resume=folder, report=False, events=stop_after_step(1))
    if name == "ladder":
        return ladder(base / "rows.csv", output=folder, methods="majority,tfidf", budget=600)
    if name == "predict":
        return predict_file(load_predictor(base / "seeds" / "words"), base / "many.csv", folder / "out.csv")
    return train(resume=folder, report=False, events=stop_after_step(1))


def build_case(seed: int, number: int, base: Path, work_folder: Path, names: list[str]) -> FuzzCase:
    """Write one case: a copy of a run with one mutated file."""
    rng = random.Random(f"{seed}:{number}")
    folder = work_folder / WORK
    shutil.rmtree(folder, ignore_errors=True)
    name = rng.choice(names)
    shutil.copytree(base / "seeds" / name, folder)
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and "tensorboard" not in path.parts]
    if name == "predict":
        files = [path for path in files if path.suffix == ".json"]
    main_files = [path for path in files if path.name in ("run.json", "ladder.json", "log.jsonl", "progress.json")]
    path = rng.choice(main_files if main_files and rng.random() < 0.5 else files)
    if rng.random() < 0.06:
        kind = rng.choice(list(FILE_REPLACEMENTS))
        FILE_REPLACEMENTS[kind](path, work_folder)
    else:
        log_mutations = [("log line", mutate_log)] * 4 if path.suffix == ".jsonl" else []
        kind, change = rng.choice([*mutate.list_mutations(path), *log_mutations])
        changed = change(path.read_bytes(), rng)
        path.write_bytes(changed)
    return FuzzCase(number=number, seed=name, file=str(path.relative_to(folder)), kind=kind)


def mutate_log(content: bytes, rng: random.Random) -> bytes:
    """Delete, duplicate or change one line of a log."""
    lines = content.splitlines(keepends=True)
    index, kind = rng.randrange(len(lines)), rng.randrange(8)
    if kind == 0:
        del lines[index]
    elif kind == 1:
        lines.insert(index, lines[rng.randrange(len(lines))])
    elif kind == 2:
        lines[index] = mutate.encode_json(mutate.draw_odd_value(rng), rng) + b"\n"
    else:
        values = json.loads(lines[index])
        mutate.change_value(values, rng)
        lines[index] = mutate.encode_json(values, rng) + b"\n"
    return b"".join(lines)


def check_case(case: FuzzCase, base: Path, work_folder: Path) -> Outcome:
    """Resume the case through the public API."""
    from clearhead.errors import ClearheadError

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            resume_run(case.seed, work_folder / WORK, base)
    except StopError:
        return Outcome(word="read: resumed")
    except ClearheadError as error:
        text = str(error)
        if not text.strip() or len(text) > MAX_MESSAGE or "Traceback" in text or "\x1b" in text:
            return Outcome(word="bad sentence", detail=repr(text[:3000]), finding=True)
        return Outcome(word=f"refused: {type(error).__name__}", detail=text)
    except BaseException as error:  # a panic in Rust is a BaseException
        if isinstance(error, KeyboardInterrupt):
            raise
        frames = "".join(traceback.format_exception(error))
        return Outcome(word=f"untyped {type(error).__name__}", detail=frames[-6000:], finding=True)
    return Outcome(word="read: finished")


def main() -> int:
    """Run all cases; the exit code is 1 if anything was found."""
    arguments = _parse_arguments()
    if arguments.worker is not None:
        return _run_worker(arguments)
    numbers = range(arguments.count) if arguments.only is None else range(arguments.only, arguments.only + 1)
    with tempfile.TemporaryDirectory(prefix="clearhead-fuzz-") as temporary:
        base = Path(temporary)
        names = make_seeds(base)
        (base / "names.json").write_text(json.dumps(names))
        tally = RunFolderPool(arguments, base, numbers).run_all()
    print_report(tally, arguments)
    return 1 if tally.findings or not tally.done else 0


def _parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="fuzz/run_folders.py", description="Resume damaged runs.")
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--only", type=int, help="resume only the case with this number, and print its outcome")
    parser.add_argument("--keep", type=Path, default=Path("fuzz-findings"), help="folder for findings")
    parser.add_argument("--worker", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--numbers", type=int, nargs=3, help=argparse.SUPPRESS)
    return parser.parse_args()


def _run_worker(arguments: argparse.Namespace) -> int:
    """Resume cases in a child process, and print one line of JSON for each."""
    import torch

    work_folder: Path = arguments.worker
    base = work_folder.parent
    names: list[str] = json.loads((base / "names.json").read_text())
    out = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    torch.set_num_threads(1)
    for name in names:  # triggers all lazy imports, and verifies that the runs are valid
        shutil.rmtree(work_folder / WORK, ignore_errors=True)
        shutil.copytree(base / "seeds" / name, work_folder / WORK)
        with suppress(StopError):
            resume_run(name, work_folder / WORK, base)
    memory_used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (memory_used + MAX_MEMORY, memory_used + MAX_MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    out.write("ready\n")
    for number in range(*arguments.numbers):
        try:
            case = build_case(arguments.seed, number, base, work_folder, names)
            outcome = check_case(case, base, work_folder)
        except Exception:  # a bug of the fuzzer must not go unnoticed
            case = FuzzCase(number=number, seed="?", file="?", kind="?")
            outcome = Outcome(word="the fuzzer failed", detail=traceback.format_exc(), finding=True)
        out.write(json.dumps([asdict(case), asdict(outcome)]) + "\n")
    return 0


class RunFolderPool(data.WorkerPool):
    """Worker processes that resume damaged runs, each monitored by a thread, and their results."""

    start_seconds = 600.0  # unmutated runs are resumed first

    def command(self) -> list[str]:
        """The command of a child process, without its numbers."""
        return [sys.executable, str(ROOT / "fuzz" / "run_folders.py"), "--seed", str(self._arguments.seed)]

    def _store_finding(self, number: int, text: str) -> None:
        command = f"python fuzz/run_folders.py --seed {self._arguments.seed} --only {number}"
        folder: Path = self._arguments.keep / f"run-{self._arguments.seed}-{number}"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        names = json.loads((self._base / "names.json").read_text())
        with suppress(Exception):  # if the fuzzer itself failed, there is no folder, only its message
            build_case(self._arguments.seed, number, self._base, folder, names)
        (folder / "finding.txt").write_text(f"{command}\n{text}\n", encoding="utf-8", errors="replace")
        first_line = text.splitlines()[0].encode("ascii", "backslashreplace").decode()
        self.tally.findings.append(f"{number}: {first_line}")
        print(f"FINDING {number}: {first_line}   ({command})", flush=True)


if __name__ == "__main__":
    raise SystemExit(main())
