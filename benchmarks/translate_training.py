"""Training of translation models: real tokens per second compared with a plain loop over `transformers`' Marian.

    python benchmarks/translate_training.py [--sizes small,base] [--rounds 7] [--steps 4] [--threads 2] [--out FILE]

The rows are Multi30k, German to English (CLEARHEAD_DATA/multi30k/train.tsv.gz) with a vocabulary of 8,000 tokens
learned from the rows; both sides use the same ids. The peer is the loop of the tutorials: shuffled rows padded to the
longest of their batch, labels padded with -100, MarianMTModel with the same layers, heads, vocabulary and width as
ours, label smoothing, AdamW of torch with its defaults, no clipping; its batches have the same number of real tokens
on average. Ours is `train_steps` with the settings of `clearhead train --task translate`. Both compute in float32 on
the same threads and take turns within one process; the ratio is the median over rounds. Tokens are those of both
languages without padding. `--cpu` measures CPU time instead of wall time, for a busy machine. Target: 1.5 x.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

FILE = Path("multi30k") / "train.tsv.gz"
VOCAB_SIZE = 8000
IGNORE_INDEX = -100
LEARNING_RATE, LABEL_SMOOTHING = 1e-3, 0.1
SHAPES: dict[str, dict[str, int]] = {
    "small": {"encoder_layers": 3, "decoder_layers": 3, "width": 256, "heads": 4, "feed_width": 1024},
    "base": {"encoder_layers": 6, "decoder_layers": 6, "width": 512, "heads": 8, "feed_width": 2048},
}
TITLES = {"small": "3 + 3 layers, width 256", "base": "6 + 6 layers, width 512"}


@dataclass(frozen=True)
class TranslationData:
    """The training data of both sides."""

    dataset: Any  # `Parallel`
    tokenizer: Any


@dataclass(frozen=True)
class TimedSteps:
    """Tokens and time of one side in one round."""

    tokens: int
    seconds: float

    @property
    def speed(self) -> float:
        """Tokens per second."""
        return self.tokens / self.seconds


def read_data(path: Path, max_rows: int | None) -> TranslationData:
    """Read the file, learn a vocabulary from it, and tokenize it."""
    import numpy as np

    import clearhead
    from clearhead.data import open_source
    from clearhead.tasks.parallel import ParallelDataset, pack_token_ids
    from clearhead.text import load_tokenizer

    pairs = [(row.values["de"], row.values["en"]) for row in open_source(path).rows()][:max_rows]  # type: ignore[union-attr]
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "vocabulary"
        texts = [text for pair in pairs for text in pair]
        verbs: Any = clearhead
        verbs.learn_tokenizer(
            iter(texts),
            folder,
            kind="bpe",
            use="transformer",
            vocab_size=VOCAB_SIZE,
            split="metaspace",
            byte_fallback=True,
        )
        tokenizer = load_tokenizer(folder, "transformer", {"model_type": "transformer"}).source
    sides = [
        pack_token_ids([encoding.ids for encoding in tokenizer.encode_ids([pair[side_index] for pair in pairs])])
        for side_index in (0, 1)
    ]
    start = tokenizer.bos_id
    assert start is not None
    data = ParallelDataset(source=sides[0], target=sides[1], start_id=start, row_numbers=np.arange(1, len(pairs) + 1))
    return TranslationData(data, tokenizer)


def run_clearhead(rows: TranslationData, size: str, budget: int) -> Iterator[int]:
    """Train with `train_steps`; yields the real tokens of each step."""
    import numpy as np

    import clearhead
    from clearhead.jobs.plan import NEW_TRANSFORMER_DEFAULTS
    from clearhead.training.loop import train_steps
    from clearhead.training.objectives import objective_for
    from clearhead.training.optimizer import make_optimizer
    from clearhead.training.settings import TrainSettings
    from clearhead.training.state import TrainingProgress, TrainingState

    vocab_size = rows.tokenizer.vocab_size
    model = clearhead.create(
        "transformer",
        config=SHAPES[size] | {"vocab_size": vocab_size, "decoder_start_token_id": rows.dataset.start_id},
        head="seq2seq",
        device="cpu",
    )
    overrides = {
        "learning_rate": LEARNING_RATE,
        "label_smoothing": LABEL_SMOOTHING,
        "batch_tokens": budget,
        "average_epochs": 1,
        "precision": "float",
    }
    settings = TrainSettings(**({"batch_size": None, "epochs": 1000} | NEW_TRANSFORMER_DEFAULTS | overrides))
    state = TrainingState(model.module, make_optimizer(model.module, settings), TrainingProgress())
    weights = rows.dataset.row_words.astype(np.float64)
    objective = objective_for("words", settings)
    for step in train_steps(state, rows.dataset, settings, objective=objective, row_weights=weights):
        yield step.tokens


def run_peer(rows: TranslationData, size: str, batch_rows: int) -> Iterator[int]:
    """Train with the plain loop and a number of rows per step; yields the real tokens of each step."""
    import torch
    from torch.nn.utils.rnn import pad_sequence
    from transformers import MarianConfig, MarianMTModel

    shape, tokenizer = SHAPES[size], rows.tokenizer
    side_config = {
        f"{side}_{their_name}": shape[our_name]
        for side in ("encoder", "decoder")
        for their_name, our_name in (
            ("layers", f"{side}_layers"),
            ("attention_heads", "heads"),
            ("ffn_dim", "feed_width"),
        )
    }
    torch.manual_seed(0)
    model = MarianMTModel(
        MarianConfig(
            vocab_size=tokenizer.vocab_size,
            d_model=shape["width"],
            activation_function="relu",
            scale_embedding=True,
            pad_token_id=tokenizer.pad_id,
            eos_token_id=tokenizer.eos_id,
            decoder_start_token_id=rows.dataset.start_id,
            forced_eos_token_id=tokenizer.eos_id,
            dropout=0.1,
            **side_config,
        )
    ).train()
    token_ids = [
        [
            torch.tensor(side.ids[start:end].astype("int64"))
            for start, end in zip(side.starts[:-1], side.starts[1:], strict=True)
        ]
        for side in (rows.dataset.source, rows.dataset.target)
    ]

    def collate(batch: list[tuple[Any, Any]]) -> dict[str, Any]:
        sources, targets = zip(*batch, strict=True)
        ids = pad_sequence(list(sources), batch_first=True, padding_value=tokenizer.pad_id)
        labels = pad_sequence(list(targets), batch_first=True, padding_value=IGNORE_INDEX)
        return {"input_ids": ids, "attention_mask": (ids != tokenizer.pad_id).long(), "labels": labels}

    loader: Any = torch.utils.data.DataLoader(
        list(zip(*token_ids, strict=True)),  # type: ignore[arg-type]
        batch_size=batch_rows,
        shuffle=True,
        collate_fn=collate,
    )
    optimiser = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE)
    while True:
        for batch in loader:
            labels = batch.pop("labels")
            shifted = model.prepare_decoder_input_ids_from_labels(labels)
            logits = model(**batch, decoder_input_ids=shifted).logits
            loss = torch.nn.functional.cross_entropy(
                logits.flatten(0, 1), labels.flatten(), ignore_index=IGNORE_INDEX, label_smoothing=LABEL_SMOOTHING
            )
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
            optimiser.zero_grad()
            yield int(batch["attention_mask"].sum()) + int((labels != IGNORE_INDEX).sum())


def time_steps(steps_iterator: Iterator[int], steps: int, clock: Callable[[], float]) -> TimedSteps:
    """Time a number of steps."""
    start = clock()
    tokens = sum(next(steps_iterator) for _ in range(steps))
    return TimedSteps(tokens, clock() - start)


def measure_size(rows: TranslationData, size: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """Measure both sides in turns."""
    from clearhead.data.batches import token_batches

    batches = token_batches(rows.dataset.row_tokens, budget_tokens=arguments.batch_tokens)
    batch_rows = round(len(rows.dataset) / len(batches))  # the average of our batches
    clock = time.process_time if arguments.cpu else time.perf_counter
    sides = {
        "transformers": run_peer(rows, size, batch_rows),
        "clearhead": run_clearhead(rows, size, arguments.batch_tokens),
    }
    for steps in sides.values():
        time_steps(steps, 1, clock)  # build and warm up
    timings: dict[str, list[TimedSteps]] = {name: [] for name in sides}
    for round_index in range(arguments.rounds):
        for name in sorted(sides, reverse=bool(round_index % 2)):
            timings[name].append(time_steps(sides[name], arguments.steps, clock))
        print(f"{size}: round {round_index + 1} of {arguments.rounds}", file=sys.stderr, flush=True)
    speeds = {name: [timing.speed for timing in values] for name, values in timings.items()}
    ratios = [ours / theirs for ours, theirs in zip(speeds["clearhead"], speeds["transformers"], strict=True)]
    medians = {name: statistics.median(values) for name, values in speeds.items()}
    return {
        "size": size,
        "rows_a_step": batch_rows,
        "tokens_a_second": medians,
        "ratio": statistics.median(ratios),
        "ratios": ratios,
        "tokens": {name: sum(timing.tokens for timing in timings[name]) for name in sides},
    }


def make_table(results: list[dict[str, Any]]) -> str:
    """Format the figures as a Markdown table."""
    lines = [
        "| model | transformers, tokens/s | clearhead, tokens/s | ratio | lowest and highest round |",
        "|---|---|---|---|---|",
    ]
    for result in results:
        speed = result["tokens_a_second"]
        spread = f"{min(result['ratios']):.2f} to {max(result['ratios']):.2f}"
        lines.append(
            f"| {TITLES[result['size']]} | {speed['transformers']:,.0f} | {speed['clearhead']:,.0f} "
            f"| {result['ratio']:.2f} x | {spread} |"
        )
    return "\n".join(lines)


def main() -> None:
    """Measure, print a table and JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default=",".join(SHAPES), help=f"comma-separated: {', '.join(SHAPES)}")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--steps", type=int, default=4, help="steps per side and round")
    parser.add_argument("--batch-tokens", type=int, default=4096, help="tokens of both languages per step")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--rows", type=int, help="limit the rows of the file")
    parser.add_argument("--cpu", action="store_true", help="measure CPU time")
    parser.add_argument("--out", type=Path, help="file for the figures as JSON")
    arguments = parser.parse_args()
    if unknown := [size for size in arguments.sizes.split(",") if size not in SHAPES]:
        parser.error(f"unknown size {unknown[0]!r}; available: {', '.join(SHAPES)}")
    folder = os.environ.get("CLEARHEAD_DATA")
    if not folder or not (Path(folder) / FILE).is_file():
        raise SystemExit(f"{FILE} not found; set CLEARHEAD_DATA to the folder of datasets that contains it")
    os.environ |= {"HF_HUB_OFFLINE": "1"}
    import torch

    torch.set_num_threads(arguments.threads)
    rows = read_data(Path(folder) / FILE, arguments.rows)
    results = [measure_size(rows, size, arguments) for size in arguments.sizes.split(",")]
    print(make_table(results))
    record = {
        "threads": arguments.threads,
        "clock": "processor" if arguments.cpu else "wall",
        "batch_tokens": arguments.batch_tokens,
        "versions": {name: version(name) for name in ("torch", "transformers")},
        "found": results,
    }
    print(json.dumps(record))
    if arguments.out is not None:
        arguments.out.write_text(json.dumps(record, indent=1))


if __name__ == "__main__":
    main()
