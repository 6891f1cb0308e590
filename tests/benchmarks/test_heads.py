"""The benchmark of heads: held-out rows that stay held out, runs that are not repeated, differences in pairs."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import heads
import pytest

from tests.tiny_models import make_sentiment_rows


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data folder with one file of labeled texts that stands in for trec."""
    rows = [
        "question\tcoarse\tfine",
        *(f"{row['id']} {row['text']}\t{row['label']}\tx" for row in make_sentiment_rows(120)),
    ]
    (tmp_path / "trec").mkdir()
    (tmp_path / "trec" / "train.tsv").write_text("\n".join(rows) + "\n")
    monkeypatch.setenv("CLEARHEAD_DATA", str(tmp_path))
    monkeypatch.setattr(heads, "MEASURED", 30)
    return tmp_path


def test_held_out_rows_are_the_same_and_never_trained_on(data: Path) -> None:
    task = heads.TASKS["trec"]
    drawn = [heads.load(task, size, seed) for size, seed in (("50", 0), ("50", 1), (heads.ALL, 0))]
    assert [len(rows.train) for rows in drawn] == [50, 50, 90]
    assert all(rows.measure == drawn[0].measure for rows in drawn)
    assert len(drawn[0].measure) == 30
    for rows in drawn:
        assert not {row["question"] for row in rows.train} & {row["question"] for row in rows.measure}
    assert drawn[0].train != drawn[1].train  # a seed draws its own
    assert heads.load(task, "50", 0).digest() == drawn[0].digest()


def record(head: str, seed: int, score: float, **more: Any) -> dict[str, Any]:
    made = {"task": "trec", "rows": "500", "seed": seed, "head": head, "metric": "accuracy", "score": score}
    return made | {"train_rows": 500, "epochs": 10, "digest": f"rows {seed}", "precision": "float"} | more


def by_key(*records: dict[str, Any]) -> dict[Any, Any]:
    return {(one["task"], one["rows"], one["seed"], one["head"]): one for one in records}


def test_the_table_compares_seeds_that_both_heads_have() -> None:
    told = [record("first", 0, 0.5), record("mean", 0, 0.75), record("first", 1, 0.25), record("mean", 1, 0.75)]
    told += [record("first", 2, 0.99), record("peer", 1, 0.3)]
    told[2:4] = [one | {"precision": "bf16"} for one in told[2:4]]
    *_, line = heads.table(by_key(*told), ["trec", "sst2"], ["500", "2000"]).splitlines()
    assert line == (
        "| trec | accuracy | 500 | 10 | 2 | float, bf16 | 0.3750 | 0.7500 | +0.3750 (+0.2500 to +0.5000) "
        "| 0.3000 (1 of 2 seeds) |"
    )
    with pytest.raises(SystemExit, match="different rows"):
        heads.table(by_key(told[0], record("mean", 0, 0.5, digest="others")), ["trec"], ["500"])
    with pytest.raises(SystemExit, match="different precisions"):
        heads.table(by_key(told[0], record("mean", 0, 0.5, precision="bf16")), ["trec"], ["500"])


def test_what_is_done_is_not_run_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out, ran = tmp_path / "heads.jsonl", []

    def run(task: Any, size: str, seed: int, head: str, precision: str) -> dict[str, Any]:
        ran.append((task.name, size, seed, head))
        return record(head, seed, 0.5, rows=size, task=task.name, precision=precision)

    monkeypatch.setattr(heads, "run", run)
    out.write_text(json.dumps(record("first", 0, 0.5)) + "\n" + '{"task": "trec", "ro')  # the last one was cut off
    said = "heads.py --tasks trec --rows 500 --seeds 2 --heads first,mean --out"
    monkeypatch.setattr(sys, "argv", [*said.split(), str(out)])
    heads.main()
    assert ran == [("trec", "500", 0, "mean"), ("trec", "500", 1, "first"), ("trec", "500", 1, "mean")]
    heads.main()
    assert len(ran) == 3
    assert "| trec | accuracy | 500 | 10 | 2 |" in capsys.readouterr().out


@pytest.mark.parametrize("wrong", [("--tasks", "imdb"), ("--heads", "last"), ("--rows", "few")])
def test_mistakes_are_said(wrong: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["heads.py", *wrong])
    with pytest.raises(SystemExit, match="2"):
        heads.main()
