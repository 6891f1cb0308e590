"""Decoding compared with other CPU runtimes for translation: tokens per second, greedy and beam, single and batched.

    python benchmarks/translate.py [--rounds 5] [--threads 2] [--out FOLDER] [--quick]

The model is a Marian with 6 + 6 layers, width 512, 8 heads, 32,000 tokens and random weights, because a random model
never ends a text early and every runtime generates the same amount: 48 tokens for each of 16 sources of 8 to 32 tokens,
one at a time and batched, greedy and with a beam of 4. Every contender runs in its own process, all take turns within a
round, and ratios are medians over rounds. CTranslate2 takes part if it is installed; it and clearhead are also measured
in int8, with all threads and with one. Each round is stored as a file in FOLDER (default: benchmarks/out/translate),
and the same command resumes an interrupted benchmark. Outputs are compared with the float reference: the share of equal
tokens.
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

from translate_contenders import CONTENDERS

from clearhead.deploy.process import WorkerProcess
from clearhead.errors import ClearheadError

HERE = Path(__file__).resolve().parent
TIMEOUT = 1800.0
VOCABULARY, EOS_ID, TOKENS, SOURCES = 32_000, 0, 48, 16
KINDS = [(1, 1), (1, 4), (16, 1), (16, 4)]  # batch size, beam
REFERENCE = "transformers"


def make_model(out: Path, *, quick: bool) -> Path:
    """Create a model folder with random weights by `transformers`."""
    folder = out / ("marian-quick" if quick else "marian")
    if not (folder / "config.json").exists():
        import torch
        from transformers import MarianConfig, MarianMTModel

        torch.manual_seed(0)
        layers = {"encoder_layers": 2, "decoder_layers": 2} if quick else {"encoder_layers": 6, "decoder_layers": 6}
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
            eos_token_id=EOS_ID,
            forced_eos_token_id=None,
            init_std=0.05,
            **layers,
        )
        MarianMTModel(config).save_pretrained(folder)
    return folder


def make_sources() -> list[list[int]]:
    """Make random token ids of mixed length."""
    rng = random.Random(0)
    return [[rng.randrange(2, VOCABULARY - 1) for _ in range(rng.randint(7, 31))] + [EOS_ID] for _ in range(SOURCES)]


def list_contenders(threads: int) -> dict[str, tuple[str, int]]:
    """List contenders with their threads by title; those in int8 also with one thread."""
    contenders = {}
    for name, (title, _) in CONTENDERS.items():
        if name.startswith("ctranslate2") and find_spec("ctranslate2") is None:
            print("CTranslate2 is not installed; left out", file=sys.stderr)
            continue
        for thread_count in sorted({threads, 1} if name.endswith("int8") else {threads}):
            contenders[f"{title}, {thread_count} thread{'s' if thread_count > 1 else ''}"] = (name, thread_count)
    return contenders


def measure_rounds(folder: Path, out: Path, *, threads: int, rounds: int, tokens: int) -> list[dict[str, Any]]:
    """Measure the missing rounds, in each of which every contender runs every kind of decoding in turn."""
    texts, contenders = make_sources(), list_contenders(threads)
    paths = [out / f"round-{threads}-{round_index}.json" for round_index in range(rounds)]
    if not all(path.exists() for path in paths):
        with ExitStack() as stack:
            processes = {}
            for title, (name, count) in contenders.items():
                command = [sys.executable, str(HERE / "translate_contenders.py"), str(folder), name, str(count)]
                processes[title] = stack.enter_context(WorkerProcess(title, command))
                processes[title].read_answer(TIMEOUT)
                for _, beam in KINDS[:2]:  # warm up
                    processes[title].request({"batches": [texts[:2]], "beam": beam, "tokens": 4}, TIMEOUT)
            for round_index, path in enumerate(paths):
                if path.exists():
                    continue
                results: dict[str, Any] = {title: {} for title in contenders}
                for size, beam in KINDS:
                    batch_texts = texts if size > 1 else texts[round_index % 4 :: 4]
                    batches = [batch_texts[first : first + size] for first in range(0, len(batch_texts), size)]
                    for title, process in processes.items():
                        request = {"batches": batches, "beam": beam, "tokens": tokens}
                        results[title][f"{size}x{beam}"] = process.request(request, TIMEOUT)
                path.write_text(json.dumps(results), encoding="utf-8")
                print(f"round {round_index + 1} of {rounds}", file=sys.stderr, flush=True)
    return [json.loads(path.read_text(encoding="utf-8")) for path in paths]


def make_table(rounds: list[dict[str, Any]]) -> str:
    """Format median tokens per second and median ratios to the reference of the same round."""
    titles = list(rounds[0])
    reference = next(title for title in titles if title.startswith(REFERENCE))
    lines = ["| tokens per second (ratio) | " + " | ".join(_kind_title(*kind) for kind in KINDS) + " | equal tokens |"]
    lines.append("| --- |" + " ---: |" * (len(KINDS) + 1))
    for title in titles:
        cells = []
        for size, beam in KINDS:
            key = f"{size}x{beam}"
            speeds = [_tokens_per_second(round_results[title][key]) for round_results in rounds]
            ratios = [
                _tokens_per_second(round_results[title][key]) / _tokens_per_second(round_results[reference][key])
                for round_results in rounds
            ]
            cells.append(f"{median(speeds):,.0f} ({median(ratios):.2f} x)")
        equal = [
            _equal_share(round_results[title]["16x4"]["made"], round_results[reference]["16x4"]["made"])
            for round_results in rounds
        ]
        lines.append(f"| {title} | {' | '.join(cells)} | {100 * median(equal):.0f} % |")
    return "\n".join(lines)


def _kind_title(size: int, beam: int) -> str:
    return f"{'one text' if size == 1 else f'{size} texts'}, {'greedy' if beam == 1 else f'beam {beam}'}"


def _tokens_per_second(record: dict[str, Any]) -> float:
    return float(sum(len(row) for row in record["made"]) / record["seconds"])


def _equal_share(written: list[list[int]], reference: list[list[int]]) -> float:
    pairs = [
        pair
        for row, reference_row in zip(written, reference, strict=True)
        for pair in zip(row, reference_row, strict=False)
    ]
    return sum(a == b for a, b in pairs) / len(pairs)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--out", type=Path, default=HERE / "out" / "translate")
    parser.add_argument("--quick", action="store_true", help="smoke test: two layers, few tokens, one round")
    arguments = parser.parse_args()
    out = arguments.out.resolve() / ("quick" if arguments.quick else "whole")
    out.mkdir(parents=True, exist_ok=True)
    try:
        rounds = measure_rounds(
            make_model(arguments.out.resolve(), quick=arguments.quick),
            out,
            threads=arguments.threads,
            rounds=1 if arguments.quick else max(arguments.rounds, 5),
            tokens=8 if arguments.quick else TOKENS,
        )
    except ClearheadError as error:
        raise SystemExit(f"{error} Run the same command again to resume.") from None
    print(make_table(rounds), flush=True)


if __name__ == "__main__":
    main()
