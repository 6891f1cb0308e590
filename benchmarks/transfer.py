"""The gain by transfer learning: the same tasks from random weights, from our pre-training, and from MiniLM.

    python benchmarks/transfer.py [--mini novels] [--continued FOLDER] [--threads 2] [--out FOLDER]
    python benchmarks/transfer.py --rows 500 --tasks sst2 --seed 1 --out FOLDER   # few labels, more epochs
    python benchmarks/transfer.py --table                     # Markdown table of the stored runs

--mini is a model trained with `clearhead pretrain` (the bundled one: its card has the recipe); --continued is MiniLM
after `clearhead pretrain DATA/corpus_imdb_unsup/train.txt.gz --model default --steps 301 --threads 1`. Each task is
fine-tuned from each start with the same rows, epochs and seed (recipes below) and measured on its development rows,
with 95 % intervals over rows. A stored run is not repeated. CLEARHEAD_DATA is the folder of datasets.
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
EPOCHS = 3
LEARNING_RATES = {"random": 1e-3, "mini": 1e-3, "minilm": 1e-4, "continued": 1e-4}  # small models learn faster
START_TITLES = {
    "random": "random weights, BERT mini",
    "mini": "our pre-training, BERT mini",
    "continued": "MiniLM after continued pre-training on reviews",
    "minilm": "MiniLM",
}
TASKS: dict[str, dict[str, Any]] = {
    "sst2": {
        "train": "sst2/train.tsv",
        "dev": "sst2/dev.tsv",
        "task": "classify",
        "text": "sentence",
        "label": "label",
    },
    "ag_news": {
        "train": "ag_news/train.tsv",
        "task": "classify",
        "text": "description",
        "label": "label",
        "test_share": 0.0,
    },
    "conll2003": {"train": "conll2003/train.conll", "dev": "conll2003/valid.conll", "task": "tag"},
}


def data_folder() -> Path:
    """Return the folder of datasets."""
    folder = Path(os.environ.get("CLEARHEAD_DATA") or HERE.parents[1] / "shared" / "data")
    if not (folder / "sst2").is_dir():
        raise SystemExit(f"{folder} contains no sst2; set CLEARHEAD_DATA to the folder that contains it.")
    return folder


def find_file(path: Path) -> Path:
    """Return a file, or its gzipped version."""
    gzipped = path.with_name(f"{path.name}.gz")
    return path if path.exists() else gzipped


def make_random_start(mini: str, out: Path) -> Path:
    """Create a model of the same architecture and tokenizer with random weights."""
    import clearhead
    from clearhead.model.loading import create

    folder = out / "random"
    if not folder.exists():
        model = clearhead.load(mini, "core")
        config = {key: value for key, value in model.config.items() if key in model.family.config_keys}
        random_model = create("bert", config=config, head="masked", tokenizer=model.tokenizer, seed=0)
        random_model.save(folder)
    return folder


def run_task(
    task: str,
    start: str,
    model: Path | str,
    out: Path,
    threads: int,
    rate: float | None = None,
    rows: int | None = None,
    seed: int = 0,
) -> None:
    """Fine-tune once, unless the run is stored."""
    import clearhead
    from clearhead.jobs.events import RunEvents

    folder = out / f"{task}-{start}"
    if (folder / "metrics.json").exists():
        return
    print(f"{task} from {START_TITLES[start]} ...", flush=True)
    if (folder / "run.json").exists():
        clearhead.train(resume=folder, events=RunEvents())
        return
    settings = dict(TASKS[task])
    files = {part: str(find_file(data_folder() / settings.pop(part))) for part in ("train", "dev") if part in settings}
    settings |= (
        {"epochs": EPOCHS, "batch_tokens": 2048} if rows is None else {"rows": rows}
    )  # few rows need more epochs
    clearhead.train(
        files["train"],
        dev=files.get("dev"),
        output=folder,
        model=str(model),
        learning_rate=rate or LEARNING_RATES[start],
        threads=threads,
        seed=seed,
        report=False,
        **settings,
    )


def make_table(out: Path) -> str:
    """Format every start and task, with intervals."""
    lines = [f"| start | {' | '.join(TASKS)} |", "| --- |" + " ---: |" * len(TASKS)]
    for start, title in START_TITLES.items():
        cells = []
        for task in TASKS:
            path = out / f"{task}-{start}" / "metrics.json"
            if not path.exists():
                cells.append("")
                continue
            evaluation = json.loads(path.read_text(encoding="utf-8"))["parts"]["dev"]
            metric = "f1" if task == "conll2003" else "accuracy"
            score = evaluation["metrics"][metric]
            cells.append(f"{score['value']:.3f} ({score['low']:.3f} to {score['high']:.3f})")
        lines.append(f"| {title} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    """Train what is missing, and print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--mini", default="novels")
    parser.add_argument("--continued", type=Path)
    parser.add_argument(
        "--starts", nargs="*", choices=tuple(START_TITLES), default=tuple(START_TITLES), help="default: all"
    )
    parser.add_argument("--rate", type=float, help="learning rate instead of the recipe's; use a separate --out")
    parser.add_argument("--rows", type=int, help="number of training rows, sampled by the seed; use a separate --out")
    parser.add_argument("--tasks", nargs="*", choices=tuple(TASKS), default=tuple(TASKS), help="default: all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--out", type=Path, default=HERE / "out" / "transfer")
    parser.add_argument("--table", action="store_true", help="only print the table of stored runs")
    arguments = parser.parse_args()
    if not arguments.table:
        arguments.out.mkdir(parents=True, exist_ok=True)
        starts: dict[str, Path | str] = {"mini": arguments.mini, "minilm": "default"}
        if "random" in arguments.starts:
            starts |= {"random": make_random_start(arguments.mini, arguments.out)}
        if arguments.continued is not None:
            starts |= {"continued": arguments.continued}
        for task in arguments.tasks:
            for start in (start for start in starts if start in arguments.starts):
                run_task(
                    task,
                    start,
                    starts[start],
                    arguments.out,
                    arguments.threads,
                    arguments.rate,
                    arguments.rows,
                    arguments.seed,
                )
    print(make_table(arguments.out), flush=True)


if __name__ == "__main__":
    main()
