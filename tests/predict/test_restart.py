"""An interrupted prediction file is resumed where it stopped, but only by the same job."""

from __future__ import annotations

import io
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from clearhead.api import load_predictor, predict_file, train
from clearhead.train.finish import Run
from tests.tiny_models import make_sentiment_rows, write_csv

ROWS = 2500  # three chunks


class StopPrediction(Exception):  # noqa: N818
    """Interrupts a prediction."""


def stop_after(chunks: int) -> Callable[[int, int | None], None]:
    def report(processed: int, total: int | None) -> None:
        if processed >= chunks * 1024:
            raise StopPrediction

    return report


@pytest.fixture(scope="module")
def many_rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Rows of several chunks, one of them with a line break."""
    rows = make_sentiment_rows(ROWS, seed=3)
    rows[1500]["text"] += "\nand some more"
    return write_csv(tmp_path_factory.mktemp("many") / "rows.csv", rows)


@pytest.fixture(scope="module")
def complete_output(tfidf_run: Run, many_rows: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The output of an uninterrupted prediction."""
    output = tmp_path_factory.mktemp("whole") / "out.csv"
    assert predict_file(tfidf_run.folder, many_rows, output).rows == ROWS
    return output


def interrupt_prediction(model: Any, source: Path, output: Path, chunks: int = 1, **choices: Any) -> None:
    with pytest.raises(StopPrediction):
        predict_file(model, source, output, progress=stop_after(chunks), **choices)
    assert not output.exists()
    assert output.with_name(output.name + ".partial").exists()


@pytest.mark.parametrize("chunks", [1, 2])
def test_it_goes_on_where_it_stopped(
    chunks: int, tfidf_run: Run, many_rows: Path, complete_output: Path, tmp_path: Path
) -> None:
    output = tmp_path / "out.csv"
    interrupt_prediction(tfidf_run.folder, many_rows, output, chunks)
    reports: list[tuple[int, int | None]] = []
    summary = predict_file(tfidf_run.folder, many_rows, output, progress=lambda *step: reports.append(step))
    assert (summary.resumed, summary.rows) == (chunks * 1024, ROWS)
    assert reports == [(rows, ROWS) for rows in (1024, 2048, ROWS)][chunks:]
    assert output.read_bytes() == complete_output.read_bytes()
    assert [path.name for path in tmp_path.iterdir()] == ["out.csv"]


def test_it_can_be_interrupted_again_and_again(
    tfidf_run: Run, many_rows: Path, complete_output: Path, tmp_path: Path
) -> None:
    output = tmp_path / "out.csv"
    interrupt_prediction(tfidf_run.folder, many_rows, output, 1)
    interrupt_prediction(tfidf_run.folder, many_rows, output, 2)
    assert predict_file(tfidf_run.folder, many_rows, output).resumed == 2048
    assert output.read_bytes() == complete_output.read_bytes()


def test_a_half_written_last_line_is_dropped(
    tfidf_run: Run, many_rows: Path, complete_output: Path, tmp_path: Path
) -> None:
    output = tmp_path / "out.csv"
    interrupt_prediction(tfidf_run.folder, many_rows, output)
    with (tmp_path / "out.csv.partial").open("ab") as file:
        file.write(b'r1024,"it was a half')
    assert predict_file(tfidf_run.folder, many_rows, output).resumed == 1024
    assert output.read_bytes() == complete_output.read_bytes()


def test_a_network_goes_on_as_well(fine_tuned_run: Run, many_rows: Path, tmp_path: Path) -> None:
    short = write_csv(tmp_path / "rows.csv", make_sentiment_rows(1100, seed=4))
    predict_file(fine_tuned_run.folder, short, tmp_path / "whole.jsonl", probabilities=True)
    interrupt_prediction(fine_tuned_run.folder, short, tmp_path / "out.jsonl", probabilities=True)
    assert predict_file(fine_tuned_run.folder, short, tmp_path / "out.jsonl", probabilities=True).resumed == 1024
    assert (tmp_path / "out.jsonl").read_bytes() == (tmp_path / "whole.jsonl").read_bytes()


def test_counts_go_on_too(tfidf_run: Run, tmp_path: Path) -> None:
    rows = make_sentiment_rows(1500)
    for index in (3, 900, 1400):
        rows[index]["text"] = ""
    source = write_csv(tmp_path / "rows.csv", rows)
    interrupt_prediction(tfidf_run.folder, source, tmp_path / "out.csv", skip_bad_rows=True)
    summary = predict_file(tfidf_run.folder, source, tmp_path / "out.csv", skip_bad_rows=True)
    assert (summary.rows, summary.resumed, summary.skipped) == (1500, 1024, {"empty text": 3})


def test_changed_rows_begin_anew(tfidf_run: Run, many_rows: Path, tmp_path: Path) -> None:
    source = tmp_path / "rows.csv"
    shutil.copy(many_rows, source)
    interrupt_prediction(tfidf_run.folder, source, tmp_path / "out.csv")
    write_csv(source, make_sentiment_rows(1500, seed=9))
    summary = predict_file(tfidf_run.folder, source, tmp_path / "out.csv")
    assert (summary.resumed, summary.rows) == (0, 1500)
    predict_file(tfidf_run.folder, source, tmp_path / "again.csv")
    assert (tmp_path / "out.csv").read_bytes() == (tmp_path / "again.csv").read_bytes()


def test_another_model_in_the_same_place_begins_anew(many_rows: Path, tmp_path: Path) -> None:
    model = tmp_path / "model"
    train(make_sentiment_rows(100), output=model, method="tfidf")
    interrupt_prediction(model, many_rows, tmp_path / "out.csv")
    shutil.rmtree(model)
    train(make_sentiment_rows(100, seed=8), output=model, method="tfidf")
    assert predict_file(model, many_rows, tmp_path / "out.csv").resumed == 0


def test_other_weights_under_the_same_passport_begin_anew(tfidf_run: Run, many_rows: Path, tmp_path: Path) -> None:
    model = tmp_path / "model"
    shutil.copytree(tfidf_run.folder, model)
    interrupt_prediction(model, many_rows, tmp_path / "out.csv")
    os.utime(model / "classic.safetensors", ns=(1, 1))
    assert predict_file(model, many_rows, tmp_path / "out.csv").resumed == 0


@pytest.mark.parametrize("choices", [{"prefix": "x_"}, {"probabilities": True}, {"format": "tsv"}], ids=str)
def test_other_columns_begin_anew(choices: dict[str, Any], tfidf_run: Run, many_rows: Path, tmp_path: Path) -> None:
    interrupt_prediction(tfidf_run.folder, many_rows, tmp_path / "out.csv")
    assert predict_file(tfidf_run.folder, many_rows, tmp_path / "out.csv", **choices).resumed == 0


def test_another_threshold_begins_anew(tfidf_run: Run, many_rows: Path, tmp_path: Path) -> None:
    interrupt_prediction(load_predictor(tfidf_run.folder, abstain_below=0.7), many_rows, tmp_path / "out.csv")
    assert (
        predict_file(load_predictor(tfidf_run.folder, abstain_below=0.8), many_rows, tmp_path / "out.csv").resumed == 0
    )


@pytest.mark.parametrize(
    "content", ["{", "[]", "{}", '{"key": 1}', '{"key": "x", "bytes": "many", "counts": {}}', "\x00"]
)
def test_a_mark_that_makes_no_sense_begins_anew(
    content: str, tfidf_run: Run, many_rows: Path, complete_output: Path, tmp_path: Path
) -> None:
    interrupt_prediction(tfidf_run.folder, many_rows, tmp_path / "out.csv")
    (tmp_path / "out.csv.partial.json").write_text(content)
    assert predict_file(tfidf_run.folder, many_rows, tmp_path / "out.csv").resumed == 0
    assert (tmp_path / "out.csv").read_bytes() == complete_output.read_bytes()


def test_a_partial_that_is_too_short_begins_anew(
    tfidf_run: Run, many_rows: Path, complete_output: Path, tmp_path: Path
) -> None:
    interrupt_prediction(tfidf_run.folder, many_rows, tmp_path / "out.csv")
    os.truncate(tmp_path / "out.csv.partial", 100)
    assert predict_file(tfidf_run.folder, many_rows, tmp_path / "out.csv").resumed == 0
    assert (tmp_path / "out.csv").read_bytes() == complete_output.read_bytes()


def test_rows_in_memory_never_go_on_with_those_of_another_list(tfidf_run: Run, tmp_path: Path) -> None:
    output = tmp_path / "out.jsonl"
    with pytest.raises(StopPrediction):
        predict_file(tfidf_run.folder, make_sentiment_rows(1500, seed=1), output, progress=stop_after(1))
    assert not list(tmp_path.iterdir())
    summary = predict_file(tfidf_run.folder, make_sentiment_rows(1500, seed=2), output)
    assert (summary.rows, summary.resumed) == (1500, 0)
    texts = [json.loads(line)["text"] for line in output.read_text().splitlines()]
    assert texts == [row["text"] for row in make_sentiment_rows(1500, seed=2)]


def test_a_pipe_never_goes_on_with_another(tfidf_run: Run, many_rows: Path, tmp_path: Path) -> None:
    for source in (io.BytesIO(many_rows.read_bytes()), (row for row in make_sentiment_rows(1500))):
        with pytest.raises(StopPrediction):
            predict_file(tfidf_run.folder, source, tmp_path / "out.csv", progress=stop_after(1))
        assert not list(tmp_path.iterdir())


def test_an_interrupted_file_is_not_taken_for_one_that_was_begun_after_it(
    tfidf_run: Run, many_rows: Path, tmp_path: Path
) -> None:
    """A second job overwrote the rows of the first one and was killed before it wrote a resume point."""
    interrupt_prediction(tfidf_run.folder, many_rows, tmp_path / "out.csv")
    other_rows = write_csv(tmp_path / "other.csv", make_sentiment_rows(1500, seed=5))

    class KilledError(BaseException):
        pass

    class DyingScorer:
        def score(self, *_: Any) -> Any:
            raise KilledError

    predictor = load_predictor(tfidf_run.folder)
    object.__setattr__(predictor, "scorer", DyingScorer())
    with pytest.raises(KilledError):
        predict_file(predictor, other_rows, tmp_path / "out.csv")
    with (tmp_path / "out.csv.partial").open("ab") as file:
        file.write(b"x" * 1_000_000)
    assert predict_file(tfidf_run.folder, many_rows, tmp_path / "out.csv").resumed == 0


def test_a_killed_process_leaves_what_a_second_one_goes_on_with(
    tfidf_run: Run, many_rows: Path, complete_output: Path, tmp_path: Path
) -> None:
    output = tmp_path / "out.csv"
    code = (
        "import os, signal, sys\n"
        "from clearhead.api import predict_file\n"
        "def kill(done, total):\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
        "predict_file(sys.argv[1], sys.argv[2], sys.argv[3], progress=kill)\n"
    )
    command = [sys.executable, "-c", code, str(tfidf_run.folder), str(many_rows), str(output)]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    assert not output.exists()
    assert predict_file(tfidf_run.folder, many_rows, output).resumed == 1024
    assert output.read_bytes() == complete_output.read_bytes()
