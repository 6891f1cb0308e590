"""Translation models trained on Multi30k: the 2017 Transformer, and recurrent models with and without attention.

    python benchmarks/multi30k.py [--recipes multi30k-de-en,multi30k-de-en-rnn] [--threads 2] [--out FOLDER]
    python benchmarks/multi30k.py --table       # Markdown tables of the stored runs

Each recipe of recipes/multi30k-*.toml is a run in FOLDER (default: benchmarks/out/multi30k). An interrupted run is
resumed, and a finished run is not repeated. All are measured on the validation rows, which also chose the epoch: BLEU
and chrF of sacrebleu with a beam of 4, BLEU by source length in words, minutes of training (number of steps times their
median duration), model size, and words per second of greedy translation. CLEARHEAD_DATA is the folder of datasets.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path
from statistics import median
from typing import Any

HERE = Path(__file__).resolve().parent
RECIPES = ("multi30k-de-en", "multi30k-de-en-rnn", "multi30k-de-en-rnn-plain", "multi30k-en-fr")
TITLES = {
    "multi30k-de-en": "Transformer, de to en",
    "multi30k-de-en-rnn": "RNN with attention, de to en",
    "multi30k-de-en-rnn-plain": "RNN without attention, de to en",
    "multi30k-en-fr": "Transformer, en to fr",
}
TIMED_ROWS = 200  # rows of the timed translation


def train_recipe(name: str, out: Path, threads: int) -> None:
    """Train a recipe, or resume its run, and time its translation."""
    import clearhead
    from clearhead.jobs.events import RunEvents

    folder, events = out / name, RunEvents(message=lambda line: print(f"  {line}", flush=True))
    if not (folder / "metrics.json").exists():
        print(f"{name} ...", flush=True)
        if (folder / "run.json").exists():
            clearhead.train(resume=folder, events=events)
        else:
            recipe = HERE.parent / "recipes" / f"{name}.toml"
            command = f"clearhead train --recipe recipes/{name}.toml -o runs/{name}"
            clearhead.train(recipe=recipe, output=folder, threads=threads, command=command, events=events)
    speed = folder / "speed.json"
    if not speed.exists():
        rows = (data_folder() / "val.tsv").read_text(encoding="utf-8").splitlines()
        column = rows[0].split("\t").index("de" if "-de-en" in name else "en")
        texts = [row.split("\t")[column] for row in rows[1 : TIMED_ROWS + 1]]
        model = clearhead.load(folder, threads=threads)
        model.generate(texts[:8])
        start = time.perf_counter()
        translations = model.generate(texts)
        words = sum(len(translation.text.split()) for translation in translations)
        seconds = time.perf_counter() - start
        speed.write_text(json.dumps({"words_per_second": words / seconds, "threads": threads}), encoding="utf-8")


def data_folder() -> Path:
    """Return the folder of the dataset."""
    folder = Path(os.environ.get("CLEARHEAD_DATA") or HERE.parents[1] / "shared" / "data") / "multi30k"
    if not folder.is_dir():
        raise SystemExit(f"{folder} not found; set CLEARHEAD_DATA to the folder that contains multi30k/.")
    os.environ["CLEARHEAD_DATA"] = str(folder.parent)  # used by the recipes
    return folder


def read_runs(out: Path) -> dict[str, dict[str, Any]]:
    """Read the results of all finished runs."""
    runs = {}
    for name in RECIPES:
        if not (out / name / "speed.json").exists():
            continue
        log = [json.loads(line) for line in (out / name / "log.jsonl").read_text(encoding="utf-8").splitlines()]
        runs[name] = {
            "dev": json.loads((out / name / "metrics.json").read_text(encoding="utf-8"))["parts"]["dev"],
            "minutes": len(log) * median(step["seconds"] for step in log) / 60,
            "size": sum(path.stat().st_size for path in (out / name).glob("model*.safetensors")) / 1e6,
            **json.loads((out / name / "speed.json").read_text(encoding="utf-8")),
        }
    return runs


def make_table(runs: dict[str, dict[str, Any]]) -> str:
    """Format quality, cost and speed, and BLEU by source length."""
    header = ("model", "BLEU", "95 % interval", "chrF", "training", "words per second", "size")
    lines = ["| " + " | ".join(header) + " |", "| --- |" + " ---: |" * (len(header) - 1)]
    for name, run in runs.items():
        bleu, chrf = run["dev"]["metrics"]["bleu"], run["dev"]["metrics"]["chrf"]
        cells = [
            TITLES[name],
            f"{bleu['value']:.1f}",
            f"{bleu['low']:.1f} to {bleu['high']:.1f}",
            f"{chrf['value']:.1f}",
            f"{run['minutes']:.0f} min",
            f"{run['words_per_second']:.0f}",
            f"{run['size']:.0f} MB",
        ]
        lines.append("| " + " | ".join(cells) + " |")
    slices_by_run = {
        name: {slice_name["name"]: slice_name for slice_name in run["dev"]["slices"]} for name, run in runs.items()
    }
    for slice_names in dict.fromkeys(
        tuple(run) for run in slices_by_run.values()
    ):  # each source language has its own slices
        lines += [
            "",
            "| BLEU by words of the source | " + " | ".join(slice_names) + " |",
            "| --- |" + " ---: |" * len(slice_names),
        ]
        for name, slices in slices_by_run.items():
            if tuple(slices) == slice_names:
                lines.append(
                    f"| {TITLES[name]} | "
                    + " | ".join(_format_bleu(slices[slice_name]) for slice_name in slice_names)
                    + " |"
                )
    return "\n".join(lines)


def _format_bleu(part: dict[str, Any]) -> str:
    """Format the BLEU of a slice with its number of rows."""
    return f"{part['interval']['value']:.1f} ({part['rows']})"


def main() -> None:
    """Train what is missing, and print the tables."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--recipes", default=",".join(RECIPES))
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--out", type=Path, default=HERE / "out" / "multi30k")
    parser.add_argument("--table", action="store_true", help="only print the tables of stored runs")
    arguments = parser.parse_args()
    names = arguments.recipes.split(",")
    if unknown := [name for name in names if name not in RECIPES]:
        raise SystemExit(f"unknown recipe {unknown[0]}; available: {', '.join(RECIPES)}")
    if not arguments.table:
        data_folder()
        arguments.out.mkdir(parents=True, exist_ok=True)
        for name in names:
            train_recipe(name, arguments.out, arguments.threads)
    if not (runs := read_runs(arguments.out)):
        raise SystemExit(f"{arguments.out} contains no finished run; omit --table to train them.")
    print(make_table(runs), flush=True)


if __name__ == "__main__":
    main()
