"""clearhead quantize on a tiny encoder and a tiny fine-tuned model: verdict, refusal and mistakes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import clearhead
from tests.parallel_rows import CONFIGS, TRANSLATOR_SETTINGS, make_parallel_rows, write_tsv
from tests.tiny_models import make_sentiment_rows, tiny_model, write_csv

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_model(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="module")
def tuned_folder(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trained")
    rows = write_csv(folder / "rows.csv", make_sentiment_rows(200))
    quick: dict[str, Any] = {"epochs": 3, "learning_rate": 3e-3, "batch_size": 16}
    return clearhead.train(rows, output=folder / "run", model=str(tiny), **quick).folder


def test_an_encoder_is_compared_by_its_vectors(run: Run, tiny: Path, tmp_path: Path) -> None:
    rows = write_csv(tmp_path / "texts.csv", make_sentiment_rows(60))
    code, out, err = run("quantize", tiny, rows, "--text", "text", "-o", tmp_path / "small")
    assert code == 0, err
    assert "cosine" in out
    assert "lowest cosine" in err
    code, out, _ = run("embed", tmp_path / "small", rows, "--text", "text", "-o", tmp_path / "a.npy", "--json")
    assert (code, json.loads(out)["texts"]) == (0, 60)


def test_a_model_that_loses_too_much_is_refused(run: Run, tiny: Path, tmp_path: Path) -> None:
    code, _, err = run("quantize", tiny, "-o", tmp_path / "small", "--min-cosine", "1", "--quiet")
    assert code == 2
    assert "mean cosine" in err
    assert "No files were written" in err
    assert not (tmp_path / "small").exists()
    assert list(tmp_path.iterdir()) == []


def test_a_fine_tuned_model_is_measured_on_its_dev_rows(run: Run, tuned_folder: Path, tmp_path: Path) -> None:
    code, out, err = run("quantize", tuned_folder, "-o", tmp_path / "small", "--max-drop", "100", "--json")
    assert code == 0, err
    verdict = json.loads(out)
    assert verdict["passed"] is True
    assert verdict["metric"] == "accuracy"
    assert verdict["rows"] == 20  # the tenth that training held out as dev
    code, out, _ = run("evaluate", tmp_path / "small", tuned_folder.parent / "rows.csv", "--json")
    assert code == 0
    code, _, err = run("evaluate", tuned_folder, tuned_folder.parent / "rows.csv", "--precision", "int16")
    assert (code, err.count("\n")) == (2, 1)
    rows = tuned_folder.parent / "rows.csv"
    code, out, _ = run("predict", tmp_path / "small", rows, "-o", tmp_path / "p.csv", "--precision", "float")
    assert code == 0


def test_mistakes(run: Run, tuned_folder: Path, tiny: Path, tmp_path: Path) -> None:
    rows = tuned_folder.parent / "rows.csv"
    tfidf_folder = clearhead.train(rows, output=tmp_path / "words", method="tfidf").folder
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").write_text("here")
    for arguments, message in (
        ((tfidf_folder, rows, "-o", tmp_path / "x"), "has no network to quantize"),
        ((tiny, "-o", tmp_path / "full"), "not empty"),
        ((tiny, tmp_path / "none.csv", "-o", tmp_path / "x"), "none.csv"),
        ((tmp_path / "nothing", "-o", tmp_path / "x"), "nothing"),
        ((tiny, "-o", tmp_path / "x", "--max-drop", "-1"), "--max-drop must be >= 0"),
    ):
        code, _, err = run("quantize", *arguments, "--quiet")
        assert code == 2
        assert message in err
        assert err.count("\n") == 1
        assert not (tmp_path / "x").exists()


@pytest.mark.slow
def test_a_translator_is_measured_by_its_translations(run: Run, tmp_path: Path) -> None:
    rows = write_tsv(tmp_path / "rows.tsv", make_parallel_rows(500))
    folder = clearhead.train(
        rows, output=tmp_path / "model", **TRANSLATOR_SETTINGS, family="transformer", config=CONFIGS["transformer"]
    ).folder
    code, out, err = run("quantize", folder, "-o", tmp_path / "small", "--max-drop", "2", "--json")
    assert code == 0, err
    verdict = json.loads(out)
    assert verdict["metric"] in ("bleu", "chrf")
    assert verdict["before"] > 60
    assert verdict["after"] >= verdict["before"] - 2
    code, out, _ = run("translate", tmp_path / "small", "ein hund sieht zwei katze.", "--quiet")
    assert (code, "dog" in out) == (0, True)
    runner: Any = clearhead.load(tmp_path / "small").runner
    assert runner.int8 is not None
    renamed_rows = write_tsv(
        tmp_path / "other.tsv", [{"x": "1", "a": row["de"], "b": row["en"]} for row in make_parallel_rows(40, 5)]
    )
    columns = ("--source", "a", "--target", "b", "--max-drop", "5", "--json")
    code, out, _ = run("quantize", folder, renamed_rows, "-o", tmp_path / "third", *columns)
    assert (code, json.loads(out)["rows"]) == (0, 40)
    code, _, err = run("quantize", folder, renamed_rows, "-o", tmp_path / "fourth")
    assert code != 0
    assert "name the source and the target column (--source COLUMN and --target COLUMN)" in err
