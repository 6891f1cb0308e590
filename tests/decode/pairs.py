"""Tiny random models of `transformers` whose answers differ, saved as folders and loaded in both runtimes."""

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
TITLES = {
    "marian": "MarianMTModel",
    "t5": "T5ForConditionalGeneration",
    "gpt2": "GPT2LMHeadModel",
    "openai-gpt": "OpenAIGPTLMHeadModel",
}
# an output matrix of its own: one that is tied says again and again what it was fed
CHANGES: dict[str, dict[str, Any]] = {
    "marian": {"scale_embedding": True, "tie_word_embeddings": False},
    "t5": {"decoder_start_token_id": 0, "relative_attention_num_buckets": 8, "relative_attention_max_distance": 6}
    | {"d_ff": 32},
    "gpt2": {"n_positions": 64, "tie_word_embeddings": False},
    "openai-gpt": {"n_positions": 64, "tie_word_embeddings": False, "bos_token_id": 0},
}
ENDS = {"marian": [0, 7, 11, 13], "t5": [1, 7, 11], "gpt2": [0, 7, 11], "openai-gpt": [0, 7, 11]}
PLACES = TemporaryDirectory(prefix="decode-")  # the core beside an engine reads a folder when it is asked for
atexit.register(PLACES.cleanup)
PAIRED = ("marian", "t5")
SEEDS = {"marian": (2, 3, 4), "t5": (1, 4, 9), "gpt2": (0, 1, 2), "openai-gpt": (0, 2, 3)}  # whose answers end
RUNTIMES = ("core", "engine")
LOUD = {"marian": 0.7, "t5": 0.6, "gpt2": 0.6, "openai-gpt": 0.6}  # of the output matrix
WORDS = {"marian": 0.6, "t5": 2.0, "gpt2": 1.0, "openai-gpt": 2.0}  # of the word vectors


@cache
def theirs(family: str, seed: int = 0) -> Any:
    """A model that neither says one word for ever nor ends at once: its words and places count, its peaks are clear."""
    model = make_reference(TITLES[family], FIXED_CONFIGS[family] | CHANGES[family], seed)
    draws = torch.Generator().manual_seed(seed + 1)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "lm_head" in name:
                parameter.copy_(torch.randn(parameter.shape, generator=draws) * LOUD[family])
            elif family == "t5" and "DenseReluDense" in name:  # tied all the same: its words must change on their way
                parameter.copy_(torch.randn(parameter.shape, generator=draws) * 1.5)
            elif any(word in name for word in ("shared", "embed_tokens", "s_embed", "wte", "wpe")):
                parameter.copy_(torch.randn(parameter.shape, generator=draws) * WORDS[family])
            elif "norm" in name or "ln_" in name:
                parameter.copy_(torch.ones(parameter.shape) if name.endswith("weight") else parameter * 0.3)
            elif parameter.ndim > 1 and "embed_positions" not in name:
                parameter.add_(torch.randn(parameter.shape, generator=draws) * 0.1)
    model.generation_config.eos_token_id = ENDS[family]
    return model.eval()


@cache
def folder(family: str, seed: int = 0) -> Path:
    """What transformers makes of it."""
    place = Path(PLACES.name) / f"{family}-{seed}"
    theirs(family, seed).save_pretrained(place)
    return place


@cache
def ours(family: str, runtime: str, seed: int = 0) -> Model:
    """The same weights here."""
    return clearhead.load(folder(family, seed), runtime)


def sources(family: str, seed: int = 0, rows: int = 4, longest: int = 9) -> tuple[Array, Array]:
    """Rows of different length: padded behind for a pair, before for a GPT."""
    draws = np.random.default_rng(seed)
    lengths = [longest, *draws.integers(1, longest, rows - 1)]
    pad = FIXED_CONFIGS[family].get("pad_token_id", 0)
    ids, mask = np.full((rows, longest), pad), np.zeros((rows, longest), np.bool_)
    for row, length in enumerate(lengths):
        place = slice(0, length) if family in PAIRED else slice(longest - length, longest)
        ids[row, place], mask[row, place] = draws.integers(5, 60, length), True
    return ids, mask


TOGETHER = {"max_new_tokens", "num_beams", "length_penalty", "early_stopping", "num_return_sequences"}
KNOWN: dict[str, tuple[list[list[int]], list[float]]] = {}


def expected(
    family: str, ids: Array, mask: Array, seed: int = 0, **choices: Any
) -> tuple[list[list[int]], list[float]]:
    """What generate of transformers adds to each row, without padding, and its scores where it has any.

    It takes the padding of prompts for words that were said, so that what counts them is asked one row at a time.
    """
    key = repr((family, ids.tolist(), mask.tolist(), seed, sorted(choices.items())))
    if key not in KNOWN:
        if family in PAIRED or not choices.keys() - TOGETHER:
            KNOWN[key] = _asked(family, ids, mask, seed, choices)
        else:
            each = [
                _asked(family, row[real][None], real[real][None], seed, choices)
                for row, real in zip(ids, mask, strict=True)
            ]
            KNOWN[key] = [rows for found, _ in each for rows in found], [one for _, scores in each for one in scores]
    return KNOWN[key]


def cut(family: str, rows: list[list[int]], ends: Any = None) -> list[list[int]]:
    """Rows up to their end symbol."""
    known = ENDS[family] if ends is None else ends if isinstance(ends, list) else [ends]
    places = [next((n for n, token in enumerate(row) if token in known), len(row)) for row in rows]
    return [row[: place + 1] for row, place in zip(rows, places, strict=True)]


def _asked(
    family: str, ids: Array, mask: Array, seed: int, choices: dict[str, Any]
) -> tuple[list[list[int]], list[float]]:
    model = theirs(family, seed)
    with torch.no_grad():
        said = model.generate(
            torch.tensor(ids),
            attention_mask=torch.tensor(mask.astype(np.int64)),
            return_dict_in_generate=True,
            output_scores=True,
            **choices,
        )
    prompt = 1 if family in PAIRED else ids.shape[1]
    rows = cut(family, said.sequences[:, prompt:].tolist(), choices.get("eos_token_id"))
    scores = getattr(said, "sequences_scores", None)
    return rows, [] if scores is None else scores.tolist()
