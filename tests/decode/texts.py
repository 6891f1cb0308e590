"""Tiny model folders with a tokenizer, and a runner with scripted answers."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import clearhead
from clearhead import Model
from tests.decode.pairs import TEMPORARY_FOLDER
from tests.decode.runners import Array, TokenState, select_logits
from tests.family_configs import FIXED_CONFIGS
from tests.parity_models import make_reference
from tests.text import tokenizer_folders

ARCHITECTURES = {
    "gpt2": "GPT2LMHeadModel",
    "openai-gpt": "OpenAIGPTLMHeadModel",
    "t5": "T5ForConditionalGeneration",
    "marian": "MarianMTModel",
}
VOCAB = 640


@cache
def load_text_model(family: str, runtime: str = "engine") -> Model:
    """Load a tiny model with random weights and a tokenizer."""
    path = Path(TEMPORARY_FOLDER.name) / f"spoken-{family}-{runtime}"
    changes: dict[str, Any] = {"vocab_size": VOCAB, "n_positions": 96} if "gpt" in family else {"vocab_size": VOCAB}
    if family == "marian":
        changes |= {"pad_token_id": VOCAB - 1, "decoder_start_token_id": VOCAB - 1, "max_position_embeddings": 512}
    if family == "t5":
        changes |= {"decoder_start_token_id": 0}
    make_reference(ARCHITECTURES[family], FIXED_CONFIGS[family] | changes).save_pretrained(path)
    config = (path / "config.json").read_text()
    getattr(tokenizer_folders, f"write_{family.replace('-', '_')}")(path)
    (path / "config.json").write_text(config)
    if family == "marian":  # the last token of the vocabulary is padding
        vocabulary = json.loads((path / "vocab.json").read_text())
        vocabulary["<pad>"] = VOCAB - 1
        (path / "vocab.json").write_text(json.dumps(vocabulary))
    return clearhead.load(path, runtime)


class ScriptedRunner:
    """A runner that generates these tokens for any input."""

    def __init__(self, shape: Any, token_ids: list[int], prompt_length: int) -> None:
        self.shape, self.token_ids, self.prompt_length, self.steps = shape, token_ids, prompt_length, 0

    def start(self, batch: Any) -> TokenState:
        return TokenState(np.zeros((len(batch.ids), 0), np.int64), batch)

    def step(
        self, state: TokenState, ids: Any, mask: Any = None, *, log: bool = False, last: bool = False
    ) -> tuple[Array, TokenState]:
        self.steps += 1
        token_ids = np.concatenate([state.ids, ids], 1)
        logits = np.zeros((len(ids), ids.shape[1], self.shape.top.vocab_size), np.float32)
        logits[:, -1, self.token_ids[min(token_ids.shape[1] - self.prompt_length, len(self.token_ids) - 1)]] = 9.0
        return select_logits(logits, log=log, last=last), TokenState(token_ids, state.source)
