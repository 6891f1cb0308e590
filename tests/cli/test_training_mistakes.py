"""Mistakes in training commands are one sentence on stderr and exit code 2, and nothing is written."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from clearhead.api import train
from tests.tiny_models import make_sentiment_rows, write_csv

MISTAKES = {
    "train": "No training data given",
    "train none.csv": "none.csv not found",
    "train .": "has no subfolders with text files",
    "train empty.csv": "empty.csv is empty",
    "train header.csv": "header.csv has no usable rows",
    "train texts.csv": "looks like a label",
    "train one.csv": "all rows have the label 'x'; there is nothing to learn",
    "train reviews.csv --label stars": "has no column 'stars' for --label",
    "train reviews.csv --text body": "has no column 'body' for --text",
    "train reviews.csv --task cluster": "task must be one of classify, pair, regress",
    "train reviews.csv --task pair": "no second text column",
    "train reviews.csv --task classify --text-b id": "classify takes one text, got two; use --task pair",
    "train reviews.csv --task regress": "looks like a label",
    "train reviews.csv --task regress --label label": "label 'bad' is not a number",
    "train reviews.csv --method lstm": "Choices: finetune, head, features, tfidf, majority",
    "train reviews.csv --class-weight yes": "Choices: none, auto",
    "train reviews.csv --set epochs": "--set expects key=value, got 'epochs'",
    "train reviews.csv --set epoch=3": "Unknown setting 'epoch'; did you mean epochs?",
    "train reviews.csv --set epochs=many": "Setting epochs: expected int, got str",
    "train reviews.csv --set output=x": "--set does not accept 'output'",
    "train reviews.csv --set train=x.csv": "--set does not accept 'train'",
    "train reviews.csv --set told=1": "--set does not accept 'told'",
    "train reviews.csv --epochs x": "Invalid value for --epochs",
    "train reviews.csv --epochs 0": "epochs must be at least 1",
    "train reviews.csv --learning-rate -1": "learning-rate must be above 0",
    "train reviews.csv --layer=--3 --method tfidf": "layer and pooling apply only to method features",
    "train reviews.csv --bogus": "Unknown option: --bogus",
    "train reviews.csv --recipe none.toml": "none.toml cannot be read",
    "train reviews.csv --model ./none --quiet": "Folder './none' does not exist",
    "train reviews.csv --dev none.csv": "none.csv not found",
    "train --resume none": "none is not a training run (run.json not found)",
    "train --resume .": ". is not a training run (run.json not found)",
    "train --resume MODEL --epochs 3": "is a finished run and cannot be resumed",
    "train reviews.csv -o MODEL": "already exists and is not empty; name another one with -o",
    "train reviews.csv -o reviews.csv": "already exists",
    "evaluate MODEL": "requires an argument",
    "evaluate MODEL none.csv": "none.csv not found",
    "evaluate ./none reviews.csv": "Folder './none' does not exist",
    "evaluate . reviews.csv": "is not a model folder",
    "evaluate MODEL texts.csv": "looks like a label",
    "evaluate MODEL one.csv": "label 'x' is not one of bad, good",
    "evaluate MODEL reviews.csv --slice shop": "has no column 'shop' for --slice",
    "evaluate MODEL reviews.csv --part test": "does not have the test rows that",
    "evaluate MODEL reviews.csv --against ./none": "Folder './none' does not exist",
    "predict MODEL none.csv": "none.csv not found",
    "predict MODEL reviews.csv -o out.txt": "must end in .csv, .tsv, .jsonl",
    "predict MODEL reviews.csv -o .": "must end in .csv, .tsv, .jsonl",
    "predict MODEL reviews.csv -o reviews.csv": "is the input file",
    "predict MODEL reviews.csv --json --format csv": "--json prints rows as JSON lines",
    "predict MODEL reviews.csv -o out.csv --format xml": "format must be one of csv, tsv, jsonl",
    "predict MODEL reviews.csv -o out.csv --abstain-below 2": "--abstain-below must be from 0 to 1, got 2",
    "predict MODEL reviews.csv -o out.csv --text-b label": "reads one text; omit --text-b",
    "predict MODEL empty.csv -o out.csv": "empty.csv is empty",
    "inspect none.csv": "none.csv not found",
    "inspect reviews.csv --label stars": "has no column 'stars' for --label",
}


@pytest.fixture(scope="session")
def tfidf_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a TF-IDF model."""
    return train(make_sentiment_rows(60), output=tmp_path_factory.mktemp("runs") / "words", method="tfidf").folder


@pytest.mark.parametrize("line", MISTAKES)
def test_a_mistake_is_one_sentence(
    line: str,
    run: Callable[..., tuple[int, str, str]],
    tfidf_folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write_csv(tmp_path / "reviews.csv", make_sentiment_rows(40))
    (tmp_path / "empty.csv").write_text("")
    (tmp_path / "header.csv").write_text("text,label\n")
    (tmp_path / "texts.csv").write_text("text\n" + "".join(f"it was {n} and more\n" for n in range(20)))
    (tmp_path / "one.csv").write_text("text,label\n" + "".join(f"it was {n},x\n" for n in range(20)))
    monkeypatch.chdir(tmp_path)
    paths = sorted(tmp_path.iterdir())
    code, out, err = run(*(str(tfidf_folder) if word == "MODEL" else word for word in line.split()))
    assert (code, out) == (2, "")
    assert err.startswith("clearhead: ")
    assert MISTAKES[line] in err
    assert err.count("\n") == 1 or "rows cannot be used" in err
    assert sorted(tmp_path.iterdir()) == paths
