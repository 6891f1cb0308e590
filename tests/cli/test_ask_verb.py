"""clearhead ask and clearhead.ask: an answer with its position, several candidates, or no answer."""

from __future__ import annotations

import io
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import clearhead
from clearhead.errors import InputError
from tests.task_rows import QUICK, format_squad, make_questions
from tests.tiny_models import make_sentiment_rows, tiny_gpt, tiny_model

Run = Callable[..., tuple[int, str, str]]
QUESTION = "was it"
PASSAGE = "we saw a film today and it was great, but the music of the end was poor"


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A model that always answers, one that never does, and models for other tasks."""
    folder = tmp_path_factory.mktemp("ask")
    (folder / "rows.json").write_text(json.dumps(format_squad(make_questions(60, no_answer_share=0.3))))
    tiny = tiny_model(folder / "tiny")
    choices: dict[str, Any] = {**QUICK, "model": str(tiny), "method": "head", "epochs": 1, "stride": 4}
    choices["max_length"] = 24
    answers = clearhead.train(folder / "rows.json", output=folder / "answers", **choices).folder
    words = clearhead.train(make_sentiment_rows(60), output=folder / "words", method="tfidf", report=False).folder
    silent = folder / "silent"
    shutil.copytree(answers, silent)
    for model_folder, threshold in (
        (answers, 1e6),
        (silent, -1e6),
    ):  # by how much the score of no answer must exceed the best answer's
        passport = json.loads((model_folder / "clearhead.json").read_text())
        passport["trained"]["no_answer"] = threshold
        (model_folder / "clearhead.json").write_text(json.dumps(passport))
    return {"answers": answers, "silent": silent, "words": words, "gpt": tiny_gpt(folder / "gpt"), "encoder": tiny}


def test_an_answer_has_a_position(models: dict[str, Path], run: Run) -> None:
    answer = clearhead.ask(models["answers"], QUESTION, PASSAGE)
    assert answer.place is not None
    start, end = answer.place
    assert answer.answer == PASSAGE[start:end] != ""
    assert len(answer.nbest) == 5
    assert answer == clearhead.predict_text(models["answers"], QUESTION, PASSAGE)
    code, out, err = run("ask", models["answers"], QUESTION, PASSAGE)
    assert (code, err) == (0, "")
    first_line, context = out.splitlines()
    assert first_line == f"{answer.answer}  (probability {answer.probability:.3f}, characters {start} to {end})"
    assert f"[{answer.answer}]" in context
    assert run("ask", models["answers"], QUESTION, PASSAGE, "--quiet") == (0, f"{answer.answer}\n", "")
    json_output = json.loads(run("ask", models["answers"], QUESTION, PASSAGE, "--json")[1])
    assert (json_output["question"], json_output["answer"], json_output["start"], json_output["end"]) == (
        QUESTION,
        answer.answer,
        start,
        end,
    )
    assert len(json_output["nbest"]) == 5


def test_the_best_answers(models: dict[str, Path], run: Run) -> None:
    answer = clearhead.ask(models["answers"], QUESTION, PASSAGE, top=8)
    assert len(answer.nbest) == 8
    assert answer.nbest[:5] == clearhead.ask(models["answers"], QUESTION, PASSAGE).nbest
    code, out, _ = run("ask", models["answers"], QUESTION, PASSAGE, "--top", "8")
    assert code == 0
    candidate_lines = out.splitlines()[2:]
    assert [line.split()[0] for line in candidate_lines] == [f"{rank}." for rank in range(1, 9)]
    for line, span in zip(candidate_lines, answer.nbest, strict=True):
        assert f"{span.probability:.3f}  {span.text}" in line
        assert line.endswith(f"characters {span.start} to {span.end}")
    json_output = json.loads(run("ask", models["answers"], QUESTION, PASSAGE, "--top", "3", "--json")[1])
    assert [candidate["text"] for candidate in json_output["nbest"]] == [span.text for span in answer.nbest[:3]]


def test_no_answer_is_reported(models: dict[str, Path], run: Run) -> None:
    answer = clearhead.ask(models["silent"], QUESTION, PASSAGE)
    assert (answer.answer, answer.place) == ("", None)
    code, out, _ = run("ask", models["silent"], QUESTION, PASSAGE)
    assert (code, out) == (0, f"The passage does not answer this question (probability {answer.probability:.3f}).\n")
    assert run("ask", models["silent"], QUESTION, PASSAGE, "--quiet")[1] == "\n"
    json_output = json.loads(run("ask", models["silent"], QUESTION, PASSAGE, "--json")[1])
    assert (json_output["answer"], json_output["start"]) == ("", None)
    code, out, _ = run("ask", models["answers"], QUESTION, PASSAGE, "--abstain-below", "1")
    assert code == 0
    assert out.startswith("no answer (probability")
    assert out.endswith("below 1)\n")


def test_a_long_passage_from_a_file_or_a_pipe(
    models: dict[str, Path], run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    long_passage = f"{PASSAGE}. " * 20
    expected = clearhead.ask(models["answers"], QUESTION, long_passage)
    assert (expected.windows > 3, expected.truncated) == (True, 0)
    (tmp_path / "passage.txt").write_text(long_passage)
    code, out, _ = run("ask", models["answers"], QUESTION, "--file", tmp_path / "passage.txt", "--quiet")
    assert (code, out) == (0, f"{expected.answer}\n")
    for arguments in (["-"], ["--file", "-"]):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(long_passage.encode())))
        code, out, _ = run("ask", models["answers"], QUESTION, *arguments, "--json")
        assert (code, json.loads(out)["start"]) == (0, expected.nbest[0].start)


def test_mistakes_are_one_sentence(models: dict[str, Path], run: Run, tmp_path: Path) -> None:
    (tmp_path / "bytes.txt").write_bytes(b"\xff\xfe\x80")
    (tmp_path / "empty.txt").write_text(" \n")
    answers = models["answers"]
    mistakes: dict[str, tuple[Any, ...]] = {
        "No passage given; write it after the question": (answers, QUESTION),
        "Two passages given": (answers, QUESTION, PASSAGE, "--file", tmp_path / "empty.txt"),
        "empty.txt contains no text": (answers, QUESTION, "--file", tmp_path / "empty.txt"),
        "bytes.txt is not UTF-8 text": (answers, QUESTION, "--file", tmp_path / "bytes.txt"),
        "none.txt cannot be read: No such file": (answers, QUESTION, "--file", tmp_path / "none.txt"),
        "The question is empty": (answers, " ", PASSAGE),
        "--top must be an integer from 1 to 20, got 21": (answers, QUESTION, PASSAGE, "--top", "21"),
        "labels texts; clearhead ask needs a model that finds answers": (models["words"], QUESTION, PASSAGE),
        "it continues texts (clearhead generate)": (models["gpt"], QUESTION, PASSAGE),
        "it turns texts into vectors (clearhead embed)": (models["encoder"], QUESTION, PASSAGE),
    }
    for message, arguments in mistakes.items():
        code, out, err = run("ask", *arguments)
        assert (code, out, err.count("\n")) == (2, "", 1), (message, err)
        assert message in err


def test_the_same_in_python(models: dict[str, Path]) -> None:
    with pytest.raises(
        InputError, match=r"labels texts; clearhead\.ask needs .* Use clearhead\.predict with this model"
    ):
        clearhead.ask(models["words"], QUESTION, PASSAGE)
    predictor = clearhead.load_predictor(models["answers"])
    assert clearhead.ask(predictor, QUESTION, PASSAGE) == clearhead.ask(models["answers"], QUESTION, PASSAGE)
    with pytest.raises(InputError, match="The passage must be a text, got a list"):
        clearhead.ask(predictor, QUESTION, [PASSAGE])  # type: ignore[arg-type]
    with pytest.raises(InputError, match="top must be an integer from 1 to 20, got 0"):
        clearhead.ask(predictor, QUESTION, PASSAGE, top=0)


def test_a_file_name_is_not_a_passage(models: dict[str, Path], run: Run, tmp_path: Path) -> None:
    file = tmp_path / "passage.txt"
    file.write_text(PASSAGE)
    code, out, err = run("ask", models["answers"], QUESTION, file)
    assert (code, out) == (2, "")
    assert "is a file; read the passage from a file with --file." in err
    code, out, err = run("ask", models["answers"], QUESTION, "nowhere.txt")
    assert (code, out) == (2, "")
    assert "nowhere.txt looks like a file name, but does not exist" in err
    same = run("ask", models["answers"], QUESTION, PASSAGE)
    assert run("ask", models["answers"], QUESTION, "--file", file) == same
