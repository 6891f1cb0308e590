"""Train, dev and test parts: from files, a column, ids or a random split; leaks are reported."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from clearhead.api import evaluate, train
from clearhead.errors import InputError
from clearhead.train.finish import Run
from tests.tiny_models import make_sentiment_rows, write_csv


def train_majority(source: Any, folder: Path, **choices: Any) -> Run:
    """Train a majority-class model, the fastest run."""
    return train(source, output=folder / "run", method="majority", **choices)


def read_held_out(run: Run) -> dict[str, list[int]]:
    parts: dict[str, list[int]] = json.loads((run.folder / "split.json").read_text())["parts"]
    return parts


def test_nothing_given_is_split_for_you(reviews: Path, tmp_path: Path) -> None:
    run = train_majority(reviews, tmp_path)
    assert run.rows == {"train": 160, "dev": 20, "test": 20}
    assert "rows: 160 train, 20 dev, 20 test" in run.messages
    parts = read_held_out(run)
    assert len({*parts["dev"], *parts["test"]}) == 40
    labels = [make_sentiment_rows(200)[number - 1]["label"] for number in parts["test"]]
    assert 9 <= labels.count("good") <= 12  # stratified: 107 of 200 are


def test_the_seed_of_the_split(reviews: Path, tmp_path: Path) -> None:
    first, same_seed, other_seed = (
        train_majority(reviews, tmp_path / str(n), seed=seed) for n, seed in enumerate((0, 0, 1))
    )
    assert read_held_out(first) == read_held_out(same_seed) != read_held_out(other_seed)


def test_shares_of_your_own(reviews: Path, tmp_path: Path) -> None:
    assert train_majority(reviews, tmp_path / "a", dev_share=0.3, test_share=0.2).rows == {
        "train": 100,
        "dev": 60,
        "test": 40,
    }
    without_test = train_majority(reviews, tmp_path / "b", test_share=0.0)
    assert without_test.rows == {"train": 180, "dev": 20}
    assert without_test.measured_on == "dev"


def test_some_of_the_rows(reviews: Path, tmp_path: Path) -> None:
    run = train_majority(reviews, tmp_path / "a", rows=50)
    assert run.rows == {"train": 40, "dev": 5, "test": 5}
    same_seed, other_seed = (
        train_majority(reviews, tmp_path / "b", rows=50),
        train_majority(reviews, tmp_path / "c", rows=50, seed=1),
    )
    assert read_held_out(run) == read_held_out(same_seed) != read_held_out(other_seed)
    with_dev_file = train_majority(reviews, tmp_path / "d", rows=50, dev=make_sentiment_rows(30, seed=5))
    assert with_dev_file.rows == {"train": 50, "dev": 30}  # dev rows are not sampled
    assert train_majority(reviews, tmp_path / "e", rows=5_000).rows == {"train": 160, "dev": 20, "test": 20}
    with pytest.raises(InputError, match="rows must be at least 1"):
        train_majority(reviews, tmp_path / "f", rows=0)


def test_a_report_on_some_rows_tells_of_those(tmp_path: Path) -> None:
    rows = [row | {"label": "rare" if index < 20 else "often"} for index, row in enumerate(make_sentiment_rows(220))]
    run = train_majority(write_csv(tmp_path / "rows.csv", rows), tmp_path, rows=60)
    assert run.report is not None
    page = run.report.read_text().partition("<h3>Label distribution</h3>")[2].partition("</table>")[0]
    cells = re.findall(r"<td[^>]*>\s*([^<\s][^<]*?)\s*<", page)
    assert sum(int(cell) for cell in cells if cell.isdigit()) == 60


@pytest.mark.parametrize("name", ["split", "fold"])
def test_by_a_column(name: str, tmp_path: Path) -> None:
    parts = ("train", "train", "train", "validation", "test")
    rows = [{**row, name: parts[index % 5]} for index, row in enumerate(make_sentiment_rows(100))]
    run = train_majority(rows, tmp_path)
    assert run.rows == {"train": 60, "dev": 20, "test": 20}
    assert read_held_out(run)["dev"] == list(range(4, 101, 5))


def test_a_column_without_dev_rows_takes_them_from_train(tmp_path: Path) -> None:
    rows = [
        {**row, "split": "test" if index % 5 == 0 else "train"} for index, row in enumerate(make_sentiment_rows(100))
    ]
    run = train_majority(rows, tmp_path)
    assert run.rows == {"train": 72, "dev": 8, "test": 20}
    assert read_held_out(run)["test"] == list(range(1, 101, 5))


def test_a_column_that_says_something_else_is_one_error(tmp_path: Path) -> None:
    rows = [{**row, "part_of": "train" if index else "extra"} for index, row in enumerate(make_sentiment_rows(20))]
    with pytest.raises(InputError, match="row 1: split 'extra' is not train, dev or test"):
        train_majority(rows, tmp_path, split="part_of")


def test_by_files(reviews: Path, tmp_path: Path) -> None:
    dev = write_csv(tmp_path / "dev.csv", make_sentiment_rows(30, seed=1))
    test = write_csv(tmp_path / "test.csv", make_sentiment_rows(40, seed=2))
    dev_and_test = train_majority(reviews, tmp_path / "both", dev=dev, test=test)
    assert (dev_and_test.rows, dev_and_test.measured_on) == ({"train": 200, "dev": 30, "test": 40}, "test")
    only_dev = train_majority(reviews, tmp_path / "dev", dev=dev)
    assert (only_dev.rows, only_dev.measured_on) == ({"train": 200, "dev": 30}, "dev")
    only_test = train_majority(reviews, tmp_path / "test", test=test)
    assert (only_test.rows, only_test.measured_on) == ({"train": 180, "dev": 20, "test": 40}, "test")
    values = train_majority(
        make_sentiment_rows(200),
        tmp_path / "values",
        dev=make_sentiment_rows(30, seed=1),
        test=make_sentiment_rows(40, seed=2),
    )
    assert values.rows == dev_and_test.rows
    assert values.metrics == dev_and_test.metrics


def test_rows_of_one_id_never_straddle(tmp_path: Path) -> None:
    rows = [
        {"id": f"film {index % 25}", "text": row["text"], "label": row["label"]}
        for index, row in enumerate(make_sentiment_rows(200))
    ]
    run = train_majority(rows, tmp_path / "by name")
    assert any(message.startswith("id column: id (by name") for message in run.messages)
    for name, source in (
        ("said", [{**row, "film": row["id"], "id": index} for index, row in enumerate(rows)]),
        ("", rows),
    ):
        run = train_majority(source, tmp_path / f"as {name}", **({"id": "film"} if name else {}))
        ids = {
            part: {rows[number - 1]["id"] for number in row_numbers} for part, row_numbers in read_held_out(run).items()
        }
        assert ids["dev"]
        assert ids["test"]
        held_out_numbers = {number for row_numbers in read_held_out(run).values() for number in row_numbers}
        trained_ids = {row["id"] for number, row in enumerate(rows, start=1) if number not in held_out_numbers}
        assert not ids["dev"] & ids["test"]
        assert not trained_ids & (ids["dev"] | ids["test"])


def test_rows_of_few_ids_leave_parts_empty_and_labels_out(tmp_path: Path) -> None:
    rows = [{**row, "id": "one" if index < 120 else "two"} for index, row in enumerate(make_sentiment_rows(200))]
    run = train_majority(rows, tmp_path / "two")
    assert "dev" not in run.rows
    assert "there are no dev rows: rows with the same id stay together." in run.messages
    parts = ["dev" if index % 5 == 0 else "train" for index in range(200)]
    rows = [{**row, "split": part} for row, part in zip(make_sentiment_rows(200), parts, strict=True)]
    rows[0]["label"] = "rare"
    run = train_majority(rows, tmp_path / "column")
    assert "no training row has the label rare, which occurs in other parts." in run.messages
    assert not any("there are no" in message for message in run.messages)


def test_the_same_text_never_straddles(tmp_path: Path) -> None:
    rows = [
        {"text": f"{row['text']} {'  '[: copy % 2]}".upper() if copy % 3 else row["text"], "label": row["label"]}
        for row in make_sentiment_rows(40)
        for copy in range(5)
    ]
    run = train_majority(rows, tmp_path)
    for row_numbers in read_held_out(run).values():
        texts = {(number - 1) // 5 for number in row_numbers}
        assert sorted(row_numbers) == sorted(number for text in texts for number in range(5 * text + 1, 5 * text + 6))
    assert not any("are optimistic" in message for message in run.messages)


def test_leaks_between_given_files_are_said(reviews: Path, tmp_path: Path) -> None:
    leaked = make_sentiment_rows(200)[:7]
    leaky = [*make_sentiment_rows(20, seed=3), *({**row, "text": row["text"].upper() + " "} for row in leaked)]
    run = train_majority(reviews, tmp_path, dev=leaky, test=make_sentiment_rows(10, seed=4))
    assert "7 of 27 dev rows also occur in the training set; dev scores are optimistic." in run.messages
    assert not any("test rows also occur" in message for message in run.messages)
    assert "7 of 27 dev rows" in (run.folder / "report.html").read_text()


def test_an_unknown_label_in_the_dev_file_is_named(reviews: Path, tmp_path: Path) -> None:
    rows = [*make_sentiment_rows(10, seed=1), {"id": "x", "text": "it was some film", "label": "meh"}]
    dev = write_csv(tmp_path / "dev.csv", rows)
    with pytest.raises(
        InputError, match=r"dev.csv: 1 of 11 rows cannot be used:\n  row 11 \(line 12\): label 'meh' is not one"
    ):
        train_majority(reviews, tmp_path, dev=dev)
    assert not (tmp_path / "run").exists()
    run = train_majority(reviews, tmp_path, dev=dev, skip_bad_rows=True)
    assert run.rows["dev"] == 10
    assert "skipped: 1 row (unknown label)" in run.messages


def test_bad_rows_are_listed_together_or_counted(tmp_path: Path) -> None:
    file = write_csv(tmp_path / "rows.csv", make_sentiment_rows(40))
    lines = file.read_text().splitlines()
    lines[3] = "r2,,good"
    lines[8] = "r7,it was good"
    lines[9] = "r8,it was good,"
    file.write_text("\n".join(lines) + "\n")
    with pytest.raises(InputError) as caught:
        train_majority(file, tmp_path)
    assert [f"row {number} " in str(caught.value) for number in (3, 8, 9)] == [True, True, True]
    assert "3 of 40 rows cannot be used" in str(caught.value)
    run = train_majority(file, tmp_path, skip_bad_rows=True)
    assert sum(run.rows.values()) == 37
    skipped = next(message for message in run.messages if message.startswith("skipped"))
    assert {"(empty text)", "(wrong number of cells)", "(missing label)"} <= {
        re.split(" rows? ", part)[1] for part in skipped.split(": ")[1].split(", ")
    }
    page = (run.folder / "report.html").read_text()
    assert "Unusable rows" in page
    assert "(empty text: 1, missing label: 1, wrong number of cells: 1)" in page


def test_other_columns_in_the_dev_file(reviews: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="the list has no column 'text'; it has body, label"):
        train_majority(reviews, tmp_path, dev=[{"body": "it was", "label": "good"}])


def test_rows_that_can_be_read_once_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="can be read only once; put it in a file to train on it"):
        train_majority((row for row in make_sentiment_rows(20)), tmp_path)


@pytest.mark.parametrize("count", [2, 3, 5])
def test_very_few_rows_train_anyway(count: int, tmp_path: Path) -> None:
    rows = [{"text": f"{'good' if index % 2 else 'bad'} {index}", "label": "xy"[index % 2]} for index in range(count)]
    run = train_majority(rows, tmp_path)
    assert sum(run.rows.values()) == count
    assert run.rows["train"] >= 2
    assert (run.measured_on is None) == (count == 2)
    assert json.loads(json.dumps(run.to_json(), allow_nan=False))["measured_on"] == run.measured_on


def test_the_part_that_was_held_out_is_found_again(tfidf_run: Run, reviews: Path, tmp_path: Path) -> None:
    for part in ("dev", "test"):
        evaluation = evaluate(tfidf_run.folder, reviews, part=part)
        assert evaluation.rows == 20
        assert evaluation.metrics["accuracy"].value == tfidf_run.evaluations[part].metrics["accuracy"].value
    with pytest.raises(InputError, match="held out dev, test of its training file, not 'train'"):
        evaluate(tfidf_run.folder, reviews, part="train")
    other_file = write_csv(tmp_path / "other.csv", make_sentiment_rows(200, seed=99))
    with pytest.raises(InputError, match=r"other.csv does not have the test rows that .* held out of reviews.csv"):
        evaluate(tfidf_run.folder, other_file, part="test")
