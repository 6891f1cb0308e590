"""`encode_ids` returns the same ids and segments as `encode_batch`, for every family and any text."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from clearhead.errors import InputError
from clearhead.text import Tokenizer, load_tokenizer, pipeline
from tests.text.test_tokenizer_parity import ORIGINS, RANDOM_TEXT
from tests.text.tokenizer_folders import LEGACY_WRITERS, TEXTS, WORDS, write_marian
from tests.variation import scaled

LoadFamily = Callable[[str, str], tuple[Tokenizer, Any]]


def check_ids(tokenizer: Tokenizer, items: list[Any]) -> None:
    encodings, token_ids = tokenizer.encode_batch(items), tokenizer.encode_ids(items)
    assert [(encoding.ids, encoding.segments, len(encoding)) for encoding in encodings] == [
        (encoding.ids, encoding.segments, len(encoding)) for encoding in token_ids
    ]
    assert not any(encoding.truncated for encoding in token_ids)


@pytest.mark.thin(4)
@pytest.mark.parametrize("origin", ORIGINS)
@pytest.mark.parametrize("name", LEGACY_WRITERS)
def test_texts_pairs_and_words(load_family: LoadFamily, name: str, origin: str) -> None:
    tokenizer, _ = load_family(name, origin)
    texts = list(TEXTS)
    word_lists = [words for words in WORDS if words]
    check_ids(
        tokenizer,
        [*texts, *zip(texts, texts[3:] + texts[:3], strict=True), *word_lists, (word_lists[0], word_lists[1])],
    )
    check_ids(tokenizer, [])


@settings(max_examples=scaled(40), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.one_of(RANDOM_TEXT, st.tuples(RANDOM_TEXT, RANDOM_TEXT)), min_size=1, max_size=4))
def test_any_text(load_family: LoadFamily, items: list[Any]) -> None:
    for name in LEGACY_WRITERS:
        check_ids(load_family(name, "ours")[0], items)


def test_marian(tmp_path: Path) -> None:
    model_type = write_marian(tmp_path)
    tokenizer = load_tokenizer(tmp_path, model_type, {}).source
    check_ids(tokenizer, list(TEXTS))


def test_invalid_texts_raise_equal_errors(load_family: LoadFamily) -> None:
    tokenizer, _ = load_family("bert_cased", "ours")
    for invalid in (5, "unpaired \ud800", ("a", ["b"]), ("a", "b", "c"), ["a", 1]):
        messages = []
        for encode in (tokenizer.encode_batch, tokenizer.encode_ids):
            with pytest.raises(InputError) as error:
                encode(["good", invalid])  # type: ignore[list-item]
            messages.append(str(error.value))
        assert messages[0] == messages[1]


def test_long_texts_are_encoded_in_batches(load_family: LoadFamily, monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer, _ = load_family(next(iter(LEGACY_WRITERS)), ORIGINS[0])
    items: list[Any] = [text for text in TEXTS if text] * 3
    items = [*items, (items[0], items[1])]
    expected = (
        tokenizer.encode_batch(items),
        tokenizer.encode_ids(items, max_length=9),
        tokenizer.encode_plain(items[:-1]),
    )
    monkeypatch.setattr(pipeline, "MAX_BATCH_CHARACTERS", 40)
    assert expected == (
        tokenizer.encode_batch(items),
        tokenizer.encode_ids(items, max_length=9),
        tokenizer.encode_plain(items[:-1]),
    )
    batches = list(pipeline.split_batches(items))
    assert [item for batch in batches for item in batch] == items
    assert all(len(batch) == 1 or sum(map(len, batch)) <= 40 for batch in batches[:-1])
    assert any(len(batch) > 1 for batch in batches)
