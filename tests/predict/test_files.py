"""Prediction files: all columns in order, every input and output format, and no overwritten or incomplete files."""

from __future__ import annotations

import csv
import gzip
import io
import json
from pathlib import Path
from typing import Any

import pytest

from clearhead.api import load_predictor, predict, predict_file, train
from clearhead.errors import ClearheadError, InputError
from clearhead.train.finish import Run
from tests.rows import make_multilabel_rows
from tests.tiny_models import make_sentiment_rows, write_csv

SPECIAL_TEXTS = [
    'a "quoted" film',
    "two\nlines",
    "comma, and; semi",
    "tab\there",
    "it's =SUM(A1)",
    "  blanks  ",
    "naïve 日本 👩‍👧",
    "carriage\rreturn",
]


def read_table(path: Path, delimiter: str = ",") -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file, delimiter=delimiter))


def read_objects(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().split("\n") if line]


@pytest.mark.parametrize("ending", [".csv", ".tsv", ".jsonl", ".CSV", ".ndjson"])
def test_every_column_and_the_order_are_kept(ending: str, tfidf_run: Run, tmp_path: Path) -> None:
    rows = [{"n": str(n), "text": text, "z": f"z{n}", "a": ""} for n, text in enumerate(SPECIAL_TEXTS)]
    source = write_csv(tmp_path / "in.csv", rows)
    output = tmp_path / f"out{ending}"
    summary = predict_file(tfidf_run.folder, source, output)
    assert (summary.rows, summary.output, summary.resumed, summary.columns) == (
        len(rows),
        str(output),
        0,
        {"text": "text"},
    )
    output_rows: list[dict[str, Any]] = (
        read_objects(output) if "json" in ending else read_table(output, "\t" if ending == ".tsv" else ",")
    )
    assert list(output_rows[0]) == ["n", "text", "z", "a", "prediction", "probability", "truncated", "windows"]
    assert [{key: row[key] for key in rows[0]} for row in output_rows] == rows
    answers = predict(tfidf_run.folder, source)
    assert [row["prediction"] for row in output_rows] == [answer.label for answer in answers]
    assert [float(row["probability"]) for row in output_rows] == [
        round(answer.probability or 0, 6) for answer in answers
    ]
    assert {(str(row["truncated"]), str(row["windows"])) for row in output_rows} == {("0", "1")}
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(["in.csv", output.name])  # no temporary files


def test_values_keep_their_types_in_json(tfidf_run: Run, tmp_path: Path) -> None:
    rows = [{"id": 7, "text": "it was good", "tags": ["x", "y"], "more": {"a": [1, None]}, "sure": True, "score": 1.5}]
    (tmp_path / "in.jsonl").write_text(json.dumps(rows[0]) + "\n")
    predict_file(tfidf_run.folder, tmp_path / "in.jsonl", tmp_path / "out.jsonl")
    assert {key: read_objects(tmp_path / "out.jsonl")[0][key] for key in rows[0]} == rows[0]
    predict_file(tfidf_run.folder, tmp_path / "in.jsonl", tmp_path / "out.csv")
    output_row = read_table(tmp_path / "out.csv")[0]
    assert (output_row["id"], output_row["tags"], output_row["sure"], output_row["score"]) == (
        "7",
        "x|y",
        "true",
        "1.5",
    )
    assert json.loads(output_row["more"]) == {"a": [1, None]}


@pytest.mark.parametrize("ending", [".csv", ".jsonl"])
def test_a_column_that_comes_late_is_kept(ending: str, tfidf_run: Run, tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [{"text": f"good {n}"} for n in range(1500)]
    rows[1400]["note"] = "look here"
    source = tmp_path / "in.jsonl"
    source.write_text("".join(json.dumps(row) + "\n" for row in rows))
    predict_file(tfidf_run.folder, source, tmp_path / f"out{ending}")
    output_rows = read_objects(tmp_path / "out.jsonl") if ending == ".jsonl" else read_table(tmp_path / "out.csv")
    assert output_rows[1400]["note"] == "look here"
    assert not output_rows[0]["note"]
    buffer = io.BytesIO()
    if ending == ".csv":
        with pytest.raises(InputError, match="has a column 'note' that the first rows do not have; write JSON lines"):
            predict_file(tfidf_run.folder, (row for row in rows), buffer, format="csv")
    else:
        predict_file(tfidf_run.folder, (row for row in rows), buffer, format="jsonl")
        assert json.loads(buffer.getvalue().splitlines()[1400])["note"] == "look here"


@pytest.mark.parametrize("kind", ["gz", "tsv", "parquet", "frame", "list", "folder", "latin"])
def test_any_form_goes_in(kind: str, tfidf_run: Run, tmp_path: Path) -> None:
    texts = ["it was good", "it was awful", "naïve"]
    source: Any = [{"text": text} for text in texts]
    if kind == "gz":
        source = tmp_path / "in.csv.gz"
        source.write_bytes(gzip.compress(("text\n" + "\n".join(texts) + "\n").encode()))
    elif kind == "tsv":
        source = tmp_path / "in.tsv"
        source.write_text("n\ttext\n" + "".join(f"{n}\t{text}\n" for n, text in enumerate(texts)))
    elif kind == "parquet":
        pyarrow = pytest.importorskip("pyarrow")
        parquet = pytest.importorskip("pyarrow.parquet")
        source = tmp_path / "in.parquet"
        parquet.write_table(pyarrow.table({"text": texts}), source)
    elif kind == "frame":
        source = pytest.importorskip("pandas").DataFrame({"text": texts})
    elif kind == "folder":
        source = tmp_path / "in"
        for n, text in enumerate(texts):
            (source / "some").mkdir(parents=True, exist_ok=True)
            (source / "some" / f"{n}.txt").write_text(text)
    elif kind == "latin":
        source = tmp_path / "in.csv"
        source.write_bytes(("id,text\n" + "".join(f"{n},{text}\n" for n, text in enumerate(texts))).encode("latin-1"))
    predict_file(tfidf_run.folder, source, tmp_path / "out.jsonl")
    output_rows = read_objects(tmp_path / "out.jsonl")
    assert [row["text"] for row in output_rows] == texts
    assert [row["prediction"] for row in output_rows][:2] == ["good", "bad"]


def test_probabilities_of_every_label(fine_tuned_run: Run, reviews: Path, tmp_path: Path) -> None:
    predict_file(fine_tuned_run.folder, reviews, tmp_path / "out.csv", probabilities=True)
    for row in read_table(tmp_path / "out.csv"):
        probabilities = {name: float(row[f"probability:{name}"]) for name in ("bad", "good")}
        assert sum(probabilities.values()) == pytest.approx(1, abs=2e-6)
        assert float(row["probability"]) == max(probabilities.values())
        assert row["prediction"] == max(probabilities, key=lambda name: probabilities[name])


def test_several_labels_and_numbers(multilabel_run: Run, regression_run: Run, tmp_path: Path) -> None:
    summary = predict_file(multilabel_run.folder, make_multilabel_rows(30), tmp_path / "several.csv")
    assert summary.columns == {"text": "text"}
    answers = predict(multilabel_run.folder, make_multilabel_rows(30))
    output_rows = read_table(tmp_path / "several.csv")
    assert [row["prediction"] for row in output_rows] == ["|".join(answer.labels or ()) for answer in answers]
    predict_file(multilabel_run.folder, make_multilabel_rows(30), tmp_path / "several.jsonl")
    assert [row["prediction"] for row in read_objects(tmp_path / "several.jsonl")] == [
        list(a.labels or ()) for a in answers
    ]
    predict_file(regression_run.folder, ["good good good"], tmp_path / "number.csv")
    row = read_table(tmp_path / "number.csv")[0]
    assert list(row) == ["text", "prediction", "truncated", "windows"]
    assert float(row["prediction"]) == pytest.approx(
        predict(regression_run.folder, ["good good good"])[0].value, abs=1e-5
    )


def test_a_prefix_for_the_new_columns(tfidf_run: Run, reviews: Path, tmp_path: Path) -> None:
    predict_file(tfidf_run.folder, reviews, tmp_path / "one.csv")
    with pytest.raises(
        InputError, match=r"one.csv already has a column 'prediction'; prefix the new columns with prefix="
    ):
        predict_file(tfidf_run.folder, tmp_path / "one.csv", tmp_path / "two.csv")
    predict_file(tfidf_run.folder, tmp_path / "one.csv", tmp_path / "two.csv", prefix="second_")
    for row in read_table(tmp_path / "two.csv"):
        assert row["prediction"] == row["second_prediction"]
        assert row["probability"] == row["second_probability"]


def test_abstentions_are_empty_and_marked(tfidf_run: Run, tmp_path: Path) -> None:
    texts = ["it was good and great", "the film", "it was bad and sad"]
    predictor = load_predictor(tfidf_run.folder, abstain_below=0.9)
    summary = predict_file(predictor, texts, tmp_path / "out.csv")
    output_rows = read_table(tmp_path / "out.csv")
    assert [(row["prediction"], row["abstained"]) for row in output_rows] == [
        ("good", "false"),
        ("", "true"),
        ("bad", "false"),
    ]
    assert float(output_rows[1]["probability"]) < 0.9
    assert summary.abstained == 1
    predict_file(tfidf_run.folder, texts, tmp_path / "free.csv")
    assert "abstained" not in read_table(tmp_path / "free.csv")[0]
    with pytest.raises(InputError, match="abstain_below must be from 0 to 1, got"):
        load_predictor(tfidf_run.folder, abstain_below=1.5)


def write_bad_file(folder: Path) -> Path:
    """Write a file in which row 2 has no text, row 4 has an extra cell, and row 5 has only blanks."""
    file = folder / "in.csv"
    file.write_text("n,text\n1,it was good\n2,\n3,it was bad\n4,it was,good\n5,   \n6,it was sad\n")
    return file


def test_bad_rows_are_refused_before_anything_is_written(tfidf_run: Run, tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        predict_file(tfidf_run.folder, write_bad_file(tmp_path), tmp_path / "out.csv")
    assert "3 of 6 rows cannot be used" in str(caught.value)
    assert [f"row {number} " in str(caught.value) for number in (2, 4, 5)] == [True, True, True]
    assert [path.name for path in tmp_path.iterdir()] == ["in.csv"]


def test_rows_without_a_text_keep_their_place(tfidf_run: Run, tmp_path: Path) -> None:
    summary = predict_file(tfidf_run.folder, write_bad_file(tmp_path), tmp_path / "out.csv", skip_bad_rows=True)
    output_rows = read_table(tmp_path / "out.csv")
    expected = [("1", "good"), ("2", ""), ("3", "bad"), ("5", ""), ("6", "bad")]  # the fourth line is not a row
    assert [(row["n"], row["prediction"]) for row in output_rows] == expected
    assert [row["windows"] for row in output_rows] == ["1", "", "1", "", "1"]
    assert summary.rows == 5
    assert summary.skipped == {"empty text": 2, "wrong number of cells": 1}
    assert len(predict(tfidf_run.folder, write_bad_file(tmp_path), skip_bad_rows=True)) == 3
    with pytest.raises(InputError, match="3 of 6 rows cannot be used"):
        predict(tfidf_run.folder, write_bad_file(tmp_path))


def test_the_input_is_never_destroyed(tfidf_run: Run, reviews: Path, tmp_path: Path) -> None:
    source = tmp_path / "in.csv"
    source.write_bytes(reviews.read_bytes())
    (tmp_path / "link.csv").symlink_to(source)
    partial = tmp_path / "out.csv.partial"
    partial.write_bytes(reviews.read_bytes())
    for input_path, output in (
        (source, source),
        (tmp_path / "link.csv", source),
        (source, tmp_path / "link.csv"),
        (partial, tmp_path / "out.csv"),
    ):
        with pytest.raises(InputError, match="is the input file; name another file"):
            predict_file(tfidf_run.folder, input_path, output)
    assert source.read_bytes() == partial.read_bytes() == reviews.read_bytes()


def test_places_that_cannot_be_written(tfidf_run: Run, reviews: Path, tmp_path: Path) -> None:
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(InputError, match=r"folder.csv is a folder; name a file\."):
        predict_file(tfidf_run.folder, reviews, tmp_path / "folder.csv")
    (tmp_path / "file").write_text("")
    with pytest.raises(ClearheadError, match=r"out.csv cannot be written"):
        predict_file(tfidf_run.folder, reviews, tmp_path / "file" / "out.csv")
    predict_file(tfidf_run.folder, reviews, tmp_path / "new" / "deep" / "out.csv")
    assert len(read_table(tmp_path / "new" / "deep" / "out.csv")) == 200


@pytest.mark.parametrize(
    ("name", "choices", "message"),
    [
        ("out.txt", {}, r"out.txt must end in .csv, .tsv, .jsonl; or name the format with format="),
        ("out", {}, "must end in"),
        ("out.csv.gz", {}, "must end in"),
        ("out.csv", {"format": "xml"}, "format must be one of csv, tsv, jsonl, got 'xml'"),
        ("out.csv", {"text": "body"}, "has no column 'body' for text"),
        ("out.csv", {"text_b": "label"}, "reads one text; omit text_b"),
    ],
)
def test_what_cannot_be_is_said_at_once(
    name: str, choices: Any, message: str, tfidf_run: Run, reviews: Path, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=message):
        predict_file(tfidf_run.folder, reviews, tmp_path / name, **choices)
    assert not list(tmp_path.iterdir())


def test_a_format_that_the_name_does_not_say(tfidf_run: Run, reviews: Path, tmp_path: Path) -> None:
    predict_file(tfidf_run.folder, reviews, tmp_path / "out.txt", format="jsonl")
    assert len(read_objects(tmp_path / "out.txt")) == 200


def test_a_model_of_two_texts_wants_two(pair_run: Run, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"this model reads two texts; pass pairs"):
        predict(pair_run.folder, ["it was good"])
    rows = [{"one": "it was good", "two": "it was bad"}]
    assert predict(pair_run.folder, rows, text="one", text_b="two")[0].label in pair_run.labels


def test_an_old_output_is_replaced_as_a_whole(tfidf_run: Run, reviews: Path, tmp_path: Path) -> None:
    output = tmp_path / "out.csv"
    output.write_text("something old\n" * 1000)
    predict_file(tfidf_run.folder, reviews, output)
    assert [row["id"] for row in read_table(output)] == [row["id"] for row in make_sentiment_rows(200)]


def test_a_link_in_a_circle_is_refused(tfidf_run: Run, reviews: Path, tmp_path: Path) -> None:
    (tmp_path / "out.csv.partial.json").symlink_to("out.csv.partial.json")
    with pytest.raises(InputError, match="a circular symbolic link"):
        predict_file(tfidf_run.folder, reviews, tmp_path / "out.csv")


@pytest.mark.parametrize(
    "change", [{"bytes": 40}, {"bytes": -1}, {"counts": {"rows": 3, "read": 1 << 63}}, {"seal": ""}, {}]
)
def test_a_damaged_mark_is_not_believed(tfidf_run: Run, tmp_path: Path, change: dict[str, Any]) -> None:
    rows, output = write_csv(tmp_path / "rows.csv", make_sentiment_rows(1100)), tmp_path / "out.csv"

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        predict_file(tfidf_run.folder, rows, output, progress=stop)
    point_path = tmp_path / "out.csv.partial.json"
    point_path.write_text(json.dumps(json.loads(point_path.read_text()) | change))
    summary = predict_file(tfidf_run.folder, rows, output)
    assert (summary.rows, summary.resumed > 0) == (1100, not change)
    assert len(read_table(output)) == 1100


def test_a_name_as_long_as_a_file_may_have(tmp_path: Path) -> None:
    run = train(make_sentiment_rows(30), method="majority", output=tmp_path / "model", report=False)
    output = tmp_path / f"{'n' * 251}.csv"
    assert predict_file(run.folder, make_sentiment_rows(5), output).rows == 5
    assert [path.name for path in tmp_path.iterdir() if path.name != "model"] == [output.name]
