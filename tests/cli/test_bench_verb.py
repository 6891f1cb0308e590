"""clearhead bench: tables, figures, JSON and mistakes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.tiny_models import make_sentiment_rows, tiny_model, write_csv

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tiny_model(tmp_path_factory.mktemp("tiny")))


def test_bench_prints_a_table_and_draws_a_picture(run: Run, tiny: str, tmp_path: Path) -> None:
    picture = tmp_path / "speed.svg"
    command = ("bench", tiny, "--runtimes", "engine,onnx", "--seconds", 0.1, "--threads", 1)
    code, out, err = run(*command, "-o", picture)
    assert code == 0
    for phrase in ("40 texts", "engine float", "ONNX Runtime", "p99 ms", "texts/s", "load s", "memory MB"):
        assert phrase in " ".join(out.split())
    assert err == f"figure: {picture}\n"
    assert picture.read_text().startswith("<svg ")


def test_bench_prints_json(run: Run, tiny: str, tmp_path: Path) -> None:
    rows = write_csv(tmp_path / "rows.csv", make_sentiment_rows(30))
    command = ("bench", tiny, rows, "--text", "text", "--runtimes", "engine", "--seconds", 0.1, "--threads", 1)
    code, out, err = run(*command, "--json")
    assert (code, err) == (0, "")
    json_output = json.loads(out, parse_constant=lambda name: pytest.fail(name))
    assert (json_output["model"], json_output["texts"], json_output["threads"]) == (tiny, 30, 1)
    assert json_output["runtimes"][0]["name"] == "engine"
    assert json_output["runtimes"][0]["texts_per_second"] > 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("-o", "speed.png"), "speed.png must end in .svg."),
        (("--runtimes", "gpu"), "Unknown runtime 'gpu'"),
        (("--threads", "0"), "threads must be >= 1, got 0."),
        (("--seconds", "-1"), "seconds must be > 0 and <= 86400, got -1."),
        (("--text", "text"), "--text names the column of a file with texts, but no file is given."),
        (("nowhere.csv",), "nowhere.csv not found."),
    ],
)
def test_bench_mistakes(run: Run, tiny: str, arguments: tuple[str, ...], message: str) -> None:
    code, out, err = run("bench", tiny, *arguments)
    assert (code, out) == (2, "")
    assert message in err
