"""Error examples of tag, span, choice and aspect tasks: labels, predictions and the most relevant words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from clearhead.api import evaluate, load_predictor, predict, train
from clearhead.data import open_source
from clearhead.evaluate.examples import show_examples
from clearhead.predict.predictor import Predictor
from clearhead.tasks.examples import Example, PartExamples, WordImportance
from tests.aspect_rows import make_reviews
from tests.report.pages import Reader
from tests.task_rows import make_option_rows, make_questions, make_span_rows, make_tagged_words

Rows = list[dict[str, Any]]
QUESTIONS = ("was it", "was it good today", "we saw more of the film")


def vary_questions(count: int, seed: int = 0) -> Rows:
    rows = make_questions(count, seed, no_answer_share=0.2)
    return [row | {"question": QUESTIONS[index % 3]} for index, row in enumerate(rows)]


def remove_spans(rows: Rows) -> Rows:
    return [row | {"spans": []} for row in rows[:20]] + rows[20:]


TASKS: dict[str, tuple[Rows, Rows, int]] = {  # training rows, wrongly labeled rows, epochs
    "tag": (make_span_rows(make_tagged_words(160)), remove_spans(make_span_rows(make_tagged_words(40, seed=7))), 5),
    "span": (vary_questions(160), [row | {"answers": []} for row in vary_questions(40, seed=7)], 4),
    "choice": (make_option_rows(160), [row | {"label": "A"} for row in make_option_rows(40, seed=7)], 2),
    "aspect": (make_reviews(120), remove_spans(make_reviews(40, seed=7)), 6),
}


@pytest.fixture(scope="module", params=list(TASKS))
def trained_task(request: pytest.FixtureRequest, tiny: str, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A task, its predictor, error examples on wrongly labeled rows, and the path of the report."""
    task: str = request.param
    train_rows, wrong_rows, epochs = TASKS[task]
    folder = tmp_path_factory.mktemp(task)
    train(
        train_rows,
        output=folder / "run",
        model=tiny,
        task=task,
        learning_rate=3e-3,
        batch_size=16,
        epochs=epochs,
        report=False,
    )
    predictor, source = load_predictor(folder / "run"), open_source(wrong_rows)
    evaluation = evaluate(predictor, wrong_rows, report=folder / "page.html")
    assert evaluation.picks is not None
    examples = show_examples(predictor, source, predictor.resolve_columns(source), evaluation.picks, seconds=20)
    return task, predictor, examples, folder / "page.html"


def remove_word(text: str, word: WordImportance) -> str:
    return " ".join(f"{text[: word.start]} {text[word.end :]}".split())


def predict_without_word(task: str, predictor: Predictor, example: Example, word: WordImportance) -> float | None:
    """Predict the probability of the same answer without a word; None if that answer is not predicted."""
    pick, text = example.selected, remove_word((example.text_b or "") if word.in_second_text else example.text, word)
    if task == "choice":
        answer = predict(predictor, [{"question": text, "options": list(pick.options)}], options="options")[0]
        return [*answer.probabilities.values()][pick.options.index(pick.answer)]
    if task == "span":
        answer = predict(predictor, [{"question": text, "context": example.text}])[0]
        predicted_span = next((candidate for candidate in pick.spans if candidate.kind == "predicted"), None)
        offsets = None if predicted_span is None else (predicted_span.start, predicted_span.end)
        return next(
            (candidate.probability for candidate in answer.nbest if (candidate.start, candidate.end) == offsets), None
        )
    answer = predict(predictor, [text])[0]
    target_name = example.target_name or ""
    matches = [
        candidate for candidate in answer.spans or () if f"“{candidate.text}” as {candidate.label}" == target_name
    ]
    return matches[0].probability if len(matches) == 1 and example.text.count(matches[0].text) == 1 else None


def test_a_word_weighs_what_the_answer_loses_without_it(
    trained_task: tuple[str, Predictor, PartExamples, Path],
) -> None:
    task, predictor, examples, _ = trained_task
    checked = 0
    for example in examples.worst:
        assert example.full_value is not None
        for word in example.words or ():
            probability = predict_without_word(task, predictor, example, word)
            if probability is not None:
                assert word.weight == pytest.approx(example.full_value - probability, abs=2e-4)
                checked += 1
    assert checked >= 10
    rows = {example.selected.row for example in (*examples.worst, *examples.suspicious)}
    assert examples.explained == len([1 for example in examples.worst if example.words])
    assert examples.explained >= len(rows) - (4 if task == "span" else 0)  # one-word questions cannot be occluded


def test_what_is_marked_stays_and_nothing_of_the_answer_is_left_out(
    trained_task: tuple[str, Predictor, PartExamples, Path],
) -> None:
    task, _, examples, _ = trained_task
    for example in examples.worst:
        words = example.words or ()
        if task in ("tag", "aspect"):
            assert example.spans
            assert example.target_name is not None
            entity = example.target_name.split("”")[0][1:]
            position = example.text.index(entity)
            assert example.text.count(entity) > 1 or not [word for word in words if word.start <= position < word.end]
        elif task == "span":
            assert example.spans
            assert example.text_b in QUESTIONS
            assert all(word.in_second_text for word in words)
        else:
            assert len(example.selected.options) > 1
            assert example.text_b is None
        assert all(word.end <= len((example.text_b or "") if word.in_second_text else example.text) for word in words)


def test_the_page_says_so(trained_task: tuple[str, Predictor, PartExamples, Path]) -> None:
    task, _, examples, page = trained_task
    text = Reader(page.read_text()).section_text("worst")
    assert "Word importance by occlusion" in text
    assert "“" in text or "No single word changes the probability" in text
    assert ("The lines are above the words" in text) == (task in ("tag", "aspect"))
    assert ("Only words of the question are removed" in text) == (task == "span")
    assert "(none)" in text or task in ("span", "choice")
    assert all(str(example.selected.row) in text for example in examples.worst)


def test_words_of_a_cell_with_tags_are_those_that_were_tagged(tiny: str, tmp_path: Path) -> None:
    sentences = [" ".join(word for word, _ in row[:5]) for row in make_tagged_words(60)]
    cells = [{"text": f"a-b {text}", "tags": " ".join(["B-X", *["O"] * len(text.split())])} for text in sentences]
    run = train(cells, output=tmp_path / "cells", model=tiny, task="tag", learning_rate=3e-3, epochs=6, report=False)
    cells[4]["tags"] = " ".join([*["O"] * len(sentences[4].split()), "B-X"])
    predictor, source = load_predictor(run.folder), open_source(cells)
    evaluation = evaluate(predictor, cells)
    assert evaluation.picks is not None
    examples = show_examples(predictor, source, predictor.resolve_columns(source), evaluation.picks)
    example = next(example for example in examples.worst if example.selected.row == 5)
    true_spans = [span for span in example.spans if span.kind == "true"]
    assert [example.text[span.start : span.end] for span in true_spans] == [sentences[4].split()[-1]]
    assert all(example.text[span.start : span.end] in example.text.split() for span in example.spans)
