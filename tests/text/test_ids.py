"""The shorter way to ids and segments gives those of whole encodings, for every family and any text."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from clearhead.errors import InputError
from clearhead.text import Tokenizer, load_tokenizer, pipeline
from tests.text.test_tokenizer_parity import FORMS, RANDOM_TEXT
from tests.text.tokenizer_folders import LEGACY, TEXTS, WORDS, marian
from tests.variation import scaled

Family = Callable[[str, str], tuple[Tokenizer, Any]]


def same(tokenizer: Tokenizer, items: list[Any]) -> None:
    whole, ids = tokenizer.encode_batch(items), tokenizer.encode_ids(items)
    assert [(one.ids, one.segments, len(one)) for one in whole] == [(one.ids, one.segments, len(one)) for one in ids]
    assert not any(one.truncated for one in ids)


@pytest.mark.thin(4)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", LEGACY)
def test_texts_pairs_and_words(family: Family, name: str, form: str) -> None:
    tokenizer, _ = family(name, form)
    texts = list(TEXTS)
    words = [words for words in WORDS if words]
    same(tokenizer, [*texts, *zip(texts, texts[3:] + texts[:3], strict=True), *words, (words[0], words[1])])
    same(tokenizer, [])


@settings(max_examples=scaled(40), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.one_of(RANDOM_TEXT, st.tuples(RANDOM_TEXT, RANDOM_TEXT)), min_size=1, max_size=4))
def test_any_text(family: Family, items: list[Any]) -> None:
    for name in LEGACY:
        same(family(name, "ours")[0], items)


def test_marian(tmp_path: Path) -> None:
    model_type = marian(tmp_path)
    tokenizer = load_tokenizer(tmp_path, model_type, {}).source
    same(tokenizer, list(TEXTS))


def test_what_is_no_text_is_refused_alike(family: Family) -> None:
    tokenizer, _ = family("bert_cased", "ours")
    for wrong in (5, "half \ud800", ("a", ["b"]), ("a", "b", "c"), ["a", 1]):
        said = []
        for encode in (tokenizer.encode_batch, tokenizer.encode_ids):
            with pytest.raises(InputError) as caught:
                encode(["good", wrong])  # type: ignore[list-item]
            said.append(str(caught.value))
        assert said[0] == said[1]


def test_many_long_texts_are_read_some_at_a_time(family: Family, monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer, _ = family(next(iter(LEGACY)), FORMS[0])
    items: list[Any] = [text for text in TEXTS if text] * 3
    items = [*items, (items[0], items[1])]
    together = (
        tokenizer.encode_batch(items),
        tokenizer.encode_ids(items, max_length=9),
        tokenizer.encode_plain(items[:-1]),
    )
    monkeypatch.setattr(pipeline, "MAX_BATCH_CHARACTERS", 40)
    assert together == (
        tokenizer.encode_batch(items),
        tokenizer.encode_ids(items, max_length=9),
        tokenizer.encode_plain(items[:-1]),
    )
    parts = list(pipeline.split_batches(items))
    assert [one for part in parts for one in part] == items
    assert all(len(part) == 1 or sum(map(len, part)) <= 40 for part in parts[:-1])
    assert any(len(part) > 1 for part in parts)
