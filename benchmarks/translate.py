"""Decoding beside what others translate with on a CPU: tokens per second, greedy and with a beam, alone and in a batch.

    python benchmarks/translate.py [--rounds 5] [--threads 2] [--out FOLDER] [--quick]

A Marian of 6 + 6 layers, width 512, 8 heads and 32,000 words with drawn weights, because a random model never says the
end and every runtime writes as much: 48 tokens for each of 16 sources of 8 to 32 tokens, one at a time and together,
greedy and with a beam of 4. Every column is a process of its own, all take turns within a round, and ratios are medians
over rounds. CTranslate2 is there if it is installed; it and clearhead are measured in int8, too, with all threads and
with one. Each round is a file in FOLDER (without it, benchmarks/out/translate), and the same command goes on. What is
written is compared with the reference in float: the share of equal tokens.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any

from translate_columns import COLUMNS

from clearhead.deploy.process import WorkerProcess
from clearhead.errors import ClearheadError

HERE = Path(__file__).resolve().parent
PATIENCE = 1800.0
VOCABULARY, END, TOKENS, SOURCES = 32_000, 0, 48, 16
KINDS = [(1, 1), (1, 4), (16, 1), (16, 4)]  # sources together, beam
REFERENCE = "transformers"


def model(out: Path, *, quick: bool) -> Path:
    """A folder with drawn weights, as `transformers` writes it."""
    folder = out / ("marian-quick" if quick else "marian")
    if not (folder / "config.json").exists():
        import torch
        from transformers import MarianConfig, MarianMTModel

        torch.manual_seed(0)
        small = {"encoder_layers": 2, "decoder_layers": 2} if quick else {"encoder_layers": 6, "decoder_layers": 6}
        config = MarianConfig(
            vocab_size=VOCABULARY,
            d_model=512,
            encoder_attention_heads=8,
            decoder_attention_heads=8,
            encoder_ffn_dim=2048,
            decoder_ffn_dim=2048,
            activation_function="swish",
            scale_embedding=True,
            pad_token_id=VOCABULARY - 1,
            decoder_start_token_id=VOCABULARY - 1,
            eos_token_id=END,
            forced_eos_token_id=None,
            init_std=0.05,
            **small,
        )
        MarianMTModel(config).save_pretrained(folder)
    return folder


def sources() -> list[list[int]]:
    """Texts of mixed length."""
    draw = random.Random(0)
    return [[draw.randrange(2, VOCABULARY - 1) for _ in range(draw.randint(7, 31))] + [END] for _ in range(SOURCES)]


def contestants(threads: int) -> dict[str, tuple[str, int]]:
    """Column and threads of each, by title; those in int8 with one thread, too."""
    made = {}
    for name, (title, _) in COLUMNS.items():
        if name.startswith("ctranslate2") and find_spec("ctranslate2") is None:
            print("CTranslate2 is not installed and is left out", file=sys.stderr)
            continue
        for count in sorted({threads, 1} if name.endswith("int8") else {threads}):
            made[f"{title}, {count} thread{'s' if count > 1 else ''}"] = (name, count)
    return made


def measure(folder: Path, out: Path, *, threads: int, rounds: int, tokens: int) -> list[dict[str, Any]]:
    """Every round that is not yet there; each asks every contestant for every kind in turn."""
    texts, every = sources(), contestants(threads)
    paths = [out / f"round-{threads}-{number}.json" for number in range(rounds)]
    if not all(path.exists() for path in paths):
        with ExitStack() as kept:
            children = {}
            for title, (name, count) in every.items():
                command = [sys.executable, str(HERE / "translate_columns.py"), str(folder), name, str(count)]
                children[title] = kept.enter_context(WorkerProcess(title, command))
                children[title].read_answer(PATIENCE)
                for _, beam in KINDS[:2]:  # whatever is made at first use is made now
                    children[title].request({"batches": [texts[:2]], "beam": beam, "tokens": 4}, PATIENCE)
            for number, path in enumerate(paths):
                if path.exists():
                    continue
                found: dict[str, Any] = {title: {} for title in every}
                for size, beam in KINDS:
                    some = texts if size > 1 else texts[number % 4 :: 4]
                    batches = [some[first : first + size] for first in range(0, len(some), size)]
                    for title, child in children.items():
                        asked = {"batches": batches, "beam": beam, "tokens": tokens}
                        found[title][f"{size}x{beam}"] = child.request(asked, PATIENCE)
                path.write_text(json.dumps(found), encoding="utf-8")
                print(f"round {number + 1} of {rounds}", file=sys.stderr, flush=True)
    return [json.loads(path.read_text(encoding="utf-8")) for path in paths]


def table(found: list[dict[str, Any]]) -> str:
    """Tokens per second and the ratio to the reference of the same round, medians."""
    titles = list(found[0])
    first = next(title for title in titles if title.startswith(REFERENCE))
    lines = ["| tokens per second (ratio) | " + " | ".join(_kind(*kind) for kind in KINDS) + " | equal tokens |"]
    lines.append("| --- |" + " ---: |" * (len(KINDS) + 1))
    for title in titles:
        cells = []
        for size, beam in KINDS:
            key = f"{size}x{beam}"
            speeds = [_speed(one[title][key]) for one in found]
            ratios = [_speed(one[title][key]) / _speed(one[first][key]) for one in found]
            cells.append(f"{median(speeds):,.0f} ({median(ratios):.2f} x)")
        equal = [_equal(one[title]["16x4"]["made"], one[first]["16x4"]["made"]) for one in found]
        lines.append(f"| {title} | {' | '.join(cells)} | {100 * median(equal):.0f} % |")
    return "\n".join(lines)


def _kind(size: int, beam: int) -> str:
    return f"{'one text' if size == 1 else f'{size} texts'}, {'greedy' if beam == 1 else f'beam {beam}'}"


def _speed(one: dict[str, Any]) -> float:
    return float(sum(len(row) for row in one["made"]) / one["seconds"])


def _equal(made: list[list[int]], truth: list[list[int]]) -> float:
    pairs = [pair for row, other in zip(made, truth, strict=True) for pair in zip(row, other, strict=False)]
    return sum(a == b for a, b in pairs) / len(pairs)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--out", type=Path, default=HERE / "out" / "translate")
    parser.add_argument("--quick", action="store_true", help="two layers, few tokens, one round: to see that it works")
    given = parser.parse_args()
    out = given.out.resolve() / ("quick" if given.quick else "whole")
    out.mkdir(parents=True, exist_ok=True)
    try:
        found = measure(
            model(given.out.resolve(), quick=given.quick),
            out,
            threads=given.threads,
            rounds=1 if given.quick else max(given.rounds, 5),
            tokens=8 if given.quick else TOKENS,
        )
    except ClearheadError as error:
        raise SystemExit(f"{error} The same command goes on with what is measured.") from None
    print(table(found), flush=True)


if __name__ == "__main__":
    main()
