"""Training a translator: real tokens per second beside a plain loop over `transformers`' Marian of the same size.

    python benchmarks/translate_training.py [--sizes small,base] [--rounds 7] [--steps 4] [--threads 2] [--out FILE]

Rows are Multi30k German to English (CLEARHEAD_DATA/multi30k/train.tsv.gz), the vocabulary has 8,000 tokens and is
learned from them; both sides read the same ids. The peer is the loop of the tutorials: shuffled rows padded to the
longest of their batch, labels padded with -100, MarianMTModel with as many layers, heads, words and as much width as
ours, label smoothing, torch's AdamW as it comes, no clipping; its batches have as many real tokens on average as ours.
Ours is `train_steps` with the settings of `clearhead train --task translate`. Both compute in 32 bits on the same
threads, in turns within one process; the ratio is the median over rounds. Tokens are those of both languages without
padding. `--cpu` counts the seconds that the processor worked instead of those that passed, for a machine that does
other things, too. The promise: 1.5 x.
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
WORDS = 8000
IGNORED = -100
RATE, SMOOTHING = 1e-3, 0.1
SIZES: dict[str, dict[str, int]] = {
    "small": {"encoder_layers": 3, "decoder_layers": 3, "width": 256, "heads": 4, "feed_width": 1024},
    "base": {"encoder_layers": 6, "decoder_layers": 6, "width": 512, "heads": 8, "feed_width": 2048},
}
TITLES = {"small": "3 + 3 layers, width 256", "base": "6 + 6 layers, width 512"}


@dataclass(frozen=True)
class Rows:
    """What both sides learn from."""

    data: Any  # `Parallel`
    tokenizer: Any


@dataclass(frozen=True)
class Turn:
    """What one side did in one round."""

    tokens: int
    seconds: float

    @property
    def speed(self) -> float:
        """Tokens a second."""
        return self.tokens / self.seconds


def rows_of(path: Path, most: int | None) -> Rows:
    """The file as token ids of a vocabulary that is learned from it."""
    import numpy as np

    import clearhead
    from clearhead.data import open_source
    from clearhead.tasks.parallel import ParallelDataset, pack_token_ids
    from clearhead.text import load_tokenizer

    pairs = [(row.values["de"], row.values["en"]) for row in open_source(path).rows()][:most]  # type: ignore[union-attr]
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "vocabulary"
        texts = [text for pair in pairs for text in pair]
        verbs: Any = clearhead
        verbs.learn_tokenizer(
            iter(texts), folder, kind="bpe", use="transformer", vocab_size=WORDS, split="metaspace", byte_fallback=True
        )
        tokenizer = load_tokenizer(folder, "transformer", {"model_type": "transformer"}).source
    both = [pack_token_ids([one.ids for one in tokenizer.encode_ids([pair[way] for pair in pairs])]) for way in (0, 1)]
    start = tokenizer.bos_id
    assert start is not None
    data = ParallelDataset(source=both[0], target=both[1], start_id=start, row_numbers=np.arange(1, len(pairs) + 1))
    return Rows(data, tokenizer)


def ours(rows: Rows, size: str, budget: int) -> Iterator[int]:
    """The real tokens of each step of `train_steps`."""
    import numpy as np

    import clearhead
    from clearhead.jobs.plan import NEW_TRANSFORMER_DEFAULTS
    from clearhead.training.loop import train_steps
    from clearhead.training.objectives import objective_for
    from clearhead.training.optimizer import make_optimizer
    from clearhead.training.settings import TrainSettings
    from clearhead.training.state import TrainingProgress, TrainingState

    words = rows.tokenizer.vocab_size
    model = clearhead.create(
        "transformer",
        config=SIZES[size] | {"vocab_size": words, "decoder_start_token_id": rows.data.start},
        head="seq2seq",
        device="cpu",
    )
    said = {
        "learning_rate": RATE,
        "label_smoothing": SMOOTHING,
        "batch_tokens": budget,
        "average_epochs": 1,
        "precision": "float",
    }
    settings = TrainSettings(**({"batch_size": None, "epochs": 1000} | NEW_TRANSFORMER_DEFAULTS | said))
    state = TrainingState(model.module, make_optimizer(model.module, settings), TrainingProgress())
    weights = rows.data.row_words.astype(np.float64)
    objective = objective_for("words", settings)
    for step in train_steps(state, rows.data, settings, objective=objective, row_weights=weights):
        yield step.tokens


def peer(rows: Rows, size: str, count: int) -> Iterator[int]:
    """The real tokens of each step of the plain loop with so many rows a step."""
    import torch
    from torch.nn.utils.rnn import pad_sequence
    from transformers import MarianConfig, MarianMTModel

    said, words = SIZES[size], rows.tokenizer
    sides = {
        f"{side}_{theirs}": said[own]
        for side in ("encoder", "decoder")
        for theirs, own in (("layers", f"{side}_layers"), ("attention_heads", "heads"), ("ffn_dim", "feed_width"))
    }
    torch.manual_seed(0)
    model = MarianMTModel(
        MarianConfig(
            vocab_size=words.vocab_size,
            d_model=said["width"],
            activation_function="relu",
            scale_embedding=True,
            pad_token_id=words.pad_id,
            eos_token_id=words.eos_id,
            decoder_start_token_id=rows.data.start,
            forced_eos_token_id=words.eos_id,
            dropout=0.1,
            **sides,
        )
    ).train()
    texts = [
        [
            torch.tensor(one.ids[begin:end].astype("int64"))
            for begin, end in zip(one.starts[:-1], one.starts[1:], strict=True)
        ]
        for one in (rows.data.source, rows.data.target)
    ]

    def together(batch: list[tuple[Any, Any]]) -> dict[str, Any]:
        sources, targets = zip(*batch, strict=True)
        ids = pad_sequence(list(sources), batch_first=True, padding_value=words.pad_id)
        labels = pad_sequence(list(targets), batch_first=True, padding_value=IGNORED)
        return {"input_ids": ids, "attention_mask": (ids != words.pad_id).long(), "labels": labels}

    loader: Any = torch.utils.data.DataLoader(
        list(zip(*texts, strict=True)),  # type: ignore[arg-type]
        batch_size=count,
        shuffle=True,
        collate_fn=together,
    )
    optimiser = torch.optim.AdamW(model.parameters(), lr=RATE)
    while True:
        for batch in loader:
            labels = batch.pop("labels")
            shifted = model.prepare_decoder_input_ids_from_labels(labels)
            logits = model(**batch, decoder_input_ids=shifted).logits
            loss = torch.nn.functional.cross_entropy(
                logits.flatten(0, 1), labels.flatten(), ignore_index=IGNORED, label_smoothing=SMOOTHING
            )
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
            optimiser.zero_grad()
            yield int(batch["attention_mask"].sum()) + int((labels != IGNORED).sum())


def turn(work: Iterator[int], steps: int, clock: Callable[[], float]) -> Turn:
    """So many steps, timed."""
    begin = clock()
    tokens = sum(next(work) for _ in range(steps))
    return Turn(tokens, clock() - begin)


def measured(rows: Rows, size: str, given: argparse.Namespace) -> dict[str, Any]:
    """Both sides in turns."""
    from clearhead.data.batches import token_batches

    batches = token_batches(rows.data.row_tokens, budget_tokens=given.batch_tokens)
    count = round(len(rows.data) / len(batches))  # a batch of ours has so many rows on average, and so has the peer's
    clock = time.process_time if given.cpu else time.perf_counter
    sides = {"transformers": peer(rows, size, count), "clearhead": ours(rows, size, given.batch_tokens)}
    for work in sides.values():
        turn(work, 1, clock)  # build and warm up
    turns: dict[str, list[Turn]] = {name: [] for name in sides}
    for done in range(given.rounds):
        for name in sorted(sides, reverse=bool(done % 2)):
            turns[name].append(turn(sides[name], given.steps, clock))
        print(f"{size}: round {done + 1} of {given.rounds}", file=sys.stderr, flush=True)
    speeds = {name: [one.speed for one in some] for name, some in turns.items()}
    ratios = [mine / theirs for mine, theirs in zip(speeds["clearhead"], speeds["transformers"], strict=True)]
    middle = {name: statistics.median(some) for name, some in speeds.items()}
    return {
        "size": size,
        "rows_a_step": count,
        "tokens_a_second": middle,
        "ratio": statistics.median(ratios),
        "ratios": ratios,
        "tokens": {name: sum(one.tokens for one in turns[name]) for name in sides},
    }


def table(found: list[dict[str, Any]]) -> str:
    """The figures in Markdown."""
    lines = [
        "| model | transformers, tokens/s | clearhead, tokens/s | ratio | lowest and highest round |",
        "|---|---|---|---|---|",
    ]
    for one in found:
        speed = one["tokens_a_second"]
        spread = f"{min(one['ratios']):.2f} to {max(one['ratios']):.2f}"
        lines.append(
            f"| {TITLES[one['size']]} | {speed['transformers']:,.0f} | {speed['clearhead']:,.0f} "
            f"| {one['ratio']:.2f} x | {spread} |"
        )
    return "\n".join(lines)


def main() -> None:
    """Measure, print a table and JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default=",".join(SIZES), help=f"of {', '.join(SIZES)}, commas between them")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--steps", type=int, default=4, help="of each side in a round")
    parser.add_argument("--batch-tokens", type=int, default=4096, help="of both languages in a step")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--rows", type=int, help="only so many rows of the file")
    parser.add_argument("--cpu", action="store_true", help="seconds that the processor worked")
    parser.add_argument("--out", type=Path, help="a file for the figures as JSON")
    given = parser.parse_args()
    if unknown := [size for size in given.sizes.split(",") if size not in SIZES]:
        parser.error(f"{unknown[0]!r} is no size; there are {', '.join(SIZES)}")
    folder = os.environ.get("CLEARHEAD_DATA")
    if not folder or not (Path(folder) / FILE).is_file():
        raise SystemExit(f"{FILE} is not there; set CLEARHEAD_DATA to the folder of data sets that has it")
    os.environ |= {"HF_HUB_OFFLINE": "1"}
    import torch

    torch.set_num_threads(given.threads)
    rows = rows_of(Path(folder) / FILE, given.rows)
    found = [measured(rows, size, given) for size in given.sizes.split(",")]
    print(table(found))
    said = {
        "threads": given.threads,
        "clock": "processor" if given.cpu else "wall",
        "batch_tokens": given.batch_tokens,
        "versions": {name: version(name) for name in ("torch", "transformers")},
        "found": found,
    }
    print(json.dumps(said))
    if given.out is not None:
        given.out.write_text(json.dumps(said, indent=1))


if __name__ == "__main__":
    main()
