"""Which method for which data: `clearhead ladder` on four public data sets, each within a time budget.

    python benchmarks/ladder.py [--sets sst2,trec] [--budget 20m] [--threads 2] [--out FOLDER]
    python benchmarks/ladder.py --table       # from the ladders that are there, in Markdown

Each data set is a folder with a run for each method and a JSON file with what came out. A rerun skips what is done, and
a ladder that was stopped, or had too small a budget, goes on where it was. sst2 is measured on its dev file, the others
on a tenth of their rows that nothing was chosen on. CLEARHEAD_DATA is the folder of data sets.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from finetune_tasks import data_folder

OUT = Path(__file__).resolve().parent / "out" / "ladder"
VARIABLE = "$CLEARHEAD_DATA"


@dataclass(frozen=True, kw_only=True)
class DataSet:
    """Where the rows lie, which columns count, and what is measured on."""

    name: str
    train: str
    text: str = "text"
    label: str = "label"
    test: str | None = None  # None: a share of the training rows


SETS = {
    one.name: one
    for one in (
        DataSet(name="sst2", train="sst2/train.tsv", test="sst2/dev.tsv", text="sentence"),
        DataSet(name="trec", train="trec/train.tsv", text="question", label="coarse"),
        DataSet(name="sms_spam", train="sms_spam/train.tsv"),
        DataSet(name="banking77", train="banking77/train.tsv"),
    )
}
HEADER = ("method", "{metric}", "95 % interval", "to the best", "training", "one text", "size")


def files(one: DataSet, out: Path, limit: int | None = None) -> dict[str, Path]:
    """The files of a data set; with `limit`, so many rows of each, drawn and written to `out`."""
    found = {}
    for part, place in (("train", one.train), ("test", one.test)):
        if place is None:
            continue
        path = data_folder() / place
        if not path.is_file():
            raise SystemExit(f"{path} is not there; set CLEARHEAD_DATA to the folder that holds {path.parent.name}/.")
        if limit is not None:
            header, *lines = path.read_text(encoding="utf-8").removesuffix("\n").split("\n")
            path = out / f"{one.name}-{part}-rows{limit}.tsv"
            drawn = random.Random(0).sample(lines, min(limit, len(lines)))
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("\n".join([header, *drawn]) + "\n", encoding="utf-8")
        found[part] = path
    return found


def command(one: DataSet, budget: str, methods: str | None = None, limit: int | None = None) -> str:
    """The same on the command line; a trial of a few rows is made here only."""
    some = [] if methods is None else ["--methods", methods]
    if limit is not None:
        words = ["python", "benchmarks/ladder.py", "--sets", one.name, "--budget", budget, *some, "--rows", str(limit)]
        return shlex.join(words)
    test = [] if one.test is None else ["--test", f"{VARIABLE}/{one.test}"]
    columns = ["--text", one.text, "--label", one.label]
    words = ["clearhead", "ladder", f"{VARIABLE}/{one.train}", *test, *columns, "--budget", budget, *some]
    return " ".join(word if word.startswith(VARIABLE) else shlex.quote(word) for word in words)


def digest(found: dict[str, Path]) -> str:
    """A short name for exactly these files."""
    return hashlib.sha256(b"\0".join(path.read_bytes() for path in found.values())).hexdigest()[:16]


def stored(out: Path, name: str, limit: int | None = None) -> Path:
    """Where what came out of a ladder lies; those of a few rows never stand in for whole ones."""
    return out / f"{name}{f'-rows{limit}' if limit else ''}.json"


def finished(path: Path, rows: str, again: str) -> bool:
    """Whether a ladder of these rows by this command is stored; another one is said and gone on with."""
    if not path.is_file():
        return False
    record = json.loads(path.read_text())
    if (record["rows"], record["command"]) == (rows, again):
        return True
    print(f"{path.name}: other rows, methods or budget than now; run again", flush=True)
    return False


def climb(one: DataSet, out: Path, *, budget: str, methods: str | None = None, limit: int | None = None) -> None:
    """One ladder, stored whole or not at all."""
    import clearhead
    from clearhead.jobs.events import RunEvents

    verbs: Any = clearhead
    path, found = stored(out, one.name, limit), files(one, out, limit)
    rows, again, threads = digest(found), command(one, budget, methods, limit), int(os.environ["OMP_NUM_THREADS"])
    if finished(path, rows, again):
        return
    print(f"{path.stem} ...", flush=True)
    made = verbs.ladder(
        found["train"],
        test=found.get("test"),
        text=one.text,
        label=one.label,
        output=out / path.stem,
        budget=budget,
        methods=methods,
        threads=threads,
        command=again,
        events=RunEvents(message=lambda line: print(f"  {line}", flush=True)),
    )
    fresh = path.with_suffix(".tmp")
    fresh.write_text(json.dumps({"rows": rows, "threads": threads, "command": again, "ladder": made.to_json()}))
    fresh.replace(path)


def section(name: str, record: dict[str, Any]) -> str:
    """A data set's table in Markdown, under its command and above its reason."""
    made = record["ladder"]
    lines = [[head.format(metric=made["metric"]) for head in HEADER], ["---"] * len(HEADER)]
    lines += [cells(rung, rung["method"] == made["recommended"]) for rung in made["rungs"]]
    about = (
        f"{name}: {made['rows']:,} rows of {made['part']}, {record['threads']} thread{'s' * (record['threads'] > 1)}"
    )
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    reason = " ".join(sentence for sentence in (made["reason"], made.get("caveat")) if sentence)
    return f"`{record['command']}` ({about})\n\n{table}\n\n{reason}"


def cells(rung: dict[str, Any], taken: bool) -> list[str]:
    """A method's line; the recommended one is set in bold."""
    epochs = rung.get("epochs")  # fewer than planned, where not all fitted into the budget
    name = rung["method"] if epochs is None else f"{rung['method']} ({epochs} of {rung['planned_epochs']} epochs)"
    name = f"**{name}**" if taken else name
    if rung["left_out"] is not None:
        return [name, rung["left_out"].replace("|", "\\|"), *[""] * (len(HEADER) - 2)]
    gap = rung["difference"]
    beside = "" if gap is None else f"{number(gap['difference'], '+.4f')} ({between(gap, '+.4f')})"
    return [
        name,
        number(rung["value"], ".4f"),
        between(rung, ".4f"),
        beside,
        f"{number(rung['training_seconds'], ',.1f')} s",
        f"{number(rung['latency_ms'], '.2f')} ms",
        f"{number(rung['size_mb'], '.2f')} MB",
    ]


def number(value: float | None, form: str) -> str:
    """A number, or that there is none."""
    return "not defined" if value is None else format(value, form)


def between(ends: dict[str, Any], form: str) -> str:
    """An interval, or nothing."""
    return "" if ends["low"] is None or ends["high"] is None else f"{ends['low']:{form}} to {ends['high']:{form}}"


def table(names: list[str], out: Path, limit: int | None = None) -> str:
    """All data sets whose ladder is stored, one under the other."""
    paths = {name: stored(out, name, limit) for name in names}
    return "\n\n".join(
        section(name, json.loads(path.read_text())) if path.is_file() else f"{name}: waiting"
        for name, path in paths.items()
    )


def main() -> None:
    """Climb what is missing, then print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", default=",".join(SETS), help=f"of {', '.join(SETS)}, commas between them")
    parser.add_argument("--budget", default="20m", help="for each data set: 90s, 20m, 1h")
    parser.add_argument("--methods", help="some of majority, tfidf, features, finetune, head; without it, all but head")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--out", type=Path, default=OUT, help="folder of the ladders")
    parser.add_argument("--rows", type=int, help="only so many rows of each file, to try things out")
    parser.add_argument("--table", action="store_true", help="run nothing, only print the tables")
    given = parser.parse_args()
    names = given.sets.split(",")
    for name in names:
        if name not in SETS:
            parser.error(f"{name!r} is no data set here; there are {', '.join(SETS)}")
    if not given.table:
        os.environ |= {"OMP_NUM_THREADS": str(given.threads), "HF_HUB_OFFLINE": "1"}
        for name in names:
            climb(SETS[name], given.out, budget=given.budget, methods=given.methods, limit=given.rows)
    print(table(names, given.out, given.rows))


if __name__ == "__main__":
    main()
