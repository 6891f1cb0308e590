"""Translators of Multi30k from nothing: the 2017 Transformer, and the recurrent ancestor with and without attention.

    python benchmarks/multi30k.py [--recipes multi30k-de-en,multi30k-de-en-rnn] [--threads 2] [--out FOLDER]
    python benchmarks/multi30k.py --table       # from the runs that are there, in Markdown

Each recipe of recipes/multi30k-*.toml is a run in FOLDER (without it, benchmarks/out/multi30k). A run that was stopped
goes on where it was, and one that is finished is not trained again. All are measured on the validation rows, which also
chose the epoch: BLEU and chrF of sacrebleu with a beam of 4, BLEU by the number of words of the source, the minutes of
training (its steps times their median), the model's size, and words per second of greedy translation. CLEARHEAD_DATA is
the folder of data sets.
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
    "multi30k-de-en-rnn-plain": "RNN without, de to en",
    "multi30k-en-fr": "Transformer, en to fr",
}
TIMED = 200  # rows whose translation is timed


def learn(name: str, out: Path, threads: int) -> None:
    """Train a recipe to its end, or on from where it stands, and time it."""
    import clearhead
    from clearhead.jobs.events import RunEvents

    folder, told = out / name, RunEvents(message=lambda line: print(f"  {line}", flush=True))
    if not (folder / "metrics.json").exists():
        print(f"{name} ...", flush=True)
        if (folder / "run.json").exists():
            clearhead.train(resume=folder, events=told)
        else:
            recipe = HERE.parent / "recipes" / f"{name}.toml"
            command = f"clearhead train --recipe recipes/{name}.toml -o runs/{name}"
            clearhead.train(recipe=recipe, output=folder, threads=threads, command=command, events=told)
    speed = folder / "speed.json"
    if not speed.exists():
        rows = (data() / "val.tsv").read_text(encoding="utf-8").splitlines()
        column = rows[0].split("\t").index("de" if "-de-en" in name else "en")
        texts = [row.split("\t")[column] for row in rows[1 : TIMED + 1]]
        model = clearhead.load(folder, threads=threads)
        model.generate(texts[:8])
        begun = time.perf_counter()
        made = model.generate(texts)
        words = sum(len(one.text.split()) for one in made)
        spent = time.perf_counter() - begun
        speed.write_text(json.dumps({"words_per_second": words / spent, "threads": threads}), encoding="utf-8")


def data() -> Path:
    """The folder of the data set."""
    place = Path(os.environ.get("CLEARHEAD_DATA") or HERE.parents[1] / "shared" / "data") / "multi30k"
    if not place.is_dir():
        raise SystemExit(f"{place} is not there; set CLEARHEAD_DATA to the folder that holds multi30k/.")
    os.environ["CLEARHEAD_DATA"] = str(place.parent)  # as the recipes name it
    return place


def read(out: Path) -> dict[str, dict[str, Any]]:
    """What is known of every run that is finished."""
    found = {}
    for name in RECIPES:
        if not (out / name / "speed.json").exists():
            continue
        log = [json.loads(line) for line in (out / name / "log.jsonl").read_text(encoding="utf-8").splitlines()]
        found[name] = {
            "dev": json.loads((out / name / "metrics.json").read_text(encoding="utf-8"))["parts"]["dev"],
            "minutes": len(log) * median(step["seconds"] for step in log) / 60,
            "size": sum(path.stat().st_size for path in (out / name).glob("model*.safetensors")) / 1e6,
            **json.loads((out / name / "speed.json").read_text(encoding="utf-8")),
        }
    return found


def table(found: dict[str, dict[str, Any]]) -> str:
    """Quality, cost and speed; and BLEU by the length of the source."""
    head = ("model", "BLEU", "95 % interval", "chrF", "training", "words per second", "size")
    lines = ["| " + " | ".join(head) + " |", "| --- |" + " ---: |" * (len(head) - 1)]
    for name, one in found.items():
        bleu, chrf = one["dev"]["metrics"]["bleu"], one["dev"]["metrics"]["chrf"]
        cells = [
            TITLES[name],
            f"{bleu['value']:.1f}",
            f"{bleu['low']:.1f} to {bleu['high']:.1f}",
            f"{chrf['value']:.1f}",
            f"{one['minutes']:.0f} min",
            f"{one['words_per_second']:.0f}",
            f"{one['size']:.0f} MB",
        ]
        lines.append("| " + " | ".join(cells) + " |")
    lengths = {name: {part["name"]: part for part in one["dev"]["slices"]} for name, one in found.items()}
    for parts in dict.fromkeys(tuple(one) for one in lengths.values()):  # each source language has slices of its own
        lines += ["", "| BLEU by words of the source | " + " | ".join(parts) + " |", "| --- |" + " ---: |" * len(parts)]
        for name, own in lengths.items():
            if tuple(own) == parts:
                lines.append(f"| {TITLES[name]} | " + " | ".join(_bleu(own[part]) for part in parts) + " |")
    return "\n".join(lines)


def _bleu(part: dict[str, Any]) -> str:
    """BLEU of a slice, and its rows."""
    return f"{part['interval']['value']:.1f} ({part['rows']})"


def main() -> None:
    """Train what is not yet trained, and print the tables."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--recipes", default=",".join(RECIPES))
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--out", type=Path, default=HERE / "out" / "multi30k")
    parser.add_argument("--table", action="store_true", help="print what is there, and train nothing")
    given = parser.parse_args()
    names = given.recipes.split(",")
    if unknown := [name for name in names if name not in RECIPES]:
        raise SystemExit(f"there is no recipe {unknown[0]}; there are {', '.join(RECIPES)}")
    if not given.table:
        data()
        given.out.mkdir(parents=True, exist_ok=True)
        for name in names:
            learn(name, given.out, given.threads)
    if not (found := read(given.out)):
        raise SystemExit(f"{given.out} holds no finished run; leave --table out to train them.")
    print(table(found), flush=True)


if __name__ == "__main__":
    main()
