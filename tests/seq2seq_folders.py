"""Tiny Marian and T5 folders saved by `transformers`, with a tokenizer, for fine-tuning."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.family_configs import FIXED_CONFIGS
from tests.parity_models import import_transformers, make_reference
from tests.text import tokenizer_folders

MODEL_CLASSES = {"marian": "MarianMTModel", "t5": "T5ForConditionalGeneration"}
NO_DROPOUT: dict[str, Any] = {"dropout": 0.0, "attention_dropout": 0.0, "activation_dropout": 0.0, "dropout_rate": 0.0}
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "marian": ("marian", {"scale_embedding": True}),
    "marian untied": ("marian", {"tie_word_embeddings": False}),
    "marian apart": ("marian", {"share_encoder_decoder_embeddings": False, "tie_word_embeddings": False}),
    "t5": ("t5", {}),
    "t5 gated": ("t5", {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}),
}


def save_seq2seq_folder(folder: Path, name: str, **changes: Any) -> Path:
    """Save a model with `transformers`, and its tokenizer beside it."""
    family, settings = CASES[name]
    if family == "marian":
        tokenizer_folders.write_marian(folder, has_separate_vocabs=name == "marian apart")
        sizes = [
            len(json.loads(path.read_text()))
            for path in (folder / "vocab.json", folder / "target_vocab.json")
            if path.exists()
        ]
        ids = {"pad_token_id": sizes[0] - 1, "decoder_start_token_id": sizes[-1] - 1, "max_position_embeddings": 512}
        settings = settings | ids | {"vocab_size": sizes[0], "decoder_vocab_size": sizes[-1]}
    else:
        tokenizer_folders.write_t5(folder)
        settings = settings | {
            "vocab_size": len(import_transformers().AutoTokenizer.from_pretrained(folder)),
            "decoder_start_token_id": 0,
        }
    make_reference(MODEL_CLASSES[family], FIXED_CONFIGS[family] | NO_DROPOUT | settings | changes).save_pretrained(
        folder
    )
    return folder
