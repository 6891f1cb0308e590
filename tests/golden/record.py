"""Write the folders of `earlier/` and the values of `expected.json`, which later versions are compared with.

Both were written by version 0.1.0 as it was before its packages were restructured, with that version's `src` first:

    PYTHONPATH=EARLIER/src:. OMP_NUM_THREADS=1 python -m tests.golden.record

The script runs with this version, too, and writes to another folder and file where two are named. Data and models are
small and synthetic. Reports and logs of finished runs are left out, and the JSON of `RECORDS`, which no hash vouches
for, is written without spaces.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import clearhead
from tests.aspect_rows import make_reviews
from tests.golden.cases import (
    CASES,
    EARLIER,
    EXPECTED,
    KILL_STEPS,
    NOT_READ,
    QUANTIZED,
    RECORDS,
    ROOT,
    describe,
    digest,
    learn_words,
    pretrain_case,
    read_answers,
    read_machine,
    read_metrics,
    read_split,
    read_weights,
    resolve_recipes,
    run_ladder,
    train_case,
)
from tests.parallel_rows import make_parallel_rows, write_tsv
from tests.planted import write_planted_text
from tests.rows import make_multilabel_rows, make_pair_rows, make_scored_rows
from tests.task_rows import format_conll, make_option_rows, make_questions, make_tagged_words
from tests.tiny_models import make_sentiment_rows, tiny_gpt, tiny_model, write_csv

ROWS = 160


@dataclass(frozen=True, kw_only=True)
class KillAfter:
    """Progress callbacks of a run, with the names of version 0.1, that kill its process after a number of steps."""

    steps: int
    say: Callable[[str], None] = lambda _: None
    begun: Callable[[Path], None] = lambda _: None
    count: Callable[[str, int, int | None], None] = lambda *_: None
    seed: Callable[[int, int, int], None] = lambda *_: None
    download: Callable[[str, int, int | None], None] | None = None

    def step(self, now: Any) -> None:
        if now.step >= self.steps:
            os.kill(os.getpid(), signal.SIGKILL)


def write_data(folder: Path) -> None:
    """Write synthetic rows, one file per task."""
    folder.mkdir()
    write_csv(folder / "reviews.csv", make_sentiment_rows(ROWS, min_words=1, max_words=4))
    write_csv(folder / "pairs.csv", make_pair_rows(ROWS))
    write_csv(folder / "scores.csv", make_scored_rows(ROWS))
    write_csv(folder / "quiz.csv", make_option_rows(ROWS))
    for name, rows in {
        "topics.jsonl": make_multilabel_rows(ROWS),
        "questions.jsonl": make_questions(ROWS, no_answer_share=0.3),
        "aspects.jsonl": make_reviews(ROWS),
    }.items():
        (folder / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "orders.conll").write_text(format_conll(make_tagged_words(ROWS)))
    write_tsv(folder / "parallel.tsv", make_parallel_rows(ROWS))
    write_planted_text(folder / "text.txt", 40, 4)


def write_models(root: Path) -> None:
    """Write a tiny encoder, a tiny causal model, word vectors and a pre-trained model."""
    work = root / "work"
    # larger initial weights than usual, so that such a narrow model learns something in a few steps
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "intermediate_size": 24, "initializer_range": 0.3}
    tiny_model(work / "bert", **sizes).rename(_parent(root / "models/bert"))
    tiny_gpt(work / "gpt", n_embd=16, n_layer=1, initializer_range=0.3).rename(root / "models/gpt")
    shutil.rmtree(work)
    learn_words(root, root / "words")
    pretrain_case(root, root / "pretrained")


def _parent(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def kill_run(name: str, root: Path, output: Path) -> None:
    """Train in a separate process that is killed midway."""
    process = subprocess.run([sys.executable, "-m", __spec__.name, "--kill", name, str(root), str(output)], check=False)
    if process.returncode != -signal.SIGKILL:
        raise SystemExit(f"{name} was not killed: its process ended with {process.returncode}.")


def train_and_die(name: str, root: Path, output: Path) -> None:
    """Train until the process kills itself."""
    options: dict[str, Any] = {"told": KillAfter(steps=KILL_STEPS[name]), "save_every": 0.0}
    if name == "pretrain":
        pretrain_case(root, output, **options)
    else:
        train_case(name, root, output, **options)


def record(root: Path) -> dict[str, Any]:
    """Write every folder below a new root, and return what was computed."""
    write_data(root / "data")
    write_models(root)
    expected: dict[str, Any] = {"version": clearhead.__version__, "cases": {}}
    for name in CASES:
        folder = train_case(name, root, root / "runs" / name).folder
        expected["cases"][name] = read_case(folder, root, name)
    expected |= read_machine(root / "runs/classify-finetune")
    expected["models"] = {
        name: digest(read_weights(root / name)) for name in ("models/bert", "models/gpt", "words", "pretrained")
    }
    expected["pretrained"] = describe(root / "pretrained")
    expected["neighbors"] = read_neighbors(root / "words")
    expected["int8"] = {}
    for name in QUANTIZED:
        folder = clearhead.quantize(root / "runs" / name, output=root / "int8" / name, max_drop=5.0).folder
        expected["int8"][name] = read_case(folder, root, name)
    ladder = run_ladder(root, root / "ladder")
    expected["ladder"] = read_ladder(ladder)
    expected["recipes"] = read_recipes()
    for name in KILL_STEPS:
        kill_run(name, root, root / "unfinished" / name)
    return expected


def read_recipes() -> dict[str, Any]:
    """Resolve each recipe to its settings, with paths as written."""
    for module_name in ("clearhead.jobs.plan", "clearhead.runs.plan"):  # the second: in version 0.1
        if importlib.util.find_spec(module_name.rpartition(".")[0]):
            return resolve_recipes(importlib.import_module(module_name))
    raise SystemExit("No module that reads recipes was found.")


def read_case(folder: Path, root: Path, name: str) -> dict[str, Any]:
    """Collect everything that is compared about a trained folder."""
    values = {"weights": digest(read_weights(folder)), "describe": describe(folder)}
    if (folder / "split.json").exists():
        values |= {"split": read_split(folder), "metrics": read_metrics(folder, root, name)}
    else:  # an int8 folder
        values["metrics"] = read_metrics(folder, root, name, None)
    return values | {"answers": read_answers(folder, root, name)}


def read_neighbors(folder: Path) -> list[list[Any]]:
    """List the nearest neighbors of a word."""
    return [[neighbor.word, neighbor.cosine] for neighbor in clearhead.load_words(folder).neighbors("good", top=5)]


def read_ladder(ladder: clearhead.Ladder) -> dict[str, Any]:
    """Collect the recommendation of a ladder and the score of each method."""
    values = {rung.method: [rung.value, rung.low, rung.high] for rung in ladder.rungs}
    return {"recommended": ladder.recommended, "part": ladder.part, "metric": ladder.metric, "values": values}


def store(root: Path, folder: Path) -> None:
    """Copy what readers need, without indentation and without paths of this machine."""
    shutil.copytree(root, folder)
    for path in sorted(folder.rglob("*")):
        finished = "unfinished" not in path.parts
        if path.is_file() and finished and path.name in NOT_READ:
            path.unlink()
        elif path.name in RECORDS:
            text = path.read_text(encoding="utf-8").replace(str(root), ROOT)
            path.write_text(_plain(json.loads(text)) + "\n", encoding="utf-8")


def write_values(path: Path, expected: dict[str, Any]) -> None:
    """Write the expected values, one line per case."""
    groups = {
        key: [f"  {json.dumps(name)}: {_plain(case_value)}" for name, case_value in value.items()]
        for key, value in expected.items()
        if key in ("cases", "int8", "recipes")
    }
    lines = [
        f"{json.dumps(key)}: " + ("{\n" + ",\n".join(groups[key]) + "}" if key in groups else _plain(value))
        for key, value in expected.items()
    ]
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def _plain(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--kill"]:
        train_and_die(sys.argv[2], Path(sys.argv[3]), Path(sys.argv[4]))
    else:
        folder, values = map(Path, sys.argv[1:3]) if sys.argv[1:] else (EARLIER, EXPECTED)
        with tempfile.TemporaryDirectory() as temporary:
            root = Path(temporary).resolve() / "root"
            root.mkdir()
            expected = record(root)
            store(root, folder)
        write_values(values, expected)
