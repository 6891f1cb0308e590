"""The engine compared with other CPU runtimes for encoders: speed, latency, load time, memory and the loss by int8.

    python benchmarks/engine.py [--rows sentences,passages,base] [--rounds 7] [--threads 2] [--out FOLDER] [--quick]

Rows: MiniLM (the default model) on 400 sst2 sentences; MiniLM on 64 passages of 250 tokens from squad; a BERT-base with
random weights on 128 sentences. The contenders are defined in engine_contenders.py; OpenVINO and CTranslate2 take part
if they are installed. Every contender runs in its own process with the same number of threads; all take turns on the
same texts, and ratios are medians over rounds. For the others, the best of 1, 8 or 32 texts per call, on one session
with all threads or on workers with one thread each, is chosen beforehand. Latency of one text includes tokenization.
Load is the time from the start of a process to its first answer, imports included; memory is its resident size after a
pass over some texts. Cosines are relative to the vectors of sentence-transformers. The peak is one large matrix
product, in float by torch or ONNX Runtime (the faster), in int8 by ONNX Runtime. Each round is stored as a file in
FOLDER (default: benchmarks/out/engine), and the same command resumes an interrupted benchmark.
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
from engine_contenders import CONTENDERS, PEAK_CONTENDER, PEAK_SHAPE
from engine_peers import list_settings

from clearhead.deploy.process import WorkerProcess
from clearhead.errors import ClearheadError

HERE = Path(__file__).resolve().parent
DATA = Path(os.environ.get("CLEARHEAD_DATA") or HERE.parents[1] / "shared" / "data")
WEIGHTS = Path(os.environ.get("CLEARHEAD_WEIGHTS") or HERE.parents[1] / "shared" / "weights")
PASSAGE_TOKENS = 248  # without the two special tokens
TIMEOUT = 1800.0  # seconds per answer
COMPARED_TEXTS = 64  # texts for cosines
SINGLE_TEXTS = 40  # texts per round that are embedded one by one
STARTS = 3


@dataclass(frozen=True, kw_only=True)
class Workload:
    """A model with a kind of text."""

    title: str
    model: Callable[[Path], Path]  # returns the model folder; may create it in the output folder
    texts: Callable[[int], list[str]]
    count: int
    quick: int


def require_path(path: Path, variable: str) -> Path:
    """Return a path that must exist."""
    if not path.exists():
        raise SystemExit(f"{path} not found; set {variable} to the folder that contains it")
    return path


def minilm_folder(_: Path) -> Path:
    """Locate the default model."""
    from clearhead.checkpoint.hub import locate

    return locate("default").folder


def make_bert_base(out: Path) -> Path:
    """Create a BERT-base with random weights and the real vocabulary."""
    folder = out / "bert-base"
    if not (folder / "clearhead.json").exists():  # written last
        import clearhead
        from clearhead.text import load_tokenizer

        tokenizer_folder = require_path(WEIGHTS / "tokenizers" / "bert-base-uncased", "CLEARHEAD_WEIGHTS")
        tokenizer = load_tokenizer(tokenizer_folder, "bert", {"model_type": "bert"}).source
        clearhead.create("bert", "base", tokenizer=tokenizer, device="cpu").save(folder)
    return folder


def read_sentences(count: int) -> list[str]:
    """Read sentences of mixed length, evenly spaced in the file."""
    lines = require_path(DATA / "sst2" / "dev.tsv", "CLEARHEAD_DATA").read_text(encoding="utf-8").splitlines()[1:]
    texts = [line.split("\t")[0] for line in lines]
    return [texts[index * len(texts) // count] for index in range(count)]


def make_passages(count: int) -> list[str]:
    """Cut concatenated paragraphs into passages of the same number of MiniLM tokens."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(minilm_folder(Path()) / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    contexts: dict[str, None] = {}
    with gzip.open(require_path(DATA / "squad" / "dev.jsonl.gz", "CLEARHEAD_DATA"), "rt", encoding="utf-8") as file:
        for line in file:
            contexts[json.loads(line)["context"]] = None
            if len(contexts) > 3 * count:
                break
    text = " ".join(contexts)
    offsets = tokenizer.encode(text, add_special_tokens=False).offsets
    windows = (
        offsets[start : start + PASSAGE_TOKENS] for start in range(0, len(offsets) - PASSAGE_TOKENS, PASSAGE_TOKENS)
    )
    return [text[window[0][0] : window[-1][1]] for window, _ in zip(windows, range(count), strict=False)]


WORKLOADS = {
    "sentences": Workload(title="MiniLM, sentences", model=minilm_folder, texts=read_sentences, count=400, quick=24),
    "passages": Workload(
        title="MiniLM, passages of 250 tokens", model=minilm_folder, texts=make_passages, count=64, quick=4
    ),
    "base": Workload(
        title="BERT-base shape, sentences", model=make_bert_base, texts=read_sentences, count=128, quick=4
    ),
}


class Comparison:
    """The measurement of one workload, stored in a folder."""

    def __init__(self, name: str, out: Path, threads: int, *, quick: bool) -> None:
        self.workload, self.threads, self.quick = WORKLOADS[name], threads, quick
        self.folder = out / f"{name}-{threads}{'-quick' if quick else ''}"
        (self.folder / "work").mkdir(parents=True, exist_ok=True)
        self.model = self.workload.model(out)
        self.texts = self.workload.texts(self.workload.quick if quick else self.workload.count)
        self.single_count = min(SINGLE_TEXTS, len(self.texts)) if not quick else 4
        self.left_out: dict[str, str] = {}

    def command(self, contender: str) -> list[str]:
        """Write the job of a contender, and return the command that runs it."""
        path = self.folder / "work" / f"{contender}.json"
        job = {
            "runtime": contender,
            "folder": str(self.model),
            "threads": self.threads,
            "texts": self.texts,
            "work": str(self.folder / "work"),
        }
        path.write_text(json.dumps(job), encoding="utf-8")
        return [sys.executable, str(HERE / "engine_contenders.py"), str(path)]

    def prepare(self) -> None:
        """Export and convert once; a contender whose files cannot be made is left out, with the reason."""
        for name, contender in CONTENDERS.items():
            if contender.missing_package is not None:
                self.left_out[name] = f"{contender.missing_package} is not installed"
            elif contender.prepare is not None:
                process = subprocess.run(
                    [*self.command(name), "--prepare"], capture_output=True, text=True, check=False, timeout=TIMEOUT
                )
                if process.returncode:
                    self.left_out[name] = (process.stderr.strip().splitlines() or ["preparation failed"])[-1][:200]

    @contextmanager
    def start_processes(self) -> Iterator[dict[str, WorkerProcess]]:
        """Start all contenders, and wait until they are loaded."""
        with ExitStack() as stack:
            processes = {}
            for name in [*CONTENDERS, "peak"]:
                if name in self.left_out or (name == "peak" and PEAK_CONTENDER.missing_package is not None):
                    continue
                process = stack.enter_context(WorkerProcess(name, self.command(name)))
                try:
                    reply = process.read_answer(TIMEOUT)
                except ClearheadError as error:
                    reply = {"error": str(error)}
                if "error" in reply:
                    self.left_out[name] = reply["error"]
                    process.close(at_once=True)
                else:
                    processes[name] = process
            yield processes

    def load_or_measure(self, name: str, measure: Callable[[], Any]) -> Any:
        """Load a stored measurement, or measure and store it."""
        path = self.folder / f"{name}.json"
        if path.exists():
            return json.loads(path.read_text(encoding="utf-8"))
        result = measure()
        partial_path = path.with_suffix(".half")
        partial_path.write_text(json.dumps(result), encoding="utf-8")
        partial_path.rename(path)
        return result

    def choose_settings(self, processes: dict[str, WorkerProcess]) -> dict[str, Any]:
        """Choose the fastest setting of each contender that has settings, and count the tokens of every text."""
        best: dict[str, list[int]] = {}
        for name, process in processes.items():
            if name == "peak" or not CONTENDERS[name].has_settings:
                continue
            seconds: dict[tuple[int, ...], float] = {}
            for setting in list_settings(self.threads)[:: 3 if self.quick else 1]:
                ask_process(process, do="set", setting=setting)
                ask_process(process, do="together", count=min(len(self.texts), 16))
                durations = [
                    ask_process(process, do="together", count=min(len(self.texts), 64))["seconds"] for _ in range(2)
                ]
                seconds[tuple(setting)] = min(durations)
            best[name] = list(min(seconds.items(), key=lambda pair: pair[1])[0])
        lengths = ask_process(processes["engine"], do="tokens", count=len(self.texts))["tokens"]
        return {"settings": best, "lengths": lengths, "left_out": self.left_out}

    def measure_round(self, processes: dict[str, WorkerProcess], round_index: int) -> dict[str, Any]:
        """Time every contender once on all texts, and on some of them one by one."""
        figures: dict[str, Any] = {name: {} for name in processes}
        for name, process in processes.items():
            if name == "peak":
                figures[name] = self.measure_peak(process)
            else:
                figures[name]["ms"] = ask_process(
                    process, do="alone", first=round_index * self.single_count, count=self.single_count
                )["ms"]
        for name, process in processes.items():
            if name != "peak":
                figures[name]["texts_per_second"] = self.measure_throughput(process)
        return figures

    def measure_throughput(self, process: WorkerProcess) -> float:
        """Measure texts per second."""
        return len(self.texts) / float(ask_process(process, do="together", count=len(self.texts))["seconds"])

    def measure_peak(self, process: WorkerProcess) -> dict[str, float]:
        """Measure the operations per second of a large matrix product, in float and int8."""
        speeds, repeats = {}, 4 if self.quick else 40
        for variant in ("torch", "float", "int8"):
            ask_process(process, do="set", setting=variant)
            ask_process(process, do="together", count=2)
            seconds = ask_process(process, do="together", count=repeats)["seconds"]
            speeds[variant] = repeats * 2.0 * PEAK_SHAPE[0] * PEAK_SHAPE[1] * PEAK_SHAPE[2] / seconds
        return {"float": max(speeds["torch"], speeds["float"]), "int8": speeds["int8"]}

    def measure_starts(self, chosen: dict[str, Any]) -> dict[str, Any]:
        """Start a fresh process of every contender: seconds to the first answer, memory after some texts."""
        figures = {}
        for name in CONTENDERS:
            if name in self.left_out:
                continue
            started = perf_counter()
            with WorkerProcess(name, self.command(name)) as process:
                process.read_answer(TIMEOUT)
                seconds = perf_counter() - started
                ask_process(process, do="set", setting=chosen["settings"].get(name))
                ask_process(process, do="together", count=min(len(self.texts), 64))
                figures[name] = {"seconds": seconds} | ask_process(process, do="memory")
        return figures

    def measure_cosines(self, processes: dict[str, WorkerProcess]) -> dict[str, Any]:
        """Compute the mean and the lowest cosine of every contender with the first."""
        import numpy as np

        cosine_stats: dict[str, Any] = {}
        reference = None
        for name, process in processes.items():
            if name == "peak":
                continue
            vectors = np.array(
                ask_process(process, do="vectors", count=min(len(self.texts), COMPARED_TEXTS))["vectors"]
            )
            vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
            reference = vectors if reference is None else reference
            cosines = (vectors * reference).sum(1)
            cosine_stats[name] = [float(cosines.mean()), float(cosines.min())]
        return cosine_stats

    def measure(self, rounds: int, starts: int) -> str:
        """Measure what is missing, and format the table."""
        complete = all((self.folder / f"round-{index}.json").exists() for index in range(rounds))
        if not complete or not (self.folder / "vectors.json").exists():
            self.prepare()
            with self.start_processes() as processes:
                chosen = self.load_or_measure("chosen", lambda: self.choose_settings(processes))
                for name, process in processes.items():
                    if name in chosen["settings"]:
                        ask_process(process, do="set", setting=chosen["settings"][name])
                    if name != "peak":
                        self.measure_throughput(process)  # warm up
                for index in range(rounds):
                    self.load_or_measure(f"round-{index}", partial(self.measure_round, processes, index))
                    print(f"{self.workload.title}: round {index + 1} of {rounds}", file=sys.stderr, flush=True)
                self.load_or_measure("vectors", lambda: self.measure_cosines(processes))
        chosen = json.loads((self.folder / "chosen.json").read_text(encoding="utf-8"))
        self.left_out = chosen["left_out"]
        for index in range(starts):
            self.load_or_measure(f"start-{index}", lambda: self.measure_starts(chosen))
        config = json.loads((self.model / "config.json").read_text(encoding="utf-8"))
        return engine_table.make_section(self.workload.title, self.folder, config, self.threads)


def ask_process(process: WorkerProcess, **request: Any) -> dict[str, Any]:
    """Return the answer of a process, or stop the benchmark with its name."""
    reply = process.request(request, TIMEOUT)
    if "error" in reply:
        raise SystemExit(f"{process.title}: {reply['error']}")
    return reply


def main() -> None:
    """Print a table per workload."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", default=None, help=f"comma-separated: {', '.join(WORKLOADS)}")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--out", type=Path, default=HERE / "out" / "engine")
    parser.add_argument("--quick", action="store_true", help="smoke test: a few texts, one round")
    arguments = parser.parse_args()
    names = (arguments.rows or ("sentences" if arguments.quick else ",".join(WORKLOADS))).split(",")
    if unknown := [name for name in names if name not in WORKLOADS]:
        raise SystemExit(f"unknown row {unknown[0]}; available: {', '.join(WORKLOADS)}")
    arguments.out.mkdir(parents=True, exist_ok=True)
    for name in names:
        comparison = Comparison(name, arguments.out.resolve(), arguments.threads, quick=arguments.quick)
        try:
            table = comparison.measure(
                1 if arguments.quick else max(arguments.rounds, 5), 1 if arguments.quick else STARTS
            )
        except ClearheadError as error:
            raise SystemExit(f"{error} Run the same command again to resume.") from None
        print(table, flush=True)


if __name__ == "__main__":
    main()
