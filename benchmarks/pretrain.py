"""Pre-training compared with a plain `transformers` loop: tokens per second, and held-out loss at equal tokens.

    python benchmarks/pretrain.py [--model gpt2] [--rounds 5] [--loss-steps 600] [--threads 2] [--out FOLDER]

`bert` (4 layers, width 256, 30,522 tokens) is trained as a masked language model on corpus_novels and
corpus_imdb_unsup; `gpt2` (4 layers, width 256, 8,000 tokens, about five million parameters) as a causal language model
on corpus_novels. The peer follows run_mlm.py and run_clm.py: texts concatenated and cut to 128 tokens, masked by its
collator, dropout 0.1, the output matrix at every token, AdamW of torch (with `fused`, as in the Trainer, in a separate
line). Rounds are interleaved; the ratio is the median over rounds. For the loss, both train the same number of steps of
4,096 tokens with the same learning rate, and both are scored on the same masked tokens of corpus_novels/valid; there
the peer applies the output matrix to masked tokens only, which changes its time but no number. CLEARHEAD_DATA is the
folder of datasets.
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
MAX_LENGTH, BATCH_ROWS, LEARNING_RATE = 128, 32, 1e-3
SHAPES = {
    "bert": {"hidden_size": 256, "num_hidden_layers": 4, "num_attention_heads": 4, "intermediate_size": 1024},
    "gpt2": {"n_embd": 256, "n_layer": 4, "n_head": 4, "n_positions": 512},
}
OBJECTIVE = {"bert": "mlm", "gpt2": "clm"}
HEAD = {"bert": "masked", "gpt2": "causal"}
TEXTS = {"bert": ("corpus_novels", "corpus_imdb_unsup"), "gpt2": ("corpus_novels",)}


def data_folder() -> Path:
    """Return the folder of datasets."""
    folder = Path(os.environ.get("CLEARHEAD_DATA") or HERE.parents[1] / "shared" / "data")
    if not (folder / "corpus_novels").is_dir():
        raise SystemExit(f"{folder} contains no corpus_novels; set CLEARHEAD_DATA to the folder that contains it.")
    return folder


class ClearheadLoop:
    """The loop of `clearhead pretrain`."""

    def __init__(self, kind: str, out: Path, steps: int, tokenizer: Any) -> None:
        from clearhead.jobs.events import RunEvents
        from clearhead.model.loading import create
        from clearhead.pretrain.data import BatchSampler, read_texts
        from clearhead.pretrain.plan import make_pretrain_plan
        from clearhead.pretraining.registry import OBJECTIVES
        from clearhead.pretraining.vocab_info import read_vocab_info
        from clearhead.training.dropout import set_dropout
        from clearhead.training.pretrain_loop import init_new_network, make_pretrain_optimizer, pretrain_steps
        from clearhead.training.state import TrainingProgress, TrainingState

        folder = data_folder()
        files = [str(folder / name / "train.txt.gz") for name in TEXTS[kind]]
        valid = str(folder / "corpus_novels" / "valid.txt.gz")
        plan = make_pretrain_plan(
            {
                "files": files,
                "dev": [valid],
                "preset": "mini",
                "learning_rate": LEARNING_RATE,
                "batch_size": BATCH_ROWS,
                "max_length": MAX_LENGTH,
            }
        )
        self.texts = read_texts(plan, tokenizer, out, RunEvents())
        self.sampler = BatchSampler(
            subset=self.texts.train,
            objective=OBJECTIVES[OBJECTIVE[kind]],
            vocab=read_vocab_info(tokenizer),
            max_length=MAX_LENGTH,
            seed=0,
            folder=out,
            batch_size=BATCH_ROWS,
        )
        self.model = create(kind, config=SHAPES[kind], head=HEAD[kind], tokenizer=tokenizer, seed=0)
        self.counts = self._count_tokens()
        set_dropout(self.model.module, 0.0)
        init_new_network(self.model.module, self.counts.probs)
        state = TrainingState(
            self.model.module, make_pretrain_optimizer(self.model.module, plan.settings), TrainingProgress()
        )
        self.steps = pretrain_steps(
            state, self.sampler, ("words",), plan.settings, steps=steps, steps_per_epoch=self.sampler.steps_per_epoch
        )

    def _count_tokens(self) -> Any:
        from clearhead.pretraining import baselines

        return baselines.count_tokens(self.texts.train, self.sampler.vocab.size)

    def step(self) -> int:
        """One step; its tokens."""
        return next(self.steps).tokens

    def score_held_out(self, network: Any) -> Any:
        """Score any network on the same held-out batches."""
        from clearhead.pretrain.data import make_held_out_batches
        from clearhead.pretrain.held_out import score_held_out

        batches = make_held_out_batches(self.sampler, self.texts.held_out, 200_000)
        return score_held_out(network, batches, self.counts, self.sampler.vocab.is_special, step=0, device="cpu")


class PeerLoop:
    """A plain loop with `transformers`: shuffled blocks of 128 tokens, its collator and loss."""

    def __init__(
        self,
        kind: str,
        corpus: Any,
        tokenizer_folder: Path,
        steps: int,
        *,
        fused: bool,
        full_output: bool = True,
        seed: int = 0,
    ) -> None:
        import numpy as np
        import torch
        import transformers
        from transformers import DataCollatorForLanguageModeling, get_linear_schedule_with_warmup

        torch.manual_seed(seed)
        self.tokenizer = transformers.AutoTokenizer.from_pretrained(tokenizer_folder)
        is_masked = kind == "bert"
        self.full_output = full_output or not is_masked  # the output matrix at every token
        config, model = ("BertConfig", "BertForMaskedLM") if is_masked else ("GPT2Config", "GPT2LMHeadModel")
        settings = getattr(transformers, config)(vocab_size=len(self.tokenizer), **SHAPES[kind])
        self.model = getattr(transformers, model)(settings).train()
        weights = self.model.parameters()
        self.optimizer = torch.optim.AdamW(weights, lr=LEARNING_RATE, betas=(0.9, 0.98), weight_decay=0.01, fused=fused)
        self.schedule = get_linear_schedule_with_warmup(self.optimizer, int(0.06 * steps), steps)
        self.collate = DataCollatorForLanguageModeling(self.tokenizer, mlm=is_masked, mlm_probability=0.15)
        self.special_tokens = ([self.tokenizer.cls_token_id], [self.tokenizer.sep_token_id]) if is_masked else ([], [])
        if self.tokenizer.pad_token is None:  # required by its collator; no row is padded here
            self.tokenizer.pad_token = self.tokenizer.eos_token
        token_ids = np.concatenate(list(corpus.chunks()))
        block_size = MAX_LENGTH - 2 if is_masked else MAX_LENGTH
        blocks = token_ids[: len(token_ids) // block_size * block_size].reshape(-1, block_size)
        order = np.random.default_rng(seed).permutation(len(blocks))
        self.blocks, self.position = blocks[order], 0

    def step(self) -> int:
        """One step; its tokens."""
        import torch

        blocks = self.blocks[self.position : self.position + BATCH_ROWS]
        self.position += BATCH_ROWS
        prefix, suffix = self.special_tokens
        batch = self.collate([{"input_ids": [*prefix, *row.tolist(), *suffix]} for row in blocks])
        loss = self.model(**batch).loss if self.full_output else self._loss(batch)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.schedule.step()
        self.optimizer.zero_grad(set_to_none=True)
        return int(batch["input_ids"].numel())

    def _loss(self, batch: Any) -> Any:
        """Compute the same loss with the output matrix at masked tokens only."""
        import torch

        labels = batch.pop("labels")
        hidden = self.model.bert(**batch).last_hidden_state
        is_masked = labels != -100
        return torch.nn.functional.cross_entropy(self.model.cls(hidden[is_masked]), labels[is_masked])


def measure_speeds(ours: ClearheadLoop, peers: dict[str, PeerLoop], rounds: int, steps: int) -> dict[str, list[float]]:
    """Measure the tokens per second of all loops, round by round."""
    speeds: dict[str, list[float]] = {}
    loops: dict[str, Any] = {"clearhead": ours, **peers}
    for loop in loops.values():
        loop.step()
    for round_index in range(rounds):
        for name, loop in loops.items():
            start = time.perf_counter()
            tokens = sum(loop.step() for _ in range(steps))
            speeds.setdefault(name, []).append(tokens / (time.perf_counter() - start))
        latest = ", ".join(f"{name} {values[-1]:,.0f}" for name, values in speeds.items())
        print(f"round {round_index + 1}: tokens per second: {latest}", flush=True)
    return speeds


def main() -> None:
    """Measure speed and loss, and print the tables."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", choices=tuple(SHAPES), default="bert")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--loss-steps", type=int, default=0)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--out", type=Path, default=HERE / "out" / "pretrain")
    arguments = parser.parse_args()
    import torch

    torch.set_num_threads(arguments.threads)
    out = arguments.out / arguments.model
    out.mkdir(parents=True, exist_ok=True)
    tokenizer = make_tokenizer(arguments.model, out)
    max_steps = max(arguments.loss_steps, arguments.rounds * arguments.steps + 1)
    ours = ClearheadLoop(arguments.model, out, max_steps, tokenizer)
    corpus = ours.texts.train.corpus
    print(f"{ours.model.parameters:,} parameters", flush=True)
    if arguments.rounds:
        peers = {
            name: PeerLoop(arguments.model, corpus, out / "tokenizer", max_steps, fused=fused)
            for name, fused in (("transformers", False), ("transformers, fused", True))
        }
        throughput = measure_speeds(ours, peers, arguments.rounds, arguments.steps)
        (out / "speed.json").write_text(json.dumps(throughput), encoding="utf-8")
        print("\n| loop | tokens per second | ratio |\n| --- | ---: | ---: |")
        for name, values in throughput.items():
            ratios = [a / b for a, b in zip(throughput["clearhead"], values, strict=True)]
            print(f"| {name} | {median(values):,.0f} | {median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f}) |")
    if arguments.loss_steps:
        compare_losses(arguments.model, out, arguments.loss_steps, tokenizer, corpus)


def make_tokenizer(kind: str, out: Path) -> Any:
    """Make the tokenizer of both: the 30,522 tokens of BERT, or 8,000 learned from the novels."""
    from clearhead.jobs.learn_tokenizer import learn_tokenizer
    from clearhead.model.loading import load_tokenizers

    folder = out / "tokenizer"
    if not folder.exists() and kind == "bert":
        load_tokenizers("default")[0].save(folder)
    elif not folder.exists():
        learn_tokenizer(data_folder() / "corpus_novels" / "train.txt.gz", folder, use="gpt", vocab_size=8000)
    return load_tokenizers(folder)[0]


def compare_losses(kind: str, out: Path, steps: int, tokenizer: Any, corpus: Any) -> None:
    """Train both on the same number of tokens, and compare the held-out loss."""
    import clearhead

    ours = ClearheadLoop(kind, out, steps, tokenizer)
    peer = PeerLoop(kind, corpus, out / "tokenizer", steps, fused=True, full_output=False)
    token_counts = {"clearhead": 0, "transformers": 0}
    for step_index in range(steps):
        token_counts["clearhead"] += ours.step()
        token_counts["transformers"] += peer.step()
        if (step_index + 1) % 50 == 0:
            print(f"step {step_index + 1} of {steps}", flush=True)
    peer.model.save_pretrained(out / "peer")
    tokenizer.save(out / "peer")
    peer_model = clearhead.load(out / "peer", "core")
    print("\n| learner | tokens | held-out loss | 95 % interval | words right |\n| --- | ---: | ---: | ---: | ---: |")
    for name, network in (("clearhead", ours.model.module), ("transformers", peer_model.module)):
        scores = ours.score_held_out(network)
        interval = f"{scores.loss_low:.3f} to {scores.loss_high:.3f}"
        print(f"| {name} | {token_counts[name]:,} | {scores.loss:.3f} | {interval} | {scores.accuracy:.1%} |")
    print(f"\nunigram {scores.unigram.loss:.3f}, bigram {scores.bigram.loss:.3f}")


if __name__ == "__main__":
    main()
