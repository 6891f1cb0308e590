"""The ladder benchmark: files of the datasets, tables from stored results, nothing done twice."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import ladder
import pytest

import clearhead
from tests.tiny_models import make_sentiment_rows

RUNG: dict[str, Any] = {
    "method": "tfidf",
    "left_out": None,
    "value": 0.81234,
    "low": 0.8,
    "high": 0.82,
    "difference": None,
    "training_seconds": 1234.5,
    "latency_ms": 0.214,
    "size_mb": 1.5,
}
WORSE = {"difference": -0.1, "low": -0.2, "high": -0.05, "p": 0.001}


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data folder with one small dataset."""
    folder = tmp_path / "data"
    (folder / "sms_spam").mkdir(parents=True)
    lines = [f"{row['text']} {row['id']}\t{row['label']}" for row in make_sentiment_rows(300)]
    (folder / "sms_spam" / "train.tsv").write_text("\n".join(["text\tlabel", *lines]) + "\n")
    monkeypatch.setenv("CLEARHEAD_DATA", str(folder))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    return folder


def test_a_section_shows_the_stored_results(tmp_path: Path) -> None:
    rungs = [
        RUNG | {"method": "majority", "value": 0.7, "low": None, "high": None, "difference": WORSE},
        RUNG,
        {"method": "finetune", "left_out": "finetune would take 2 h | more"},
    ]
    result = {
        "metric": "accuracy",
        "part": "test",
        "rows": 1000,
        "rungs": rungs,
        "recommended": "tfidf",
        "reason": "Why.",
    }
    record: dict[str, Any] = {"command": "clearhead ladder FILE", "threads": 2, "ladder": result}
    ladder.record_path(tmp_path, "trec").write_text(json.dumps(record))
    lines = ladder.make_table(["trec", "sst2"], tmp_path).split("\n")
    assert lines == [
        "`clearhead ladder FILE` (trec: 1,000 rows of test, 2 threads)",
        "",
        "| method | accuracy | 95 % interval | to the best | training | one text | size |",
        "|" + " --- |" * 7,
        "| majority | 0.7000 |  | -0.1000 (-0.2000 to -0.0500) | 1,234.5 s | 0.21 ms | 1.50 MB |",
        "| **tfidf** | 0.8123 | 0.8000 to 0.8200 |  | 1,234.5 s | 0.21 ms | 1.50 MB |",
        "| finetune | finetune would take 2 h \\| more |  |  |  |  |  |",
        "",
        "Why.",
        "",
        "sst2: waiting",
    ]
    partial = RUNG | {"method": "finetune", "epochs": 2, "planned_epochs": 5}
    record["ladder"] = result | {"rungs": [partial], "recommended": "finetune", "caveat": "Rerun."}
    ladder.record_path(tmp_path, "trec").write_text(json.dumps(record))
    lines = ladder.make_table(["trec"], tmp_path).split("\n")
    assert lines[4].startswith("| **finetune (2 of 5 epochs)** | 0.8123 |")
    assert lines[-1] == "Why. Rerun."


def test_the_command_is_the_one_of_the_command_line() -> None:
    assert ladder.make_command(ladder.DATASETS["sst2"], "20m") == (
        "clearhead ladder $CLEARHEAD_DATA/sst2/train.tsv --test $CLEARHEAD_DATA/sst2/dev.tsv --text sentence "
        "--label label --budget 20m"
    )
    assert ladder.make_command(ladder.DATASETS["trec"], "90s", limit=50).endswith(
        "ladder.py --sets trec --budget 90s --rows 50"
    )


@pytest.mark.parametrize("name", ladder.DATASETS)
def test_the_data_is_there(name: str, data_folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CLEARHEAD_DATA", str(data_folder))
    dataset = ladder.DATASETS[name]
    for path in ladder.locate_files(dataset, tmp_path, 20).values():
        header, *rows = path.read_text().removesuffix("\n").split("\n")
        assert {dataset.text, dataset.label} <= set(header.split("\t"))
        assert len(rows) == 20


def test_missing_data_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLEARHEAD_DATA", str(tmp_path))
    with pytest.raises(SystemExit, match="set CLEARHEAD_DATA"):
        ladder.locate_files(ladder.DATASETS["trec"], tmp_path)


@pytest.mark.usefixtures("data")
@pytest.mark.skipif(not hasattr(clearhead, "ladder"), reason="there is no ladder")
def test_a_ladder_runs_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dataset, out = ladder.DATASETS["sms_spam"], tmp_path / "out"
    ladder.run_ladder(dataset, out, budget="60s", methods="majority,tfidf", limit=200)
    assert "tfidf: accuracy" in capsys.readouterr().out
    record = json.loads(ladder.record_path(out, "sms_spam", 200).read_text())
    assert [rung["method"] for rung in record["ladder"]["rungs"]] == ["majority", "tfidf"]
    assert "| **tfidf** | " in ladder.make_table(["sms_spam"], out, 200)
    ladder.run_ladder(dataset, out, budget="60s", methods="majority,tfidf", limit=200)
    assert capsys.readouterr().out == ""
    ladder.run_ladder(dataset, out, budget="90s", methods="majority,tfidf", limit=200)
    printed = capsys.readouterr().out
    assert "methods or budget" in printed
    assert "reused, not trained again" in printed
