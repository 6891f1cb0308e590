"""Commands that read standard input accept texts, tables with a header and JSON lines."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from clearhead.api import train
from tests.tiny_models import make_sentiment_rows

Run = Callable[..., tuple[int, str, str]]
SetStdin = Callable[[str], None]
SENTENCE = "it was a good film, call now\n"


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a TF-IDF model whose columns have unusual names."""
    rows = [{"utterance_of_one": row["text"], "mood": row["label"]} for row in make_sentiment_rows(120)]
    choices: dict[str, Any] = {"text": "utterance_of_one", "label": "mood", "method": "tfidf", "report": False}
    return train(rows, output=tmp_path_factory.mktemp("runs") / "words", **choices).folder


@pytest.fixture
def set_stdin(monkeypatch: pytest.MonkeyPatch) -> SetStdin:
    """Put a text on standard input."""
    return lambda text: monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))


def predict_rows(run: Run, model: Path, tmp_path: Path, *flags: str) -> list[dict[str, str]]:
    out = tmp_path / "out.csv"
    out.unlink(missing_ok=True)
    code, _, err = run("predict", model, "-", "-o", out, *flags)
    assert code == 0, err
    with out.open(newline="") as file:
        return list(csv.DictReader(file))


def test_predict(run: Run, model: Path, tmp_path: Path, set_stdin: SetStdin) -> None:
    set_stdin(SENTENCE)
    assert [(row["text"], row["prediction"]) for row in predict_rows(run, model, tmp_path)] == [(SENTENCE[:-1], "good")]
    for text in ("utterance_of_one,n\nit was good,3\n", '{"utterance_of_one": "it was good", "n": 3}\n'):
        set_stdin(text)
        rows = predict_rows(run, model, tmp_path)
        predictions = [(row["utterance_of_one"], row["n"], row["prediction"]) for row in rows]
        assert predictions == [("it was good", "3", "good")]
    for flag in ("--format", "--input-format"):
        set_stdin("it was good,3\nit was bad,4\n")
        assert [row["prediction"] for row in predict_rows(run, model, tmp_path, flag, "csv")] == ["good", "bad"]
        set_stdin("utterance_of_one,n\nit was good,3\n")
        assert len(predict_rows(run, model, tmp_path, flag, "text")) == 2
    set_stdin("a_name,other\nit was good,3\nit was bad,4\n")
    code, _, err = run("predict", model, "-", "-o", tmp_path / "lines.csv")
    assert (code, "if it is a table, set --input-format csv" in err) == (0, True)
    set_stdin(SENTENCE)
    code, _, err = run("predict", model, "-", "-o", tmp_path / "other.csv", "--input-format", "xml")
    assert (code, "format must be one of csv, tsv, jsonl, text" in err) == (2, True)


def test_predict_counts_blank_lines(run: Run, model: Path, tmp_path: Path, set_stdin: SetStdin) -> None:
    lines = "it was good\n\n  \nit was bad\n\n"
    for name, text in (("pipe", None), ("file", lines)):
        source: Any = "-" if text is None else tmp_path / "lines.txt"
        set_stdin(lines) if text is None else source.write_text(text)
        code, out, err = run("predict", model, source, "-o", tmp_path / f"{name}.csv", "--json")
        assert code == 0, err
        assert (json.loads(out)["rows"], json.loads(out)["blank_lines"]) == (2, 3)
    set_stdin(lines)
    assert "3 blank lines were skipped" in run("predict", model, "-", "-o", tmp_path / "again.csv")[2]
    set_stdin("it was good\n")
    assert "blank lines" not in run("predict", model, "-", "-o", tmp_path / "none.csv")[2]


def test_format_is_the_format_of_the_output(
    run: Run, model: Path, set_stdin: SetStdin, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_stdin(SENTENCE)
    stdout = io.TextIOWrapper(io.BytesIO())
    monkeypatch.setattr("sys.stdout", stdout)
    assert run("predict", model, "-", "-o", "-", "--format", "jsonl", "--quiet")[0] == 0
    assert json.loads(stdout.buffer.getvalue())["text"] == SENTENCE[:-1]


def test_evaluate(run: Run, model: Path, set_stdin: SetStdin) -> None:
    rows = [(row["text"], row["label"]) for row in make_sentiment_rows(30, seed=2)]
    set_stdin("utterance_of_one,mood\n" + "".join(f"{text},{label}\n" for text, label in rows))
    code, out, _ = run("evaluate", model, "-", "--json")
    assert (code, json.loads(out)["rows"]) == (0, 30)
    set_stdin("".join(f"{text}\t{label}\n" for text, label in rows))
    flags = ("--text", "column1", "--label", "column2", "--input-format", "tsv", "--json")
    code, out, err = run("evaluate", model, "-", *flags)
    assert (code, err) == (0, "")
    assert json.loads(out)["rows"] == 30
    set_stdin(SENTENCE)
    code, _, err = run("evaluate", model, "-")
    assert (code, "label" in err) == (2, True)


@pytest.mark.parametrize(
    ("text", "flags", "expected"),
    [
        ("a cat, sat\n", (), ["a cat, sat"]),
        ("text,n\na cat,3\n", (), ["a cat"]),
        ('{"text": "a cat"}\n', (), ["a cat"]),
        ("a cat,3\nparis,4\n", ("--input-format", "text"), ["a cat,3", "paris,4"]),
        ("where,n\na cat,3\n", ("--text", "where"), ["a cat"]),
        ('text\tn\na "cat\t3\n', (), ['a "cat']),
    ],
)
def test_embed(
    text: str,
    flags: tuple[str, ...],
    expected: list[str],
    run: Run,
    masked_model: Path,
    tmp_path: Path,
    set_stdin: SetStdin,
) -> None:
    set_stdin(text)
    out = tmp_path / "v.jsonl"
    code, _, err = run("embed", masked_model, "-", "-o", out, *flags)
    assert code == 0, err
    assert [json.loads(line)["text"] for line in out.read_text().splitlines()] == expected
