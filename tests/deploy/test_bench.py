"""Benchmarks of runtimes: worker processes in interleaved rounds, and failures of a worker."""

from __future__ import annotations

import json
import sys
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import pytest

import clearhead
from clearhead.deploy.bench import Bench, RuntimeSpeed, run_bench, sample_texts
from clearhead.deploy.process import WorkerProcess
from clearhead.deploy.sentences import SENTENCES
from clearhead.errors import ClearheadError, InputError
from clearhead.report.bench_picture import speeds_picture
from tests.tiny_models import make_sentiment_rows, tiny_model

TEXTS = [row["text"] for row in make_sentiment_rows(40)]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tiny_model(tmp_path_factory.mktemp("tiny")))


@pytest.fixture(scope="module")
def measured_bench(tiny: str) -> Bench:
    """Two rounds of the engine, int8 and the plain graph."""
    return run_bench(tiny, TEXTS, runtimes=["engine", "int8", "onnx"], threads=1, seconds=0.1, rounds=2)


def test_every_runtime_is_measured_on_the_same_texts(measured_bench: Bench) -> None:
    assert (measured_bench.texts, measured_bench.threads, measured_bench.rounds, measured_bench.against) == (
        40,
        1,
        2,
        None,
    )
    assert [speed.name for speed in measured_bench.runtimes] == ["engine", "int8", "onnx"]
    for speed in measured_bench.runtimes:
        assert speed.left_out is None
        assert speed.p50_ms is not None
        assert speed.p99_ms is not None
        assert 0 < speed.p50_ms <= speed.p99_ms
        assert speed.texts_per_second is not None
        assert measured_bench.tokens is not None
        assert speed.tokens_per_second == pytest.approx(speed.texts_per_second * measured_bench.tokens)
        assert speed.load_seconds is not None
        assert speed.load_seconds > 0
        assert speed.cosine is not None
        if sys.platform == "linux":
            assert speed.resident_mb is not None
            assert speed.peak_mb is not None
            assert 20 < speed.resident_mb <= speed.peak_mb + 1
    engine, int8, plain = measured_bench.runtimes
    assert engine.worst_cosine == pytest.approx(1)
    assert plain.worst_cosine == pytest.approx(1, abs=1e-5)
    assert int8.cosine is not None
    assert 0.9 < int8.cosine <= 1 + 1e-6


def test_tokens_are_counted_with_the_special_ones(measured_bench: Bench) -> None:
    assert measured_bench.tokens == pytest.approx(sum(len(text.split()) + 2 for text in TEXTS) / len(TEXTS))


@pytest.mark.slow
def test_the_core_is_the_one_to_compare_with(tiny: str) -> None:
    reported: list[tuple[int, int | None]] = []
    bench = run_bench(
        tiny,
        TEXTS,
        runtimes=["engine", "core"],
        threads=1,
        seconds=0.05,
        rounds=1,
        progress=lambda _, done, total: reported.append((done, total)),
    )
    assert bench.against == "core"
    assert [speed.ratio == 1 for speed in bench.runtimes] == [False, True]
    assert all(speed.worst_cosine == pytest.approx(1, abs=1e-5) for speed in bench.runtimes)
    assert reported[-1] == (6, 6)


@pytest.fixture
def fake_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A fake sentence-transformers package whose code a test writes."""
    folder = tmp_path / "fake_package" / "sentence_transformers"
    folder.mkdir(parents=True)
    monkeypatch.setenv("PYTHONPATH", f"{folder.parent}:{Path(clearhead.__file__).parents[1]}")
    return folder / "__init__.py"


@pytest.mark.slow
def test_a_peer_that_cannot_load_is_left_out_with_its_reason(tiny: str, fake_package: Path) -> None:
    fake_package.write_text("raise RuntimeError('<b>built</b> for\\nanother machine')\n")
    bench = run_bench(tiny, TEXTS, runtimes=["engine", "sentence-transformers"], threads=1, seconds=0.05, rounds=1)
    assert [speed.left_out for speed in bench.runtimes] == [None, "RuntimeError: <b>built</b> for another machine"]
    assert bench.notes == ("omitted: sentence-transformers: RuntimeError: <b>built</b> for another machine",)
    assert "<b>" not in bench._repr_html_()
    assert len(bench.table()[0]) == 2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("program", "patience", "message"),
    [
        ("import os\nos._exit(3)\n", 60.0, "sentence-transformers exited during the measurement: exit code 3."),
        ("import sys\nsys.exit('no memory left')\n", 60.0, "exited during the measurement: no memory left."),
        ("import time\ntime.sleep(600)\n", 10.0, "sentence-transformers did not answer within 10 seconds"),
    ],
)
def test_a_peer_that_dies_or_hangs_is_an_error(
    tiny: str, fake_package: Path, program: str, patience: float, message: str
) -> None:
    fake_package.write_text(program)
    with pytest.raises(ClearheadError, match=message):
        run_bench(tiny, TEXTS, runtimes=["engine", "sentence-transformers"], threads=1, timeout=patience)


@pytest.mark.parametrize(
    ("program", "message"),
    [
        ("print('not json', flush=True)\nimport time\ntime.sleep(600)", "exited during the measurement"),
        ("print('[1, 2]', flush=True)\nimport time\ntime.sleep(600)", "exited during the measurement"),
        ("import time\ntime.sleep(600)", "did not answer within 2 seconds and was stopped"),
        ("import sys\nsys.stdin.readline()", "exited during the measurement: exit code 0"),
    ],
)
def test_a_child_is_never_waited_for_without_end(program: str, message: str) -> None:
    with (
        WorkerProcess("the child", [sys.executable, "-c", program]) as child,
        pytest.raises(ClearheadError, match=message),
    ):
        child.request({"do": "alone"}, 2.0 if "did not answer" in message else 60.0)
    assert child.process.poll() is not None


def test_a_child_that_does_not_want_to_end_is_ended() -> None:
    child = WorkerProcess("the child", [sys.executable, "-c", "import time\nprint('{}', flush=True)\ntime.sleep(600)"])
    assert child.read_answer(60.0) == {}
    child.close()  # it does not read requests, so it ignores the end of its input
    assert child.process.poll() is not None
    child.close()


def test_a_program_that_is_not_there() -> None:
    with pytest.raises(ClearheadError, match="The child could not be started"):
        WorkerProcess("The child", ["no-such-program-anywhere"])


def test_an_error_of_the_first_runtime_is_the_users(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    with pytest.raises(ClearheadError, match=r"model\.safetensors"):
        run_bench(str(tmp_path), TEXTS, threads=1)


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        ({"texts": "one"}, "got a single text"),
        ({"texts": []}, "no texts to measure"),
        ({"texts": ["a", 3]}, r"texts\[1\] is int"),
        ({"runtimes": ["fast"]}, "Unknown runtime 'fast'"),
        ({"runtimes": []}, "runtimes is empty; choose at least one"),
        ({"threads": 0}, "threads must be >= 1, got 0"),
        ({"seconds": 0.0}, "seconds must be > 0"),
        ({"seconds": float("nan")}, "seconds must be > 0"),
    ],
)
def test_mistakes(tiny: str, choices: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        clearhead.bench(tiny, **choices)  # type: ignore[arg-type]


def test_results_are_plain_and_escaped(measured_bench: Bench) -> None:
    fields = json.loads(json.dumps(measured_bench.to_json()))
    assert set(fields) == {"model", "texts", "tokens", "threads", "rounds", "against", "runtimes"}
    assert set(fields["runtimes"][0]) == {
        "name",
        "title",
        "left_out",
        "p50_ms",
        "p99_ms",
        "texts_per_second",
        "tokens_per_second",
        "ratio",
        "load_seconds",
        "resident_mb",
        "peak_mb",
        "cosine",
        "worst_cosine",
    }
    hostile = Bench(
        model="<script>alert(1)</script>",
        texts=1,
        tokens=None,
        threads=1,
        rounds=1,
        against=None,
        runtimes=(RuntimeSpeed(name="engine", title="engine float", p50_ms=1.5, p99_ms=2.0, texts_per_second=10.0),),
    )
    assert "<script" not in hostile._repr_html_()
    assert "<script" not in hostile.svg()
    assert ["peak MB", "–"] in hostile.table()[1]


def test_the_picture_has_a_bar_for_every_figure(measured_bench: Bench) -> None:
    svg = ElementTree.fromstring(measured_bench.svg())
    svg_namespace = "{http://www.w3.org/2000/svg}"
    bars = svg.findall(f"{svg_namespace}rect")[1:]
    panels = 4 if sys.platform == "linux" else 3
    assert len(bars) == panels * len(measured_bench.runtimes)
    chart = speeds_picture(
        "t",
        [
            {"name": "engine", "title": "a", "texts_per_second": 100.0},
            {"name": "onnx", "title": "b", "texts_per_second": 50.0},
        ],
    )
    wide, half = (
        float(bar.get("width", 0)) for bar in ElementTree.fromstring(chart).findall(f"{svg_namespace}rect")[1:]
    )
    assert wide == pytest.approx(2 * half)


def test_long_files_are_taken_evenly() -> None:
    sample = [int(text) for text in sample_texts(str(index) for index in range(5000))]
    assert 256 <= len(sample) <= 512
    assert sample[0] == 0
    assert len({after - before for before, after in pairwise(sample)}) == 1
    assert sample[-1] > 4900
    assert sample_texts(["a"] * 512) == ["a"] * 512


def test_built_in_sentences_are_of_mixed_length() -> None:
    lengths = [len(text.split()) for text in SENTENCES]
    assert len(set(SENTENCES)) == len(SENTENCES) >= 40
    assert min(lengths) <= 3
    assert max(lengths) >= 50
