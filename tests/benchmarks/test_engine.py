"""The engine benchmark: texts of the requested length, tables from stored files, nothing measured twice."""

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
from engine_contenders import CONTENDERS

from tests.tiny_models import tiny_model

CONFIG = {"hidden_size": 4, "intermediate_size": 8, "num_hidden_layers": 2}


def write_json(folder: Path, name: str, value: Any) -> None:
    (folder / f"{name}.json").write_text(json.dumps(value))


@pytest.fixture
def results_folder(tmp_path: Path) -> Path:
    """A folder with the results of two rounds of five contenders."""
    speeds = {"sentence-transformers": 100.0, "onnx": 200.0, "engine": 250.0, "onnx-int8": 300.0, "int8": 400.0}
    for round_index in (0, 1):
        round_figures: dict[str, Any] = {
            name: {"ms": [1000 / speed] * 9 + [2000 / speed], "texts_per_second": speed * (round_index + 1)}
            for name, speed in speeds.items()
        }
        write_json(tmp_path, f"round-{round_index}", round_figures | {"peak": {"float": 1e6, "int8": 2e6}})
        loads = {name: {"seconds": 1 / speed, "resident_mb": speed} for name, speed in speeds.items()}
        write_json(tmp_path, f"start-{round_index}", loads)
    cosines = {name: [1.0, 1.0] for name in speeds} | {"int8": [0.998, 0.99], "onnx-int8": [0.991, 0.96]}
    write_json(tmp_path, "vectors", cosines)
    settings = {
        "settings": {"onnx": [8, 2, 1]},
        "lengths": [2, 4],
        "left_out": {"openvino": "openvino is not installed"},
    }
    write_json(tmp_path, "chosen", settings)
    return tmp_path


def test_operations_are_those_of_the_matrix_products() -> None:
    per_token = 2 * (4 * 16 + 2 * 32)
    assert engine_table.count_operations(CONFIG, [3]) == 2 * (3 * per_token + 2 * (2 * 3 * 3 * 4))


def test_a_section_shows_the_stored_figures(results_folder: Path) -> None:
    lines = engine_table.make_section("MiniLM", results_folder, CONFIG, 2).split("\n")
    assert lines[0] == "### MiniLM (2 texts of 3 tokens, 2 threads, 2 rounds)"
    share = 100 * 375 * engine_table.count_operations(CONFIG, [2, 4]) / 1e6
    assert f"| clearhead | 375.0 | 2.50 | 4.00 | 8.00 | 0.00 | 250 | 1.0000 | 1.0000 | {share:.0f} % |  |" in lines
    (onnx_line,) = [line for line in lines if line.startswith("| ONNX Runtime | ")]
    assert onnx_line.startswith("| ONNX Runtime | 300.0 | 2.00 |")
    assert "8 a call, 2 x 1 threads" in onnx_line
    assert "Left out: openvino: openvino is not installed." in lines


def test_promises_are_ratios_to_the_best_peer(results_folder: Path) -> None:
    ratios = dict(engine_table.compute_headline_ratios(engine_table.compute_figures(results_folder, CONFIG)))
    assert ratios["float to the best float peer (ONNX Runtime), texts/s"] == pytest.approx(1.25)
    assert ratios["int8 to our float, texts/s"] == pytest.approx(1.6)
    assert ratios["int8 to sentence-transformers, texts/s"] == pytest.approx(4)
    assert ratios["float to sentence-transformers, speed of one text"] == pytest.approx(2.5)
    assert ratios["sentence-transformers' load to ours"] == pytest.approx(2.5)
    assert ratios["sentence-transformers' memory to ours"] == pytest.approx(0.4)
    assert not [name for name in ratios if "equal or better cosine" in name]  # the int8 peer's is worse


def test_what_is_measured_is_not_measured_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    workload = engine.Workload(title="t", model=lambda out: out, texts=lambda count: ["a"] * count, count=9, quick=2)
    monkeypatch.setitem(engine.WORKLOADS, "tiny", workload)
    comparison = engine.Comparison("tiny", tmp_path, 2, quick=True)
    assert comparison.texts == ["a", "a"]
    assert comparison.load_or_measure("round-0", lambda: {"a": 1}) == {"a": 1}
    assert comparison.load_or_measure("round-0", lambda: pytest.fail("measured twice")) == {"a": 1}
    job = json.loads(Path(comparison.command("engine")[2]).read_text())
    assert (job["runtime"], job["threads"], job["texts"]) == ("engine", 2, ["a", "a"])


@pytest.mark.parametrize("setting", engine_peers.list_settings(2), ids=str)
def test_peers_keep_the_order_of_texts_and_leave_padding_out(tmp_path: Path, setting: Sequence[int]) -> None:
    folder = tiny_model(tmp_path)
    table = np.random.default_rng(0).standard_normal((64, 8)).astype(np.float32)
    session_requests: list[tuple[int, int]] = []

    def make(threads: int, workers: int) -> engine_peers.EncoderCall:
        session_requests.append((threads, workers))
        return lambda inputs: table[inputs["input_ids"]]

    encoder = engine_peers.TunedEncoder(str(folder), 2, make)
    encoder.use_setting(setting)
    texts = ["the film", "we saw a very nice film today and it was good", "bad"] * 5
    vectors = encoder(texts)
    for text, vector in zip(texts, vectors, strict=True):
        expected = table[encoder.tokenizer.encode(text).ids].mean(0)
        assert vector == pytest.approx(expected / np.linalg.norm(expected), abs=1e-5)
    encoder([texts[0]])
    assert session_requests[-1][0] == 2  # one text alone has all threads


def test_every_setting_uses_all_threads() -> None:
    assert engine_peers.list_settings(1) == [[1, 1, 1], [8, 1, 1], [32, 1, 1]]
    assert all(workers * threads == 2 for _, workers, threads in engine_peers.list_settings(2))
    assert {column.int8 for column in CONTENDERS.values()} == {False, True}


def test_passages_have_the_documented_length(data_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "DATA", data_folder)
    assert len(set(engine.read_sentences(400))) > 390
    tokenizer = engine_peers.load_plain_tokenizer(str(engine.minilm_folder(Path())))
    lengths = [len(tokenizer.encode(text).ids) for text in engine.make_passages(5)]
    assert len(lengths) == 5
    assert all(abs(length - 250) <= 3 for length in lengths)


def test_missing_data_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "DATA", tmp_path)
    with pytest.raises(SystemExit, match="set CLEARHEAD_DATA"):
        engine.read_sentences(3)
