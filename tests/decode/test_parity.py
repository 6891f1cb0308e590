"""Token for token what `transformers` generate gives on the same weights, in both runtimes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from clearhead.model.generation import TextGenerator
from tests.decode.pairs import PAIRED, RUNTIMES, SEEDS, TITLES, cut, expected, ours, sources, theirs
from tests.variation import scaled

LENGTH = 18
Choices = dict[str, Any]

# what is asked of us, what is asked of transformers
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

every_family = pytest.mark.parametrize("family", TITLES)


def same(family: str, runtime: str, seed: int, mine: Choices, other: Choices) -> int:
    """How many rows end before the limit, all of them being equal."""
    ids, mask = sources(family, seed)
    rows, _ = expected(family, ids, mask, seed, max_new_tokens=LENGTH, **other)
    model = ours(family, runtime, seed)
    assert [row.tolist() for row in model.generate_ids(ids, mask, max_length=LENGTH, **mine)] == rows
    return sum(len(row) < LENGTH for row in rows)


@pytest.mark.thin(5)
@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize("mode", MODES)
@every_family
def test_modes(family: str, mode: str, runtime: str) -> None:
    mine, other = MODES[mode]
    for seed in SEEDS[family][: 2 if runtime == "engine" else 1]:
        same(family, runtime, seed, mine, other)


@st.composite
def mixtures(draw: Any) -> tuple[Choices, Choices]:
    """Any settings together, ours and theirs."""
    one = {
        "num_beams": ("num_beams", st.integers(1, 6)),
        "max_length": ("max_new_tokens", st.integers(1, 14)),
        "length_penalty": ("length_penalty", st.sampled_from([0.0, 0.6, 1.0, 1.3, 2.0])),
        "no_repeat_ngram_size": ("no_repeat_ngram_size", st.integers(0, 4)),
        "early_stopping": ("early_stopping", st.sampled_from([True, False, "never"])),
        "repetition_penalty": ("repetition_penalty", st.sampled_from([1.0, 1.3, 0.9])),
        "bad_words": ("bad_words_ids", st.lists(st.lists(st.integers(0, 59), min_size=1, max_size=2), min_size=1)),
    }
    mine = {name: draw(kind) for name, (_, kind) in one.items()}
    mine["min_length"] = draw(st.integers(0, mine["max_length"]))
    other = {one[name][0]: value for name, value in mine.items() if name in one}
    return mine, other | {"min_new_tokens": mine["min_length"]}


@given(mixture=mixtures(), family=st.sampled_from(sorted(TITLES)))
@settings(max_examples=scaled(40), deadline=None, derandomize=True)
def test_any_mixture(mixture: tuple[Choices, Choices], family: str) -> None:
    seed = SEEDS[family][0]
    ids, mask = sources(family, seed, rows=3)
    rows, _ = expected(family, ids, mask, seed, **mixture[1])
    got = ours(family, "engine", seed).generate_ids(ids, mask, **mixture[0])
    assert [row.tolist() for row in got] == rows


@every_family
def test_the_modes_are_told_apart(family: str) -> None:
    """The control: on these weights a setting that is left out gives other words."""
    for left_out in ("length_penalty", "early_stopping", "no_repeat_ngram_size", "repetition_penalty", "min_length"):
        asked: Choices = {"length_penalty": 2.0, "early_stopping": True, "no_repeat_ngram_size": 2, "min_length": 7}
        asked |= {"repetition_penalty": 1.7}
        plain: Choices = {"length_penalty": 0.6, "early_stopping": False}
        differs = 0
        for seed in SEEDS[family]:
            ids, mask = sources(family, seed)
            model = ours(family, "engine", seed)
            both: Choices = {"num_beams": 5, "max_length": LENGTH} if left_out in plain else {"max_length": LENGTH}
            one = model.generate_ids(ids, mask, **both, **{left_out: asked[left_out]})
            two = model.generate_ids(ids, mask, **both, **{key: plain[key] for key in (left_out,) if key in plain})
            differs += [row.tolist() for row in one] != [row.tolist() for row in two]
        assert differs, left_out


@every_family
def test_answers_end_and_differ(family: str) -> None:
    """Equality would be cheap if every answer were one word said eighteen times."""
    ended, kinds = 0, set()
    for seed in SEEDS[family]:
        ended += same(family, "engine", seed, {"num_beams": 4}, {"num_beams": 4})
        ids, mask = sources(family, seed)
        rows = ours(family, "engine", seed).generate_ids(ids, mask, max_length=LENGTH)
        kinds |= {tuple(row.tolist()) for row in rows}
    assert ended >= 1
    assert len(kinds) >= 8
    assert sum(len(set(row)) for row in kinds) / len(kinds) > 3


@every_family
def test_without_a_mask(family: str) -> None:
    """Padding counts as words of a source, and is known by its id in a prompt, as there."""
    seed = SEEDS[family][0]
    ids, _ = sources(family, seed)
    said = theirs(family, seed).generate(torch.tensor(ids), max_new_tokens=LENGTH)
    rows = cut(family, said[:, 1 if family in PAIRED else ids.shape[1] :].tolist())
    assert [row.tolist() for row in ours(family, "engine", seed).generate_ids(ids, max_length=LENGTH)] == rows


@pytest.mark.parametrize("beam", [1, 4])
@every_family
def test_prefix(family: str, beam: int) -> None:
    seed = SEEDS[family][0]
    ids, mask = sources(family, seed)
    prefix = [17, 23]
    given, how, real = ids, {}, mask
    if family in PAIRED:
        start = {"marian": 1, "t5": 0}[family]
        how = {"decoder_input_ids": torch.tensor([[start, *prefix]] * len(ids))}
    else:
        given = np.concatenate([ids, np.tile(prefix, (len(ids), 1))], 1)
        real = np.concatenate([mask, np.ones((len(ids), 2), np.bool_)], 1)
    rows, _ = expected(family, given, real, seed, max_new_tokens=9, num_beams=beam, no_repeat_ngram_size=2, **how)
    rows = rows if family in PAIRED else [[*prefix, *row] for row in rows]
    model = ours(family, "engine", seed)
    got = model.generate_ids(ids, mask, beam, 9, 1.0, 2, prefix=prefix)
    assert [row.tolist() for row in got] == rows


FOLDERS: list[Choices] = [
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
@pytest.mark.parametrize("said", FOLDERS, ids=lambda said: " ".join(said))
@every_family
def test_what_the_folder_says(family: str, said: Choices, beam: int) -> None:
    """A value in generation_config.json counts where nothing else was asked for."""
    seed = SEEDS[family][1]
    ids, mask = sources(family, seed)
    rows, _ = expected(family, ids, mask, seed, max_new_tokens=LENGTH, num_beams=beam, **said)
    model = ours(family, "engine", seed)
    assert model.generation is not None
    changed = replace(model, generation={**model.generation, **said})
    got = changed.generate_ids(ids, mask, beam, LENGTH)
    assert [row.tolist() for row in got] == rows


@pytest.mark.parametrize("runtime", RUNTIMES)
@every_family
def test_scores_and_the_n_best(family: str, runtime: str) -> None:
    for seed, penalty in zip(SEEDS[family], (0.6, 1.0, 2.0), strict=True):
        ids, mask = sources(family, seed)
        rows, scores = expected(
            family, ids, mask, seed, max_new_tokens=LENGTH, num_beams=5, num_return_sequences=5, length_penalty=penalty
        )
        writer = TextGenerator(
            ours(family, runtime, seed), num_beams=5, num_return_sequences=5, max_length=LENGTH, length_penalty=penalty
        )
        answers = [answer for found in writer.decoder.generate(writer._check_rows(ids, mask)) for answer in found]
        assert [list(answer.ids) for answer in answers] == rows
        np.testing.assert_allclose([answer.score for answer in answers], scores, rtol=0, atol=1e-5)
