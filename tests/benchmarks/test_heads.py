"""The benchmark of heads: held-out rows, runs that are not repeated, paired differences."""

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
    """A data folder with synthetic labeled texts as trec."""
    rows = [
        "question\tcoarse\tfine",
        *(f"{row['id']} {row['text']}\t{row['label']}\tx" for row in make_sentiment_rows(120)),
    ]
    (tmp_path / "trec").mkdir()
    (tmp_path / "trec" / "train.tsv").write_text("\n".join(rows) + "\n")
    monkeypatch.setenv("CLEARHEAD_DATA", str(tmp_path))
    monkeypatch.setattr(heads, "MAX_HELD_OUT", 30)
    return tmp_path


def test_held_out_rows_are_the_same_and_never_trained_on(data: Path) -> None:
    task = heads.TASKS["trec"]
    loaded = [heads.load_rows(task, size, seed) for size, seed in (("50", 0), ("50", 1), (heads.ALL_ROWS, 0))]
    assert [len(rows.train) for rows in loaded] == [50, 50, 90]
    assert all(rows.measure == loaded[0].measure for rows in loaded)
    assert len(loaded[0].measure) == 30
    for rows in loaded:
        assert not {row["question"] for row in rows.train} & {row["question"] for row in rows.measure}
    assert loaded[0].train != loaded[1].train  # each seed has its own sample
    assert heads.load_rows(task, "50", 0).digest() == loaded[0].digest()


def record(head: str, seed: int, score: float, **overrides: Any) -> dict[str, Any]:
    fields = {"task": "trec", "rows": "500", "seed": seed, "head": head, "metric": "accuracy", "score": score}
    return fields | {"train_rows": 500, "epochs": 10, "digest": f"rows {seed}", "precision": "float"} | overrides


def by_key(*records: dict[str, Any]) -> dict[Any, Any]:
    return {(record["task"], record["rows"], record["seed"], record["head"]): record for record in records}


def test_the_table_compares_seeds_that_both_heads_have() -> None:
    records = [record("first", 0, 0.5), record("mean", 0, 0.75), record("first", 1, 0.25), record("mean", 1, 0.75)]
    records += [record("first", 2, 0.99), record("peer", 1, 0.3)]
    records[2:4] = [run | {"precision": "bf16"} for run in records[2:4]]
    *_, line = heads.make_table(by_key(*records), ["trec", "sst2"], ["500", "2000"]).splitlines()
    assert line == (
        "| trec | accuracy | 500 | 10 | 2 | float, bf16 | 0.3750 | 0.7500 | +0.3750 (+0.2500 to +0.5000) "
        "| 0.3000 (1 of 2 seeds) |"
    )
    with pytest.raises(SystemExit, match="different rows"):
        heads.make_table(by_key(records[0], record("mean", 0, 0.5, digest="others")), ["trec"], ["500"])
    with pytest.raises(SystemExit, match="different precisions"):
        heads.make_table(by_key(records[0], record("mean", 0, 0.5, precision="bf16")), ["trec"], ["500"])


def test_stored_runs_are_not_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out, ran = tmp_path / "heads.jsonl", []

    def run(task: Any, size: str, seed: int, head: str, precision: str) -> dict[str, Any]:
        ran.append((task.name, size, seed, head))
        return record(head, seed, 0.5, rows=size, task=task.name, precision=precision)

    monkeypatch.setattr(heads, "run", run)
    out.write_text(json.dumps(record("first", 0, 0.5)) + "\n" + '{"task": "trec", "ro')  # the last line is truncated
    command_line = "heads.py --tasks trec --rows 500 --seeds 2 --heads first,mean --out"
    monkeypatch.setattr(sys, "argv", [*command_line.split(), str(out)])
    heads.main()
    assert ran == [("trec", "500", 0, "mean"), ("trec", "500", 1, "first"), ("trec", "500", 1, "mean")]
    heads.main()
    assert len(ran) == 3
    assert "| trec | accuracy | 500 | 10 | 2 |" in capsys.readouterr().out


@pytest.mark.parametrize("flags", [("--tasks", "imdb"), ("--heads", "last"), ("--rows", "few")])
def test_unknown_values_are_rejected(flags: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["heads.py", *flags])
    with pytest.raises(SystemExit, match="2"):
        heads.main()
