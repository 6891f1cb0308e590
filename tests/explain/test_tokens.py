"""Tokens are labeled legibly, and a word is found by its text, its tokens or its index."""

from __future__ import annotations

import pytest

from clearhead.errors import InputError
from clearhead.explain.svg.text import MAX_LABEL_EM, escape_invisible, shorten, text_width
from clearhead.explain.tokens import find_word, label_tokens, spell_text


@pytest.mark.parametrize(
    ("tokens", "labels", "text"),
    [
        (["[CLS]", "token", "##ization", "!", "[SEP]"], ["[CLS]", "token", "-ization", "!", "[SEP]"], "tokenization !"),
        (["The", "Ġanimal", "Ġdid", "n", "'t", "."], ["The", "animal", "did", "-n", "'t", "."], "The animal didn't."),
        (["<s>", "Ġcaf", "Ã©", "</s>"], ["<s>", "caf", "-é", "</s>"], "café"),
        (["Ġ", "ðŁ", "Ċ"], ["␣", "‹F0 9F›", "⏎"], None),
        (["▁Je", "▁suis", "▁étudi", "ant", "</s>"], ["Je", "suis", "étudi", "-ant", "</s>"], "Je suis étudiant"),
        (["##", "#", "a##b"], ["##", "#", "a##b"], "## # a##b"),
        (["", " "], ["(empty)", "␣"], None),
    ],
)
def test_tokens_are_shown_as_words(tokens: list[str], labels: list[str], text: str | None) -> None:
    shown_tokens = label_tokens(tokens)
    assert [token.label for token in shown_tokens] == labels
    assert [token.raw for token in shown_tokens] == tokens
    if text is not None:
        assert spell_text(shown_tokens) == text


def test_raw_token_is_in_the_tooltip() -> None:
    assert label_tokens(["em", "##bed"])[1].tooltip == "-bed (token: ##bed)"
    assert label_tokens(["a", "Ġthe"])[1].tooltip == "the (token: Ġthe)"


def test_long_texts_are_shortened_and_whole_in_the_tooltip() -> None:
    token = label_tokens(["x" * 5000])[0]
    assert token.label.endswith("…")
    assert text_width(token.label) <= MAX_LABEL_EM
    assert token.tooltip == "x" * 5000
    assert text_width(shorten("漢" * 50)) <= MAX_LABEL_EM
    assert shorten("tired") == "tired"


def test_invisible_and_invalid_characters_are_escaped() -> None:
    assert escape_invisible("a\u202eb\x00\ud800\ufffe\u2028") == "a\\u202eb\\u0000\\ud800\\ufffe\\u2028"
    assert escape_invisible("👩‍👧 שלום é") == "👩‍👧 שלום é"


def test_word_is_found() -> None:
    tokens = label_tokens(["[CLS]", "the", "animal", "didn", "'", "t", "token", "##ize", "the", "7", "[SEP]"])
    assert find_word(tokens, 2) == [2]
    assert find_word(tokens, "animal") == [2]
    assert find_word(tokens, "Animal") == [2]
    assert find_word(tokens, "the") == [1, 8]
    assert find_word(tokens, "didn't") == [3, 4, 5]
    assert find_word(tokens, "tokenize") == [6, 7]
    assert find_word(tokens, "ize") == find_word(tokens, "##ize") == [7]
    assert find_word(tokens, "[CLS]") == [0]
    assert find_word(tokens, "7") == [9]  # the text first, then the number
    assert find_word(tokens, "10") == [10]


@pytest.mark.parametrize("word", [-1, 3, True, "dog", "", "99999999", "9" * 40, 1.5, "\x00"])
def test_wrong_words_are_refused(word: int) -> None:
    with pytest.raises(InputError):
        find_word(label_tokens(["a", "b", "c"]), word)
