"""Training speed: real tokens per second and peak memory compared with a plain `transformers` loop, interleaved.

    python benchmarks/train_speed.py [--rounds 28] [--steps 8]

The data is sst2 (CLEARHEAD_DATA/sst2/train.tsv), the model is the default one with a new head, on two threads. The peer
is the loop of the tutorials: texts tokenized beforehand, 32 random rows per step padded to the longest,
AutoModelForSequenceClassification, AdamW of torch and a linear schedule with their defaults, without clipping; ours is
`train_steps`, which also clips gradients. Each contender runs in its own process and waits while another works, so that
memory is measured separately; the ratio is the median over rounds, with the middle half of them. All rounds together
are an epoch. Padding is not counted as tokens. Memory is the peak growth of the process, after imports, over the timed
steps. Target: 1.8 x with the same rows per step, 2.2 x with token budgets, and no more memory.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

DATA = Path(os.environ.get("CLEARHEAD_DATA") or Path(__file__).resolve().parents[2] / "shared" / "data")
BATCH_ROWS = 32
SIDES: dict[str, dict[str, Any]] = {  # changes to the defaults of `TrainSettings`
    "transformers, 32 rows": {},
    "clearhead, 32 rows": {"batch_size": BATCH_ROWS},
    "clearhead, 2048 tokens": {"batch_size": None, "batch_tokens": 2048},
    "clearhead, 4096 by 2048": {"batch_size": None, "batch_tokens": 4096, "micro_tokens": 2048},
}
PEER = next(iter(SIDES))


def run_peer() -> Iterator[int]:
    """Train with the plain loop of the tutorials; yields the real tokens of each step."""
    import torch
    from transformers import (
        AutoModelForSequenceClassification,
        AutoTokenizer,
        DataCollatorWithPadding,
        get_linear_schedule_with_warmup,
        logging,
    )

    from clearhead.checkpoint.hub import locate

    folder = locate("default").folder
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    yield 0  # imports are done
    lines = (DATA / "sst2" / "train.tsv").read_text(encoding="utf-8").splitlines()[1:]
    texts, labels = zip(*(line.split("\t") for line in lines), strict=True)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    ids = tokenizer(list(texts), truncation=True)["input_ids"]
    rows = [{"input_ids": row, "label": int(label)} for row, label in zip(ids, labels, strict=True)]
    torch.manual_seed(0)
    loader: Any = torch.utils.data.DataLoader(
        rows,  # type: ignore[arg-type]
        batch_size=BATCH_ROWS,
        shuffle=True,
        collate_fn=DataCollatorWithPadding(tokenizer),
    )
    model = AutoModelForSequenceClassification.from_pretrained(folder, num_labels=2, dtype=torch.float32)
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-5, weight_decay=0.01)
    steps = 3 * len(loader)
    schedule = get_linear_schedule_with_warmup(optimizer, steps // 10, steps)
    while True:
        for batch in loader:
            tokens = int(batch["attention_mask"].sum())
            model(**batch).loss.backward()
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
            yield tokens


def run_clearhead(settings: dict[str, Any]) -> Iterator[int]:
    """Train with `train_steps`; yields the real tokens of each step."""
    import clearhead
    from clearhead.data import encode_table, guess_columns, open_source
    from clearhead.tasks.packed import pack_table
    from clearhead.training.loop import train_steps
    from clearhead.training.objectives import CrossEntropy
    from clearhead.training.optimizer import make_optimizer
    from clearhead.training.settings import TrainSettings
    from clearhead.training.state import TrainingProgress, TrainingState

    yield 0
    model = clearhead.load("default", device="cpu", head="classify", labels=["0", "1"])
    source = open_source(DATA / "sst2" / "train.tsv")
    table = encode_table(source, guess_columns(source), model.tokenizer, max_length=model.max_length())
    train_settings = TrainSettings(**settings)
    state = TrainingState(model.module, make_optimizer(model.module, train_settings), TrainingProgress())
    data = pack_table(table, segments=bool(model.shape.stack.segments))
    for step in train_steps(state, data, train_settings, objective=CrossEntropy()):
        yield step.tokens


def serve_steps(side: str) -> None:
    """Run the requested number of steps per input line, and print tokens, seconds and memory."""
    import psutil
    import torch

    torch.set_num_threads(2)
    work = run_peer() if side == PEER else run_clearhead(SIDES[side])
    next(work)
    memory_before = psutil.Process().memory_info().rss
    for line in sys.stdin:
        start = time.perf_counter()
        tokens = sum(next(work) for _ in range(int(line)))
        peak = int(next(s for s in Path("/proc/self/status").read_text().splitlines() if "VmHWM" in s).split()[1])
        record = {"tokens": tokens, "seconds": time.perf_counter() - start, "memory": peak * 1024 - memory_before}
        print(json.dumps(record), flush=True)


class ContenderProcess:
    """A process that runs steps on request."""

    def __init__(self, name: str) -> None:
        environment = os.environ | {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false", "OMP_NUM_THREADS": "2"}
        command = [sys.executable, __file__, "--child", name]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )

    def run_steps(self, steps: int) -> dict[str, float]:
        """Run steps; returns tokens, seconds and the peak memory so far."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(steps, file=self.process.stdin, flush=True)
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit("a process of the comparison stopped; see its error above")
        return json.loads(line)  # type: ignore[no-any-return]


def main() -> None:
    """Print a table of ratios."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=28)
    parser.add_argument("--steps", type=int, default=8, help="steps of 32 rows per round; 217 are an epoch")
    parser.add_argument("--child", default=None, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        serve_steps(arguments.child)
        return
    if not (DATA / "sst2" / "train.tsv").is_file():
        raise SystemExit(f"{DATA / 'sst2' / 'train.tsv'} not found; set CLEARHEAD_DATA to the folder of datasets")
    sides = {name: ContenderProcess(name) for name in SIDES}
    for side in sides.values():
        side.run_steps(3)  # read, load and warm up
    runs: dict[str, list[dict[str, float]]] = {name: [] for name in SIDES}
    for _ in range(max(arguments.rounds, 5)):
        for name, side in sides.items():
            # fewer of the larger steps, so that every turn takes about the same time
            scale = 25 * BATCH_ROWS / SIDES[name].get("batch_tokens", 25 * BATCH_ROWS)
            runs[name].append(side.run_steps(max(round(arguments.steps * scale), 1)))
    print(f"{'':<26}{'tokens/s':>10}{'ratio':>8}{'middle half':>16}{'peak MB':>10}{'ratio':>8}")
    speeds = {name: [run["tokens"] / run["seconds"] for run in results] for name, results in runs.items()}
    for name, results in runs.items():
        ratios = [ours / theirs for ours, theirs in zip(speeds[name], speeds[PEER], strict=True)]
        peak, peer_peak = results[-1]["memory"], runs[PEER][-1]["memory"]
        low, median, high = statistics.quantiles(ratios, n=4)
        print(
            f"{name:<26}{statistics.median(speeds[name]):>10.0f}{median:>7.2f}x{f'{low:.2f} to {high:.2f}':>16}"
            f"{peak / 1e6:>10.0f}{peak / peer_peak:>7.2f}x"
        )


if __name__ == "__main__":
    main()
