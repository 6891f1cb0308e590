"""Columns are guessed by name and content, said aloud, and asked for when in doubt."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from clearhead.data import BadRow, guess_columns, load_examples, open_source
from clearhead.errors import InputError

REAL = {
    "sst2/train.tsv": ("sentence", None, "label", "classes", 2),
    "imdb/train.tsv.gz": ("text", None, "label", "classes", 2),
    "ag_news/train.tsv.gz": ("description", None, "label", "classes", 4),
    "trec/train.tsv": ("question", None, "coarse", "classes", 6),
    "sms_spam/train.tsv": ("text", None, "label", "classes", 2),
    "banking77/train.tsv": ("text", None, "label", "classes", 77),
    "cola/train.tsv": ("sentence", None, "label", "classes", 2),
    "mrpc/train.tsv": ("sentence1", "sentence2", "label", "classes", 2),
    "rte/train.tsv": ("sentence1", "sentence2", "label", "classes", 2),
    "snli/dev.tsv.gz": ("sentence1", "sentence2", "label", "classes", 3),
    "quora/dev.tsv.gz": ("question1", "question2", "label", "classes", 2),
    "stsb/train.tsv": ("sentence1", "sentence2", "score", "number", 0),
    "sick/train.tsv": ("sentence1", "sentence2", "entailment", "classes", 3),
    "semeval14_absa/laptops_train.tsv": ("text", "aspect", "label", "classes", 3),
    "wikiqa/dev.tsv": ("question", "sentence", "label", "classes", 2),
    "superglue_dev/boolq.jsonl.gz": ("question", "passage", "label", "classes", 2),
    "superglue_dev/cb.jsonl": ("premise", "hypothesis", "label", "classes", 3),
}


@pytest.mark.parametrize("name", REAL)
def test_columns_of_public_data(data_folder: Path, name: str) -> None:
    if not (data_folder / name).exists():
        pytest.skip(f"{data_folder / name} is not there")
    source = open_source(data_folder / name)
    columns = guess_columns(source)
    text, text_b, label, kind, classes = REAL[name]
    assert (columns.text, columns.text_b, columns.label) == (text, text_b, label)
    assert text in " ".join(columns.messages)
    examples = load_examples(source, columns)
    assert not examples.skipped
    assert examples.space is not None
    assert (examples.space.kind, len(examples.space)) == (kind, classes)


def test_the_task_decides_between_labels(data_folder: Path) -> None:
    source = open_source(data_folder / "sick" / "train.tsv")
    assert guess_columns(source, task="regress").label == "relatedness"
    assert guess_columns(source, task="pair").label == "entailment"


def test_every_public_file_opens(data_folder: Path) -> None:
    files = [path for path in sorted(data_folder.glob("*/*")) if "-v1.1" not in path.name]
    for path in files:
        source = open_source(path)
        assert source.messages
        assert source.columns
        assert not any(isinstance(row, BadRow) for row in source.sample(2000)), path


def make_rows(**columns: list[Any]) -> list[dict[str, Any]]:
    return [dict(zip(columns, cells, strict=True)) for cells in zip(*columns.values(), strict=True)]


TEXTS = [f"this is text number {i} of many" for i in range(20)]
OTHERS = [f"and another one, with number {i} in it" for i in range(20)]
CLASSES = ["good", "bad"] * 10


def test_by_content() -> None:
    columns = guess_columns(open_source(make_rows(foo=TEXTS, bar=CLASSES, when=list(range(20)))))
    assert (columns.text, columns.label) == ("foo", "bar")
    assert "the longest texts" in columns.messages[0]
    assert columns.messages[-1] == "not used: when"
    scores = guess_columns(open_source(make_rows(a=TEXTS, b=[i / 7 for i in range(20)])))
    assert scores.label == "b"


def test_by_name() -> None:
    data = make_rows(
        **{
            "Review Text": TEXTS,
            "Long": [t * 9 for t in TEXTS],
            "Category": CLASSES,
            "_id": TEXTS,
            "Split": ["train", "val"] * 10,
        }
    )
    columns = guess_columns(open_source(data))
    assert columns.used == ("Review Text", "Category", "_id", "Split")
    odd = guess_columns(open_source(make_rows(text=TEXTS, label=CLASSES, fold=list(range(20)))))
    assert odd.split is None  # numbers of folds are no splits


def test_as_said() -> None:
    source = open_source(make_rows(a=TEXTS, b=OTHERS, c=CLASSES, d=CLASSES))
    columns = guess_columns(source, text="b", label="d", id="a")
    assert (columns.text, columns.text_b, columns.label, columns.id) == ("b", None, "d", "a")
    assert "text column: b (as named)" in columns.messages
    with pytest.raises(InputError, match="no column 'x' for label; it has a, b, c, d"):
        guess_columns(source, label="x")


def test_doubt_is_an_error_that_lists_the_columns() -> None:
    with pytest.raises(InputError, match=r"both look like texts: .*one \(.*two \(.*text="):
        guess_columns(open_source(make_rows(one=TEXTS, two=OTHERS, label=CLASSES)))
    pair = guess_columns(open_source(make_rows(one=TEXTS, two=OTHERS, label=CLASSES)), text="one", task="pair")
    assert (pair.text, pair.text_b) == ("one", "two")
    with pytest.raises(InputError, match=r"b, c of the list could all be the label.*label="):
        guess_columns(open_source(make_rows(text=TEXTS, b=CLASSES, c=CLASSES)))
    with pytest.raises(InputError, match=r"No column of the list looks like texts.*text="):
        guess_columns(open_source(make_rows(a=[1, 2, 3], b=[4, 5, 6])))
    with pytest.raises(InputError, match=r"No column of the list looks like a label.*label="):
        guess_columns(open_source(make_rows(text=TEXTS)))
    assert guess_columns(open_source(make_rows(text=TEXTS)), labeled=False).label is None
    with pytest.raises(InputError, match="no usable rows"):
        guess_columns(open_source([5]))


def test_a_pair_is_one_text_when_classify_is_said() -> None:
    source = open_source(make_rows(text=TEXTS, aspect=CLASSES, label=CLASSES))
    assert guess_columns(source).text_b == "aspect"
    assert guess_columns(source, task="classify").text_b is None


@pytest.mark.parametrize(("first", "second"), [("query", "document"), ("text_a", "text_b"), ("Question", "Passage")])
@pytest.mark.parametrize("cells", [("python sort", "sort a list"), ("hotel", "Rooms with a view of the sea.")])
def test_short_texts_in_columns_named_as_pairs_are_pairs(first: str, second: str, cells: tuple[str, str]) -> None:
    rows = [{first: cells[0], second: cells[1]}, {first: "berlin", second: "weather"}]
    columns = guess_columns(open_source(rows), labeled=False)
    assert (columns.text, columns.text_b) == (first, second)
    labels = [{**row, "label": str(index % 2)} for index, row in enumerate(rows * 4)]
    trained = guess_columns(open_source(labels))
    assert (trained.text, trained.text_b, trained.label) == (first, second, "label")


def test_a_second_name_that_can_be_a_label_needs_texts() -> None:
    rows = [{"question": f"is the sea number {index} blue", "answer": ("yes", "no")[index % 2]} for index in range(8)]
    columns = guess_columns(open_source(rows))
    assert (columns.text, columns.text_b, columns.label) == ("question", None, "answer")
