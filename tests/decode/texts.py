"""Whole folders with a tokenizer, whose decoders say what a test wants."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import clearhead
from clearhead import Model
from tests.decode.pairs import PLACES
from tests.decode.runners import Array, Words, answered
from tests.family_configs import FIXED_CONFIGS
from tests.parity_models import make_reference
from tests.text import tokenizer_folders

TITLES = {
    "gpt2": "GPT2LMHeadModel",
    "openai-gpt": "OpenAIGPTLMHeadModel",
    "t5": "T5ForConditionalGeneration",
    "marian": "MarianMTModel",
}
VOCAB = 640


@cache
def spoken(family: str, runtime: str = "engine") -> Model:
    """A tiny model with weights of chance and a tokenizer that was learned on the spot."""
    place = Path(PLACES.name) / f"spoken-{family}-{runtime}"
    changes: dict[str, Any] = {"vocab_size": VOCAB, "n_positions": 96} if "gpt" in family else {"vocab_size": VOCAB}
    if family == "marian":
        changes |= {"pad_token_id": VOCAB - 1, "decoder_start_token_id": VOCAB - 1, "max_position_embeddings": 512}
    if family == "t5":
        changes |= {"decoder_start_token_id": 0}
    make_reference(TITLES[family], FIXED_CONFIGS[family] | changes).save_pretrained(place)
    config = (place / "config.json").read_text()
    getattr(tokenizer_folders, f"write_{family.replace('-', '_')}")(place)
    (place / "config.json").write_text(config)
    if family == "marian":  # the last word of the vocabulary is padding
        words = json.loads((place / "vocab.json").read_text())
        words["<pad>"] = VOCAB - 1
        (place / "vocab.json").write_text(json.dumps(words))
    return clearhead.load(place, runtime)


class Script:
    """A decoder that says these words whatever it is fed."""

    def __init__(self, shape: Any, words: list[int], prompt: int) -> None:
        self.shape, self.words, self.prompt, self.steps = shape, words, prompt, 0

    def start(self, batch: Any) -> Words:
        return Words(np.zeros((len(batch.ids), 0), np.int64), batch)

    def step(
        self, state: Words, ids: Any, mask: Any = None, *, log: bool = False, last: bool = False
    ) -> tuple[Array, Words]:
        self.steps += 1
        said = np.concatenate([state.said, ids], 1)
        logits = np.zeros((len(ids), ids.shape[1], self.shape.top.vocab_size), np.float32)
        logits[:, -1, self.words[min(said.shape[1] - self.prompt, len(self.words) - 1)]] = 9.0
        return answered(logits, log=log, last=last), Words(said, state.source)
