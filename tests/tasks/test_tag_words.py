"""Words of a text, the tokens that represent them, and spans that survive encoding and decoding."""

from __future__ import annotations

import random
import unicodedata
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clearhead.data import Columns, LabelSpace
from clearhead.data.examples import TextRow
from clearhead.data.row_codec import LengthPolicy
from clearhead.data.sources.source import Row
from clearhead.data.table import encode_rows
from clearhead.tasks import TASKS, Calibration
from clearhead.tasks.packed import pack_table
from clearhead.tasks.tag.alignment import NO_TOKEN, SHARED_TOKEN
from clearhead.tasks.tag.decoding import collect_words, decode, extract_spans
from clearhead.tasks.tag.rows import check_row
from clearhead.tasks.tag.task import TAG_ROWS
from clearhead.text.words import find_word_spans
from tests.tasks.tokenizers import KINDS, make_tokenizer
from tests.variation import scaled

SPACE = LabelSpace(names=("O", "B-LOC", "I-LOC", "B-PER", "I-PER"), kind="tags", scheme="spans")
COLUMNS = Columns(text="text", label="spans")
FRAGMENTS = (
    "The old keeper",
    "lighthouse",
    "写信",
    "東京は",
    "한국어",
    "שלום",
    "مرحبا",
    "ภาษาไทย",
    "\u0e01\u0e33",
    "न\u094dम",
    "👩‍👩‍👧‍👦",
    "🏳️‍🌈",
    "🇫🇷🇩🇪",
    "👍🏽",
    "🧑🏿‍🚒",
    "e\u0301",
    "cafe\u0301",
    "A\u030a",
    "naïve",
    "Straße",
    "ﬁ",
    "½",
    "İ",
    "\t",
    "  ",
    "\u3000",
    "\u00a0",
    "\u200d",
    "\n",
    ".",
    "--",
    "it's",
    "3.14",
    "x_1",
    "#tag",
    "a@b.de",
)
TEXTS = st.lists(st.sampled_from(FRAGMENTS) | st.sampled_from(" abcXYZ,!"), min_size=1, max_size=12).map("".join)
ANY = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), min_size=1, max_size=30)


@settings(max_examples=scaled(300), deadline=None)
@given(TEXTS | ANY)
def test_words_cover_every_letter_once_and_in_order(text: str) -> None:
    borders = find_word_spans(text)
    covered_positions = [position for start, end in borders for position in range(start, end)]
    assert covered_positions == sorted(set(covered_positions))
    assert all(start < end for start, end in borders)
    assert {position for position, letter in enumerate(text) if not letter.isspace()} == set(covered_positions)


@settings(max_examples=scaled(100), deadline=None)
@given(TEXTS)
def test_no_word_starts_with_a_combining_character(text: str) -> None:
    for start, _ in find_word_spans(text):
        if start and not text[start - 1].isspace():
            assert unicodedata.category(text[start]) not in ("Mn", "Mc", "Me")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("It's 3.5 km", ["It", "'", "s", "3", ".", "5", "km"]),
        ("東京は 晴れ", ["東", "京", "は", "晴", "れ"]),
        ("cafe\u0301s!", ["cafe\u0301s", "!"]),
        ("👩‍👩‍👧‍👦🇫🇷🇩🇪👍🏽", ["👩‍👩‍👧‍👦", "🇫🇷", "🇩🇪", "👍🏽"]),
        ("\tא ב\u00a0ג  ", ["א", "ב", "ג"]),
    ],
)
def test_words_match_human_segmentation(text: str, words: list[str]) -> None:
    assert [text[start:end] for start, end in find_word_spans(text)] == words


def test_words_as_in_word_lists() -> None:
    text = "U.S. firm Rolls-Royce's e-mail cost $3.5, said O'Neil at 10:30; AT&T's 1,000 a.m. flights. 東京 don’t x_1."
    assert [text[start:end] for start, end in find_word_spans(text, keep_inner_punctuation=True)] == [
        "U.S.",
        "firm",
        "Rolls-Royce",
        "'",
        "s",
        "e-mail",
        "cost",
        "$",
        "3.5",
        ",",
        "said",
        "O'Neil",
        "at",
        "10:30",
        ";",
        "AT&T",
        "'",
        "s",
        "1,000",
        "a.m.",
        "flights",
        ".",
        "東",
        "京",
        "don",
        "’",
        "t",
        "x_1",
        ".",
    ]


@settings(max_examples=scaled(200), deadline=None)
@given(TEXTS | ANY)
def test_joined_words_begin_and_end_where_words_do(text: str) -> None:
    short, long = find_word_spans(text), find_word_spans(text, keep_inner_punctuation=True)
    assert {start for start, _ in long} <= {start for start, _ in short}
    assert {end for _, end in long} <= {end for _, end in short}
    assert sum(end - start for start, end in long) == sum(end - start for start, end in short)


def test_a_model_trained_on_lists_splits_a_text_into_such_words() -> None:
    row, columns = Row(1, {"text": "Rolls-Royce flew"}), Columns(text="text")
    listed_words = check_row(row, columns, LabelSpace(names=SPACE.names, kind="tags", scheme="bio"))
    assert isinstance(listed_words, TextRow)
    assert listed_words.extra.offsets == [(0, 11), (12, 16)]
    for space in (SPACE, None):
        checked = check_row(row, columns, space)
        assert isinstance(checked, TextRow)
        assert len(checked.extra.offsets) == 4


def make_row(text: str, spans: Sequence[tuple[int, int, str]]) -> TextRow:
    checked = check_row(Row(1, {"text": text, "spans": [list(span) for span in spans]}), COLUMNS, SPACE)
    assert isinstance(checked, TextRow), checked
    return checked


def make_perfect_logits(dataset: Any, outputs: int) -> np.ndarray[Any, Any]:
    """Logits that are correct at every token that represents a word, and noise elsewhere."""
    values = np.random.default_rng(0).normal(size=(int(dataset.row_tokens.sum()), outputs)).astype(np.float32)
    annotations = dataset.pack_annotations(np.arange(len(dataset)))
    values[annotations["token_indices"]] = 0.0
    values[annotations["token_indices"], dataset.targets.values[annotations["has_token"]]] = 20.0
    return values


def decode_spans(rows: list[TextRow], kind: str, length_policy: LengthPolicy) -> list[list[tuple[int, int, str]]]:
    """Character spans decoded from perfect logits."""
    table = encode_rows(rows, COLUMNS, make_tokenizer(kind), SPACE, length_policy, TAG_ROWS)
    dataset = pack_table(table, segments=False)
    answers = decode(collect_words(make_perfect_logits(dataset, len(SPACE)), dataset), SPACE, Calibration())
    spans_by_row = []
    for index, row in enumerate(rows):
        borders = row.extra.offsets
        tags = [SPACE.names[tag] for tag in answers.labels.row(index)]
        spans_by_row.append(
            [(borders[a][0], borders[b - 1][1], label) for a, b, label in extract_spans(tags, SPACE.scheme)]
        )
    return spans_by_row


def align_text(text: str, kind: str, length_policy: LengthPolicy) -> list[int]:
    table = encode_rows([make_row(text, [])], COLUMNS, make_tokenizer(kind), SPACE, length_policy, TAG_ROWS)
    return [int(token) for token in table.annotations.word_tokens.values]


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=scaled(120), deadline=None)
@given(text=TEXTS, seed=st.integers(0, 10**6), length=st.sampled_from((None, 8, 16)))
def test_spans_survive_encoding_and_decoding(kind: str, text: str, seed: int, length: int | None) -> None:
    borders = find_word_spans(text)
    if not borders:
        return
    length_policy = LengthPolicy(max_length=length, stride=2 if length else 0)
    word_tokens = align_text(text, kind, length_policy)
    generator = random.Random(seed)
    spans, at = [], 0
    while at < len(borders):
        size = generator.randint(1, 3)
        last = min(at + size, len(borders))
        # a span can be learned if its first token is its own and the next token is not shared with the following word
        is_learnable = (
            word_tokens[at] >= 0
            and word_tokens[last - 1] >= 0
            and (last == len(borders) or word_tokens[last] != SHARED_TOKEN)
        )
        has_tokens = all(word_tokens[word] != NO_TOKEN or word + 1 < last for word in range(at, last))
        if is_learnable and has_tokens and generator.random() < 0.6 and NO_TOKEN not in word_tokens[at : last + 1]:
            spans.append((borders[at][0], borders[last - 1][1], generator.choice(("PER", "LOC"))))
        at = last
    row = make_row(text, spans)
    assert row.text == text
    assert decode_spans([row], kind, length_policy) == [spans]


@pytest.mark.thin(3)
@pytest.mark.parametrize("kind", KINDS)
def test_every_word_of_ordinary_text_has_one_token_of_its_own(kind: str) -> None:
    text = "The old keeper wrote a letter to his daughter every evening, and she does not answer. " * 12
    count = len(find_word_spans(text))
    unsplit_tokens = align_text(text, kind, LengthPolicy())
    assert len(unsplit_tokens) == count
    assert min(unsplit_tokens) >= 0
    assert sorted(set(unsplit_tokens)) == unsplit_tokens  # one per word, in order
    for length_policy in (
        LengthPolicy(max_length=16, stride=4),
        LengthPolicy(max_length=9),
        LengthPolicy(max_length=40, stride=13),
    ):
        word_tokens = align_text(text, kind, length_policy)
        assert min(word_tokens) >= 0
        assert len(set(word_tokens)) == count
        row = make_row(text, [])
        table = encode_rows([row], COLUMNS, make_tokenizer(kind), SPACE, length_policy, TAG_ROWS)
        first_ids = [int(table.ids[token]) for token in word_tokens]
        assert first_ids == [make_tokenizer(kind).encode(text).ids[token] for token in unsplit_tokens]


def test_a_word_is_read_in_the_window_with_the_most_context() -> None:
    text = " ".join(["keeper"] * 40)
    length_policy = LengthPolicy(max_length=12, stride=6)
    table = encode_rows([make_row(text, [])], COLUMNS, make_tokenizer("distilbert"), SPACE, length_policy, TAG_ROWS)
    lengths = (table.starts[1:] - table.starts[:-1]).tolist()
    windows = np.searchsorted(table.starts, table.annotations.word_tokens.values, side="right") - 1
    position = table.annotations.word_tokens.values - table.starts[windows]
    margins = np.minimum(position - 1, np.array(lengths)[windows] - 2 - position)
    assert (margins[6:-6] >= 2).all()  # never at the edge of a window, except at both ends of the text


def test_words_of_a_list_are_read_as_their_joined_text() -> None:
    words = ["EU", "rejects", "German", "call", "."]
    row = check_row(Row(1, {"tokens": words}), Columns(text="tokens"), None)
    assert isinstance(row, TextRow)
    for kind in ("roberta", "distilbert"):
        table = encode_rows([row], Columns(text="tokens"), make_tokenizer(kind), None, LengthPolicy(), TAG_ROWS)
        assert table.ids.tolist() == make_tokenizer(kind).encode("EU rejects German call .").ids
        assert (table.annotations.word_tokens.values >= 0).all()


def test_a_word_with_a_shared_first_token_uses_its_own_later_token() -> None:
    """A token that spans the end of a word and the start of the next one represents the first of the two."""
    from clearhead.tasks.tag.alignment import align_words
    from clearhead.tasks.tag.rows import Words
    from clearhead.text.encoding import Encoding

    offsets = [(0, 0), (0, 2), (2, 5), (5, 7), (0, 0)]
    window = Encoding(
        ids=[1, 2, 3, 4, 5],
        tokens=list("abcde"),
        offsets=offsets,
        words=[None, 0, 0, 0, None],
        segments=[0] * 5,
        special=[True, False, False, False, True],
        sides=[None, 0, 0, 0, None],
    )
    assert align_words(Words([(0, 3), (3, 7), (7, 8)]), [window]).tolist() == [1, 3, NO_TOKEN]
    assert align_words(Words([(0, 3), (3, 5), (5, 7)]), [window]).tolist() == [1, SHARED_TOKEN, 3]


def test_words_without_a_token_do_not_break_an_entity_or_its_probability() -> None:
    from clearhead.tasks.ragged import RaggedArray

    values = np.full((5, 5), -9.0, np.float32)
    values[0, 1] = 9.0  # B-LOC
    values[1] = np.inf  # shares the token of the first word
    values[2] = np.nan  # the word has no token
    values[3, 2] = 9.0  # I-LOC
    values[4, 0] = 9.0
    answers = decode(RaggedArray(values=values, bounds=np.array([0, 5])), SPACE, Calibration())
    assert [SPACE.names[tag] for tag in answers.labels.values] == ["B-LOC", "I-LOC", "I-LOC", "I-LOC", "O"]
    tag_probs = answers.probs.values[np.arange(5), answers.labels.values]
    assert tag_probs.min() > 0.9
    np.testing.assert_allclose(answers.probs.values.sum(1), 1.0)


def test_words_in_a_shared_token_inherit_its_tag() -> None:
    from clearhead.tasks.ragged import RaggedArray

    space = LabelSpace(names=("ADJ", "NOUN"), kind="tags", scheme="plain")
    values = np.array([[0.0, 5.0], [np.inf, np.inf], [np.nan, np.nan]], np.float32)
    answers = decode(RaggedArray(values=values, bounds=np.array([0, 3])), space, Calibration())
    assert answers.labels.values.tolist()[:2] == [1, 1]
    confidence = TASKS["tag"].decoding.confidence(answers)
    assert confidence is not None
    assert confidence[0] == pytest.approx(0.5)  # the last word has no token, so its probabilities are uniform
