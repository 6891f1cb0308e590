"""An inspection finds what was planted, and says it."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from clearhead.data import Columns, inspect_data, open_source
from clearhead.errors import InputError
from tests.data.test_examples import Words

VOCABULARY = [f"word{i}" for i in range(3000)]


def texts(count: int, seed: int = 0, words: int = 20) -> list[str]:
    chance = random.Random(seed)
    return [" ".join(chance.choices(VOCABULARY, k=words)) for _ in range(count)]


def labelled(given: list[str]) -> list[dict[str, Any]]:
    return [{"text": text, "label": "ab"[i % 2]} for i, text in enumerate(given)]


def sentences(found: Any) -> str:
    return "\n".join(f"{severity}: {sentence}" for severity, sentence in found.findings)


def test_clean_data_has_no_findings() -> None:
    found = inspect_data(labelled(texts(500)))
    assert found.findings == []
    assert (found.rows, found.kind, found.labels) == (500, "classes", {"a": 250, "b": 250})
    assert found.parts == {"all": 500}
    assert found.characters.least <= found.characters.median <= found.characters.most
    assert sum(count for _, count in found.characters.histogram) == 500
    assert json.loads(json.dumps(found.to_json()))["columns"]["text"] == "text"


def test_exact_and_near_duplicates() -> None:
    plain = texts(2000, words=30)
    chance = random.Random(1)
    planted = []
    for text in plain[:100]:
        words = text.split()
        words[chance.randrange(30)] = "changed"  # 3 of 28 triples differ: 25 / 31 = 0.81
        planted.append(" ".join(words))
    copies = [text.upper() + "  " for text in plain[200:250]]
    punctuated = [text.replace(" ", ", ") + "!" for text in plain[300:320]]
    found = inspect_data(labelled(plain + planted + copies + punctuated))
    assert found.exact.rows == found.exact.groups == 50
    assert 118 <= found.near.rows <= 120
    assert all(second[1] - first[1] >= 1900 for first, second in found.near.examples)
    assert "50 rows" in sentences(found)


def test_unlike_texts_are_not_near() -> None:
    plain = texts(1000, words=12)
    half = [
        " ".join([*text.split()[:5], *other.split()[5:]]) for text, other in zip(plain, texts(1000, 5, 12), strict=True)
    ]
    assert inspect_data(labelled(plain + half)).near.rows <= 2  # 3 of 17 triples are shared: 0.18
    assert inspect_data(labelled(["yes", "no", "ok then"] * 3)).near.rows == 0


def test_leaks_between_files_and_splits() -> None:
    plain = texts(300, words=30)
    near = [f"{text} once more" for text in plain[10:15]]
    found = inspect_data(
        labelled(plain), dev=labelled([*plain[:7], *near, *texts(100, 9)]), test=labelled(texts(50, 8))
    )
    assert found.parts == {"train": 300, "dev": 112, "test": 50}
    assert (found.leaks.groups, found.near_leaks.groups) == (7, 5)
    assert found.leaks.examples[0] == (("train", 1), ("dev", 1))
    assert "error: 7 texts occur in more than one part" in sentences(found)
    rows = [row | {"split": "train" if i % 2 else "test"} for i, row in enumerate(labelled(plain[:100] + plain[1:6]))]
    assert inspect_data(rows).leaks.groups == 5


def test_conflicts_and_odd_labels() -> None:
    plain = texts(200)
    more = [{"text": plain[i], "label": label} for i, label in enumerate(("b", "A ", "a"))]
    rows = [*labelled(plain), *more]
    found = inspect_data(rows)
    assert found.conflicts.groups == 2
    assert found.conflicts.examples[0] == (("all", 1), ("all", 201))
    said = sentences(found)
    assert "'A ', 'a' differ only in case or whitespace" in said
    assert "fewer than 5 rows have the label A  (1)" in said
    uneven = inspect_data([{"text": text, "label": "spam" if i < 20 else "ham"} for i, text in enumerate(texts(400))])
    assert "ham has 95% of the rows" in sentences(uneven)
    alone = inspect_data([{"text": text, "label": "ham"} for text in texts(60)])
    assert "nothing to learn" in sentences(alone)


def test_bad_rows_and_wrong_decoding() -> None:
    rows: list[Any] = [*labelled(texts(100)), {"text": "", "label": "a"}, {"text": "cafÃ© for two", "label": "a"}, 7]
    rows += [
        {"text": "donâ€™t", "label": "b"},
        {"text": "lost \ufffd letter", "label": "b"},
        {"text": "Ã la carte", "label": "b"},
    ]
    found = inspect_data(rows)
    assert found.bad == {"empty text": 1, "not an object": 1}
    assert found.bad_rows[0] == "row 101: text is empty"
    assert found.mojibake == 3
    assert "error: 2 rows cannot be used (empty text: 1, not an object: 1)." in sentences(found)


def test_tokens_numbers_and_several_labels() -> None:
    found = inspect_data(labelled([*texts(99), "long " * 200]), tokenizer=Words(), max_length=128)
    assert found.tokens is not None
    assert (found.tokens.most, found.too_long, found.token_rows) == (202, 1, 100)
    assert "1 row (1.0%) exceeds the maximum length of 128 tokens" in sentences(found)
    scores = inspect_data([{"text": text, "label": i / 10} for i, text in enumerate(texts(60))])
    assert scores.kind == "number"
    assert scores.numbers == pytest.approx((0, 2.95, 5.9))
    several = inspect_data([{"text": text, "label": ["x", "y"][: i % 3]} for i, text in enumerate(texts(60))])
    assert (several.kind, several.labels) == ("multilabel", {"x": 40, "y": 20})
    none = inspect_data([{"text": text} for text in texts(60)])
    assert none.kind is None
    assert "no label column" in sentences(none)


def test_columns_can_be_said_and_must_be_there(tmp_path: Path) -> None:
    rows = [{"a": text, "b": text, "c": "x"} for text in texts(60)]
    assert inspect_data(rows, columns=Columns(text="a")).rows == 60
    with pytest.raises(InputError, match="no column 'text'"):
        inspect_data(labelled(texts(9)), dev=rows)
    with pytest.raises(InputError, match="1 of 1 rows cannot be used"):
        inspect_data([{"text": "", "label": "a"}], columns=Columns(text="text"))
    assert inspect_data(open_source(rows), columns=Columns(text="b", label="c")).labels == {"x": 60}


def test_real_data(data_folder: Path) -> None:
    spam = inspect_data(data_folder / "sms_spam" / "train.tsv")
    assert spam.rows == 4459
    assert spam.exact.rows > 200
    scores = inspect_data(data_folder / "stsb" / "train.tsv", dev=data_folder / "stsb" / "dev.tsv")
    assert scores.kind == "number"
    assert scores.leaks.groups == 6


def test_numbers_whose_sum_is_too_large_have_no_mean() -> None:
    rows = [{"text": text, "score": 1e308 * (1 + place / 100)} for place, text in enumerate(texts(60))]
    found = inspect_data(rows, columns=Columns(text="text", label="score"))
    assert found.kind == "number"
    assert found.numbers is None
    json.dumps(found.to_json(), allow_nan=False)
