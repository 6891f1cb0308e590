"""An inspection finds what was planted, and says it."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from clearhead.data import Columns, inspect_data, open_source
from clearhead.errors import InputError
from tests.data.test_examples import WordTokenizer

VOCABULARY = [f"word{i}" for i in range(3000)]


def draw_texts(count: int, seed: int = 0, words: int = 20) -> list[str]:
    chance = random.Random(seed)
    return [" ".join(chance.choices(VOCABULARY, k=words)) for _ in range(count)]


def label_texts(texts_to_label: list[str]) -> list[dict[str, Any]]:
    return [{"text": text, "label": "ab"[i % 2]} for i, text in enumerate(texts_to_label)]


def format_findings(inspection: Any) -> str:
    return "\n".join(f"{severity}: {sentence}" for severity, sentence in inspection.findings)


def test_clean_data_has_no_findings() -> None:
    inspection = inspect_data(label_texts(draw_texts(500)))
    assert inspection.findings == []
    assert (inspection.rows, inspection.kind, inspection.labels) == (500, "classes", {"a": 250, "b": 250})
    assert inspection.parts == {"all": 500}
    assert inspection.characters.least <= inspection.characters.median <= inspection.characters.most
    assert sum(count for _, count in inspection.characters.histogram) == 500
    assert json.loads(json.dumps(inspection.to_json()))["columns"]["text"] == "text"


def test_exact_and_near_duplicates() -> None:
    plain = draw_texts(2000, words=30)
    chance = random.Random(1)
    planted = []
    for text in plain[:100]:
        words = text.split()
        words[chance.randrange(30)] = "changed"  # 3 of 28 triples differ: 25 / 31 = 0.81
        planted.append(" ".join(words))
    copies = [text.upper() + "  " for text in plain[200:250]]
    punctuated = [text.replace(" ", ", ") + "!" for text in plain[300:320]]
    inspection = inspect_data(label_texts(plain + planted + copies + punctuated))
    assert inspection.exact.rows == inspection.exact.groups == 50
    assert 118 <= inspection.near.rows <= 120
    assert all(second[1] - first[1] >= 1900 for first, second in inspection.near.examples)
    assert "50 rows" in format_findings(inspection)


def test_unlike_texts_are_not_near() -> None:
    plain = draw_texts(1000, words=12)
    half = [
        " ".join([*text.split()[:5], *unrelated_text.split()[5:]])
        for text, unrelated_text in zip(plain, draw_texts(1000, 5, 12), strict=True)
    ]
    assert inspect_data(label_texts(plain + half)).near.rows <= 2  # 3 of 17 triples are shared: 0.18
    assert inspect_data(label_texts(["yes", "no", "ok then"] * 3)).near.rows == 0


def test_leaks_between_files_and_splits() -> None:
    plain = draw_texts(300, words=30)
    near_duplicates = [f"{text} once more" for text in plain[10:15]]
    inspection = inspect_data(
        label_texts(plain),
        dev=label_texts([*plain[:7], *near_duplicates, *draw_texts(100, 9)]),
        test=label_texts(draw_texts(50, 8)),
    )
    assert inspection.parts == {"train": 300, "dev": 112, "test": 50}
    assert (inspection.leaks.groups, inspection.near_leaks.groups) == (7, 5)
    assert inspection.leaks.examples[0] == (("train", 1), ("dev", 1))
    assert "error: 7 texts occur in more than one part" in format_findings(inspection)
    rows = [
        row | {"split": "train" if i % 2 else "test"} for i, row in enumerate(label_texts(plain[:100] + plain[1:6]))
    ]
    assert inspect_data(rows).leaks.groups == 5


def test_conflicts_and_odd_labels() -> None:
    plain = draw_texts(200)
    more = [{"text": plain[i], "label": label} for i, label in enumerate(("b", "A ", "a"))]
    rows = [*label_texts(plain), *more]
    inspection = inspect_data(rows)
    assert inspection.conflicts.groups == 2
    assert inspection.conflicts.examples[0] == (("all", 1), ("all", 201))
    findings = format_findings(inspection)
    assert "'A ', 'a' differ only in case or whitespace" in findings
    assert "labels with fewer than 5 rows: A  (1)" in findings
    uneven = inspect_data(
        [{"text": text, "label": "spam" if i < 20 else "ham"} for i, text in enumerate(draw_texts(400))]
    )
    assert "ham has 95% of the rows" in format_findings(uneven)
    alone = inspect_data([{"text": text, "label": "ham"} for text in draw_texts(60)])
    assert "nothing to learn" in format_findings(alone)


def test_bad_rows_and_wrong_decoding() -> None:
    rows: list[Any] = [
        *label_texts(draw_texts(100)),
        {"text": "", "label": "a"},
        {"text": "cafÃ© for two", "label": "a"},
        7,
    ]
    rows += [
        {"text": "donâ€™t", "label": "b"},
        {"text": "lost \ufffd letter", "label": "b"},
        {"text": "Ã la carte", "label": "b"},
    ]
    inspection = inspect_data(rows)
    assert inspection.bad == {"empty text": 1, "not an object": 1}
    assert inspection.bad_rows[0] == "row 101: text is empty"
    assert inspection.mojibake == 3
    assert "error: 2 rows cannot be used (empty text: 1, not an object: 1)." in format_findings(inspection)


def test_tokens_numbers_and_several_labels() -> None:
    inspection = inspect_data(label_texts([*draw_texts(99), "long " * 200]), tokenizer=WordTokenizer(), max_length=128)
    assert inspection.tokens is not None
    assert (inspection.tokens.most, inspection.too_long, inspection.token_rows) == (202, 1, 100)
    assert "1 row (1.0%) exceeds the maximum length of 128 tokens" in format_findings(inspection)
    scores = inspect_data([{"text": text, "label": i / 10} for i, text in enumerate(draw_texts(60))])
    assert scores.kind == "number"
    assert scores.numbers == pytest.approx((0, 2.95, 5.9))
    several = inspect_data([{"text": text, "label": ["x", "y"][: i % 3]} for i, text in enumerate(draw_texts(60))])
    assert (several.kind, several.labels) == ("multilabel", {"x": 40, "y": 20})
    none = inspect_data([{"text": text} for text in draw_texts(60)])
    assert none.kind is None
    assert "no label column" in format_findings(none)


def test_columns_can_be_said_and_must_be_there(tmp_path: Path) -> None:
    rows = [{"a": text, "b": text, "c": "x"} for text in draw_texts(60)]
    assert inspect_data(rows, columns=Columns(text="a")).rows == 60
    with pytest.raises(InputError, match="no column 'text'"):
        inspect_data(label_texts(draw_texts(9)), dev=rows)
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
    rows = [{"text": text, "score": 1e308 * (1 + index / 100)} for index, text in enumerate(draw_texts(60))]
    inspection = inspect_data(rows, columns=Columns(text="text", label="score"))
    assert inspection.kind == "number"
    assert inspection.numbers is None
    json.dumps(inspection.to_json(), allow_nan=False)
