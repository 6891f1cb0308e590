"""What transfer learning brings: the same tasks from random weights, from our pre-training, and from MiniLM.

    python benchmarks/transfer.py [--mini novels] [--continued FOLDER] [--threads 2] [--out FOLDER]
    python benchmarks/transfer.py --rows 500 --tasks sst2 --seed 1 --out FOLDER   # with few labels, and more epochs
    python benchmarks/transfer.py --table                     # from the runs that are there, in Markdown

--mini is a model that `clearhead pretrain` made (the one that ships: its card has the recipe); --continued is MiniLM
after `clearhead pretrain DATA/corpus_imdb_unsup/train.txt.gz --model default --steps 301 --threads 1`. Each task is
fine-tuned from each start with the same rows, epochs and seed (recipes below) and measured on its development rows,
with 95 % intervals of the rows. A run that is there is not trained again. CLEARHEAD_DATA is the folder of data sets.
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
EPOCHS = 3
RATES = {"random": 1e-3, "mini": 1e-3, "minilm": 1e-4, "continued": 1e-4}  # small models learn faster
STARTS = {
    "random": "random weights, BERT mini",
    "mini": "our pre-training, BERT mini",
    "continued": "MiniLM, taught further on reviews",
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


def data() -> Path:
    """The folder of data sets."""
    place = Path(os.environ.get("CLEARHEAD_DATA") or HERE.parents[1] / "shared" / "data")
    if not (place / "sst2").is_dir():
        raise SystemExit(f"{place} holds no sst2; set CLEARHEAD_DATA to the folder that holds it.")
    return place


def found(place: Path) -> Path:
    """A file, or the same gzipped."""
    packed = place.with_name(f"{place.name}.gz")
    return place if place.exists() else packed


def random_start(mini: str, out: Path) -> Path:
    """The architecture and the tokenizer of a model with weights that nobody has taught."""
    import clearhead
    from clearhead.model.loading import create

    place = out / "random"
    if not place.exists():
        model = clearhead.load(mini, "core")
        config = {key: value for key, value in model.config.items() if key in model.family.config_keys}
        fresh = create("bert", config=config, head="masked", tokenizer=model.tokenizer, seed=0)
        fresh.save(place)
    return place


def learn(
    task: str,
    start: str,
    model: Path | str,
    out: Path,
    threads: int,
    rate: float | None = None,
    rows: int | None = None,
    seed: int = 0,
) -> None:
    """One run, unless it is there."""
    import clearhead
    from clearhead.jobs.events import RunEvents

    folder = out / f"{task}-{start}"
    if (folder / "metrics.json").exists():
        return
    print(f"{task} from {STARTS[start]} ...", flush=True)
    if (folder / "run.json").exists():
        clearhead.train(resume=folder, events=RunEvents())
        return
    settings = dict(TASKS[task])
    files = {part: str(found(data() / settings.pop(part))) for part in ("train", "dev") if part in settings}
    settings |= {"epochs": EPOCHS, "batch_tokens": 2048} if rows is None else {"rows": rows}  # few need more epochs
    clearhead.train(
        files["train"],
        dev=files.get("dev"),
        output=folder,
        model=str(model),
        learning_rate=rate or RATES[start],
        threads=threads,
        seed=seed,
        report=False,
        **settings,
    )


def table(out: Path) -> str:
    """Every start and task, with intervals."""
    lines = [f"| start | {' | '.join(TASKS)} |", "| --- |" + " ---: |" * len(TASKS)]
    for start, title in STARTS.items():
        cells = []
        for task in TASKS:
            path = out / f"{task}-{start}" / "metrics.json"
            if not path.exists():
                cells.append("")
                continue
            part = json.loads(path.read_text(encoding="utf-8"))["parts"]["dev"]
            name = "f1" if task == "conll2003" else "accuracy"
            one = part["metrics"][name]
            cells.append(f"{one['value']:.3f} ({one['low']:.3f} to {one['high']:.3f})")
        lines.append(f"| {title} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    """Train what is not yet trained, and print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--mini", default="novels")
    parser.add_argument("--continued", type=Path)
    parser.add_argument("--starts", nargs="*", choices=tuple(STARTS), default=tuple(STARTS), help="only from these")
    parser.add_argument("--rate", type=float, help="another than the recipe's; with an --out of its own")
    parser.add_argument("--rows", type=int, help="train on so many, drawn by the seed; with an --out of its own")
    parser.add_argument("--tasks", nargs="*", choices=tuple(TASKS), default=tuple(TASKS), help="only these")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--out", type=Path, default=HERE / "out" / "transfer")
    parser.add_argument("--table", action="store_true", help="print what is there, and train nothing")
    given = parser.parse_args()
    if not given.table:
        given.out.mkdir(parents=True, exist_ok=True)
        starts: dict[str, Path | str] = {"mini": given.mini, "minilm": "default"}
        if "random" in given.starts:
            starts |= {"random": random_start(given.mini, given.out)}
        if given.continued is not None:
            starts |= {"continued": given.continued}
        for task in given.tasks:
            for start in (one for one in starts if one in given.starts):
                learn(task, start, starts[start], given.out, given.threads, given.rate, given.rows, given.seed)
    print(table(given.out), flush=True)


if __name__ == "__main__":
    main()
