"""The benchmark of default settings: held-out rows, runs that are not repeated, one line per size."""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path
from typing import Any

import defaults
import pytest

from tests.tiny_models import make_sentiment_rows


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data folder with synthetic texts as trec and synthetic sentences as wnut17."""
    rows = [
        "question\tcoarse\tfine",
        *(f"{row['id']} {row['text']}\t{row['label']}\tx" for row in make_sentiment_rows(120)),
    ]
    (tmp_path / "trec").mkdir()
    (tmp_path / "trec" / "train.tsv").write_text("\n".join(rows) + "\n")
    sentences = "".join(f"good\tB-X\nfilm {number}\tO\n\n" for number in range(40))
    (tmp_path / "wnut17").mkdir()
    (tmp_path / "wnut17" / "train.conll.gz").write_bytes(gzip.compress(sentences.encode()))
    (tmp_path / "wnut17" / "dev.conll").write_text(sentences)
    monkeypatch.setenv("CLEARHEAD_DATA", str(tmp_path))
    monkeypatch.setattr(defaults, "MAX_HELD_OUT", 30)
    return tmp_path


def test_held_out_rows_are_never_trained_on(data: Path) -> None:
    (train, measure), (other_train, same_measure) = (
        defaults.load_rows(defaults.DATASETS["trec"], "50", seed) for seed in (0, 1)
    )
    assert (len(train), len(measure)) == (50, 30)
    assert measure == same_measure
    assert train != other_train
    assert not {row["question"] for row in train} & {row["question"] for row in measure}


def test_sentences_are_read_gzipped_or_not(data: Path) -> None:
    train, measure = defaults.load_rows(defaults.DATASETS["wnut17"], "10", 0)
    assert (len(train), len(measure)) == (10, 30)
    assert measure[0]["tokens"][0] == "good"
    assert measure[0]["tags"] == ["B-X", "O"]


def test_earlier_settings_are_those_of_earlier_versions(data: Path) -> None:
    trec = defaults.DATASETS["trec"]
    train = [{"question": "x", "coarse": str(number % 77)} for number in range(3000)]
    expected = {"method": "finetune", "learning_rate": 5e-5}
    assert defaults.choose_settings("before", trec, train) == {**expected, "epochs": 20, "head_learning_rate": 1e-3}
    two_label_rows = [{"question": "x", "coarse": str(number % 2)} for number in range(9000)]
    assert defaults.choose_settings("before", trec, two_label_rows) == {
        **expected,
        "epochs": 3,
        "head_learning_rate": None,
    }
    assert defaults.choose_settings("default", trec, train) == {}


def record(choice: str, seed: int, score: float, **overrides: Any) -> dict[str, Any]:
    fields = {"task": "trec", "rows": "200", "seed": seed, "choice": choice, "model": "default", "metric": "accuracy"}
    return fields | {"score": score, "cpu_seconds": 10.0} | overrides


def test_stored_runs_are_not_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out, ran = tmp_path / "results" / "defaults.jsonl", []

    def run(data: Any, rows: str, seed: int, choice: str, model: str, precision: str) -> dict[str, Any]:
        ran.append((data.name, rows, seed, choice, model, precision))
        return record(choice, seed, 0.5 + seed / 4, rows=rows)

    monkeypatch.setattr(defaults, "run", run)
    command_line = "defaults.py --tasks trec --rows 200 --seeds 2 --choices default,features --out"
    monkeypatch.setattr(sys, "argv", [*command_line.split(), str(out)])
    defaults.main()
    defaults.main()
    assert len(ran) == 4
    assert len([json.loads(line) for line in out.read_text().splitlines()]) == 4
    printed = capsys.readouterr().out
    cell = "0.625 (0.500 to 0.750, 2 seeds)"
    assert f"| trec | accuracy | 200 | {cell} | {cell} | 10 |" in printed


@pytest.mark.parametrize("flags", [("--tasks", "squad"), ("--choices", "best"), ("--rows", "few"), ("--rows", "0")])
def test_unknown_values_are_rejected(flags: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["defaults.py", *flags])
    with pytest.raises(SystemExit) as exit_info:
        defaults.main()
    assert exit_info.value.code == 2
