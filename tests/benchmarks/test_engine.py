"""The benchmark of the engine: texts as asked for, tables that say what is stored, nothing measured twice."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import engine
import engine_peers
import engine_table
import numpy as np
import pytest
from engine_columns import COLUMNS

from tests.tiny_models import tiny_model

CONFIG = {"hidden_size": 4, "intermediate_size": 8, "num_hidden_layers": 2}


def write(folder: Path, name: str, value: Any) -> None:
    (folder / f"{name}.json").write_text(json.dumps(value))


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    """Two rounds of four columns."""
    speeds = {"sentence-transformers": 100.0, "onnx": 200.0, "engine": 250.0, "onnx-int8": 300.0, "int8": 400.0}
    for number in (0, 1):
        made: dict[str, Any] = {
            name: {"ms": [1000 / speed] * 9 + [2000 / speed], "texts_per_second": speed * (number + 1)}
            for name, speed in speeds.items()
        }
        write(tmp_path, f"round-{number}", made | {"peak": {"float": 1e6, "int8": 2e6}})
        loads = {name: {"seconds": 1 / speed, "resident_mb": speed} for name, speed in speeds.items()}
        write(tmp_path, f"start-{number}", loads)
    cosines = {name: [1.0, 1.0] for name in speeds} | {"int8": [0.998, 0.99], "onnx-int8": [0.991, 0.96]}
    write(tmp_path, "vectors", cosines)
    chosen = {"settings": {"onnx": [8, 2, 1]}, "lengths": [2, 4], "left_out": {"openvino": "openvino is not installed"}}
    write(tmp_path, "chosen", chosen)
    return tmp_path


def test_operations_are_those_of_the_matrix_products() -> None:
    each = 2 * (4 * 16 + 2 * 32)
    assert engine_table.operations(CONFIG, [3]) == 2 * (3 * each + 2 * (2 * 3 * 3 * 4))


def test_a_section_says_what_was_stored(stored: Path) -> None:
    said = engine_table.section("MiniLM", stored, CONFIG, 2).split("\n")
    assert said[0] == "### MiniLM (2 texts of 3 tokens, 2 threads, 2 rounds)"
    share = 100 * 375 * engine_table.operations(CONFIG, [2, 4]) / 1e6
    assert f"| clearhead | 375.0 | 2.50 | 4.00 | 8.00 | 0.00 | 250 | 1.0000 | 1.0000 | {share:.0f} % |  |" in said
    (plain,) = [line for line in said if line.startswith("| ONNX Runtime | ")]
    assert plain.startswith("| ONNX Runtime | 300.0 | 2.00 |")
    assert "8 a call, 2 x 1 threads" in plain
    assert "Left out: openvino: openvino is not installed." in said


def test_promises_are_ratios_to_the_best_peer(stored: Path) -> None:
    found = dict(engine_table.promises(engine_table.lines(stored, CONFIG)))
    assert found["float to the best float peer (ONNX Runtime), texts/s"] == pytest.approx(1.25)
    assert found["int8 to our float, texts/s"] == pytest.approx(1.6)
    assert found["int8 to sentence-transformers, texts/s"] == pytest.approx(4)
    assert found["float to sentence-transformers, speed of one text"] == pytest.approx(2.5)
    assert found["sentence-transformers' load to ours"] == pytest.approx(2.5)
    assert found["sentence-transformers' memory to ours"] == pytest.approx(0.4)
    assert not [name for name in found if "equal or better cosine" in name]  # the int8 peer's is worse


def test_what_is_measured_is_not_measured_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    row = engine.Row(title="t", model=lambda out: out, texts=lambda count: ["a"] * count, count=9, quick=2)
    monkeypatch.setitem(engine.ROWS, "tiny", row)
    contest = engine.Contest("tiny", tmp_path, 2, quick=True)
    assert contest.texts == ["a", "a"]
    assert contest.stored("round-0", lambda: {"a": 1}) == {"a": 1}
    assert contest.stored("round-0", lambda: pytest.fail("measured twice")) == {"a": 1}
    job = json.loads(Path(contest.command("engine")[2]).read_text())
    assert (job["runtime"], job["threads"], job["texts"]) == ("engine", 2, ["a", "a"])


@pytest.mark.parametrize("setting", engine_peers.settings(2), ids=str)
def test_peers_keep_the_order_of_texts_and_leave_padding_out(tmp_path: Path, setting: Sequence[int]) -> None:
    folder = tiny_model(tmp_path)
    table = np.random.default_rng(0).standard_normal((64, 8)).astype(np.float32)
    asked: list[tuple[int, int]] = []

    def make(threads: int, workers: int) -> engine_peers.Run:
        asked.append((threads, workers))
        return lambda given: table[given["input_ids"]]

    tuned = engine_peers.Tuned(str(folder), 2, make)
    tuned.set(setting)
    texts = ["the film", "we saw a very nice film today and it was good", "bad"] * 5
    found = tuned(texts)
    for text, vector in zip(texts, found, strict=True):
        expected = table[tuned.tokenizer.encode(text).ids].mean(0)
        assert vector == pytest.approx(expected / np.linalg.norm(expected), abs=1e-5)
    tuned([texts[0]])
    assert asked[-1][0] == 2  # one text alone has all threads


def test_every_setting_uses_all_threads() -> None:
    assert engine_peers.settings(1) == [[1, 1, 1], [8, 1, 1], [32, 1, 1]]
    assert all(workers * threads == 2 for _, workers, threads in engine_peers.settings(2))
    assert {column.int8 for column in COLUMNS.values()} == {False, True}


def test_texts_are_of_the_length_that_is_promised(data_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "DATA", data_folder)
    assert len(set(engine.sentences(400))) > 390
    tokenizer = engine_peers.tokenizer_of(str(engine.minilm(Path())))
    lengths = [len(tokenizer.encode(text).ids) for text in engine.passages(5)]
    assert len(lengths) == 5
    assert all(abs(length - 250) <= 3 for length in lengths)


def test_missing_data_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "DATA", tmp_path)
    with pytest.raises(SystemExit, match="set CLEARHEAD_DATA"):
        engine.sentences(3)
