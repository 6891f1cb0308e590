"""Pre-training beside a plain `transformers` loop: tokens per second, and the held-out loss at equal tokens.

    python benchmarks/pretrain.py [--model gpt2] [--rounds 5] [--loss-steps 600] [--threads 2] [--out FOLDER]

`bert` has 4 layers, width 256 and 30,522 words, and learns masked words from corpus_novels and corpus_imdb_unsup;
`gpt2` has about five million parameters (4 layers, width 256, 8,000 words) and learns next words from corpus_novels.
The peer is what run_mlm.py and run_clm.py do: texts concatenated and cut to 128 tokens, masked by its collator,
dropout 0.1, the output matrix at every token, AdamW of torch (with `fused`, as the Trainer has it, in a column of its
own). Rounds are interleaved; the ratio is the median of rounds. For the loss both learn the same number of steps of
4,096 tokens with the same rate, and both are judged by the same questions on corpus_novels/valid; there the peer's
output matrix runs at masked tokens alone, which changes its time and no number. CLEARHEAD_DATA is the folder of data
sets.
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
LENGTH, ROWS, RATE = 128, 32, 1e-3
SHAPES = {
    "bert": {"hidden_size": 256, "num_hidden_layers": 4, "num_attention_heads": 4, "intermediate_size": 1024},
    "gpt2": {"n_embd": 256, "n_layer": 4, "n_head": 4, "n_positions": 512},
}
OBJECTIVE = {"bert": "mlm", "gpt2": "clm"}
HEAD = {"bert": "masked", "gpt2": "causal"}
TEXTS = {"bert": ("corpus_novels", "corpus_imdb_unsup"), "gpt2": ("corpus_novels",)}


def data() -> Path:
    """The folder of data sets."""
    place = Path(os.environ.get("CLEARHEAD_DATA") or HERE.parents[1] / "shared" / "data")
    if not (place / "corpus_novels").is_dir():
        raise SystemExit(f"{place} holds no corpus_novels; set CLEARHEAD_DATA to the folder that holds it.")
    return place


class Ours:
    """Clearhead's own loop, as `clearhead pretrain` runs it."""

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

        place = data()
        files = [str(place / name / "train.txt.gz") for name in TEXTS[kind]]
        valid = str(place / "corpus_novels" / "valid.txt.gz")
        plan = make_pretrain_plan(
            {
                "files": files,
                "dev": [valid],
                "preset": "mini",
                "learning_rate": RATE,
                "batch_size": ROWS,
                "max_length": LENGTH,
            }
        )
        self.texts = read_texts(plan, tokenizer, out, RunEvents())
        self.teacher = BatchSampler(
            subset=self.texts.train,
            objective=OBJECTIVES[OBJECTIVE[kind]],
            vocab=read_vocab_info(tokenizer),
            max_length=LENGTH,
            seed=0,
            folder=out,
            batch_size=ROWS,
        )
        self.model = create(kind, config=SHAPES[kind], head=HEAD[kind], tokenizer=tokenizer, seed=0)
        self.counts = self._counts()
        set_dropout(self.model.module, 0.0)
        init_new_network(self.model.module, self.counts.probs)
        state = TrainingState(
            self.model.module, make_pretrain_optimizer(self.model.module, plan.settings), TrainingProgress()
        )
        self.steps = pretrain_steps(
            state, self.teacher, ("words",), plan.settings, steps=steps, steps_per_epoch=self.teacher.steps_per_epoch
        )

    def _counts(self) -> Any:
        from clearhead.pretraining import baselines

        return baselines.count_tokens(self.texts.train, self.teacher.vocab.size)

    def step(self) -> int:
        """One step; its tokens."""
        return next(self.steps).tokens

    def judge(self, network: Any) -> Any:
        """The same questions for everybody."""
        from clearhead.pretrain.data import make_held_out_batches
        from clearhead.pretrain.held_out import score_held_out

        lessons = make_held_out_batches(self.teacher, self.texts.held_out, 200_000)
        return score_held_out(network, lessons, self.counts, self.teacher.vocab.is_special, step=0, device="cpu")


class Peer:
    """A plain loop with `transformers`: shuffled blocks of 128 tokens, its collator, its loss."""

    def __init__(
        self, kind: str, corpus: Any, place: Path, steps: int, *, fused: bool, whole: bool = True, seed: int = 0
    ) -> None:
        import numpy as np
        import torch
        import transformers
        from transformers import DataCollatorForLanguageModeling, get_linear_schedule_with_warmup

        torch.manual_seed(seed)
        self.tokenizer = transformers.AutoTokenizer.from_pretrained(place)
        masked = kind == "bert"
        self.whole = whole or not masked  # the output matrix at every token
        config, model = ("BertConfig", "BertForMaskedLM") if masked else ("GPT2Config", "GPT2LMHeadModel")
        settings = getattr(transformers, config)(vocab_size=len(self.tokenizer), **SHAPES[kind])
        self.model = getattr(transformers, model)(settings).train()
        weights = self.model.parameters()
        self.adam = torch.optim.AdamW(weights, lr=RATE, betas=(0.9, 0.98), weight_decay=0.01, fused=fused)
        self.mask_rate = get_linear_schedule_with_warmup(self.adam, int(0.06 * steps), steps)
        self.collate = DataCollatorForLanguageModeling(self.tokenizer, mlm=masked, mlm_probability=0.15)
        self.ends = ([self.tokenizer.cls_token_id], [self.tokenizer.sep_token_id]) if masked else ([], [])
        if self.tokenizer.pad_token is None:  # its collator wants one; no row here is ever padded
            self.tokenizer.pad_token = self.tokenizer.eos_token
        ids = np.concatenate(list(corpus.chunks()))
        room = LENGTH - 2 if masked else LENGTH
        blocks = ids[: len(ids) // room * room].reshape(-1, room)
        order = np.random.default_rng(seed).permutation(len(blocks))
        self.blocks, self.place = blocks[order], 0

    def step(self) -> int:
        """One step; its tokens."""
        import torch

        some = self.blocks[self.place : self.place + ROWS]
        self.place += ROWS
        first, last = self.ends
        batch = self.collate([{"input_ids": [*first, *row.tolist(), *last]} for row in some])
        loss = self.model(**batch).loss if self.whole else self._loss(batch)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.adam.step()
        self.mask_rate.step()
        self.adam.zero_grad(set_to_none=True)
        return int(batch["input_ids"].numel())

    def _loss(self, batch: Any) -> Any:
        """The same loss and gradients, with the output matrix at masked tokens alone: no other is in the loss."""
        import torch

        labels = batch.pop("labels")
        hidden = self.model.bert(**batch).last_hidden_state
        asked = labels != -100
        return torch.nn.functional.cross_entropy(self.model.cls(hidden[asked]), labels[asked])


def speeds(ours: Ours, peers: dict[str, Peer], rounds: int, steps: int) -> dict[str, list[float]]:
    """Tokens per second of everybody, round by round."""
    made: dict[str, list[float]] = {}
    everybody: dict[str, Any] = {"clearhead": ours, **peers}
    for one in everybody.values():
        one.step()
    for number in range(rounds):
        for name, one in everybody.items():
            begun = time.perf_counter()
            tokens = sum(one.step() for _ in range(steps))
            made.setdefault(name, []).append(tokens / (time.perf_counter() - begun))
        told = ", ".join(f"{name} {values[-1]:,.0f}" for name, values in made.items())
        print(f"round {number + 1}: tokens per second: {told}", flush=True)
    return made


def main() -> None:
    """Measure what was asked for, and print the tables."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", choices=tuple(SHAPES), default="bert")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--loss-steps", type=int, default=0)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--out", type=Path, default=HERE / "out" / "pretrain")
    given = parser.parse_args()
    import torch

    torch.set_num_threads(given.threads)
    out = given.out / given.model
    out.mkdir(parents=True, exist_ok=True)
    tokenizer = words(given.model, out)
    most = max(given.loss_steps, given.rounds * given.steps + 1)
    ours = Ours(given.model, out, most, tokenizer)
    corpus = ours.texts.train.corpus
    print(f"{ours.model.parameters:,} parameters", flush=True)
    if given.rounds:
        peers = {
            name: Peer(given.model, corpus, out / "tokenizer", most, fused=fused)
            for name, fused in (("transformers", False), ("transformers, fused", True))
        }
        made = speeds(ours, peers, given.rounds, given.steps)
        (out / "speed.json").write_text(json.dumps(made), encoding="utf-8")
        print("\n| loop | tokens per second | ratio |\n| --- | ---: | ---: |")
        for name, values in made.items():
            ratios = [a / b for a, b in zip(made["clearhead"], values, strict=True)]
            print(f"| {name} | {median(values):,.0f} | {median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f}) |")
    if given.loss_steps:
        losses(given.model, out, given.loss_steps, tokenizer, corpus)


def words(kind: str, out: Path) -> Any:
    """The tokenizer of both: BERT's own 30,522 words, or 8,000 that are learned from the novels."""
    from clearhead.jobs.learn_tokenizer import learn_tokenizer
    from clearhead.model.loading import load_tokenizers

    place = out / "tokenizer"
    if not place.exists() and kind == "bert":
        load_tokenizers("default")[0].save(place)
    elif not place.exists():
        learn_tokenizer(data() / "corpus_novels" / "train.txt.gz", place, use="gpt", vocab_size=8000)
    return load_tokenizers(place)[0]


def losses(kind: str, out: Path, steps: int, tokenizer: Any, corpus: Any) -> None:
    """Both learn as many tokens, and answer the same questions."""
    import clearhead

    ours = Ours(kind, out, steps, tokenizer)
    peer = Peer(kind, corpus, out / "tokenizer", steps, fused=True, whole=False)
    seen = {"clearhead": 0, "transformers": 0}
    for number in range(steps):
        seen["clearhead"] += ours.step()
        seen["transformers"] += peer.step()
        if (number + 1) % 50 == 0:
            print(f"step {number + 1} of {steps}", flush=True)
    peer.model.save_pretrained(out / "peer")
    tokenizer.save(out / "peer")
    other = clearhead.load(out / "peer", "core")
    print("\n| learner | tokens | held-out loss | 95 % interval | words right |\n| --- | ---: | ---: | ---: | ---: |")
    for name, network in (("clearhead", ours.model.module), ("transformers", other.module)):
        one = ours.judge(network)
        between = f"{one.loss_low:.3f} to {one.loss_high:.3f}"
        print(f"| {name} | {seen[name]:,} | {one.loss:.3f} | {between} | {one.accuracy:.1%} |")
    print(f"\nunigram {one.unigram.loss:.3f}, bigram {one.bigram.loss:.3f}")


if __name__ == "__main__":
    main()
