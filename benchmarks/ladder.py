"""Which method for which data: `clearhead ladder` on four public datasets, each within a time budget.

    python benchmarks/ladder.py [--sets sst2,trec] [--budget 20m] [--threads 2] [--out FOLDER]
    python benchmarks/ladder.py --table       # Markdown tables of the stored ladders

Each dataset gets a folder with a run per method, and a JSON file with the results. A rerun skips finished ladders, and
resumes a ladder that was interrupted or had too small a budget. sst2 is measured on its dev file, the others on a tenth
of their rows that is not used to choose anything. CLEARHEAD_DATA is the folder of datasets.
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
class LadderDataset:
    """The files and columns of a dataset."""

    name: str
    train: str
    text: str = "text"
    label: str = "label"
    test: str | None = None  # None: a share of the training rows


DATASETS = {
    one.name: one
    for one in (
        LadderDataset(name="sst2", train="sst2/train.tsv", test="sst2/dev.tsv", text="sentence"),
        LadderDataset(name="trec", train="trec/train.tsv", text="question", label="coarse"),
        LadderDataset(name="sms_spam", train="sms_spam/train.tsv"),
        LadderDataset(name="banking77", train="banking77/train.tsv"),
    )
}
HEADER = ("method", "{metric}", "95 % interval", "to the best", "training", "one text", "size")


def locate_files(dataset: LadderDataset, out: Path, limit: int | None = None) -> dict[str, Path]:
    """Locate the files of a dataset; with `limit`, sample that many rows of each and write them to `out`."""
    paths = {}
    for part, file in (("train", dataset.train), ("test", dataset.test)):
        if file is None:
            continue
        path = data_folder() / file
        if not path.is_file():
            raise SystemExit(f"{path} not found; set CLEARHEAD_DATA to the folder that contains {path.parent.name}/.")
        if limit is not None:
            header, *lines = path.read_text(encoding="utf-8").removesuffix("\n").split("\n")
            path = out / f"{dataset.name}-{part}-rows{limit}.tsv"
            sampled = random.Random(0).sample(lines, min(limit, len(lines)))
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("\n".join([header, *sampled]) + "\n", encoding="utf-8")
        paths[part] = path
    return paths


def make_command(dataset: LadderDataset, budget: str, methods: str | None = None, limit: int | None = None) -> str:
    """Format the equivalent command line; with `limit`, that of this script."""
    method_flags = [] if methods is None else ["--methods", methods]
    if limit is not None:
        arguments = [
            "python",
            "benchmarks/ladder.py",
            "--sets",
            dataset.name,
            "--budget",
            budget,
            *method_flags,
            "--rows",
            str(limit),
        ]
        return shlex.join(arguments)
    test = [] if dataset.test is None else ["--test", f"{VARIABLE}/{dataset.test}"]
    columns = ["--text", dataset.text, "--label", dataset.label]
    arguments = [
        "clearhead",
        "ladder",
        f"{VARIABLE}/{dataset.train}",
        *test,
        *columns,
        "--budget",
        budget,
        *method_flags,
    ]
    return " ".join(argument if argument.startswith(VARIABLE) else shlex.quote(argument) for argument in arguments)


def hash_files(paths: dict[str, Path]) -> str:
    """Hash the content of the files."""
    return hashlib.sha256(b"\0".join(path.read_bytes() for path in paths.values())).hexdigest()[:16]


def record_path(out: Path, name: str, limit: int | None = None) -> Path:
    """Return the file of a ladder; ladders with limited rows have their own files."""
    return out / f"{name}{f'-rows{limit}' if limit else ''}.json"


def is_finished(path: Path, rows: str, command: str) -> bool:
    """Whether a ladder of these rows and command is stored; one of others is reported and resumed."""
    if not path.is_file():
        return False
    record = json.loads(path.read_text())
    if (record["rows"], record["command"]) == (rows, command):
        return True
    print(f"{path.name}: stored for other rows, methods or budget; running again", flush=True)
    return False


def run_ladder(
    dataset: LadderDataset, out: Path, *, budget: str, methods: str | None = None, limit: int | None = None
) -> None:
    """Run one ladder, and store the record atomically."""
    import clearhead
    from clearhead.jobs.events import RunEvents

    verbs: Any = clearhead
    path, paths = record_path(out, dataset.name, limit), locate_files(dataset, out, limit)
    rows, command_text, threads = (
        hash_files(paths),
        make_command(dataset, budget, methods, limit),
        int(os.environ["OMP_NUM_THREADS"]),
    )
    if is_finished(path, rows, command_text):
        return
    print(f"{path.stem} ...", flush=True)
    result = verbs.ladder(
        paths["train"],
        test=paths.get("test"),
        text=dataset.text,
        label=dataset.label,
        output=out / path.stem,
        budget=budget,
        methods=methods,
        threads=threads,
        command=command_text,
        events=RunEvents(message=lambda line: print(f"  {line}", flush=True)),
    )
    partial_path = path.with_suffix(".tmp")
    partial_path.write_text(
        json.dumps({"rows": rows, "threads": threads, "command": command_text, "ladder": result.to_json()})
    )
    partial_path.replace(path)


def make_section(name: str, record: dict[str, Any]) -> str:
    """Format the command, the Markdown table and the reason of a dataset's ladder."""
    result = record["ladder"]
    lines = [[title.format(metric=result["metric"]) for title in HEADER], ["---"] * len(HEADER)]
    lines += [make_cells(method, method["method"] == result["recommended"]) for method in result["rungs"]]
    threads = f"{record['threads']} thread{'s' * (record['threads'] > 1)}"
    conditions = f"{name}: {result['rows']:,} rows of {result['part']}, {threads}"
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    reason = " ".join(sentence for sentence in (result["reason"], result.get("caveat")) if sentence)
    return f"`{record['command']}` ({conditions})\n\n{table}\n\n{reason}"


def make_cells(method: dict[str, Any], is_recommended: bool) -> list[str]:
    """Format the line of a method, in bold if it is recommended."""
    epochs = method.get("epochs")  # fewer than planned if the budget was too small
    name = method["method"] if epochs is None else f"{method['method']} ({epochs} of {method['planned_epochs']} epochs)"
    name = f"**{name}**" if is_recommended else name
    if method["left_out"] is not None:
        return [name, method["left_out"].replace("|", "\\|"), *[""] * (len(HEADER) - 2)]
    difference = method["difference"]
    difference_cell = (
        ""
        if difference is None
        else f"{format_number(difference['difference'], '+.4f')} ({format_interval(difference, '+.4f')})"
    )
    return [
        name,
        format_number(method["value"], ".4f"),
        format_interval(method, ".4f"),
        difference_cell,
        f"{format_number(method['training_seconds'], ',.1f')} s",
        f"{format_number(method['latency_ms'], '.2f')} ms",
        f"{format_number(method['size_mb'], '.2f')} MB",
    ]


def format_number(value: float | None, spec: str) -> str:
    """Format a number, or `not defined`."""
    return "not defined" if value is None else format(value, spec)


def format_interval(interval: dict[str, Any], spec: str) -> str:
    """Format an interval, or nothing."""
    return (
        ""
        if interval["low"] is None or interval["high"] is None
        else f"{interval['low']:{spec}} to {interval['high']:{spec}}"
    )


def make_table(names: list[str], out: Path, limit: int | None = None) -> str:
    """Join the sections of all stored ladders."""
    paths = {name: record_path(out, name, limit) for name in names}
    return "\n\n".join(
        make_section(name, json.loads(path.read_text())) if path.is_file() else f"{name}: waiting"
        for name, path in paths.items()
    )


def main() -> None:
    """Run what is missing, then print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", default=",".join(DATASETS), help=f"comma-separated: {', '.join(DATASETS)}")
    parser.add_argument("--budget", default="20m", help="per dataset: 90s, 20m, 1h")
    parser.add_argument(
        "--methods", help="comma-separated: majority, tfidf, features, finetune, head; default: all but head"
    )
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--out", type=Path, default=OUT, help="folder of the ladders")
    parser.add_argument("--rows", type=int, help="limit the rows of each file, for a trial")
    parser.add_argument("--table", action="store_true", help="only print the tables of stored ladders")
    arguments = parser.parse_args()
    names = arguments.sets.split(",")
    for name in names:
        if name not in DATASETS:
            parser.error(f"unknown dataset {name!r}; available: {', '.join(DATASETS)}")
    if not arguments.table:
        os.environ |= {"OMP_NUM_THREADS": str(arguments.threads), "HF_HUB_OFFLINE": "1"}
        for name in names:
            run_ladder(
                DATASETS[name], arguments.out, budget=arguments.budget, methods=arguments.methods, limit=arguments.rows
            )
    print(make_table(names, arguments.out, arguments.rows))


if __name__ == "__main__":
    main()
