"""Tiny random models of `transformers` with varied answers, saved as folders and loaded in both runtimes."""

from __future__ import annotations

import atexit
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch

import clearhead
from clearhead import Model
from tests.family_configs import FIXED_CONFIGS
from tests.parity_models import make_reference

Array = np.ndarray[Any, Any]
ARCHITECTURES = {
    "marian": "MarianMTModel",
    "t5": "T5ForConditionalGeneration",
    "gpt2": "GPT2LMHeadModel",
    "openai-gpt": "OpenAIGPTLMHeadModel",
}
# untied output matrices: with tied ones, a random model repeats its input
CHANGES: dict[str, dict[str, Any]] = {
    "marian": {"scale_embedding": True, "tie_word_embeddings": False},
    "t5": {"decoder_start_token_id": 0, "relative_attention_num_buckets": 8, "relative_attention_max_distance": 6}
    | {"d_ff": 32},
    "gpt2": {"n_positions": 64, "tie_word_embeddings": False},
    "openai-gpt": {"n_positions": 64, "tie_word_embeddings": False, "bos_token_id": 0},
}
END_IDS = {"marian": [0, 7, 11, 13], "t5": [1, 7, 11], "gpt2": [0, 7, 11], "openai-gpt": [0, 7, 11]}
TEMPORARY_FOLDER = TemporaryDirectory(prefix="decode-")  # kept, since the core next to an engine is loaded lazily
atexit.register(TEMPORARY_FOLDER.cleanup)
ENCODER_DECODERS = ("marian", "t5")
SEEDS = {"marian": (2, 3, 4), "t5": (1, 4, 9), "gpt2": (0, 1, 2), "openai-gpt": (0, 2, 3)}  # with answers that end
RUNTIMES = ("core", "engine")
OUTPUT_SCALE = {"marian": 0.7, "t5": 0.6, "gpt2": 0.6, "openai-gpt": 0.6}  # of the output matrix
EMBEDDING_SCALE = {"marian": 0.6, "t5": 2.0, "gpt2": 1.0, "openai-gpt": 2.0}  # of the word vectors


@cache
def make_reference_model(family: str, seed: int = 0) -> Any:
    """Make a model that neither repeats one token nor ends at once: inputs and positions matter, peaks are distinct."""
    model = make_reference(ARCHITECTURES[family], FIXED_CONFIGS[family] | CHANGES[family], seed)
    generator = torch.Generator().manual_seed(seed + 1)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "lm_head" in name:
                parameter.copy_(torch.randn(parameter.shape, generator=generator) * OUTPUT_SCALE[family])
            elif family == "t5" and "DenseReluDense" in name:  # tied in any case: its layers must change the embeddings
                parameter.copy_(torch.randn(parameter.shape, generator=generator) * 1.5)
            elif any(part in name for part in ("shared", "embed_tokens", "s_embed", "wte", "wpe")):
                parameter.copy_(torch.randn(parameter.shape, generator=generator) * EMBEDDING_SCALE[family])
            elif "norm" in name or "ln_" in name:
                parameter.copy_(torch.ones(parameter.shape) if name.endswith("weight") else parameter * 0.3)
            elif parameter.ndim > 1 and "embed_positions" not in name:
                parameter.add_(torch.randn(parameter.shape, generator=generator) * 0.1)
    model.generation_config.eos_token_id = END_IDS[family]
    return model.eval()


@cache
def save_reference_model(family: str, seed: int = 0) -> Path:
    """Save the model by transformers."""
    path = Path(TEMPORARY_FOLDER.name) / f"{family}-{seed}"
    make_reference_model(family, seed).save_pretrained(path)
    return path


@cache
def load_model(family: str, runtime: str, seed: int = 0) -> Model:
    """Load the same weights in Clearhead."""
    return clearhead.load(save_reference_model(family, seed), runtime)


def make_sources(family: str, seed: int = 0, rows: int = 4, max_length: int = 9) -> tuple[Array, Array]:
    """Rows of different length: right-padded for an encoder-decoder, left-padded for a GPT."""
    rng = np.random.default_rng(seed)
    lengths = [max_length, *rng.integers(1, max_length, rows - 1)]
    pad = FIXED_CONFIGS[family].get("pad_token_id", 0)
    ids, mask = np.full((rows, max_length), pad), np.zeros((rows, max_length), np.bool_)
    for row, length in enumerate(lengths):
        columns = slice(0, length) if family in ENCODER_DECODERS else slice(max_length - length, max_length)
        ids[row, columns], mask[row, columns] = rng.integers(5, 60, length), True
    return ids, mask


BATCHABLE = {"max_new_tokens", "num_beams", "length_penalty", "early_stopping", "num_return_sequences"}
EXPECTED_CACHE: dict[str, tuple[list[list[int]], list[float]]] = {}


def generate_expected(
    family: str, ids: Array, mask: Array, seed: int = 0, **choices: Any
) -> tuple[list[list[int]], list[float]]:
    """Generate by transformers: the new ids of each row without padding, and scores if there are any.

    It treats the padding of prompts as tokens of the history, so settings that count tokens run one row at a time.
    """
    key = repr((family, ids.tolist(), mask.tolist(), seed, sorted(choices.items())))
    if key not in EXPECTED_CACHE:
        if family in ENCODER_DECODERS or not choices.keys() - BATCHABLE:
            EXPECTED_CACHE[key] = _generate_by_transformers(family, ids, mask, seed, choices)
        else:
            row_results = [
                _generate_by_transformers(family, row[row_mask][None], row_mask[row_mask][None], seed, choices)
                for row, row_mask in zip(ids, mask, strict=True)
            ]
            EXPECTED_CACHE[key] = (
                [rows for row_ids, _ in row_results for rows in row_ids],
                [score for _, scores in row_results for score in scores],
            )
    return EXPECTED_CACHE[key]


def truncate_at_end(family: str, rows: list[list[int]], ends: Any = None) -> list[list[int]]:
    """Truncate rows after their end token."""
    end_ids = END_IDS[family] if ends is None else ends if isinstance(ends, list) else [ends]
    end_positions = [
        next((position for position, token in enumerate(row) if token in end_ids), len(row)) for row in rows
    ]
    return [row[: end_position + 1] for row, end_position in zip(rows, end_positions, strict=True)]


def _generate_by_transformers(
    family: str, ids: Array, mask: Array, seed: int, choices: dict[str, Any]
) -> tuple[list[list[int]], list[float]]:
    model = make_reference_model(family, seed)
    with torch.no_grad():
        generated = model.generate(
            torch.tensor(ids),
            attention_mask=torch.tensor(mask.astype(np.int64)),
            return_dict_in_generate=True,
            output_scores=True,
            **choices,
        )
    prompt_length = 1 if family in ENCODER_DECODERS else ids.shape[1]
    rows = truncate_at_end(family, generated.sequences[:, prompt_length:].tolist(), choices.get("eos_token_id"))
    scores = getattr(generated, "sequences_scores", None)
    return rows, [] if scores is None else scores.tolist()
