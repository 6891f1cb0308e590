"""Tagging, from a file to predictions: every output format, without losses, and resumed to the same bytes."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from clearhead.api import evaluate, load_predictor, predict, predict_file, train
from clearhead.errors import InputError
from clearhead.jobs.events import RunEvents
from clearhead.metrics import extract_entities
from clearhead.predict.stream import answer_chunks
from clearhead.train.finish import Run
from fuzz.kill import read_results
from tests.task_rows import QUICK, format_conll, make_span_rows, make_tagged_words


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tags")


@pytest.fixture(scope="module")
def conll_file(folder: Path) -> Path:
    path = folder / "rows.conll"
    path.write_text(format_conll(make_tagged_words(160)))
    return path


@pytest.fixture(scope="module")
def tagger(tiny: str, conll_file: Path, folder: Path) -> Run:
    return train(conll_file, output=folder / "tagger", model=tiny, epochs=5, **QUICK)


@pytest.fixture(scope="module")
def span_tagger(tiny: str, folder: Path) -> Run:
    path = folder / "spans.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in make_span_rows(make_tagged_words(160))))
    return train(path, output=folder / "spanner", model=tiny, epochs=5, **QUICK)


@pytest.mark.learns
def test_training_and_evaluation_by_entities(tagger: Run, folder: Path) -> None:
    new_file = folder / "fresh.conll"
    new_file.write_text(format_conll(make_tagged_words(60, seed=9)))
    evaluation = evaluate(tagger.folder, new_file).to_json()
    assert (evaluation["task"], evaluation["kind"], evaluation["main"]) == ("tag", "tags", "f1")
    for name in ("precision", "recall", "f1", "accuracy"):
        assert evaluation["metrics"][name]["value"] >= 0.9, name
    assert {row["label"] for row in evaluation["label_scores"]} == {"NICE", "SAD"}
    assert evaluation["rows"] == 60


def test_held_out_rows_can_be_measured_again(tagger: Run, conll_file: Path) -> None:
    evaluation = evaluate(tagger.folder, conll_file, part="dev")
    assert evaluation.metrics["f1"].value == pytest.approx(tagger.evaluations["dev"].metrics["f1"].value)
    other_file = conll_file.with_name("other.conll")
    other_file.write_text(format_conll(make_tagged_words(160, seed=5)))
    with pytest.raises(InputError, match="does not have the dev rows"):
        evaluate(tagger.folder, other_file, part="dev")


@pytest.mark.learns
def test_spans_have_offsets(span_tagger: Run) -> None:
    rows = make_span_rows(make_tagged_words(40, seed=3))
    predictions = predict(span_tagger.folder, rows)
    correct_count = 0
    for row, prediction in zip(rows, predictions, strict=True):
        assert prediction.text == row["text"]
        assert prediction.spans is not None
        for span in prediction.spans:
            assert row["text"][span.start : span.end] == span.text
            assert 0 < span.probability <= 1
        correct_count += [(span.start, span.end, span.label) for span in prediction.spans] == [
            (span["start"], span["end"], span["label"]) for span in row["spans"]
        ]
    assert correct_count >= 36


@pytest.mark.learns
def test_untokenized_texts_can_be_tagged(tagger: Run) -> None:
    prediction = predict(tagger.folder, ["it was a  great film,\tbut sad!"])[0]
    assert prediction.spans is not None
    assert [(span.text, span.label) for span in prediction.spans] == [("great film", "NICE"), ("sad", "SAD")]


@pytest.mark.parametrize("separator", [" ", "\t"])
def test_predictions_are_added_as_a_column(tagger: Run, separator: str, tmp_path: Path) -> None:
    rows = make_tagged_words(30, seed=4)
    source = tmp_path / "in.conll"
    source.write_text("-DOCSTART- -X- O\n\n" + format_conll(rows, separator))
    summary = predict_file(tagger.folder, source, tmp_path / "out.conll")
    assert summary.rows == 30
    blocks = (tmp_path / "out.conll").read_text().rstrip("\n").split("\n\n")
    assert len(blocks) == 30
    for row, block in zip(rows, blocks, strict=True):
        lines = [line.split(separator) for line in block.split("\n")]
        assert [tuple(line[:2]) for line in lines] == row
        assert all(len(line) == 3 for line in lines)
        extract_entities([line[2] for line in lines])
    expected_f1 = evaluate(tagger.folder, source).metrics["f1"].value
    from clearhead.metrics import count_entities, measure_entities

    counts = count_entities(
        [extract_entities([tag for _, tag in row]) for row in rows],
        [extract_entities([line.split(separator)[2] for line in block.split("\n")]) for block in blocks],
    )
    assert measure_entities(counts, n=0)["f1"].value == pytest.approx(expected_f1)


def test_column_names_are_kept(tagger: Run, tmp_path: Path) -> None:
    source = tmp_path / "in.conll"
    source.write_text(
        "token\tpos\ttag\n" + format_conll([[(f"{w}\tNN", t) for w, t in row] for row in make_tagged_words(5)])
    )
    predict_file(tagger.folder, source, tmp_path / "out.conll")
    lines = (tmp_path / "out.conll").read_text().split("\n")
    assert lines[0].split("\t")[-1] == "prediction"
    assert len(lines[0].split("\t")) == 4
    assert len(lines) == len(source.read_text().split("\n")) + 1  # with a blank line after the last sentence
    assert evaluate(tagger.folder, tmp_path / "out.conll", label="tags").rows == 5


def test_tokens_without_tags_can_be_tagged(tagger: Run, tmp_path: Path) -> None:
    source = tmp_path / "in.conll"
    source.write_text("\n\n".join("\n".join(word for word, _ in row) for row in make_tagged_words(4)) + "\n")
    predict_file(tagger.folder, source, tmp_path / "out.conll")
    assert all(len(line.split()) in (0, 2) for line in (tmp_path / "out.conll").read_text().split("\n"))


def test_json_lines_have_the_text_and_its_spans(tagger: Run, conll_file: Path, tmp_path: Path) -> None:
    predict_file(tagger.folder, conll_file, tmp_path / "out.jsonl")
    row = json.loads((tmp_path / "out.jsonl").read_text().split("\n")[0])
    assert row["text"] == " ".join(row["tokens"])
    assert {"start", "end", "label", "text", "probability"} == set(row["spans"][0])
    assert row["text"][row["spans"][0]["start"] : row["spans"][0]["end"]] == row["spans"][0]["text"]


def test_no_spans_differ_from_a_skipped_row(span_tagger: Run, tmp_path: Path) -> None:
    rows = [{"text": "the end", "spans": []}, {"text": " ", "spans": []}]
    for ending, empty in ((".csv", "[]"), (".tsv", "[]"), (".jsonl", [])):
        path = tmp_path / f"out{ending}"
        predict_file(span_tagger.folder, rows, path, skip_bad_rows=True)
        lines = path.read_text().splitlines()
        predictions: Any = (
            list(map(json.loads, lines))
            if ending == ".jsonl"
            else list(csv.DictReader(lines, delimiter="\t" if ending == ".tsv" else ","))
        )
        assert (predictions[0]["spans"], predictions[1]["spans"] in ("", None)) == (empty, True)
        assert [row["given_spans"] for row in predictions] == [empty, empty]


@pytest.mark.parametrize("ending", [".conll", ".jsonl", ".csv"])
def test_a_resumed_prediction_writes_the_same_bytes(
    ending: str, tagger: Run, conll_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    predictor = load_predictor(tagger.folder)
    monkeypatch.setattr(answer_chunks, "__kwdefaults__", {"labels": None, "skip": 0, "chunk": 20})
    predict_file(predictor, conll_file, tmp_path / f"whole{ending}")
    calls = 0

    def stop(done: int, total: int | None) -> None:
        nonlocal calls
        calls += 1
        if calls == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        predict_file(predictor, conll_file, tmp_path / f"half{ending}", progress=stop)
    summary = predict_file(predictor, conll_file, tmp_path / f"half{ending}")
    assert summary.resumed > 0
    assert (tmp_path / f"half{ending}").read_bytes() == (tmp_path / f"whole{ending}").read_bytes()


def test_a_resumed_run_ends_in_the_same_bits(tiny: str, conll_file: Path, tmp_path: Path) -> None:
    settings: dict[str, Any] = {"epochs": 2, "learning_rate": 3e-3, "batch_size": 16, "save_every": 0.0, "threads": 1}
    train(conll_file, output=tmp_path / "whole", model=tiny, command="x", **settings)

    def stop(training_step: Any) -> None:
        if training_step.step == 9:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(
            conll_file,
            output=tmp_path / "half",
            model=tiny,
            command="x",
            events=RunEvents(training_step=stop),
            **settings,
        )
    train(resume=tmp_path / "half")
    assert read_results(tmp_path / "half") == read_results(tmp_path / "whole")


@pytest.mark.learns
def test_two_seeds_and_a_target_accuracy(tiny: str, conll_file: Path, tmp_path: Path) -> None:
    run = train(conll_file, output=tmp_path / "two", model=tiny, epochs=5, seeds=2, target_accuracy=0.9, **QUICK)
    assert run.metrics["f1"].value > 0.5
    assert any("90" in note for note in run.notes)  # the note on the target accuracy


def test_comparison_of_two_taggers(tagger: Run, span_tagger: Run, conll_file: Path) -> None:
    evaluation = evaluate(tagger.folder, conll_file, against=span_tagger.folder)
    assert set(evaluation.against) == {"precision", "recall", "f1", "f1_macro", "accuracy"}
    other_evaluation = evaluate(span_tagger.folder, conll_file)
    for name, paired in evaluation.against.items():
        assert paired.difference == pytest.approx(evaluation.metrics[name].value - other_evaluation.metrics[name].value)


@pytest.mark.parametrize("method", ["head", "features"])
def test_other_methods_for_tagging(method: str, tiny: str, conll_file: Path, tmp_path: Path) -> None:
    run = train(conll_file, output=tmp_path / "run", model=tiny, method=method, epochs=1, report=False)
    assert predict(run.folder, ["a great film"])[0].tags is not None


@pytest.mark.parametrize("method", ["tfidf", "majority"])
def test_methods_of_whole_texts_are_refused(method: str, tiny: str, conll_file: Path, tmp_path: Path) -> None:
    with pytest.raises(
        InputError, match=f"tag does not support the method {method}; use one of finetune, head, features"
    ):
        train(conll_file, output=tmp_path / "run", model=tiny, method=method)


def test_abstention_has_a_column(tagger: Run, tmp_path: Path) -> None:
    predictor = load_predictor(tagger.folder, abstain_below=1.0)
    predict_file(predictor, ["a great film"], tmp_path / "out.jsonl")
    row = json.loads((tmp_path / "out.jsonl").read_text())
    assert (row["spans"], row["abstained"]) == (None, True)


@pytest.mark.learns
def test_long_texts_are_read_in_windows(tagger: Run) -> None:
    words = [pair for row in make_tagged_words(20, seed=8) for pair in row]
    rows = [{"tokens": [word for word, _ in words], "tags": [tag for _, tag in words]}]
    evaluation = evaluate(tagger.folder, rows)
    assert evaluation.windowed == 1
    assert evaluation.truncated == 0
    assert evaluation.metrics["recall"].value > 0.8
    prediction = predict(tagger.folder, rows)[0]
    assert prediction.tags is not None
    assert len(prediction.tags) == len(words)


def test_bad_rows_are_refused_before_training_or_counted(tiny: str, tmp_path: Path) -> None:
    rows = make_span_rows(make_tagged_words(60))
    rows[4]["spans"] = [{"start": 1, "end": 2, "label": "NICE"}]
    rows[9]["spans"] = [{"start": 0, "end": 999, "label": "NICE"}]
    with pytest.raises(InputError, match=r"2 of 60 rows cannot be used:\n  row 5: .*\n  row 10: "):
        train(rows, output=tmp_path / "run", model=tiny, epochs=1, **QUICK)
    assert not (tmp_path / "run" / "model.safetensors").exists()
    run = train(rows, output=tmp_path / "skipped", model=tiny, epochs=1, skip_bad_rows=True, **QUICK)
    assert any("2 rows (span does not fit)" in message for message in run.messages)


def test_tags_on_words_without_tokens_are_reported(tiny: str, tmp_path: Path) -> None:
    rows = make_span_rows(make_tagged_words(40))
    rows[6] = {"text": "a \u200b film", "spans": [{"start": 2, "end": 3, "label": "NICE"}]}
    run = train(rows, output=tmp_path / "run", model=tiny, epochs=1, **QUICK)
    assert "1 row has a tag on a word without its own token, which cannot be learned (row 7)" in run.messages
    rows[6]["spans"] = []
    clean = train(rows, output=tmp_path / "clean", model=tiny, epochs=1, **QUICK)
    assert not any("token of its own" in message for message in clean.messages)
