"""Answers from a file to a folder to predictions: exact text, SQuAD's own form, none where none is said."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from clearhead.api import evaluate, load_predictor, predict, predict_file, train
from clearhead.errors import InputError
from clearhead.predict.stream import answer_chunks
from clearhead.train.finish import Run
from tests.task_rows import QUICK, questions, squad
from tests.tiny_models import NEGATIVE_WORDS, POSITIVE_WORDS


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("answers")


@pytest.fixture(scope="module")
def nest(folder: Path) -> Path:
    path = folder / "train.json"
    path.write_text(json.dumps(squad(questions(240, none=0.3))))
    return path


@pytest.fixture(scope="module")
def answerer(tiny: str, nest: Path, folder: Path) -> Run:
    return train(nest, output=folder / "answerer", model=tiny, epochs=10, **QUICK)


@pytest.mark.learns
def test_it_learns_and_is_measured_by_squads_rules(answerer: Run, folder: Path) -> None:
    assert load_predictor(answerer.folder).calibration.no_answer is not None
    fresh = folder / "fresh.json"
    fresh.write_text(json.dumps(squad(questions(60, seed=9, none=0.3))))
    made = evaluate(answerer.folder, fresh).to_json()
    assert (made["task"], made["kind"], made["main"]) == ("span", "answers", "f1")
    assert made["metrics"]["exact_match"]["value"] >= 0.85
    assert made["metrics"]["f1"]["value"] >= made["metrics"]["exact_match"]["value"]
    assert "no_answer_accuracy" in made["metrics"]


def test_held_out_rows_can_be_measured_again(answerer: Run, nest: Path) -> None:
    again = evaluate(answerer.folder, nest, part="dev")
    assert again.metrics["f1"].value == pytest.approx(answerer.evaluations["dev"].metrics["f1"].value)


def test_squads_own_form_is_read_by_its_script(answerer: Run, tmp_path: Path) -> None:
    rows = questions(50, seed=5, none=0.3)
    (tmp_path / "dev.json").write_text(json.dumps(squad(rows)))
    predict_file(answerer.folder, tmp_path / "dev.json", tmp_path / "out.json", format="squad")
    said = json.loads((tmp_path / "out.json").read_text())
    assert list(said) == [row["id"] for row in rows]
    right = [said[row["id"]] == (row["answers"][0]["text"] if row["answers"] else "") for row in rows]
    exact = evaluate(answerer.folder, tmp_path / "dev.json").metrics["exact_match"].value
    assert sum(right) / len(right) == pytest.approx(exact)
    predict_file(answerer.folder, tmp_path / "dev.json", tmp_path / "again.json")  # the ending says it, too
    assert (tmp_path / "again.json").read_bytes() == (tmp_path / "out.json").read_bytes()


def test_json_lines_say_where_the_answer_stands(answerer: Run, tmp_path: Path) -> None:
    rows = questions(30, seed=6)
    path = tmp_path / "in.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    predict_file(answerer.folder, path, tmp_path / "out.jsonl")
    for row, line in zip(rows, (tmp_path / "out.jsonl").read_text().splitlines(), strict=True):
        made = json.loads(line)
        assert made["id"] == row["id"]
        assert {"answer", "start", "end", "probability", "nbest"} <= set(made)
        if made["answer"]:
            assert row["context"][made["start"] : made["end"]] == made["answer"]
        for one in made["nbest"]:
            assert row["context"][one["start"] : one["end"]] == one["text"] != ""


@pytest.mark.learns
def test_rows_without_answers_and_ids_can_be_asked(answerer: Run, tmp_path: Path) -> None:
    rows = [
        {"question": "was it", "context": "The  GREAT\tfilm, it was"},
        {"question": "was it", "context": "A poor film"},
    ]
    said = predict(answerer.folder, rows)
    assert said[0].answer == "GREAT"
    assert said[1].answer == ""
    path = tmp_path / "in.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    predict_file(answerer.folder, path, tmp_path / "out.json", format="squad")
    assert json.loads((tmp_path / "out.json").read_text()) == {"1": "GREAT", "2": ""}


@pytest.mark.learns
def test_an_id_that_comes_twice_loses_no_answer(answerer: Run, tmp_path: Path) -> None:
    rows = [{"id": name, "question": "was it", "context": "a great film"} for name in ("q1", 0, "", "0", "q1")]
    for given, said in ((rows[:4], "rows 2 and 4 both have the id '0'"), ([rows[0], *rows[2:]], "1 and 4 .* 'q1'")):
        for source in (given, iter(given)):  # a list is looked through before, what can be read once while it is read
            with pytest.raises(InputError, match=said):
                predict_file(answerer.folder, source, tmp_path / "out.json", format="squad")
            assert list(tmp_path.iterdir()) == []
    predict_file(answerer.folder, rows, tmp_path / "out.jsonl")  # a row each, whatever they are called
    assert len((tmp_path / "out.jsonl").read_text().splitlines()) == 5
    predict_file(answerer.folder, rows[:3], tmp_path / "out.json", format="squad")
    assert json.loads((tmp_path / "out.json").read_text()) == {"q1": "great", "0": "great", "": "great"}


@pytest.mark.learns
def test_rows_without_an_answer_keep_their_number(answerer: Run, tmp_path: Path) -> None:
    rows = [{"question": "was it", "context": text} for text in (" ", "a great film", "")]
    predict_file(answerer.folder, rows, tmp_path / "out.json", format="squad", skip_bad_rows=True)
    assert json.loads((tmp_path / "out.json").read_text()) == {"1": "", "2": "great", "3": ""}


@pytest.mark.learns
def test_an_answer_far_back_in_a_long_passage_is_found(answerer: Run) -> None:
    story = " ".join(["the film was a scene with music and more"] * 12) + " great " + " ".join(["the end of it"] * 12)
    said = predict(answerer.folder, [{"question": "was it", "context": story}])[0]
    assert said.windows > 3
    assert said.nbest[0].text == "great"
    assert story[said.nbest[0].start : said.nbest[0].end] == "great"


def test_a_stopped_prediction_goes_on_to_the_same_bytes(
    answerer: Run, nest: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    predictor = load_predictor(answerer.folder)
    monkeypatch.setattr(answer_chunks, "__kwdefaults__", {"labels": None, "skip": 0, "chunk": 50})
    for ending, form in ((".json", "squad"), (".jsonl", "jsonl")):
        predict_file(predictor, nest, tmp_path / f"whole{ending}", format=form)
        seen: list[int] = []

        def stop(done: int, total: int | None, seen: list[int] = seen) -> None:
            seen.append(done)
            if len(seen) == 2:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            predict_file(predictor, nest, tmp_path / f"half{ending}", format=form, progress=stop)
        assert predict_file(predictor, nest, tmp_path / f"half{ending}", format=form).resumed > 0
        assert (tmp_path / f"half{ending}").read_bytes() == (tmp_path / f"whole{ending}").read_bytes()


def test_a_model_of_the_old_rules_beside_one_of_the_new(answerer: Run, tiny: str, folder: Path, tmp_path: Path) -> None:
    old = train(questions(120), output=tmp_path / "old", model=tiny, epochs=3, **QUICK)
    rows = questions(60, seed=3)
    assert set(evaluate(answerer.folder, rows, against=old.folder).against) == {"exact_match", "f1"}
    assert load_predictor(old.folder).space.scheme == "all"
    assert all(one.answer for one in predict(old.folder, rows))


def test_a_report_of_it_is_written(tiny: str, nest: Path, tmp_path: Path) -> None:
    run = train(nest, output=tmp_path / "run", model=tiny, epochs=1, learning_rate=3e-3)
    assert run.report is not None
    assert "no answer" in run.report.read_text()
    assert POSITIVE_WORDS[0] != NEGATIVE_WORDS[0]


def test_an_answer_that_cannot_be_learned_is_told(tiny: str, tmp_path: Path) -> None:
    rows = questions(40)
    rows[4]["answers"] = [{"text": rows[4]["context"], "answer_start": 0}]
    run = train(rows, output=tmp_path / "run", model=tiny, epochs=1, max_answer=3, **QUICK)
    assert any(said.startswith("1 row has an answer that is longer") and "(row 5)" in said for said in run.messages)
