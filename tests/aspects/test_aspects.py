"""Aspect sentiment from end to end: reviews in, what they speak of and what they think of it out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clearhead.api import evaluate, load_predictor, predict, train
from clearhead.aspects.reviews import read_reviews
from clearhead.data import open_source
from clearhead.errors import CheckpointError, InputError
from clearhead.jobs.plan import make_plan
from clearhead.train.finish import Run
from tests.aspect_rows import flatten_aspects, make_reviews
from tests.tiny_models import tiny_model


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tiny_model(tmp_path_factory.mktemp("tiny")))


QUICK: dict[str, Any] = {"task": "aspect", "learning_rate": 3e-3, "batch_size": 16, "epochs": 12}


@pytest.fixture(scope="module")
def aspect_run(tiny: str, tmp_path_factory: pytest.TempPathFactory) -> Run:
    return train(make_reviews(240), output=tmp_path_factory.mktemp("run") / "aspects", model=tiny, **QUICK)


@pytest.mark.learns
def test_finds_aspects_and_polarities(aspect_run: Run) -> None:
    assert aspect_run.task == "aspect"
    assert aspect_run.labels == ("negative", "positive")
    assert set(aspect_run.rows) == {"train", "dev", "test"}
    assert aspect_run.metrics["f1"].value > 0.8
    assert [note.split(":")[0] for note in aspect_run.notes[:2]] == [
        "aspects found, regardless of polarity",
        "polarity of given aspects",
    ]
    assert aspect_run.report is not None
    saved = json.loads((aspect_run.folder / "metrics.json").read_text())
    assert saved["parts"]["test"]["metrics"]["f1"]["value"] == pytest.approx(aspect_run.metrics["f1"].value)


def test_a_subset_of_the_reviews(tiny: str, tmp_path: Path) -> None:
    quick = QUICK | {"epochs": 1}
    settings: dict[str, Any] = {"dev": make_reviews(40, seed=3), "output": tmp_path / "some", "model": tiny}
    run = train(make_reviews(240), rows=30, report=False, **settings, **quick)
    assert run.rows == {"train": 30, "dev": 40}
    assert run.report is None
    assert not list((tmp_path / "some").rglob("*.html"))


def test_reviews_become_spans_with_their_polarity(aspect_run: Run) -> None:
    answers = predict(aspect_run.folder, ["the plot was sad today", "we saw a fine actor"])
    spans = [[(span.text, span.label) for span in answer.spans or ()] for answer in answers]
    assert spans == [[("plot", "negative")], [("actor", "positive")]]
    assert all(0.3 < span.probability <= 1 for answer in answers for span in answer.spans or ())


def test_both_models_use_the_same_split(aspect_run: Run) -> None:
    splits = [
        json.loads((aspect_run.folder / name / "clearhead.json").read_text())["trained"]["data"]
        for name in ("find", "judge")
    ]
    assert [{part: fingerprint["rows"] for part, fingerprint in fingerprints.items()} for fingerprints in splits] == [
        dict(aspect_run.rows)
    ] * 2


@pytest.mark.learns
def test_evaluate_measures_spans_and_polarity_together(aspect_run: Run) -> None:
    rows = make_reviews(60, seed=5)
    page = aspect_run.folder / "flipped.html"
    evaluation = evaluate(aspect_run.folder, rows)
    opposite = {"positive": "negative", "negative": "positive"}
    flipped = [row | {"spans": [span | {"label": opposite[span["label"]]} for span in row["spans"]]} for row in rows]
    assert evaluation.metrics["f1"].value > 0.8
    assert evaluate(aspect_run.folder, flipped, report=page).metrics["f1"].value < 0.3
    assert "<mark" in page.read_text()  # what is true and what was said, in the text


def test_held_out_rows_are_reproduced(aspect_run: Run) -> None:
    evaluation = evaluate(aspect_run.folder, make_reviews(240), part="test")
    assert evaluation.rows == aspect_run.rows["test"]
    assert evaluation.metrics["f1"].value == pytest.approx(aspect_run.metrics["f1"].value)
    with pytest.raises(InputError, match="does not have the test rows"):
        evaluate(aspect_run.folder, make_reviews(240, seed=9), part="test")


def test_a_row_for_each_aspect_can_be_measured(aspect_run: Run) -> None:
    rows = make_reviews(60, seed=5)
    unique_rows = list({row["text"]: row for row in rows}.values())
    flat_evaluation, span_evaluation = (
        evaluate(aspect_run.folder, flatten_aspects(rows)),
        evaluate(aspect_run.folder, unique_rows),
    )
    assert flat_evaluation.rows == len(unique_rows)
    assert flat_evaluation.metrics["f1"].value == pytest.approx(span_evaluation.metrics["f1"].value)


def test_aspects_in_columns_are_read(tmp_path: Path) -> None:
    path = tmp_path / "a.conll"
    path.write_text("the\tO\nred\tB-good\nwine\tI-good\nhelped\tO\n\nbad\tO\nbread\tB-bad\n")
    review_list = read_reviews(open_source(path), make_plan({"task": "aspect"}), lambda _: None)
    assert [(review.text, review.spans) for review in review_list] == [
        ("the red wine helped", ((4, 12, "good"),)),
        ("bad bread", ((4, 9, "bad"),)),
    ]


def test_a_row_for_each_aspect_is_the_same_data(tmp_path: Path) -> None:
    rows = make_reviews(30)
    two_spans = [{"start": 4, "end": 8, "label": "positive"}, {"start": 27, "end": 32, "label": "negative"}]
    rows[0] = {"text": "the film was great but the story was awful", "spans": two_spans}
    plan = make_plan({"task": "aspect"})
    span_reviews = read_reviews(open_source(rows), plan, lambda _: None)
    flat_reviews = read_reviews(open_source(flatten_aspects(rows)), plan, lambda _: None)
    unique_reviews = list(
        {review.text: review for review in span_reviews}.values()
    )  # the same text twice is one review
    assert [(review.text, review.spans) for review in flat_reviews] == [
        (review.text, review.spans) for review in unique_reviews
    ]


def test_without_an_offset_the_first_occurrence_is_used() -> None:
    rows = [{"text": "good wine and wine again", "aspect": "wine", "label": "positive"}] * 3
    review_list = read_reviews(open_source(rows), make_plan({"task": "aspect"}), lambda _: None)
    assert review_list[0].spans == ((5, 9, "positive"),)


def test_bad_rows_are_listed(tiny: str, tmp_path: Path) -> None:
    rows = flatten_aspects(make_reviews(20))
    rows[3]["aspect"] = "nowhere"
    rows[7]["aspect_start"] = 1
    with pytest.raises(InputError, match=r"2 of \d+ rows cannot be used:\n  row 4: .*nowhere.*\n  row 8: "):
        train(rows, output=tmp_path / "run", model=tiny, **QUICK)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{"text": f"the film was {n}", "spans": []} for n in range(20)], "has no aspects in any text"),
        (
            [{"text": f"the film was {n}", "spans": [{"start": 4, "end": 8, "label": "good"}]} for n in range(20)],
            "nothing to learn",
        ),
    ],
)
def test_data_without_aspects_is_refused(rows: list[dict[str, Any]], message: str, tiny: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message):
        train(rows, output=tmp_path / "run", model=tiny, **QUICK)


def test_unsuitable_methods_are_refused(tiny: str, tmp_path: Path) -> None:
    with pytest.raises(
        InputError, match="aspect does not support the method tfidf; use one of finetune, head, features"
    ):
        train(make_reviews(20), output=tmp_path / "run", model=tiny, task="aspect", method="tfidf")


def test_an_unconfident_model_abstains(aspect_run: Run) -> None:
    abstaining = load_predictor(aspect_run.folder, abstain_below=1.0)
    assert [answer.spans for answer in predict(abstaining, ["the plot was sad today"])] == [None]
    with pytest.raises(InputError, match="abstain_below must be from 0 to 1"):
        load_predictor(aspect_run.folder, abstain_below=2)


def test_a_changed_label_is_refused(aspect_run: Run, tmp_path: Path) -> None:
    import shutil

    folder_copy = tmp_path / "copy"
    shutil.copytree(aspect_run.folder, folder_copy)
    aspects_file = folder_copy / "aspects.json"
    aspects_file.write_text(aspects_file.read_text().replace("positive", "happy"))
    with pytest.raises(CheckpointError, match="do not match"):
        load_predictor(folder_copy)


def test_found_aspects_are_kept_with_unsure_polarity() -> None:
    from clearhead.aspects.predictor import combine_probabilities

    probs = np.array([[0.4, 0.6, 0.0], [0.9, 0.05, 0.05]])  # O, B, I
    polarity_probs = np.full((2, 3), 1 / 3)
    combined = np.exp(combine_probabilities(probs, polarity_probs, np.array([1, 0]), ["O", "B-ASPECT", "I-ASPECT"]))
    assert combined[0].argmax() == 1  # 0.2 each, and O below them
    assert combined[1].argmax() == 0
    assert combined[0, 1::2] == pytest.approx([0.2] * 3)
