"""Tags and spans in all supported notations; all unusable rows are reported at once."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from clearhead.data import Columns, LabelSpace, Source, open_source, resolve_columns, survey_rows
from clearhead.data.examples import TextRow
from clearhead.data.sources.source import BadRow, Row
from clearhead.errors import InputError
from clearhead.tasks import detect_task, get_task
from clearhead.tasks.tag.rows import check_row
from tests.tiny_models import write_csv

TAG = get_task("tag")
TEXT = "Ada met Tim Ng in Bern."
SPANS = [(0, 3, "PER"), (8, 14, "PER"), (18, 22, "LOC")]
WORDS = ["Ada", "met", "Tim", "Ng", "in", "Bern", "."]
IOB2 = ["B-PER", "O", "B-PER", "I-PER", "O", "B-LOC", "O"]
IOB1 = ["I-PER", "O", "I-PER", "I-PER", "O", "I-LOC", "O"]
BILOU = ["U-PER", "O", "B-PER", "L-PER", "O", "U-LOC", "O"]
IOBES = ["S-PER", "O", "B-PER", "E-PER", "O", "S-LOC", "O"]


def read_source(rows_or_path: Any) -> tuple[Source, Columns, LabelSpace]:
    source = open_source(rows_or_path)
    assert TAG.rows.label_counter is not None
    columns = resolve_columns(source, TAG.rows.layout)
    space = survey_rows(source, columns, check=check_row, counter=TAG.rows.label_counter())
    assert space is not None
    return source, columns, space


def read_tags(rows_or_path: Any) -> list[list[str]]:
    source, columns, space = read_source(rows_or_path)
    rows = [check_row(row, columns, space) for row in source.rows() if isinstance(row, Row)]
    return [[space.names[tag] for tag in row.label] for row in rows if isinstance(row, TextRow)]


def write_jsonl(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


OBJECTS = [{"start": a, "end": b, "label": kind} for a, b, kind in SPANS]
NOTATIONS: dict[str, dict[str, Any]] = {
    "objects": {"text": TEXT, "spans": OBJECTS},
    "lists": {"text": TEXT, "entities": [list(span) for span in SPANS]},
    "doccano, old": {"id": 1, "text": TEXT, "label": [list(span) for span in SPANS]},
    "doccano, new": {
        "id": 1,
        "text": TEXT,
        "relations": [],
        "Comments": [],
        "entities": [{"id": n, "label": k, "start_offset": a, "end_offset": b} for n, (a, b, k) in enumerate(SPANS)],
    },
    "spaCy": {"text": TEXT, "annotations": {"entities": [list(span) for span in SPANS]}},
    "Prodigy": {
        "text": TEXT,
        "_input_hash": 5,
        "answer": "accept",
        "tokens": [{"text": word, "id": place, "start": 0, "end": 3} for place, word in enumerate(WORDS)],
        "spans": [{**one, "token_start": 0, "token_end": 1} for one in OBJECTS],
    },
    "Label Studio": {"text": TEXT, "label": [{"start": a, "end": b, "labels": [k], "text": "x"} for a, b, k in SPANS]},
    "tokens": {"tokens": WORDS, "ner_tags": IOB2},
    "IOB1": {"words": WORDS, "tags": IOB1},
    "BILOU": {"tokens": WORDS, "ner": BILOU},
    "IOBES": {"tokens": WORDS, "labels": IOBES},
    "JSON in a cell": {"text": TEXT, "spans": json.dumps([list(span) for span in SPANS])},
    "objects in a cell": {"text": TEXT, "entities": json.dumps(OBJECTS)},
    "a nest in a cell": {"text": TEXT, "annotations": json.dumps({"entities": OBJECTS})},
    "tags in a cell": {"text": " ".join(WORDS), "tags": " ".join(IOB2)},
    "lists in cells": {"tokens": json.dumps(WORDS), "tags": json.dumps(IOB2)},
    "Python's lists in cells": {"tokens": str(WORDS), "tags": str(IOB2)},
}


@pytest.mark.parametrize("notation", NOTATIONS)
def test_every_notation_is_read_the_same(notation: str, tmp_path: Path) -> None:
    path = write_jsonl(tmp_path / "rows.jsonl", [NOTATIONS[notation]] * 3)
    assert read_tags(path) == [IOB2] * 3
    assert detect_task(open_source(path)) is TAG


@pytest.mark.parametrize(
    "notation", ["JSON in a cell", "objects in a cell", "tags in a cell", "lists in cells", "Python's lists in cells"]
)
def test_notations_in_table_cells(notation: str, tmp_path: Path) -> None:
    path = write_csv(tmp_path / "rows.csv", [NOTATIONS[notation]] * 3)
    assert read_tags(path) == [IOB2] * 3
    assert detect_task(open_source(path)) is TAG


@pytest.mark.parametrize("tags", [IOB1, IOB2, BILOU, IOBES])
@pytest.mark.parametrize("separator", [" ", "\t"])
def test_columns_of_every_scheme_become_the_same_tags(tags: list[str], separator: str, tmp_path: Path) -> None:
    lines = [f"{word}{separator}NN{separator}{tag}" for word, tag in zip(WORDS, tags, strict=True)]
    path = tmp_path / "rows.conll"
    path.write_text("-DOCSTART- -X- O\n\n" + "\n\n".join(["\n".join(lines)] * 4) + "\n")
    assert read_tags(path) == [IOB2] * 4
    assert read_source(path)[2] == LabelSpace(
        names=("O", "B-LOC", "I-LOC", "B-PER", "I-PER"), kind="tags", scheme="bio"
    )


def test_plain_tags_are_unchanged() -> None:
    rows = [{"tokens": ["a", "cat"], "pos_tags": ["DET", "NOUN"]}, {"tokens": ["go"], "pos_tags": ["VERB"]}]
    assert read_source(rows)[2] == LabelSpace(names=("DET", "NOUN", "VERB"), kind="tags", scheme="plain")
    assert read_tags(rows) == [["DET", "NOUN"], ["VERB"]]


def test_tag_ids_of_a_dataset_become_its_tag_names(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    names = ["O", "B-LOC", "B-PER", "I-PER"]
    for sequence_type in (datasets.Sequence, getattr(datasets, "List", datasets.Sequence)):
        features = datasets.Features(
            {
                "tokens": sequence_type(datasets.Value("string")),
                "ner_tags": sequence_type(datasets.ClassLabel(names=names)),
            }
        )
        tag_ids = [names.index(tag) for tag in IOB2]
        dataset = datasets.Dataset.from_dict({"tokens": [WORDS] * 2, "ner_tags": [tag_ids] * 2}, features=features)
        assert read_tags(dataset) == [IOB2] * 2
        assert dataset[0]["ner_tags"] == tag_ids  # the dataset itself is unchanged
        dataset.to_parquet(tmp_path / "rows.parquet")
        assert read_tags(tmp_path / "rows.parquet") == [IOB2] * 2
        assert open_source(tmp_path / "rows.parquet").label_names == {"ner_tags": tuple(names)}


@pytest.mark.parametrize(
    "metadata",
    [
        b"{",
        b"[]",
        b"5",
        b'{"info": {"features": []}}',
        b'{"info": {"features": {"label": {"names": [1]}}}}',
        b'{"info": {"features": {"other": {"names": ["x"]}, "label": null}}}',
        b"[" * 50_000,
    ],
)
def test_damaged_label_names_in_a_file_are_ignored(metadata: bytes, tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    table = pyarrow.table({"text": ["a", "b"], "label": [0, 1]}).replace_schema_metadata({b"huggingface": metadata})
    parquet.write_table(table, tmp_path / "rows.parquet")
    source = open_source(tmp_path / "rows.parquet")
    assert [row.values["label"] for row in source.rows() if isinstance(row, Row)] == [0, 1]
    assert source.label_names == {}


def test_arrays_in_a_frame_are_lists() -> None:
    pandas = pytest.importorskip("pandas")
    import numpy as np

    row = {"tokens": np.array(WORDS), "tags": np.array(IOB2)}
    assert read_tags(pandas.DataFrame([row, row])) == [IOB2] * 2
    assert read_tags([row, row]) == [IOB2] * 2


BAD_SPANS: dict[str, tuple[dict[str, Any], str]] = {
    "inside a word": ({"text": TEXT, "spans": [[0, 2, "PER"]]}, "the span 0 to 2 .PER, 'Ad'. ends inside a word"),
    "at a space": ({"text": TEXT, "spans": [[3, 7, "PER"]]}, "begins inside a word or at a space"),
    "outside": ({"text": TEXT, "spans": [[18, 99, "LOC"]]}, "exceeds the text of 23 characters"),
    "below 0": ({"text": TEXT, "spans": [[-3, 3, "LOC"]]}, "the span -3 to 3"),
    "backwards": ({"text": TEXT, "spans": [[7, 4, "LOC"]]}, "the span 7 to 4"),
    "huge": ({"text": TEXT, "spans": [[10**30, 10**40, "LOC"]]}, "exceeds the text"),
    "overlapping": ({"text": TEXT, "spans": [[8, 14, "PER"], [12, 14, "LOC"]]}, "the spans PER and LOC overlap"),
    "no label": ({"text": TEXT, "spans": [[0, 3]]}, r"a span needs start and end \(integers\) and a label"),
    "a label that is none": ({"text": TEXT, "spans": [[0, 3, None]]}, "a span needs start and end"),
    "half a character": ({"text": TEXT, "spans": [[0, 3, "\ud800"]]}, "a span needs start and end"),
    "fractions": ({"text": TEXT, "spans": [[0.0, 3.0, "PER"]]}, "a span needs start and end"),
    "yes and no": (
        {"text": TEXT, "spans": [{"start": False, "end": True, "label": "PER"}]},
        "a span needs start and end",
    ),
    "an end that is yes": ({"text": "a b", "spans": [[0, True, "PER"]]}, "a span needs start and end"),
    "no list": ({"text": TEXT, "spans": {"entities": 5}}, "spans has no list of spans"),
    "null": ({"text": TEXT, "spans": None}, "spans has no list of spans"),
    "a null nest": ({"text": TEXT, "spans": {"entities": None}}, "spans has no list of spans"),
    "a number": ({"text": TEXT, "spans": 7}, "spans has no list of spans"),
    "an empty text": ({"text": " ", "spans": []}, "text is empty"),
    "a NUL byte": ({"text": "a\0b", "spans": []}, "text contains a NUL byte"),
    "too few tags": ({"text": "a b c", "spans": "O O"}, "3 words and 2 tags"),
}


@pytest.mark.parametrize("case", BAD_SPANS)
def test_invalid_spans_are_reported(case: str) -> None:
    values, message = BAD_SPANS[case]
    checked = check_row(Row(7, values, 9), Columns(text="text", label="spans"), None)
    assert isinstance(checked, BadRow), checked
    assert re.search(message, str(checked)), str(checked)
    assert str(checked).startswith("row 7 (line 9): ")
    assert "\n" not in str(checked)
    assert len(str(checked)) < 400


BAD_WORDS: dict[str, tuple[Any, Any, str]] = {
    "too few tags": (["a", "b"], ["O"], "2 words and 1 tag"),
    "too many tags": (["a"], ["O", "O"], "1 word and 2 tags"),
    "no words": ([], [], "tokens has no words"),
    "an empty word": (["a", ""], ["O", "O"], "or an empty word"),
    "a word that is null": (["a", None], ["O", "O"], "or an empty word"),
    "a word that is an object": ([{"text": "a"}], ["O"], "or an empty word"),
    "a NUL byte": (["a\0"], ["O"], "a NUL byte or a lone surrogate"),
    "an empty tag": (["a", "b"], ["O", ""], "a tag is empty"),
    "a tag that is null": (["a", "b"], ["O", None], "a tag is empty"),
    "a tag that is a list": (["a", "b"], ["O", ["O"]], "a tag is empty"),
    "a tag with a space": (["a"], ["B- X"], "a tag is empty or not a single word"),
    "a tag without end": (["a"], ["B-" + "x" * 900], "a tag is empty or not a single word"),
    "no tags": (["a"], None, "tags has no tags"),
    "an object of tags": (["a"], {"a": 1}, "tags has no tags"),
}


@pytest.mark.parametrize("case", BAD_WORDS)
def test_invalid_words_and_tags_are_reported(case: str) -> None:
    words, tags, message = BAD_WORDS[case]
    checked = check_row(Row(7, {"tokens": words, "tags": tags}), Columns(text="tokens", label="tags"), None)
    assert isinstance(checked, BadRow), checked
    assert message in str(checked)


def test_all_bad_rows_are_in_one_error_and_can_be_skipped() -> None:
    good = {"text": TEXT, "spans": OBJECTS}
    rows = [good, *(dict(values) for values, _ in BAD_SPANS.values()), good]
    source = open_source(rows)
    columns = Columns(text="text", label="spans")
    assert TAG.rows.label_counter is not None
    with pytest.raises(InputError) as refused:
        survey_rows(source, columns, check=check_row, counter=TAG.rows.label_counter())
    message = str(refused.value)
    assert f"{len(BAD_SPANS):,} of {len(rows):,} rows cannot be used" in message
    assert "row 2:" in message
    assert "row 20:" in message
    space = survey_rows(source, columns, check=check_row, counter=TAG.rows.label_counter(), skip_bad_rows=True)
    assert space is not None
    assert space.names == ("O", "B-LOC", "I-LOC", "B-PER", "I-PER")


def test_a_text_may_look_like_a_list() -> None:
    for text in ("[1] says so", "[]", "[1, 2]", "[UNK]", "{}"):
        checked = check_row(Row(1, {"text": text, "spans": []}), Columns(text="text", label="spans"), None)
        assert isinstance(checked, TextRow)
        assert checked.text == text


def test_json_spans_are_recognized_if_they_are_as_many_as_words() -> None:
    checked = check_row(
        Row(1, {"text": "Ada saw Tim", "spans": '[[0, 3, "PER"]]'}), Columns(text="text", label="spans"), None
    )
    assert isinstance(checked, TextRow)
    assert checked.label.spans == ((0, 1, "PER"),)


@pytest.mark.parametrize(
    ("names", "tags"),
    [
        (("O", "I-LOC", "I-PER"), IOB1),
        (("O", *(f"{mark}-{kind}" for kind in ("LOC", "PER") for mark in "BILU")), BILOU),
        (("O", *(f"{mark}-{kind}" for kind in ("LOC", "PER") for mark in "BIES")), IOBES),
    ],
)
def test_foreign_checkpoints_are_measured_in_their_own_tags(names: tuple[str, ...], tags: list[str]) -> None:
    space = LabelSpace(names=names, kind="tags", scheme="iob")
    checked = check_row(Row(1, {"tokens": WORDS, "tags": IOB2}), Columns(text="tokens", label="tags"), space)
    assert isinstance(checked, TextRow)
    assert [names[tag] for tag in checked.label] == tags


def test_an_unknown_tag_is_reported() -> None:
    space = LabelSpace(names=("O", "B-LOC", "I-LOC"), kind="tags", scheme="bio")
    checked = check_row(Row(3, {"tokens": WORDS, "tags": IOB2}), Columns(text="tokens", label="tags"), space)
    assert isinstance(checked, BadRow)
    assert "tag 'B-PER' is not one of O, B-LOC, I-LOC" in str(checked)


def test_multiple_labels_of_a_text_are_not_tags() -> None:
    rows = [{"tokens": ["good", "film"] * index, "labels": ["x", "y"]} for index in range(1, 9)]
    assert detect_task(open_source(rows)) is None
    sparse = [{"text": TEXT, "spans": OBJECTS if index == 7 else []} for index in range(12)]
    assert detect_task(open_source(sparse)) is TAG


def test_a_file_without_tags_is_refused(tmp_path: Path) -> None:
    path = write_csv(tmp_path / "rows.csv", [{"text": "a b", "length": 3}])
    with pytest.raises(InputError, match="no column of tags or spans among text, length; name it with label="):
        read_source(path)
