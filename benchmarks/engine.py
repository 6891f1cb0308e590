"""The engine beside what others run encoders with on a CPU: speed, latency, load, memory and what int8 loses.

    python benchmarks/engine.py [--rows sentences,passages,base] [--rounds 7] [--threads 2] [--out FOLDER] [--quick]

Rows: MiniLM (the default model) on 400 sst2 sentences; MiniLM on 64 passages of 250 tokens cut from squad; a BERT-base
of random weights on 128 sentences. Columns are in engine_columns.py; OpenVINO and CTranslate2 are there if they are
installed. Every column is a process of its own with the same threads, all take turns at the same texts, and ratios
are medians over rounds. Others get the best of 1, 8 or 32 texts a call, on one session with all threads or on workers
with one each, chosen beforehand. One text is timed with its tokenisation. Load is a fresh process up to its first
answer, imports included; memory is what that process holds after a pass over some texts. Cosines are with the vectors
of sentence-transformers. The peak is one large matrix product, in float by torch or ONNX Runtime (the faster), in int8
by ONNX Runtime. Each round is a file in FOLDER (without it, benchmarks/out/engine), and the same command goes on.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import engine_table
from engine_columns import COLUMNS, PEAK, PEAK_COLUMN
from engine_peers import settings

from clearhead.deploy.process import WorkerProcess
from clearhead.errors import ClearheadError

HERE = Path(__file__).resolve().parent
DATA = Path(os.environ.get("CLEARHEAD_DATA") or HERE.parents[1] / "shared" / "data")
WEIGHTS = Path(os.environ.get("CLEARHEAD_WEIGHTS") or HERE.parents[1] / "shared" / "weights")
PASSAGE = 248  # tokens, and two special ones
PATIENCE = 1800.0  # seconds for an answer
COMPARED = 64  # texts whose vectors are compared
ALONE = 40  # single texts in a round
STARTS = 3


@dataclass(frozen=True, kw_only=True)
class Row:
    """One model on one kind of text."""

    title: str
    model: Callable[[Path], Path]  # where its folder is; may be made below the folder of results
    texts: Callable[[int], list[str]]
    count: int
    quick: int


def need(path: Path, variable: str) -> Path:
    """A file or folder that must be there."""
    if not path.exists():
        raise SystemExit(f"{path} is not there; set {variable} to the folder it is in")
    return path


def minilm(_: Path) -> Path:
    """The default model."""
    from clearhead.checkpoint.hub import locate

    return locate("default").folder


def bert_base(out: Path) -> Path:
    """A BERT-base whose weights are drawn, with the real vocabulary."""
    folder = out / "bert-base"
    if not (folder / "clearhead.json").exists():  # the last file that is written
        import clearhead
        from clearhead.text import load_tokenizer

        words = need(WEIGHTS / "tokenizers" / "bert-base-uncased", "CLEARHEAD_WEIGHTS")
        tokenizer = load_tokenizer(words, "bert", {"model_type": "bert"}).source
        clearhead.create("bert", "base", tokenizer=tokenizer, device="cpu").save(folder)
    return folder


def sentences(count: int) -> list[str]:
    """Sentences of mixed length, evenly from the file."""
    lines = need(DATA / "sst2" / "dev.tsv", "CLEARHEAD_DATA").read_text(encoding="utf-8").splitlines()[1:]
    texts = [line.split("\t")[0] for line in lines]
    return [texts[place * len(texts) // count] for place in range(count)]


def passages(count: int) -> list[str]:
    """Passages of one length in MiniLM's tokens, cut from paragraphs laid end to end."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(minilm(Path()) / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    contexts: dict[str, None] = {}
    with gzip.open(need(DATA / "squad" / "dev.jsonl.gz", "CLEARHEAD_DATA"), "rt", encoding="utf-8") as file:
        for line in file:
            contexts[json.loads(line)["context"]] = None
            if len(contexts) > 3 * count:
                break
    whole = " ".join(contexts)
    places = tokenizer.encode(whole, add_special_tokens=False).offsets
    pieces = (places[begin : begin + PASSAGE] for begin in range(0, len(places) - PASSAGE, PASSAGE))
    return [whole[piece[0][0] : piece[-1][1]] for piece, _ in zip(pieces, range(count), strict=False)]


ROWS = {
    "sentences": Row(title="MiniLM, sentences", model=minilm, texts=sentences, count=400, quick=24),
    "passages": Row(title="MiniLM, passages of 250 tokens", model=minilm, texts=passages, count=64, quick=4),
    "base": Row(title="BERT-base shape, sentences", model=bert_base, texts=sentences, count=128, quick=4),
}


class Contest:
    """One row being measured; all that is known of it lies in a folder."""

    def __init__(self, name: str, out: Path, threads: int, *, quick: bool) -> None:
        self.row, self.threads, self.quick = ROWS[name], threads, quick
        self.folder = out / f"{name}-{threads}{'-quick' if quick else ''}"
        (self.folder / "work").mkdir(parents=True, exist_ok=True)
        self.model = self.row.model(out)
        self.texts = self.row.texts(self.row.quick if quick else self.row.count)
        self.alone = min(ALONE, len(self.texts)) if not quick else 4
        self.left_out: dict[str, str] = {}

    def command(self, column: str) -> list[str]:
        """How a column's process is started."""
        path = self.folder / "work" / f"{column}.json"
        job = {
            "runtime": column,
            "folder": str(self.model),
            "threads": self.threads,
            "texts": self.texts,
            "work": str(self.folder / "work"),
        }
        path.write_text(json.dumps(job), encoding="utf-8")
        return [sys.executable, str(HERE / "engine_columns.py"), str(path)]

    def prepare(self) -> None:
        """Exports and conversions, once; a column whose files cannot be made is left out and says why."""
        for name, column in COLUMNS.items():
            if column.missing is not None:
                self.left_out[name] = f"{column.missing} is not installed"
            elif column.prepare is not None:
                done = subprocess.run(
                    [*self.command(name), "--prepare"], capture_output=True, text=True, check=False, timeout=PATIENCE
                )
                if done.returncode:
                    self.left_out[name] = (done.stderr.strip().splitlines() or ["it could not be prepared"])[-1][:200]

    @contextmanager
    def children(self) -> Iterator[dict[str, WorkerProcess]]:
        """Every column loaded and waiting."""
        with ExitStack() as kept:
            found = {}
            for name in [*COLUMNS, "peak"]:
                if name in self.left_out or (name == "peak" and PEAK_COLUMN.missing is not None):
                    continue
                child = kept.enter_context(WorkerProcess(name, self.command(name)))
                try:
                    answer = child.read_answer(PATIENCE)
                except ClearheadError as error:
                    answer = {"error": str(error)}
                if "error" in answer:
                    self.left_out[name] = answer["error"]
                    child.close(at_once=True)
                else:
                    found[name] = child
            yield found

    def stored(self, name: str, make: Callable[[], Any]) -> Any:
        """What was measured before, or is measured now."""
        path = self.folder / f"{name}.json"
        if path.exists():
            return json.loads(path.read_text(encoding="utf-8"))
        made = make()
        half = path.with_suffix(".half")
        half.write_text(json.dumps(made), encoding="utf-8")
        half.rename(path)
        return made

    def choose(self, children: dict[str, WorkerProcess]) -> dict[str, Any]:
        """The best setting of each column that has some, on some of the texts, and the tokens of every text."""
        best: dict[str, list[int]] = {}
        for name, child in children.items():
            if name == "peak" or not COLUMNS[name].tuned:
                continue
            spent: dict[tuple[int, ...], float] = {}
            for setting in settings(self.threads)[:: 3 if self.quick else 1]:
                ask(child, do="set", setting=setting)
                ask(child, do="together", count=min(len(self.texts), 16))
                runs = [ask(child, do="together", count=min(len(self.texts), 64))["seconds"] for _ in range(2)]
                spent[tuple(setting)] = min(runs)
            best[name] = list(min(spent.items(), key=lambda one: one[1])[0])
        lengths = ask(children["engine"], do="tokens", count=len(self.texts))["tokens"]
        return {"settings": best, "lengths": lengths, "left_out": self.left_out}

    def round(self, children: dict[str, WorkerProcess], number: int) -> dict[str, Any]:
        """Every column once at all texts, and at some of them one by one."""
        made: dict[str, Any] = {name: {} for name in children}
        for name, child in children.items():
            if name == "peak":
                made[name] = self.peak(child)
            else:
                made[name]["ms"] = ask(child, do="alone", first=number * self.alone, count=self.alone)["ms"]
        for name, child in children.items():
            if name != "peak":
                made[name]["texts_per_second"] = self.together(child)
        return made

    def together(self, child: WorkerProcess) -> float:
        """Texts per second."""
        return len(self.texts) / float(ask(child, do="together", count=len(self.texts))["seconds"])

    def peak(self, child: WorkerProcess) -> dict[str, float]:
        """Operations per second of a large product, in float and int8."""
        found, times = {}, 4 if self.quick else 40
        for way in ("torch", "float", "int8"):
            ask(child, do="set", setting=way)
            ask(child, do="together", count=2)
            seconds = ask(child, do="together", count=times)["seconds"]
            found[way] = times * 2.0 * PEAK[0] * PEAK[1] * PEAK[2] / seconds
        return {"float": max(found["torch"], found["float"]), "int8": found["int8"]}

    def start(self, chosen: dict[str, Any]) -> dict[str, Any]:
        """A fresh process of every column in turn: seconds to the first answer, memory after some texts."""
        made = {}
        for name in COLUMNS:
            if name in self.left_out:
                continue
            begun = perf_counter()
            with WorkerProcess(name, self.command(name)) as child:
                child.read_answer(PATIENCE)
                spent = perf_counter() - begun
                ask(child, do="set", setting=chosen["settings"].get(name))
                ask(child, do="together", count=min(len(self.texts), 64))
                made[name] = {"seconds": spent} | ask(child, do="memory")
        return made

    def vectors(self, children: dict[str, WorkerProcess]) -> dict[str, Any]:
        """The mean and the worst cosine of every column with the first."""
        import numpy as np

        made: dict[str, Any] = {}
        truth = None
        for name, child in children.items():
            if name == "peak":
                continue
            found = np.array(ask(child, do="vectors", count=min(len(self.texts), COMPARED))["vectors"])
            found /= np.linalg.norm(found, axis=1, keepdims=True)
            truth = found if truth is None else truth
            cosines = (found * truth).sum(1)
            made[name] = [float(cosines.mean()), float(cosines.min())]
        return made

    def measure(self, rounds: int, starts: int) -> str:
        """All that is not yet measured, and the table of the whole."""
        known = all((self.folder / f"round-{number}.json").exists() for number in range(rounds))
        if not known or not (self.folder / "vectors.json").exists():
            self.prepare()
            with self.children() as children:
                chosen = self.stored("chosen", lambda: self.choose(children))
                for name, child in children.items():
                    if name in chosen["settings"]:
                        ask(child, do="set", setting=chosen["settings"][name])
                    if name != "peak":
                        self.together(child)  # whatever is made at first use is made now
                for number in range(rounds):
                    self.stored(f"round-{number}", partial(self.round, children, number))
                    print(f"{self.row.title}: round {number + 1} of {rounds}", file=sys.stderr, flush=True)
                self.stored("vectors", lambda: self.vectors(children))
        chosen = json.loads((self.folder / "chosen.json").read_text(encoding="utf-8"))
        self.left_out = chosen["left_out"]
        for number in range(starts):
            self.stored(f"start-{number}", lambda: self.start(chosen))
        config = json.loads((self.model / "config.json").read_text(encoding="utf-8"))
        return engine_table.section(self.row.title, self.folder, config, self.threads)


def ask(child: WorkerProcess, **question: Any) -> dict[str, Any]:
    """An answer, or the end of the benchmark with the column's name; the same command goes on."""
    found = child.request(question, PATIENCE)
    if "error" in found:
        raise SystemExit(f"{child.title}: {found['error']}")
    return found


def main() -> None:
    """Print a table for each row."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", default=None, help=f"some of {', '.join(ROWS)}, with commas")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--out", type=Path, default=HERE / "out" / "engine")
    parser.add_argument("--quick", action="store_true", help="a few texts, one round: to see that it works")
    given = parser.parse_args()
    names = (given.rows or ("sentences" if given.quick else ",".join(ROWS))).split(",")
    if unknown := [name for name in names if name not in ROWS]:
        raise SystemExit(f"there is no row {unknown[0]}; there are {', '.join(ROWS)}")
    given.out.mkdir(parents=True, exist_ok=True)
    for name in names:
        contest = Contest(name, given.out.resolve(), given.threads, quick=given.quick)
        try:
            table = contest.measure(1 if given.quick else max(given.rounds, 5), 1 if given.quick else STARTS)
        except ClearheadError as error:
            raise SystemExit(f"{error} The same command goes on with what is measured.") from None
        print(table, flush=True)


if __name__ == "__main__":
    main()
