"""Serving cost: latency of one text and size on disk."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from clearhead.api import load_predictor
from clearhead.data import Columns, Row, TextRow, open_source
from clearhead.predict import latency
from clearhead.predict.latency import (
    REPORT_PREDICTIONS,
    measure_disk_bytes,
    measure_disk_megabytes,
    measure_latency_ms,
    measure_serving_cost,
)
from clearhead.predict.predictor import Predictor
from clearhead.predict.scoring import Scorer, Scores
from clearhead.train.finish import Run
from tests.clock import Clock


@dataclass
class SlowScorer:
    """A scorer with a simulated latency that records its batch sizes."""

    scorer: Scorer
    seconds: float
    clock: Clock
    batch_sizes: list[int] = field(default_factory=list)

    def score(self, rows: Sequence[TextRow], columns: Columns) -> Scores:
        """Score the rows after advancing the clock."""
        self.batch_sizes.append(len(rows))
        self.clock.advance(self.seconds)
        return self.scorer.score(rows, columns)


def make_slow_predictor(run: Run, seconds: float, monkeypatch: pytest.MonkeyPatch) -> tuple[Predictor, SlowScorer]:
    """Make a predictor with a simulated latency per call."""
    clock = Clock()
    clock.install(monkeypatch, latency)
    predictor = load_predictor(run.folder)
    slow_scorer = SlowScorer(predictor.scorer, seconds, clock)
    return replace(predictor, scorer=slow_scorer), slow_scorer


def test_only_what_predicts_counts_as_size(tmp_path: Path) -> None:
    sizes = {
        "model.safetensors": 1000,
        "config.json": 10,
        "encoder/vocab.txt": 5,
        "pytorch_model.bin": 999,
        "state/step-1/adam.safetensors": 3000,
        "seeds/seed-0/log.jsonl": 7,
        "onnx/model.onnx": 500,
        "report.html": 40,
        "metrics.json": 3,
        ".cache/lock": 9,
    }
    for name, size in sizes.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"x" * size)
    assert measure_disk_bytes(tmp_path) == 1015
    assert measure_disk_megabytes(tmp_path) == 1015 / 1e6
    (tmp_path / "model.safetensors").unlink()
    assert measure_disk_bytes(tmp_path) == 1014  # without safetensors, the pickle counts


def test_rows_are_asked_one_by_one_and_the_first_do_not_count(tfidf_run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    predictor, slow_scorer = make_slow_predictor(tfidf_run, 0.01, monkeypatch)
    rows: Any = [{"text": "a good film", "label": "good"}, {"text": "a bad end", "label": "bad"}]
    source = open_source(rows)
    source_rows = [row for row in source.rows() if isinstance(row, Row)]
    milliseconds = measure_latency_ms(
        predictor,
        source,
        predictor.resolve_columns(source),
        source_rows,
        warmup=2,
        min_predictions=4,
        max_predictions=9,
        enough_seconds=0.03,
    )
    assert milliseconds == pytest.approx(10)
    assert set(slow_scorer.batch_sizes) == {1}
    assert 2 + 4 <= len(slow_scorer.batch_sizes) < 2 + 9  # stopped by the time limit


@pytest.mark.parametrize("seconds", [0.005, 0.6])
def test_a_report_takes_a_second_for_it_and_leaves_out_bad_rows(
    tfidf_run: Run, seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    predictor, slow_scorer = make_slow_predictor(tfidf_run, seconds, monkeypatch)
    rows = [{"text": "a good film" if index % 3 == 0 else " ", "label": "good"} for index in range(30)]
    source = open_source(rows)
    cost = measure_serving_cost(predictor, source, predictor.resolve_columns(source))
    assert cost["latency of one text ms"] == pytest.approx(1000 * seconds)  # rows without text are skipped
    assert cost["size on disk MB"] > 0
    assert len(slow_scorer.batch_sizes) == (1 + REPORT_PREDICTIONS if seconds < 0.1 else 3)
