"""Generated ids are equal to those of `transformers` on the same weights, in both runtimes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from clearhead.model.generation import TextGenerator
from tests.decode.pairs import (
    ARCHITECTURES,
    ENCODER_DECODERS,
    RUNTIMES,
    SEEDS,
    generate_expected,
    load_model,
    make_reference_model,
    make_sources,
    truncate_at_end,
)
from tests.variation import scaled

LENGTH = 18
Choices = dict[str, Any]

# our settings, those of transformers
MODES: dict[str, tuple[Choices, Choices]] = {"greedy": ({}, {})}
for _beam, _penalty, _early in (
    (2, 1.0, False),
    (2, 0.6, True),
    (2, 2.0, "never"),
    (4, 0.6, False),
    (4, 1.0, True),
    (4, 2.0, False),
    (5, 1.0, "never"),
    (5, 2.0, True),
    (5, 0.6, False),
    (4, 0.0, "never"),
    (3, -1.0, False),
):
    MODES[f"beam {_beam}, penalty {_penalty}, early {_early}"] = (
        {"num_beams": _beam, "length_penalty": _penalty, "early_stopping": _early},
        {"num_beams": _beam, "length_penalty": _penalty, "early_stopping": _early},
    )
for _beam in (1, 4):
    MODES |= {
        f"beam {_beam}, no bigram twice": (
            {"num_beams": _beam, "no_repeat_ngram_size": 2},
            {"num_beams": _beam, "no_repeat_ngram_size": 2},
        ),
        f"beam {_beam}, no trigram twice": (
            {"num_beams": _beam, "no_repeat_ngram_size": 3},
            {"num_beams": _beam, "no_repeat_ngram_size": 3},
        ),
        f"beam {_beam}, repetition": (
            {"num_beams": _beam, "repetition_penalty": 1.7},
            {"num_beams": _beam, "repetition_penalty": 1.7},
        ),
        f"beam {_beam}, min length": ({"num_beams": _beam, "min_length": 7}, {"num_beams": _beam, "min_new_tokens": 7}),
        f"beam {_beam}, forbidden": (
            {"num_beams": _beam, "bad_words": [*range(20, 40), (41, 42), (43, 44, 45), (8, 8)]},
            {"num_beams": _beam, "bad_words_ids": [*([i] for i in range(20, 40)), [41, 42], [43, 44, 45], [8, 8]]},
        ),
        f"beam {_beam}, everything": (
            {
                "num_beams": _beam,
                "min_length": 4,
                "no_repeat_ngram_size": 2,
                "repetition_penalty": 0.8,
                "bad_words": [9, 10],
            },
            {"num_beams": _beam, "min_new_tokens": 4, "no_repeat_ngram_size": 2, "repetition_penalty": 0.8}
            | {"bad_words_ids": [[9], [10]]},
        ),
    }

every_family = pytest.mark.parametrize("family", ARCHITECTURES)


def check_equal_ids(family: str, runtime: str, seed: int, options: Choices, reference_options: Choices) -> int:
    """Check that all rows are equal, and count those that end before the limit."""
    ids, mask = make_sources(family, seed)
    rows, _ = generate_expected(family, ids, mask, seed, max_new_tokens=LENGTH, **reference_options)
    model = load_model(family, runtime, seed)
    assert [row.tolist() for row in model.generate_ids(ids, mask, max_length=LENGTH, **options)] == rows
    return sum(len(row) < LENGTH for row in rows)


@pytest.mark.thin(5)
@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize("mode", MODES)
@every_family
def test_modes(family: str, mode: str, runtime: str) -> None:
    options, reference_options = MODES[mode]
    for seed in SEEDS[family][: 2 if runtime == "engine" else 1]:
        check_equal_ids(family, runtime, seed, options, reference_options)


@st.composite
def setting_pairs(draw: Any) -> tuple[Choices, Choices]:
    """Random combinations of settings: ours, and those of transformers."""
    strategies = {
        "num_beams": ("num_beams", st.integers(1, 6)),
        "max_length": ("max_new_tokens", st.integers(1, 14)),
        "length_penalty": ("length_penalty", st.sampled_from([0.0, 0.6, 1.0, 1.3, 2.0])),
        "no_repeat_ngram_size": ("no_repeat_ngram_size", st.integers(0, 4)),
        "early_stopping": ("early_stopping", st.sampled_from([True, False, "never"])),
        "repetition_penalty": ("repetition_penalty", st.sampled_from([1.0, 1.3, 0.9])),
        "bad_words": ("bad_words_ids", st.lists(st.lists(st.integers(0, 59), min_size=1, max_size=2), min_size=1)),
    }
    options = {name: draw(strategy) for name, (_, strategy) in strategies.items()}
    options["min_length"] = draw(st.integers(0, options["max_length"]))
    reference_options = {strategies[name][0]: value for name, value in options.items() if name in strategies}
    return options, reference_options | {"min_new_tokens": options["min_length"]}


@given(options_pair=setting_pairs(), family=st.sampled_from(sorted(ARCHITECTURES)))
@settings(max_examples=scaled(40), deadline=None, derandomize=True)
def test_any_mixture(options_pair: tuple[Choices, Choices], family: str) -> None:
    seed = SEEDS[family][0]
    ids, mask = make_sources(family, seed, rows=3)
    rows, _ = generate_expected(family, ids, mask, seed, **options_pair[1])
    generated = load_model(family, "engine", seed).generate_ids(ids, mask, **options_pair[0])
    assert [row.tolist() for row in generated] == rows


@every_family
def test_each_setting_changes_the_ids(family: str) -> None:
    """Negative control: on these weights, omitting a setting changes the ids."""
    for left_out in ("length_penalty", "early_stopping", "no_repeat_ngram_size", "repetition_penalty", "min_length"):
        changed_settings: Choices = {
            "length_penalty": 2.0,
            "early_stopping": True,
            "no_repeat_ngram_size": 2,
            "min_length": 7,
        }
        changed_settings |= {"repetition_penalty": 1.7}
        base_settings: Choices = {"length_penalty": 0.6, "early_stopping": False}
        difference_count = 0
        for seed in SEEDS[family]:
            ids, mask = make_sources(family, seed)
            model = load_model(family, "engine", seed)
            common: Choices = (
                {"num_beams": 5, "max_length": LENGTH} if left_out in base_settings else {"max_length": LENGTH}
            )
            with_setting = model.generate_ids(ids, mask, **common, **{left_out: changed_settings[left_out]})
            without_setting = model.generate_ids(
                ids, mask, **common, **{key: base_settings[key] for key in (left_out,) if key in base_settings}
            )
            difference_count += [row.tolist() for row in with_setting] != [row.tolist() for row in without_setting]
        assert difference_count, left_out


@every_family
def test_answers_end_and_differ(family: str) -> None:
    """Equality would be trivial if every answer repeated a single token."""
    ended_count, distinct_rows = 0, set()
    for seed in SEEDS[family]:
        ended_count += check_equal_ids(family, "engine", seed, {"num_beams": 4}, {"num_beams": 4})
        ids, mask = make_sources(family, seed)
        rows = load_model(family, "engine", seed).generate_ids(ids, mask, max_length=LENGTH)
        distinct_rows |= {tuple(row.tolist()) for row in rows}
    assert ended_count >= 1
    assert len(distinct_rows) >= 8
    assert sum(len(set(row)) for row in distinct_rows) / len(distinct_rows) > 3


@every_family
def test_without_a_mask(family: str) -> None:
    """As in transformers, padding counts as source tokens, and is recognized by its id in a prompt."""
    seed = SEEDS[family][0]
    ids, _ = make_sources(family, seed)
    generated = make_reference_model(family, seed).generate(torch.tensor(ids), max_new_tokens=LENGTH)
    rows = truncate_at_end(family, generated[:, 1 if family in ENCODER_DECODERS else ids.shape[1] :].tolist())
    assert [row.tolist() for row in load_model(family, "engine", seed).generate_ids(ids, max_length=LENGTH)] == rows


@pytest.mark.parametrize("beam", [1, 4])
@every_family
def test_prefix(family: str, beam: int) -> None:
    seed = SEEDS[family][0]
    ids, mask = make_sources(family, seed)
    prefix = [17, 23]
    expected_ids, reference_options, expected_mask = ids, {}, mask
    if family in ENCODER_DECODERS:
        start = {"marian": 1, "t5": 0}[family]
        reference_options = {"decoder_input_ids": torch.tensor([[start, *prefix]] * len(ids))}
    else:
        expected_ids = np.concatenate([ids, np.tile(prefix, (len(ids), 1))], 1)
        expected_mask = np.concatenate([mask, np.ones((len(ids), 2), np.bool_)], 1)
    rows, _ = generate_expected(
        family,
        expected_ids,
        expected_mask,
        seed,
        max_new_tokens=9,
        num_beams=beam,
        no_repeat_ngram_size=2,
        **reference_options,
    )
    rows = rows if family in ENCODER_DECODERS else [[*prefix, *row] for row in rows]
    model = load_model(family, "engine", seed)
    generated = model.generate_ids(ids, mask, beam, 9, 1.0, 2, prefix=prefix)
    assert [row.tolist() for row in generated] == rows


STORED_SETTINGS: list[Choices] = [
    {"forced_eos_token_id": 0},
    {"forced_bos_token_id": 33},
    {"forced_bos_token_id": 33, "forced_eos_token_id": 7},
    {"bad_words_ids": [[1], [30], [12, 13]]},
    {"renormalize_logits": True, "bad_words_ids": [[1], [30], [31], [32]]},
    {"min_length": 6, "early_stopping": True},
    {"min_new_tokens": 5, "repetition_penalty": 1.4},
    {"suppress_tokens": [20, 21, 22, 23], "begin_suppress_tokens": [40, 41, 42, 43]},
    {"begin_suppress_tokens": list(range(30, 60)), "forced_bos_token_id": 5},
    {"eos_token_id": 9},
    {"eos_token_id": [9, 10, 12, 14, 15]},
    {"decoder_start_token_id": 9},
]


@pytest.mark.thin(5)
@pytest.mark.parametrize("beam", [1, 4])
@pytest.mark.parametrize("stored", STORED_SETTINGS, ids=lambda stored: " ".join(stored))
@every_family
def test_settings_of_the_folder_apply(family: str, stored: Choices, beam: int) -> None:
    """Values of generation_config.json apply unless a setting overrides them."""
    seed = SEEDS[family][1]
    ids, mask = make_sources(family, seed)
    rows, _ = generate_expected(family, ids, mask, seed, max_new_tokens=LENGTH, num_beams=beam, **stored)
    model = load_model(family, "engine", seed)
    assert model.generation is not None
    changed = replace(model, generation={**model.generation, **stored})
    generated = changed.generate_ids(ids, mask, beam, LENGTH)
    assert [row.tolist() for row in generated] == rows


@pytest.mark.parametrize("runtime", RUNTIMES)
@every_family
def test_scores_and_the_n_best(family: str, runtime: str) -> None:
    for seed, penalty in zip(SEEDS[family], (0.6, 1.0, 2.0), strict=True):
        ids, mask = make_sources(family, seed)
        rows, scores = generate_expected(
            family, ids, mask, seed, max_new_tokens=LENGTH, num_beams=5, num_return_sequences=5, length_penalty=penalty
        )
        writer = TextGenerator(
            load_model(family, runtime, seed),
            num_beams=5,
            num_return_sequences=5,
            max_length=LENGTH,
            length_penalty=penalty,
        )
        answers = [
            answer for row_answers in writer.decoder.generate(writer._check_rows(ids, mask)) for answer in row_answers
        ]
        assert [list(answer.ids) for answer in answers] == rows
        np.testing.assert_allclose([answer.score for answer in answers], scores, rtol=0, atol=1e-5)
