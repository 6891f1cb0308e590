"""What must hold for any language: beam 1 is greedy, wider is never worse where that is true, chance repeats."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import clearhead
from clearhead.decode import DecodingInput
from clearhead.decode.beam_search import BeamSearch
from clearhead.decode.candidates import log_sum_exp, select_top
from clearhead.decode.prompt import start_decoding
from clearhead.model.generation import TextGenerator
from tests.core.networks import model_of
from tests.decode.pairs import RUNTIMES, SEEDS, TITLES, ours, sources
from tests.decode.runners import Table, Uncached, decoder
from tests.variation import scaled

PROMPTS = [DecodingInput(ids=(1,)), DecodingInput(ids=(2, 3, 1)), DecodingInput(ids=(3, 3))]
seeds = st.integers(0, 1 << 30)


@given(seed=seeds, early=st.booleans(), penalty=st.sampled_from([0.0, 0.6, 1.0, 2.0]), ngram=st.sampled_from([0, 2, 3]))
@settings(max_examples=scaled(40), deadline=None)
def test_beam_one_is_greedy(seed: int, early: bool, penalty: float, ngram: int) -> None:
    """Beam search itself with room for one hypothesis walks where greedy walks."""
    how: dict[str, Any] = {"early_stopping": early, "length_penalty": penalty, "max_length": 8}
    how["no_repeat_ngram_size"] = ngram
    one = decoder(Table(6, seed), [0], **how)
    greedy = [found[0] for found in one.generate(PROMPTS)]
    for prompt, answer in zip(PROMPTS, greedy, strict=True):
        searched = BeamSearch(start_decoding(one.runner, one.plan, [prompt]), one.plan, one.stops).search()[0][0]
        assert searched.ids == answer.ids
        assert searched.score == pytest.approx(answer.score, abs=1e-5)


def every_text(table: Table, prompt: tuple[int, ...], length: int, penalty: float) -> dict[tuple[int, ...], float]:
    """All texts that end with 0 or are as long as may be, with their scores."""
    made = {}
    for size in range(1, length + 1):
        for said in itertools.product(range(table.shape.top.vocab_size), repeat=size):
            if 0 in said[:-1] or (said[-1] != 0 and size < length):
                continue
            total = 0.0
            for place, word in enumerate(said):
                logits = table.logits((*prompt, *said[:place])).astype(np.float64)
                total += logits[word] - np.log(np.exp(logits - logits.max()).sum()) - logits.max()
            made[said] = total / size**penalty
    return made


@given(seed=seeds, penalty=st.sampled_from([-1.0, 0.0, 0.6, 1.0, 2.0]))
@settings(max_examples=scaled(25), deadline=None)
def test_a_beam_that_holds_everything_finds_the_best(seed: int, penalty: float) -> None:
    """4 words and the end symbol, three places: 16 hypotheses leave nothing out, so nothing scores better."""
    table = Table(5, seed)
    every = every_text(table, (1,), 3, penalty)
    how: dict[str, Any] = {"length_penalty": penalty, "early_stopping": "never", "max_length": 3}
    best = decoder(table, [0], num_beams=16, num_return_sequences=5, **how).generate([PROMPTS[0]])[0]
    expected = sorted(every, key=lambda said: -every[said])[:5]
    assert [tuple(answer.ids) for answer in best] == expected
    np.testing.assert_allclose([one.score for one in best], [every[said] for said in expected], atol=1e-5)
    for beam in (1, 2, 3, 5):
        assert decoder(table, [0], num_beams=beam, **how).generate([PROMPTS[0]])[0][0].score <= best[0].score + 1e-6


@given(seed=seeds, penalty=st.sampled_from([0.0, 0.6, 1.0, 2.0]), length=st.integers(1, 2))
@settings(max_examples=scaled(40), deadline=None)
def test_two_words_wider_is_never_worse(seed: int, penalty: float, length: int) -> None:
    """After one word a wider beam holds all that a narrow one does. Of longer texts that is not true of any beam."""
    table, last = Table(9, seed), -np.inf
    for beam in (1, 2, 3, 4, 6, 8):
        how: dict[str, Any] = {"early_stopping": "never"} if beam > 1 else {}
        found = decoder(table, [0], num_beams=beam, max_length=length, length_penalty=penalty, **how).generate(
            [PROMPTS[1]]
        )
        assert found[0][0].score >= last - 1e-6
        last = found[0][0].score


@given(seed=seeds)
@settings(max_examples=scaled(30), deadline=None)
def test_groups(seed: int) -> None:
    """Without a penalty every group is the same small beam; with a large one their first words differ."""
    table = Table(8, seed)
    alone = decoder(table, [0], num_beams=2, num_return_sequences=2, max_length=6).generate(PROMPTS)
    none = decoder(table, [0], num_beams=6, num_return_sequences=6, num_beam_groups=3, max_length=6).generate(PROMPTS)
    assert [[one.ids for one in found] for found in none] == [[one.ids for one in found] for found in alone]
    apart = decoder(
        table,
        [0],
        num_beams=3,
        num_return_sequences=3,
        num_beam_groups=3,
        diversity_penalty=1e5,
        max_length=6,
        min_length=3,
    ).generate(PROMPTS)
    for found in apart:
        assert len({answer.ids[0] for answer in found}) == 3


@given(seed=seeds, diversity=st.sampled_from([0.3, 1.5, 4.0]))
@settings(max_examples=scaled(30), deadline=None)
def test_groups_of_one_word_by_word(seed: int, diversity: float) -> None:
    """Each group in turn takes its likeliest word, less the penalty for each group that took it in this step."""
    table, prompt, length = Table(8, seed), (2, 3, 1), 6
    said: list[list[int]] = [[], [], []]
    for _ in range(length):
        taken: list[int] = []
        for own in said:
            if 0 in own:
                continue
            scores = table.logits((*prompt, *own)).astype(np.float64)
            for word in taken:
                scores[word] -= diversity
            own.append(int(scores.argmax()))
            if own[-1]:
                taken.append(own[-1])
    how: dict[str, Any] = {
        "num_beams": 3,
        "num_return_sequences": 3,
        "num_beam_groups": 3,
        "diversity_penalty": diversity,
        "max_length": length,
    }
    found = decoder(table, [0], **how).generate([DecodingInput(ids=prompt)])[0]
    assert {tuple(answer.ids) for answer in found} == {tuple(own) for own in said}


@given(seed=seeds, beam=st.sampled_from([1, 3]))
@settings(max_examples=scaled(30), deadline=None)
def test_finished_rows_leave_the_batch(seed: int, beam: int) -> None:
    """What is fed is what is needed: a sentence costs the same alone and among others."""
    fed = 0
    for prompt in PROMPTS:
        table = Table(6, seed)
        decoder(table, [0], num_beams=beam, max_length=9).generate([prompt])
        fed += table.fed
    table = Table(6, seed)
    decoder(table, [0], num_beams=beam, max_length=9).generate(PROMPTS)
    longest = max(len(one.ids) for one in PROMPTS)
    assert table.fed == fed + sum(longest - len(one.ids) for one in PROMPTS)


@pytest.mark.parametrize("beam", [1, 4])
@pytest.mark.parametrize("family", [*TITLES, "transformer"])
def test_cached_is_uncached(family: str, beam: int) -> None:
    model = model_of("transformer", decoder_start_token_id=1) if family == "transformer" else ours(family, "core", 0)
    ids, mask = sources("marian" if family == "transformer" else family, 5)
    if "gpt" in family:
        mask[:] = True
    writer = TextGenerator(model, num_beams=beam, max_length=12, no_repeat_ngram_size=3)
    rows = writer._check_rows(ids, mask)
    cached = writer.decoder.generate(rows)
    writer.decoder.runner = Uncached(model.runner)  # type: ignore[assignment]
    for one, other in zip(cached, writer.decoder.generate(rows), strict=True):
        assert one[0].ids == other[0].ids
        assert one[0].score == pytest.approx(other[0].score, abs=1e-4)


@pytest.mark.thin(4)
@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize(
    "choices",
    [{}, {"num_beams": 4, "num_return_sequences": 3}, {"sample": True, "num_return_sequences": 2, "top_p": 0.9}],
    ids=str,
)
@pytest.mark.parametrize("family", TITLES)
def test_alone_and_in_any_batch(family: str, choices: dict[str, Any], runtime: str) -> None:
    seed = SEEDS[family][0]
    ids, mask = sources(family, seed, rows=7, longest=11)
    writer = TextGenerator(ours(family, runtime, seed), max_length=14, repetition_penalty=1.2, **choices)
    rows = writer._check_rows(ids, mask)
    together = writer.decoder.generate(rows)
    for place in (0, 2, 6):
        alone = writer.decoder.generate([rows[place]])[0]
        assert [one.ids for one in alone] == [one.ids for one in together[place]]
        np.testing.assert_allclose([a.score for a in alone], [b.score for b in together[place]], rtol=0, atol=1e-5)
    backwards = writer.decoder.generate(rows[::-1])[::-1]
    assert [[one.ids for one in found] for found in backwards] == [[one.ids for one in found] for found in together]


def test_the_2017_transformer_in_both_runtimes(tmp_path: Any) -> None:
    model = model_of("transformer", decoder_start_token_id=1)
    engine = clearhead.load(model.save(tmp_path / "model"), "engine")
    ids, mask = sources("marian", 3)
    for how in ({}, {"num_beams": 4}):
        one = model.generate_ids(ids, mask, max_length=9, **how)
        two = engine.generate_ids(ids, mask, max_length=9, **how)
        assert [row.tolist() for row in one] == [row.tolist() for row in two]


@given(
    seed=seeds, rows=st.integers(1, 4), words=st.sampled_from([3, 127, 128, 129, 1000, 5000]), count=st.integers(1, 12)
)
@settings(max_examples=scaled(40), deadline=None)
def test_top_is_a_sort(seed: int, rows: int, words: int, count: int) -> None:
    draws = np.random.default_rng(seed)
    scores = draws.standard_normal((rows, words)).astype(np.float32)
    scores[:, draws.integers(0, words, 3)] = -np.inf
    values, places = select_top(scores, count)
    expected = np.sort(scores, axis=1)[:, ::-1][:, :count]
    assert (values == expected).all()
    assert (np.take_along_axis(scores, places, 1) == values).all()
    if words > 12:
        exact = np.log(np.exp(scores.astype(np.float64)).sum(1))
        np.testing.assert_allclose(log_sum_exp(scores)[:, 0], exact, atol=1e-5)
