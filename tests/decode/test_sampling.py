"""Sampling: which tokens may be drawn, and how often, compared with softmax and transformers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from clearhead.decode import Decoding, DecodingInput, resolve_plan
from clearhead.decode.candidates import filter_candidates, sample_token
from tests.decode.pairs import load_model, make_sources
from tests.decode.runners import TableRunner, make_decoder
from tests.parity_models import import_transformers

PROMPT = [DecodingInput(ids=(1,))]


def compute_probabilities(logits: Any, **choices: Any) -> Any:
    """Compute the probability of each token, (rows, vocab)."""
    shape = TableRunner(logits.shape[1], 0).shape
    plan = resolve_plan(Decoding(sample=True, **choices), shape, {}, None, None)
    probabilities = np.zeros(logits.shape)
    for row, scores in enumerate(logits):
        token_ids, probs = filter_candidates(scores, plan)
        probabilities[row, token_ids] = probs
    return probabilities


@pytest.mark.parametrize("vocab_size", [40, 3000])
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
def test_the_tokens_that_may_be_drawn(choices: dict[str, Any], vocab_size: int) -> None:
    from transformers.generation import logits_process

    logits = (np.random.default_rng(3).standard_normal((5, vocab_size)) * 3).astype(np.float32)
    import_transformers()
    warpers = [
        (choices.get("temperature"), logits_process.TemperatureLogitsWarper),
        (choices.get("top_k"), logits_process.TopKLogitsWarper),
        (choices.get("top_p"), logits_process.TopPLogitsWarper),
        (choices.get("min_p"), logits_process.MinPLogitsWarper),
    ]
    scores = torch.tensor(logits)
    for value, warper in warpers:
        if value is not None:
            scores = warper(value)(None, scores)
    np.testing.assert_allclose(compute_probabilities(logits, **choices), scores.softmax(-1).numpy(), rtol=0, atol=2e-6)


def test_frequencies_are_the_softmax() -> None:
    logits = np.array([0.0, 1.0, 2.0, -1.0, 0.5], np.float32)
    sample_count = 20_000
    answers = make_decoder(
        TableRunner(5, 0, fixed=logits), [], sample=True, num_return_sequences=sample_count, max_length=1
    ).generate(PROMPT)[0]
    counts = np.bincount([answer.ids[0] for answer in answers], minlength=5) / sample_count
    probs = np.exp(logits) / np.exp(logits).sum()
    np.testing.assert_allclose(counts, probs, atol=5 * np.sqrt(0.25 / sample_count))
    assert answers[0].score == pytest.approx(float(np.log(probs[answers[0].ids[0]])), abs=1e-5)
    options: dict[str, Any] = {
        "sample": True,
        "num_return_sequences": sample_count,
        "max_length": 1,
        "temperature": 0.5,
    }
    sharp_answers = make_decoder(TableRunner(5, 0, fixed=logits), [], **options).generate(PROMPT)[0]
    sharp_probs = np.exp(2 * logits) / np.exp(2 * logits).sum()
    counts = np.bincount([answer.ids[0] for answer in sharp_answers], minlength=5) / sample_count
    np.testing.assert_allclose(counts, sharp_probs, atol=5 * np.sqrt(0.25 / sample_count))


def test_draws_at_the_borders() -> None:
    """0 draws the first possible token, the largest number below 1 the last; impossible tokens are never drawn."""
    token_ids, probs = np.array([4, 5, 6, 7]), np.array([0.0, 0.5, 0.5, 0.0])
    assert [sample_token(token_ids, probs, uniform) for uniform in (0.0, float(np.nextafter(1.0, 0.0)))] == [5, 6]


@pytest.mark.parametrize("runtime", ["core", "engine"])
def test_a_seed_repeats(runtime: str) -> None:
    model = load_model("gpt2", runtime, 0)
    ids, mask = make_sources("gpt2", 0)
    options: dict[str, Any] = {"sample": True, "max_length": 12, "temperature": 1.5}

    def generate(**choices: Any) -> list[list[int]]:
        return [row.tolist() for row in model.generate_ids(ids, mask, **options, **choices)]

    assert generate(seed=3) == generate(seed=3)
    assert generate(seed=3) != generate(seed=4)
    samples = generate(seed=3, num_return_sequences=3)
    assert len(samples) == 3 * len(ids)
    assert all(row in samples for row in generate(seed=3))
    assert len({tuple(row) for row in samples}) > len(ids)


def test_sampling_settings_of_the_folder() -> None:
    """top_k of generation_config.json applies only to sampling."""
    from dataclasses import replace

    model = load_model("gpt2", "engine", 0)
    ids, mask = make_sources("gpt2", 0)
    greedy = [row.tolist() for row in model.generate_ids(ids, mask, max_length=9)]
    changed = replace(model, generation={**(model.generation or {}), "top_k": 1, "do_sample": True})
    assert [row.tolist() for row in changed.generate_ids(ids, mask, max_length=9)] == greedy
    assert [row.tolist() for row in changed.generate_ids(ids, mask, max_length=9, sample=True)] == greedy
    sampled = changed.generate_ids(ids, mask, max_length=9, sample=True, top_k=0, temperature=2.0)
    assert [row.tolist() for row in sampled] != greedy
