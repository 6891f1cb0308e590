"""Answers in passages: their tokens in windows, the best pairs of start and end, and unanswerable questions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from clearhead.data import Columns, LabelSpace
from clearhead.data.examples import TextRow
from clearhead.data.row_codec import LengthPolicy
from clearhead.data.sources.source import Row
from clearhead.data.table import TokenTable, encode_rows
from clearhead.tasks import Calibration
from clearhead.tasks.packed import PackedDataset, pack_table
from clearhead.tasks.span.decoding import (
    MAX_CANDIDATES,
    Candidates,
    collect_candidates,
    decode,
    fit_calibration,
    get_answer_texts,
    no_answer_margin,
)
from clearhead.tasks.span.rows import AnswerTruth, check_row
from clearhead.tasks.span.task import SPAN_ROWS
from clearhead.training.objectives import NetworkOutput, SpanCrossEntropy
from tests.tasks.tokenizers import KINDS, make_tokenizer
from tests.variation import scaled

Array = np.ndarray[Any, Any]
COLUMNS = Columns(text="question", text_b="context", label="answers")
ALL = LabelSpace(kind="answers", scheme="all")
SOME = LabelSpace(kind="answers", scheme="some")
STORY = (
    "The old keeper  wrote a letter to his daughter every evening.\tIn 1921 the fishermen of Tōkyō mended "
    "their NETS in silence; 東京は晴れ. Nai\u0308ve café: 👩‍👩‍👧‍👦 said “it's $2,718.28”! " * 3
).strip()
ANSWERS = (
    "a letter to his daughter",
    "1921",
    "Tōkyō",
    "NETS",
    "京",
    "Nai\u0308ve café",
    "👩‍👩‍👧‍👦",
    "$2,718.28",
    "keeper  wrote",
)


def make_row(
    answer: str | None, start: int | None = None, question: str = "Who wrote what?", story: str = STORY
) -> TextRow:
    offset = story.find(answer) if answer is not None and start is None else start
    answers = [] if answer is None else [{"text": answer, "answer_start": offset}]
    checked = check_row(Row(1, {"question": question, "context": story, "answers": answers}), COLUMNS, ALL)
    assert isinstance(checked, TextRow), checked
    return checked


def make_table(rows: list[TextRow], kind: str, length_policy: LengthPolicy) -> TokenTable:
    return encode_rows(rows, COLUMNS, make_tokenizer(kind), ALL, length_policy, SPAN_ROWS)


def make_perfect_logits(dataset: PackedDataset) -> Array:
    """Logits that are correct in every window."""
    values = np.zeros((int(dataset.row_tokens.sum()), 2), np.float32)
    start = 0
    for window in dataset.windows(np.arange(len(dataset))).tolist():
        first, last = dataset.annotations.targets[window]
        values[start + first, 0] = values[start + last, 1] = 10.0
        start += int(dataset.starts[window + 1] - dataset.starts[window])
    return values


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("answer", ANSWERS)
@pytest.mark.parametrize("length", [None, 72, 90])
def test_the_exact_text_comes_back(kind: str, answer: str, length: int | None) -> None:
    row = make_row(answer)
    dataset = pack_table(make_table([row], kind, LengthPolicy(max_length=length, stride=30)), segments=False)
    assert (dataset.annotations.targets.sum(1) > 0).any()  # at least one window contains the whole answer
    answers = decode(collect_candidates(make_perfect_logits(dataset), dataset), ALL, Calibration())
    candidates: Candidates = answers.extra
    start, end = int(candidates.starts[0, 0]), int(candidates.ends[0, 0])
    predicted = STORY[start:end]
    assert predicted == predicted.strip()
    assert get_answer_texts(answers, np.array([row.label], object)) == [predicted]
    # tokens may exceed the answer (two letters of a script without spaces, an unknown word) but never miss a part of it
    assert answer in predicted
    assert len(predicted) <= len(answer) + 4
    if kind in ("distilbert", "roberta") or answer.isascii():
        assert start >= row.label.starts[0] - 1


@pytest.mark.parametrize("kind", KINDS)
def test_every_token_of_a_passage_is_in_a_window_and_the_question_in_each(kind: str) -> None:
    row = make_row(None)
    encoding = make_tokenizer(kind).encode(row.text, row.text_b)
    question_ids = [token_id for token_id, side in zip(encoding.ids, encoding.sides, strict=True) if side == 0]
    table = make_table([row], kind, LengthPolicy(max_length=40, stride=10))
    assert len(table.starts) > 3
    assert int(table.lengths.max()) <= 40
    seen_starts: set[int] = set()
    for window in range(len(table.starts) - 1):
        ids = table.window_ids(window).tolist()
        position = next(
            position for position in range(len(ids)) if ids[position : position + len(question_ids)] == question_ids
        )
        assert position <= 1
        seen_starts |= set(
            table.annotations.char_starts[
                table.annotations.token_bounds[window] : table.annotations.token_bounds[window + 1]
            ].tolist()
        )
    whole_table = make_table([row], kind, LengthPolicy())
    assert seen_starts == set(whole_table.annotations.char_starts.tolist())
    assert int(table.truncated[0]) == 0


def test_an_answer_across_the_edge_of_a_window_is_complete_in_the_next_one() -> None:
    words = " ".join(f"keeper{index % 10}" for index in range(60))
    for index in range(0, 50):
        start = words.index(" ", 8 * index) + 1
        row = make_row(words[start : start + 15], start, story=words)
        table = make_table([row], "distilbert", LengthPolicy(max_length=40, stride=20))
        annotations = table.annotations
        hits = 0
        for window, (first, last) in enumerate(annotations.targets.tolist()):
            if first == last == 0:
                continue
            hits += 1
            char_starts = annotations.char_starts[
                annotations.token_bounds[window] : annotations.token_bounds[window + 1]
            ]
            ends = annotations.char_ends[annotations.token_bounds[window] : annotations.token_bounds[window + 1]]
            passage_start = int(annotations.passage_starts[window])
            assert words[char_starts[first - passage_start] : ends[last - passage_start]] == row.label.answers[0]
        assert 1 <= hits <= 2


def test_letters_without_a_token_at_the_edge_of_an_answer_do_not_hide_it() -> None:
    """WordPiece drops zero-width spaces and control characters; the answer is still found."""
    story = "The keeper wrote \u200ba letter\x07 today"
    answer = "\u200ba letter\x07"
    row = make_row(answer, story=story)
    dataset = pack_table(make_table([row], "distilbert", LengthPolicy()), segments=False)
    assert dataset.annotations.targets.tolist() != [[0, 0]]
    answers = decode(collect_candidates(make_perfect_logits(dataset), dataset), ALL, Calibration())
    assert get_answer_texts(answers, np.array([row.label], object)) == ["a letter"]


def test_spaces_are_never_an_answer() -> None:
    """SentencePiece has tokens that are only a space; none of them may be an answer."""
    story = "a  \u3000 b\t\tc   d"
    for kind in KINDS:
        dataset = pack_table(make_table([make_row("b", story=story)], kind, LengthPolicy()), segments=False)
        values = np.random.default_rng(0).normal(size=(int(dataset.row_tokens.sum()), 2)).astype(np.float32)
        candidates = collect_candidates(values, dataset)
        for start, end, score in zip(candidates.starts[0], candidates.ends[0], candidates.scores[0], strict=True):
            if np.isfinite(score):
                assert story[start:end].strip() == story[start:end] != ""


@pytest.mark.parametrize("kind", ["distilbert", "roberta", "xlm_roberta"])
@settings(max_examples=scaled(40), deadline=None)
@given(seed=st.integers(0, 2**31), longest=st.integers(1, 12), length=st.sampled_from((None, 40)))
def test_the_best_answers_are_the_best_of_all_pairs(kind: str, seed: int, longest: int, length: int | None) -> None:
    story = "Rain fell on 👩‍👩‍👧‍👦 and the 東京 nets  of Nai\u0308ve fishermen in silence, far from home and harbour."
    rows = [make_row(None, story=story), make_row(None, question="Where?", story="A small boat.")]
    dataset = pack_table(
        make_table(rows, kind, LengthPolicy(max_length=length, stride=8, max_answer=longest)), segments=False
    )
    generator = np.random.default_rng(seed)
    values = generator.normal(size=(int(dataset.row_tokens.sum()), 2)).astype(np.float32)
    candidates = collect_candidates(values, dataset)
    annotations, at = dataset.annotations, 0
    for row in range(2):
        best: dict[tuple[int, int], float] = {}
        no_answer_scores = []
        for window in dataset.windows(np.array([row])).tolist():
            size = int(dataset.starts[window + 1] - dataset.starts[window])
            window_logits, at = values[at : at + size], at + size
            no_answer_scores.append(window_logits[0].sum())
            first, offset = int(annotations.passage_starts[window]), int(annotations.token_bounds[window])
            count = int(annotations.passage_ends[window]) - first
            for first_token in range(count):
                for last_token in range(first_token, min(first_token + longest, count)):
                    start, end = (
                        int(annotations.char_starts[offset + first_token]),
                        int(annotations.char_ends[offset + last_token]),
                    )
                    has_text = all(
                        annotations.char_ends[offset + token] > annotations.char_starts[offset + token]
                        for token in (first_token, last_token)
                    )
                    if has_text:
                        score = float(window_logits[first + first_token, 0] + window_logits[first + last_token, 1])
                        best[start, end] = max(best.get((start, end), -np.inf), score)
        expected = sorted(best.values(), reverse=True)[:MAX_CANDIDATES]
        np.testing.assert_allclose(candidates.scores[row][: len(expected)], expected, rtol=1e-6)
        assert (candidates.scores[row][len(expected) :] == -np.inf).all()
        for start, end, score in zip(candidates.starts[row], candidates.ends[row], candidates.scores[row], strict=True):
            if np.isfinite(score):
                assert best[int(start), int(end)] == pytest.approx(float(score), rel=1e-6)
        assert candidates.no_answer[row] == pytest.approx(min(no_answer_scores), rel=1e-6)


@pytest.mark.parametrize("long", ["window", "cut"])
@pytest.mark.parametrize("count", [20, 60, 500])
def test_a_long_question_is_cut_and_counted(long: str, count: int) -> None:
    question = " ".join(["keeper"] * count)
    row = make_row("1921", question=question)
    short = make_row("boat", question=question, story="A small boat.")
    table = make_table([row, short], "distilbert", LengthPolicy(max_length=40, stride=30, long=long))
    assert int(table.lengths.max()) <= 40
    window_rows = table.window_rows.tolist()
    special_tokens = 3
    tokens_per_word = make_tokenizer("distilbert").encode("keeper").sides.count(0)
    if count * tokens_per_word > 40 - special_tokens:
        assert int(table.truncated[0]) > 0
        assert int(table.truncated[1]) > 0
        question_length = (
            40
            - special_tokens
            - (
                int(table.annotations.passage_ends[window_rows.index(1)])
                - int(table.annotations.passage_starts[window_rows.index(1)])
            )
        )
        # the question may use all tokens that a short passage does not need
        assert int(table.annotations.passage_starts[window_rows.index(1)]) == question_length + 2
    assert (table.annotations.targets[window_rows.index(1)] > 0).all()
    if long == "window":
        assert (table.annotations.targets[: window_rows.index(1)].sum(1) > 0).any()


def test_the_loss_is_cross_entropy_over_the_tokens_of_each_window() -> None:
    rows = [make_row("1921"), make_row(None, question="Where?", story="A small boat."), make_row("NETS")]
    dataset = pack_table(make_table(rows, "distilbert", LengthPolicy(max_length=48, stride=16)), segments=False)
    batch = dataset.take(np.array([2, 0, 1]))
    torch.manual_seed(0)
    logits = torch.randn(len(batch.ids), 2, requires_grad=True)
    losses = SpanCrossEntropy().loss(NetworkOutput(logits=logits), batch)
    expected: list[list[torch.Tensor]] = [[], [], []]
    token = 0
    for window, (length, owner) in enumerate(zip(batch.lengths.tolist(), batch.window_rows.tolist(), strict=True)):
        window_logits = logits[token : token + length]
        token += length
        first, last = int(batch.annotations["passage_start"][window]), int(batch.annotations["passage_end"][window])
        candidates_in_window = [0, *range(first, last)]
        for side in range(2):
            target = candidates_in_window.index(int(batch.annotations["answer"][window][side]))
            loss = torch.nn.functional.cross_entropy(
                window_logits[candidates_in_window, side][None], torch.tensor([target])
            )
            expected[owner].append(loss)
    torch.testing.assert_close(losses, torch.stack([torch.stack(entry).mean() for entry in expected]))
    losses.sum().backward()
    assert logits.grad is not None
    assert torch.isfinite(logits.grad).all()
    assert float(logits.grad.abs().sum()) > 0


def make_candidates(scores: list[float], no_answer: list[float]) -> Candidates:
    score_array = np.full((len(no_answer), MAX_CANDIDATES), -np.inf, np.float32)
    score_array[:, 0] = scores
    starts = np.zeros((len(no_answer), MAX_CANDIDATES), np.int32)
    return Candidates(starts=starts, ends=starts + 4, scores=score_array, no_answer=np.array(no_answer, np.float32))


def test_no_answer_above_the_threshold() -> None:
    candidates = make_candidates([5.0, 5.0, 5.0], [4.0, 6.0, 9.0])
    assert no_answer_margin(candidates).tolist() == [-1.0, 1.0, 4.0]
    assert decode(candidates, SOME, Calibration()).labels.tolist() == [0, -1, -1]
    assert decode(candidates, SOME, Calibration(no_answer=2.0)).labels.tolist() == [0, 0, -1]
    assert decode(candidates, ALL, Calibration(no_answer=2.0)).labels.tolist() == [
        0,
        0,
        0,
    ]  # every question has an answer
    probs = decode(candidates, SOME, Calibration()).probs
    np.testing.assert_allclose(probs.sum(1), 1.0)
    np.testing.assert_allclose(decode(candidates, ALL, Calibration()).probs[:, -1], 0.0)


def test_the_threshold_is_fitted_if_some_questions_have_no_answer() -> None:
    truths = [
        AnswerTruth("boat", ("boat",), (0,)),
        AnswerTruth("boat"),
        AnswerTruth("boat", ("boat",), (0,)),
        AnswerTruth("boat"),
    ]
    targets = np.empty(4, object)
    targets[:] = truths
    candidates = make_candidates([5.0, 5.0, 5.0, 5.0], [6.0, 9.0, 7.0, 8.0])
    calibration = fit_calibration(candidates, targets, SOME)
    assert decode(candidates, SOME, calibration).labels.tolist() == [0, -1, 0, -1]
    assert fit_calibration(candidates, targets, ALL) == Calibration()
    assert decode(candidates, replace(SOME, scheme="some"), Calibration()).labels.tolist() == [-1] * 4


def test_a_passage_of_only_dropped_characters_has_no_answer() -> None:
    story = "\u200b\x07\u200b"
    row = check_row(Row(1, {"question": "Who?", "context": story, "answers": []}), COLUMNS, SOME)
    assert isinstance(row, TextRow)
    dataset = pack_table(make_table([row], "distilbert", LengthPolicy()), segments=False)
    answers = decode(
        collect_candidates(np.zeros((int(dataset.row_tokens.sum()), 2), np.float32), dataset), ALL, Calibration()
    )
    assert answers.labels.tolist() == [-1]
    assert get_answer_texts(answers, np.array([row.label], object)) == [""]
    assert answers.probs[0, -1] == 1.0
