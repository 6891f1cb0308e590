"""The commands that `fuzz/crash.py` kills, as small as possible, and the models and rows they read."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from fuzz.warm_up import warm_up
from tests.aspect_rows import make_reviews
from tests.parallel_rows import CONFIGS, make_parallel_rows, write_tsv
from tests.planted import write_planted_text
from tests.tiny_models import make_sentiment_rows, tiny_gpt, tiny_model, write_csv
from tests.words.planted import make_topic_sentences

LIBRARIES = ("onnxruntime", "sklearn.linear_model", "scipy.optimize", "tokenizers")
TINY_CONFIG = '{"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 48}'
PRETRAIN = (
    "--preset",
    "tiny",
    "--set",
    f"config={TINY_CONFIG}",
    "--vocab-size",
    "200",
    "--max-length",
    "32",
    "--max-steps",
    "3",
    "--batch-tokens",
    "512",
    "--threads",
    "1",
    "--set",
    "evaluations=2",
    "--set",
    "save_every=0",
)
TRANSLATE = (
    "--task",
    "translate",
    "--family",
    "transformer",
    "--preset",
    "tiny",
    "--set",
    f"config={CONFIGS['transformer']}",
    "--set",
    "vocab_size=80",
    "--threads",
    "1",
)
SHORT_TRAINING = ("--epochs", "2", "--set", "batch_size=16", "--set", "save_every=0", "--threads", "1")


@dataclass(frozen=True)
class CommandCase:
    """One command line, or a Python function to run in its place."""

    name: str
    arguments: list[str]
    job: Callable[[], object] | None = None


def prepare_fork() -> None:
    """Import shared modules once, and use one thread, because thread pools do not survive a fork."""
    import torch

    torch.set_num_threads(1)
    warm_up(LIBRARIES)


def make_assets(folder: Path) -> None:
    """Write the models and rows, in a child process so that this one stays single-threaded."""
    folder.mkdir(parents=True)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            _write_assets(folder)
            code = 0
        finally:
            sys.stdout.flush()
            os._exit(code)
    if os.waitpid(child, 0)[1]:
        raise SystemExit("the models for the commands could not be created")


def _write_assets(folder: Path) -> None:
    from clearhead.cli import main

    tiny_model(folder / "bert")
    tiny_gpt(folder / "gpt")
    rows = write_csv(folder / "rows.csv", make_sentiment_rows(60))
    write_csv(folder / "many.csv", make_sentiment_rows(2500))
    (folder / "reviews.jsonl").write_text("".join(json.dumps(row) + "\n" for row in make_reviews(60)))
    (folder / "words.txt").write_text("".join(" ".join(line) + ".\n" for line in make_topic_sentences(200)))
    write_planted_text(folder / "text.txt", 60, 4)
    pairs = write_tsv(folder / "pairs.tsv", make_parallel_rows(60))
    (folder / "german.txt").write_text("".join(row["de"] + "\n" for row in make_parallel_rows(40, seed=2)))
    (folder / "prompts.txt").write_text("the film was\nwe saw\n\nthe music\n")
    model = str(folder / "bert" / "model")
    main(["train", str(rows), "--model", model, "-o", str(folder / "tuned"), "--quiet", *SHORT_TRAINING])
    main(["train", str(rows), "--method", "tfidf", "-o", str(folder / "counted"), "--quiet"])
    main(["train", str(pairs), *TRANSLATE, "--epochs", "2", "-o", str(folder / "translator"), "--quiet"])
    _write_pickle(folder / "bert" / "model", folder / "pickled")


def _write_pickle(source: Path, target: Path) -> None:
    """Copy a model, with its weights in a pickle."""
    import shutil

    import torch
    from safetensors.torch import load_file

    shutil.copytree(source, target)
    torch.save(load_file(target / "model.safetensors"), target / "pytorch_model.bin")
    (target / "model.safetensors").unlink()


def _case(name: str, *words: str) -> tuple[str, Callable[[Path], CommandCase]]:
    """A command in which @NAME stands for the path of an asset."""
    return name, lambda assets: CommandCase(
        name, [str(assets / word[1:]) if word.startswith("@") else word for word in words]
    )


TRAIN = ("--model", "@bert/model", "-o", "run")
CASES: dict[str, Callable[[Path], CommandCase]] = dict(
    (
        _case("convert", "convert", "@bert/model", "out"),
        _case("convert-pickle", "convert", "@pickled", "out", "--allow-pickle"),
        _case("export", "export", "@bert/model", "out"),
        _case("quantize", "quantize", "@bert/model", "@prompts.txt", "-o", "out", "--min-cosine", "0.5"),
        _case("learn-tokenizer", "learn-tokenizer", "@text.txt", "-o", "out", "--vocab-size", "300"),
        _case("word2vec", "word2vec", "@words.txt", "-o", "out", "--width", "8", "--epochs", "2"),
        _case("word2vec-file", "word2vec", "@words.txt", "-o", "out.bin", "--width", "8", "--epochs", "2"),
        _case("majority", "train", "@rows.csv", "--method", "majority", "-o", "run"),
        _case("tfidf", "train", "@rows.csv", "--method", "tfidf", "-o", "run"),
        _case("unnamed", "train", "@rows.csv", "--method", "tfidf"),
        _case("features", "train", "@rows.csv", "--method", "features", *TRAIN),
        _case("sweep", "train", "@rows.csv", "--method", "features", "--layers", "sweep", *TRAIN),
        _case("weighted", "train", "@rows.csv", "--method", "features", "--set", "layer=weighted", *TRAIN),
        _case("head", "train", "@rows.csv", "--method", "head", *TRAIN, *SHORT_TRAINING),
        _case("finetune", "train", "@rows.csv", *TRAIN, *SHORT_TRAINING),
        _case("seeds", "train", "@rows.csv", *TRAIN, *SHORT_TRAINING, "--seeds", "2"),
        _case("aspects", "train", "@reviews.jsonl", "--task", "aspect", *TRAIN, *SHORT_TRAINING),
        _case(
            "train-translator",
            "train",
            "@pairs.tsv",
            *TRANSLATE,
            "--set",
            "average_epochs=2",
            "--set",
            "save_every=0",
            "--epochs",
            "2",
            "-o",
            "run",
        ),
        _case("pretrain", "pretrain", "@text.txt", "-o", "run", *PRETRAIN),
        _case(
            "ladder",
            "ladder",
            "@rows.csv",
            "--model",
            "@bert/model",
            "-o",
            "run",
            "--set",
            "epochs=2",
            "--set",
            "save_every=0",
            "--set",
            "threads=1",
        ),
        _case("predict", "predict", "@tuned", "@many.csv", "-o", "answers.csv"),
        _case("evaluate", "evaluate", "@counted", "@rows.csv", "--part", "test", "--report", "page/report.html"),
        _case("embed", "embed", "@bert/model", "@prompts.txt", "-o", "vectors.npy"),
        _case("embed-lines", "embed", "@bert/model", "@prompts.txt", "-o", "vectors.jsonl"),
        _case("embed-gzip", "embed", "@bert/model", "@prompts.txt", "-o", "vectors.jsonl.gz"),
        _case("translate", "translate", "@translator", "@german.txt", "-o", "english.txt", "--max-length", "8"),
        _case(
            "translate-json",
            "translate",
            "@translator",
            "@german.txt",
            "-o",
            "english.jsonl",
            "--max-length",
            "8",
            "--json",
        ),
        _case("generate", "generate", "@gpt/model", "@prompts.txt", "-o", "texts.txt", "--max-length", "5"),
        _case("explain", "explain", "@bert/model", "the film was good", "-o", "picture.svg"),
        _case("explain-page", "explain", "@bert/model", "the film was good", "-o", "page.html"),
    )
)
