"""Extractive question answering, from a file to predictions: exact text, SQuAD format, and questions without answer."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from clearhead.api import evaluate, load_predictor, predict, predict_file, train
from clearhead.errors import InputError
from clearhead.predict.stream import answer_chunks
from clearhead.train.finish import Run
from tests.task_rows import QUICK, format_squad, make_questions
from tests.tiny_models import NEGATIVE_WORDS, POSITIVE_WORDS


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("answers")


@pytest.fixture(scope="module")
def squad_file(folder: Path) -> Path:
    path = folder / "train.json"
    path.write_text(json.dumps(format_squad(make_questions(240, no_answer_share=0.3))))
    return path


@pytest.fixture(scope="module")
def answerer(tiny: str, squad_file: Path, folder: Path) -> Run:
    return train(squad_file, output=folder / "answerer", model=tiny, epochs=10, **QUICK)


@pytest.mark.learns
def test_training_and_evaluation_with_squad_metrics(answerer: Run, folder: Path) -> None:
    assert load_predictor(answerer.folder).calibration.no_answer is not None
    new_file = folder / "fresh.json"
    new_file.write_text(json.dumps(format_squad(make_questions(60, seed=9, no_answer_share=0.3))))
    evaluation = evaluate(answerer.folder, new_file).to_json()
    assert (evaluation["task"], evaluation["kind"], evaluation["main"]) == ("span", "answers", "f1")
    assert evaluation["metrics"]["exact_match"]["value"] >= 0.85
    assert evaluation["metrics"]["f1"]["value"] >= evaluation["metrics"]["exact_match"]["value"]
    assert "no_answer_accuracy" in evaluation["metrics"]


def test_held_out_rows_can_be_measured_again(answerer: Run, squad_file: Path) -> None:
    evaluation = evaluate(answerer.folder, squad_file, part="dev")
    assert evaluation.metrics["f1"].value == pytest.approx(answerer.evaluations["dev"].metrics["f1"].value)


def test_predictions_in_squad_format(answerer: Run, tmp_path: Path) -> None:
    rows = make_questions(50, seed=5, no_answer_share=0.3)
    (tmp_path / "dev.json").write_text(json.dumps(format_squad(rows)))
    predict_file(answerer.folder, tmp_path / "dev.json", tmp_path / "out.json", format="squad")
    answers = json.loads((tmp_path / "out.json").read_text())
    assert list(answers) == [row["id"] for row in rows]
    is_correct = [answers[row["id"]] == (row["answers"][0]["text"] if row["answers"] else "") for row in rows]
    exact_match = evaluate(answerer.folder, tmp_path / "dev.json").metrics["exact_match"].value
    assert sum(is_correct) / len(is_correct) == pytest.approx(exact_match)
    # the format follows from the file name
    predict_file(answerer.folder, tmp_path / "dev.json", tmp_path / "again.json")
    assert (tmp_path / "again.json").read_bytes() == (tmp_path / "out.json").read_bytes()


def test_json_lines_have_the_offsets_of_answers(answerer: Run, tmp_path: Path) -> None:
    rows = make_questions(30, seed=6)
    path = tmp_path / "in.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    predict_file(answerer.folder, path, tmp_path / "out.jsonl")
    for row, line in zip(rows, (tmp_path / "out.jsonl").read_text().splitlines(), strict=True):
        prediction = json.loads(line)
        assert prediction["id"] == row["id"]
        assert {"answer", "start", "end", "probability", "nbest"} <= set(prediction)
        if prediction["answer"]:
            assert row["context"][prediction["start"] : prediction["end"]] == prediction["answer"]
        for candidate in prediction["nbest"]:
            assert row["context"][candidate["start"] : candidate["end"]] == candidate["text"] != ""


@pytest.mark.learns
def test_rows_without_answers_and_ids_can_be_predicted(answerer: Run, tmp_path: Path) -> None:
    rows = [
        {"question": "was it", "context": "The  GREAT\tfilm, it was"},
        {"question": "was it", "context": "A poor film"},
    ]
    predictions = predict(answerer.folder, rows)
    assert predictions[0].answer == "GREAT"
    assert predictions[1].answer == ""
    path = tmp_path / "in.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    predict_file(answerer.folder, path, tmp_path / "out.json", format="squad")
    assert json.loads((tmp_path / "out.json").read_text()) == {"1": "GREAT", "2": ""}


@pytest.mark.learns
def test_duplicate_ids_are_refused_in_squad_format(answerer: Run, tmp_path: Path) -> None:
    rows = [{"id": name, "question": "was it", "context": "a great film"} for name in ("q1", 0, "", "0", "q1")]
    for rows_with_duplicates, message in (
        (rows[:4], "rows 2 and 4 both have the id '0'"),
        ([rows[0], *rows[2:]], "1 and 4 .* 'q1'"),
    ):
        for source in (
            rows_with_duplicates,
            iter(rows_with_duplicates),
        ):  # a list is checked in advance, an iterator while it is read
            with pytest.raises(InputError, match=message):
                predict_file(answerer.folder, source, tmp_path / "out.json", format="squad")
            assert list(tmp_path.iterdir()) == []
    predict_file(answerer.folder, rows, tmp_path / "out.jsonl")  # one line per row, also with equal ids
    assert len((tmp_path / "out.jsonl").read_text().splitlines()) == 5
    predict_file(answerer.folder, rows[:3], tmp_path / "out.json", format="squad")
    assert json.loads((tmp_path / "out.json").read_text()) == {"q1": "great", "0": "great", "": "great"}


@pytest.mark.learns
def test_skipped_rows_keep_their_number(answerer: Run, tmp_path: Path) -> None:
    rows = [{"question": "was it", "context": text} for text in (" ", "a great film", "")]
    predict_file(answerer.folder, rows, tmp_path / "out.json", format="squad", skip_bad_rows=True)
    assert json.loads((tmp_path / "out.json").read_text()) == {"1": "", "2": "great", "3": ""}


@pytest.mark.learns
def test_an_answer_in_a_late_window_is_found(answerer: Run) -> None:
    passage = " ".join(["the film was a scene with music and more"] * 12) + " great " + " ".join(["the end of it"] * 12)
    prediction = predict(answerer.folder, [{"question": "was it", "context": passage}])[0]
    assert prediction.windows > 3
    assert prediction.nbest[0].text == "great"
    assert passage[prediction.nbest[0].start : prediction.nbest[0].end] == "great"


def test_a_resumed_prediction_writes_the_same_bytes(
    answerer: Run, squad_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    predictor = load_predictor(answerer.folder)
    monkeypatch.setattr(answer_chunks, "__kwdefaults__", {"labels": None, "skip": 0, "chunk": 50})
    for ending, format_name in ((".json", "squad"), (".jsonl", "jsonl")):
        predict_file(predictor, squad_file, tmp_path / f"whole{ending}", format=format_name)
        reported: list[int] = []

        def stop(done: int, total: int | None, seen: list[int] = reported) -> None:
            seen.append(done)
            if len(seen) == 2:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            predict_file(predictor, squad_file, tmp_path / f"half{ending}", format=format_name, progress=stop)
        assert predict_file(predictor, squad_file, tmp_path / f"half{ending}", format=format_name).resumed > 0
        assert (tmp_path / f"half{ending}").read_bytes() == (tmp_path / f"whole{ending}").read_bytes()


def test_comparison_with_a_model_that_always_answers(answerer: Run, tiny: str, folder: Path, tmp_path: Path) -> None:
    always_answering = train(make_questions(120), output=tmp_path / "old", model=tiny, epochs=3, **QUICK)
    rows = make_questions(60, seed=3)
    assert set(evaluate(answerer.folder, rows, against=always_answering.folder).against) == {"exact_match", "f1"}
    assert load_predictor(always_answering.folder).space.scheme == "all"
    assert all(prediction.answer for prediction in predict(always_answering.folder, rows))


def test_the_report_includes_questions_without_answer(tiny: str, squad_file: Path, tmp_path: Path) -> None:
    run = train(squad_file, output=tmp_path / "run", model=tiny, epochs=1, learning_rate=3e-3)
    assert run.report is not None
    assert "no answer" in run.report.read_text()
    assert POSITIVE_WORDS[0] != NEGATIVE_WORDS[0]


def test_answers_longer_than_the_maximum_are_reported(tiny: str, tmp_path: Path) -> None:
    rows = make_questions(40)
    rows[4]["answers"] = [{"text": rows[4]["context"], "answer_start": 0}]
    run = train(rows, output=tmp_path / "run", model=tiny, epochs=1, max_answer=3, **QUICK)
    assert any(
        message.startswith("1 row has an answer that is longer") and "(row 5)" in message for message in run.messages
    )
