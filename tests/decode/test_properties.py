"""Properties for any model: one beam is greedy, wide beams are not worse where guaranteed, sampling is reproducible."""

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
from tests.decode.pairs import ARCHITECTURES, RUNTIMES, SEEDS, load_model, make_sources
from tests.decode.runners import TableRunner, UncachedRunner, make_decoder
from tests.variation import scaled

PROMPTS = [DecodingInput(ids=(1,)), DecodingInput(ids=(2, 3, 1)), DecodingInput(ids=(3, 3))]
seeds = st.integers(0, 1 << 30)


@given(seed=seeds, early=st.booleans(), penalty=st.sampled_from([0.0, 0.6, 1.0, 2.0]), ngram=st.sampled_from([0, 2, 3]))
@settings(max_examples=scaled(40), deadline=None)
def test_beam_one_is_greedy(seed: int, early: bool, penalty: float, ngram: int) -> None:
    """Beam search with a single beam finds the greedy answer."""
    options: dict[str, Any] = {"early_stopping": early, "length_penalty": penalty, "max_length": 8}
    options["no_repeat_ngram_size"] = ngram
    decoder = make_decoder(TableRunner(6, seed), [0], **options)
    greedy = [answers[0] for answers in decoder.generate(PROMPTS)]
    for prompt, answer in zip(PROMPTS, greedy, strict=True):
        searched = BeamSearch(
            start_decoding(decoder.runner, decoder.plan, [prompt]), decoder.plan, decoder.stop_texts
        ).search()[0][0]
        assert searched.ids == answer.ids
        assert searched.score == pytest.approx(answer.score, abs=1e-5)


def score_every_text(
    table: TableRunner, prompt: tuple[int, ...], length: int, penalty: float
) -> dict[tuple[int, ...], float]:
    """Score all token sequences that end with 0 or have the maximum length."""
    scores = {}
    for size in range(1, length + 1):
        for token_ids in itertools.product(range(table.shape.top.vocab_size), repeat=size):
            if 0 in token_ids[:-1] or (token_ids[-1] != 0 and size < length):
                continue
            log_prob = 0.0
            for position, token_id in enumerate(token_ids):
                logits = table.logits((*prompt, *token_ids[:position])).astype(np.float64)
                log_prob += logits[token_id] - np.log(np.exp(logits - logits.max()).sum()) - logits.max()
            scores[token_ids] = log_prob / size**penalty
    return scores


@given(seed=seeds, penalty=st.sampled_from([-1.0, 0.0, 0.6, 1.0, 2.0]))
@settings(max_examples=scaled(25), deadline=None)
def test_a_beam_that_holds_everything_finds_the_best(seed: int, penalty: float) -> None:
    """With 4 tokens, an end token and length 3, 16 beams cover everything, so nothing scores better."""
    table = TableRunner(5, seed)
    scores = score_every_text(table, (1,), 3, penalty)
    options: dict[str, Any] = {"length_penalty": penalty, "early_stopping": "never", "max_length": 3}
    best = make_decoder(table, [0], num_beams=16, num_return_sequences=5, **options).generate([PROMPTS[0]])[0]
    expected = sorted(scores, key=lambda token_ids: -scores[token_ids])[:5]
    assert [tuple(answer.ids) for answer in best] == expected
    np.testing.assert_allclose(
        [answer.score for answer in best], [scores[token_ids] for token_ids in expected], atol=1e-5
    )
    for beam in (1, 2, 3, 5):
        assert (
            make_decoder(table, [0], num_beams=beam, **options).generate([PROMPTS[0]])[0][0].score
            <= best[0].score + 1e-6
        )


@given(seed=seeds, penalty=st.sampled_from([0.0, 0.6, 1.0, 2.0]), length=st.integers(1, 2))
@settings(max_examples=scaled(40), deadline=None)
def test_two_words_wider_is_never_worse(seed: int, penalty: float, length: int) -> None:
    """After one token, a wider beam contains a narrower one; for longer texts, this does not hold."""
    table, last = TableRunner(9, seed), -np.inf
    for beam in (1, 2, 3, 4, 6, 8):
        options: dict[str, Any] = {"early_stopping": "never"} if beam > 1 else {}
        answers = make_decoder(
            table, [0], num_beams=beam, max_length=length, length_penalty=penalty, **options
        ).generate([PROMPTS[1]])
        assert answers[0][0].score >= last - 1e-6
        last = answers[0][0].score


@given(seed=seeds)
@settings(max_examples=scaled(30), deadline=None)
def test_groups(seed: int) -> None:
    """Without a penalty, all groups are equal; with a large one, their first tokens differ."""
    table = TableRunner(8, seed)
    single_group = make_decoder(table, [0], num_beams=2, num_return_sequences=2, max_length=6).generate(PROMPTS)
    without_penalty = make_decoder(
        table, [0], num_beams=6, num_return_sequences=6, num_beam_groups=3, max_length=6
    ).generate(PROMPTS)
    assert [[answer.ids for answer in answers] for answers in without_penalty] == [
        [answer.ids for answer in answers] for answers in single_group
    ]
    with_penalty = make_decoder(
        table,
        [0],
        num_beams=3,
        num_return_sequences=3,
        num_beam_groups=3,
        diversity_penalty=1e5,
        max_length=6,
        min_length=3,
    ).generate(PROMPTS)
    for answers in with_penalty:
        assert len({answer.ids[0] for answer in answers}) == 3


@given(seed=seeds, diversity=st.sampled_from([0.3, 1.5, 4.0]))
@settings(max_examples=scaled(30), deadline=None)
def test_groups_of_one_word_by_word(seed: int, diversity: float) -> None:
    """Each group takes its most likely token, after a penalty for each group that chose it in this step."""
    table, prompt, length = TableRunner(8, seed), (2, 3, 1), 6
    group_ids: list[list[int]] = [[], [], []]
    for _ in range(length):
        chosen_ids: list[int] = []
        for ids in group_ids:
            if 0 in ids:
                continue
            scores = table.logits((*prompt, *ids)).astype(np.float64)
            for token_id in chosen_ids:
                scores[token_id] -= diversity
            ids.append(int(scores.argmax()))
            if ids[-1]:
                chosen_ids.append(ids[-1])
    options: dict[str, Any] = {
        "num_beams": 3,
        "num_return_sequences": 3,
        "num_beam_groups": 3,
        "diversity_penalty": diversity,
        "max_length": length,
    }
    answers = make_decoder(table, [0], **options).generate([DecodingInput(ids=prompt)])[0]
    assert {tuple(answer.ids) for answer in answers} == {tuple(ids) for ids in group_ids}


@given(seed=seeds, beam=st.sampled_from([1, 3]))
@settings(max_examples=scaled(30), deadline=None)
def test_finished_rows_leave_the_batch(seed: int, beam: int) -> None:
    """A sentence needs the same number of decoder inputs alone and in a batch."""
    fed_count = 0
    for prompt in PROMPTS:
        table = TableRunner(6, seed)
        make_decoder(table, [0], num_beams=beam, max_length=9).generate([prompt])
        fed_count += table.fed_count
    table = TableRunner(6, seed)
    make_decoder(table, [0], num_beams=beam, max_length=9).generate(PROMPTS)
    max_length = max(len(prompt.ids) for prompt in PROMPTS)
    assert table.fed_count == fed_count + sum(max_length - len(prompt.ids) for prompt in PROMPTS)


@pytest.mark.parametrize("beam", [1, 4])
@pytest.mark.parametrize("family", [*ARCHITECTURES, "transformer"])
def test_cached_is_uncached(family: str, beam: int) -> None:
    model = (
        model_of("transformer", decoder_start_token_id=1) if family == "transformer" else load_model(family, "core", 0)
    )
    ids, mask = make_sources("marian" if family == "transformer" else family, 5)
    if "gpt" in family:
        mask[:] = True
    writer = TextGenerator(model, num_beams=beam, max_length=12, no_repeat_ngram_size=3)
    rows = writer._check_rows(ids, mask)
    cached = writer.decoder.generate(rows)
    writer.decoder.runner = UncachedRunner(model.runner)  # type: ignore[assignment]
    for cached_answers, uncached_answers in zip(cached, writer.decoder.generate(rows), strict=True):
        assert cached_answers[0].ids == uncached_answers[0].ids
        assert cached_answers[0].score == pytest.approx(uncached_answers[0].score, abs=1e-4)


@pytest.mark.thin(4)
@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize(
    "choices",
    [{}, {"num_beams": 4, "num_return_sequences": 3}, {"sample": True, "num_return_sequences": 2, "top_p": 0.9}],
    ids=str,
)
@pytest.mark.parametrize("family", ARCHITECTURES)
def test_alone_and_in_any_batch(family: str, choices: dict[str, Any], runtime: str) -> None:
    seed = SEEDS[family][0]
    ids, mask = make_sources(family, seed, rows=7, max_length=11)
    writer = TextGenerator(load_model(family, runtime, seed), max_length=14, repetition_penalty=1.2, **choices)
    rows = writer._check_rows(ids, mask)
    together = writer.decoder.generate(rows)
    for row in (0, 2, 6):
        single = writer.decoder.generate([rows[row]])[0]
        assert [answer.ids for answer in single] == [answer.ids for answer in together[row]]
        np.testing.assert_allclose(
            [answer.score for answer in single],
            [batch_answer.score for batch_answer in together[row]],
            rtol=0,
            atol=1e-5,
        )
    reversed_batch = writer.decoder.generate(rows[::-1])[::-1]
    assert [[answer.ids for answer in answers] for answers in reversed_batch] == [
        [answer.ids for answer in answers] for answers in together
    ]


def test_the_2017_transformer_in_both_runtimes(tmp_path: Any) -> None:
    model = model_of("transformer", decoder_start_token_id=1)
    engine = clearhead.load(model.save(tmp_path / "model"), "engine")
    ids, mask = make_sources("marian", 3)
    for options in ({}, {"num_beams": 4}):
        core_rows = model.generate_ids(ids, mask, max_length=9, **options)
        engine_rows = engine.generate_ids(ids, mask, max_length=9, **options)
        assert [row.tolist() for row in core_rows] == [row.tolist() for row in engine_rows]


@given(
    seed=seeds,
    rows=st.integers(1, 4),
    vocab_size=st.sampled_from([3, 127, 128, 129, 1000, 5000]),
    count=st.integers(1, 12),
)
@settings(max_examples=scaled(40), deadline=None)
def test_top_is_a_sort(seed: int, rows: int, vocab_size: int, count: int) -> None:
    rng = np.random.default_rng(seed)
    scores = rng.standard_normal((rows, vocab_size)).astype(np.float32)
    scores[:, rng.integers(0, vocab_size, 3)] = -np.inf
    values, indices = select_top(scores, count)
    expected = np.sort(scores, axis=1)[:, ::-1][:, :count]
    assert (values == expected).all()
    assert (np.take_along_axis(scores, indices, 1) == values).all()
    if vocab_size > 12:
        expected_log_sums = np.log(np.exp(scores.astype(np.float64)).sum(1))
        np.testing.assert_allclose(log_sum_exp(scores)[:, 0], expected_log_sums, atol=1e-5)
