"""Tiny models with a small vocabulary, and rows with a simple rule that they learn in a second."""

from __future__ import annotations

import csv
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import clearhead
from clearhead.checkpoint.sentence import MODULES_FILE
from clearhead.model import Model
from clearhead.shape import Pooling
from clearhead.text import load_tokenizer

POSITIVE_WORDS = ("good", "fine", "great", "nice")
NEGATIVE_WORDS = ("bad", "poor", "awful", "sad")
NEUTRAL_WORDS = (
    "the",
    "a",
    "film",
    "plot",
    "actor",
    "scene",
    "music",
    "was",
    "and",
    "but",
    "it",
    "we",
    "saw",
    "today",
    "with",
    "some",
    "more",
    "very",
    "of",
    "end",
)
SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


def tiny_model(folder: Path, **changes: Any) -> Path:
    """Save a two-layer BERT with a vocabulary of about thirty words."""
    words = folder / "vocabulary"
    words.mkdir(parents=True)
    (words / "vocab.txt").write_text(
        "\n".join((*SPECIAL_TOKENS, *POSITIVE_WORDS, *NEGATIVE_WORDS, *NEUTRAL_WORDS)) + "\n"
    )
    tokenizer = load_tokenizer(words, "bert", {"model_type": "bert"}).source
    sizes: dict[str, Any] = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
    sizes |= {"intermediate_size": 48, "max_position_embeddings": 32} | changes
    model: Model = clearhead.create("bert", config=sizes, tokenizer=tokenizer, seed=1)
    return model.save(folder / "model")


def tiny_sentence_encoder(folder: Path, **changes: Any) -> Path:
    """Save the same model as a sentence-transformers folder with mean pooling."""
    model = clearhead.load(tiny_model(folder, **changes), "core")
    pooling = Pooling(normalize=True, max_length=24, origin=MODULES_FILE)
    return replace(model, pooling=pooling).save(folder / "sentences")


def tiny_gpt(folder: Path, family: str = "gpt2", **changes: Any) -> Path:
    """Save a two-layer GPT with a vocabulary of bytes and a few words."""
    learned = clearhead.learn_tokenizer(
        [" ".join(("", *POSITIVE_WORDS, *NEGATIVE_WORDS, *NEUTRAL_WORDS))] * 9, kind="bpe", use="gpt", vocab_size=420
    )
    sizes: dict[str, Any] = {"n_embd": 32, "n_layer": 2, "n_head": 2, "n_positions": 48}
    sizes |= {"bos_token_id": 0, "eos_token_id": 0} | changes
    model: Model = clearhead.create(family, config=sizes, head="causal", tokenizer=learned.tokenizer, seed=1)
    return model.save(folder / "model")


def make_sentence(rng: random.Random, words: Sequence[str], min_words: int = 4, max_words: int = 12) -> str:
    """Make a sentence of neutral words with the given words among them."""
    sentence = [rng.choice(NEUTRAL_WORDS) for _ in range(rng.randint(min_words, max_words))]
    for word in words:
        sentence.insert(rng.randrange(len(sentence) + 1), word)
    return " ".join(sentence)


def make_sentiment_rows(count: int, seed: int = 0, *, min_words: int = 4, max_words: int = 12) -> list[dict[str, Any]]:
    """Make texts with a positive or a negative word among neutral ones, labeled good or bad."""
    rng = random.Random(seed)
    rows = []
    for number in range(count):
        label = rng.choice(("good", "bad"))
        word = rng.choice(POSITIVE_WORDS if label == "good" else NEGATIVE_WORDS)
        rows.append(
            {
                "id": f"r{number}",
                "text": make_sentence(rng, [word], min_words=min_words, max_words=max_words),
                "label": label,
            }
        )
    return rows


def write_csv(path: Path, rows: Sequence[dict[str, Any]]) -> Path:
    """Write rows to a CSV file."""
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path
