"""Samples: the words that may be drawn and how often they are, against softmax and against transformers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from clearhead.decode import Decoding, DecodingInput, resolve_plan
from clearhead.decode.candidates import filter_candidates, sample_token
from tests.decode.pairs import ours, sources
from tests.decode.runners import Table, decoder
from tests.parity_models import import_transformers

PROMPT = [DecodingInput(ids=(1,))]


def chances(logits: Any, **choices: Any) -> Any:
    """The probability of each word, (rows, vocab)."""
    shape = Table(logits.shape[1], 0).shape
    plan = resolve_plan(Decoding(sample=True, **choices), shape, {}, None, None)
    made = np.zeros(logits.shape)
    for row, scores in enumerate(logits):
        places, probs = filter_candidates(scores, plan)
        made[row, places] = probs
    return made


@pytest.mark.parametrize("words", [40, 3000])
@pytest.mark.parametrize(
    "choices",
    [
        {},
        {"temperature": 0.5},
        {"top_k": 7},
        {"top_p": 0.6},
        {"top_p": 0.999, "temperature": 3.0},
        {"min_p": 0.1},
        {"top_k": 9, "top_p": 0.5},
        {"top_k": 12, "top_p": 0.9, "min_p": 0.2, "temperature": 1.7},
        {"top_p": 0.0},
        {"top_p": 0.9999999, "temperature": 0.3},
        {"top_p": 0.8, "min_p": 0.05},
        {"min_p": 1.0},
    ],
    ids=str,
)
def test_the_words_that_may_be_drawn(choices: dict[str, Any], words: int) -> None:
    from transformers.generation import logits_process as theirs

    logits = (np.random.default_rng(3).standard_normal((5, words)) * 3).astype(np.float32)
    import_transformers()
    made = [
        (choices.get("temperature"), theirs.TemperatureLogitsWarper),
        (choices.get("top_k"), theirs.TopKLogitsWarper),
        (choices.get("top_p"), theirs.TopPLogitsWarper),
        (choices.get("min_p"), theirs.MinPLogitsWarper),
    ]
    scores = torch.tensor(logits)
    for value, kind in made:
        if value is not None:
            scores = kind(value)(None, scores)
    np.testing.assert_allclose(chances(logits, **choices), scores.softmax(-1).numpy(), rtol=0, atol=2e-6)


def test_frequencies_are_the_softmax() -> None:
    logits = np.array([0.0, 1.0, 2.0, -1.0, 0.5], np.float32)
    number = 20_000
    found = decoder(Table(5, 0, fixed=logits), [], sample=True, num_return_sequences=number, max_length=1).generate(
        PROMPT
    )[0]
    counts = np.bincount([answer.ids[0] for answer in found], minlength=5) / number
    probs = np.exp(logits) / np.exp(logits).sum()
    np.testing.assert_allclose(counts, probs, atol=5 * np.sqrt(0.25 / number))
    assert found[0].score == pytest.approx(float(np.log(probs[found[0].ids[0]])), abs=1e-5)
    how: dict[str, Any] = {"sample": True, "num_return_sequences": number, "max_length": 1, "temperature": 0.5}
    sharp = decoder(Table(5, 0, fixed=logits), [], **how).generate(PROMPT)[0]
    squared = np.exp(2 * logits) / np.exp(2 * logits).sum()
    counts = np.bincount([answer.ids[0] for answer in sharp], minlength=5) / number
    np.testing.assert_allclose(counts, squared, atol=5 * np.sqrt(0.25 / number))


def test_draws_at_the_borders() -> None:
    """0 gives the first word that can be, the largest number below 1 the last one; nothing impossible is drawn."""
    places, probs = np.array([4, 5, 6, 7]), np.array([0.0, 0.5, 0.5, 0.0])
    assert [sample_token(places, probs, chance) for chance in (0.0, float(np.nextafter(1.0, 0.0)))] == [5, 6]


@pytest.mark.parametrize("runtime", ["core", "engine"])
def test_a_seed_repeats(runtime: str) -> None:
    model = ours("gpt2", runtime, 0)
    ids, mask = sources("gpt2", 0)
    how: dict[str, Any] = {"sample": True, "max_length": 12, "temperature": 1.5}

    def said(**choices: Any) -> list[list[int]]:
        return [row.tolist() for row in model.generate_ids(ids, mask, **how, **choices)]

    assert said(seed=3) == said(seed=3)
    assert said(seed=3) != said(seed=4)
    several = said(seed=3, num_return_sequences=3)
    assert len(several) == 3 * len(ids)
    assert all(row in several for row in said(seed=3))
    assert len({tuple(row) for row in several}) > len(ids)


def test_a_folder_s_way_to_draw() -> None:
    """top_k of generation_config.json counts for samples, and never without them."""
    from dataclasses import replace

    model = ours("gpt2", "engine", 0)
    ids, mask = sources("gpt2", 0)
    greedy = [row.tolist() for row in model.generate_ids(ids, mask, max_length=9)]
    told = replace(model, generation={**(model.generation or {}), "top_k": 1, "do_sample": True})
    assert [row.tolist() for row in told.generate_ids(ids, mask, max_length=9)] == greedy
    assert [row.tolist() for row in told.generate_ids(ids, mask, max_length=9, sample=True)] == greedy
    free = told.generate_ids(ids, mask, max_length=9, sample=True, top_k=0, temperature=2.0)
    assert [row.tolist() for row in free] != greedy
