"""Reports of tags, answers and options show the words that an answer hangs on, beside what is true and what is said."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from clearhead.api import evaluate, load_predictor, predict, train
from clearhead.data import open_source
from clearhead.evaluate.examples import show_examples
from clearhead.predict.predictor import Predictor
from clearhead.tasks.examples import Example, PartExamples, WordImportance
from tests.aspect_rows import marked
from tests.report.pages import Reader
from tests.task_rows import options, questions, spans, words_and_tags

Rows = list[dict[str, Any]]
ASKED = ("was it", "was it good today", "we saw more of the film")


def asked(count: int, seed: int = 0) -> Rows:
    rows = questions(count, seed, none=0.2)
    return [row | {"question": ASKED[place % 3]} for place, row in enumerate(rows)]


def unmarked(rows: Rows) -> Rows:
    return [row | {"spans": []} for row in rows[:20]] + rows[20:]


TASKS: dict[str, tuple[Rows, Rows, int]] = {  # to learn from, to be wrong about, epochs
    "tag": (spans(words_and_tags(160)), unmarked(spans(words_and_tags(40, seed=7))), 5),
    "span": (asked(160), [row | {"answers": []} for row in asked(40, seed=7)], 4),
    "choice": (options(160), [row | {"label": "A"} for row in options(40, seed=7)], 2),
    "aspect": (marked(120), unmarked(marked(40, seed=7)), 6),
}


@pytest.fixture(scope="module", params=list(TASKS))
def found(request: pytest.FixtureRequest, tiny: str, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A task, what a trained model shows of rows that are labelled otherwise, and the report of them."""
    task: str = request.param
    learned, wrong, epochs = TASKS[task]
    folder = tmp_path_factory.mktemp(task)
    train(
        learned,
        output=folder / "run",
        model=tiny,
        task=task,
        learning_rate=3e-3,
        batch_size=16,
        epochs=epochs,
        report=False,
    )
    predictor, source = load_predictor(folder / "run"), open_source(wrong)
    made = evaluate(predictor, wrong, report=folder / "page.html")
    assert made.picks is not None
    every = show_examples(predictor, source, predictor.resolve_columns(source), made.picks, seconds=20)
    return task, predictor, every, folder / "page.html"


def left_out(text: str, word: WordImportance) -> str:
    return " ".join(f"{text[: word.start]} {text[word.end :]}".split())


def probability(task: str, predictor: Predictor, example: Example, word: WordImportance) -> float | None:
    """What `predict` says of the row without a word; None: it does not say it of this answer."""
    pick, text = example.selected, left_out((example.text_b or "") if word.in_second_text else example.text, word)
    if task == "choice":
        said = predict(predictor, [{"question": text, "options": list(pick.options)}], options="options")[0]
        return [*said.probabilities.values()][pick.options.index(pick.answer)]
    if task == "span":
        said = predict(predictor, [{"question": text, "context": example.text}])[0]
        mark = next((one for one in pick.spans if one.kind == "predicted"), None)
        places = None if mark is None else (mark.start, mark.end)
        return next((one.probability for one in said.nbest if (one.start, one.end) == places), None)
    said = predict(predictor, [text])[0]
    watched = example.target_name or ""
    same = [one for one in said.spans or () if f"“{one.text}” as {one.label}" == watched]
    return same[0].probability if len(same) == 1 and example.text.count(same[0].text) == 1 else None


def test_a_word_weighs_what_the_answer_loses_without_it(found: tuple[str, Predictor, PartExamples, Path]) -> None:
    task, predictor, every, _ = found
    checked = 0
    for example in every.worst:
        assert example.full_value is not None
        for word in example.words or ():
            without = probability(task, predictor, example, word)
            if without is not None:
                assert word.weight == pytest.approx(example.full_value - without, abs=2e-4)
                checked += 1
    assert checked >= 10
    rows = {example.selected.row for example in (*every.worst, *every.suspicious)}
    assert every.explained == len([1 for example in every.worst if example.words])
    assert every.explained >= len(rows) - (4 if task == "span" else 0)  # nothing is left of a question of one word


def test_what_is_marked_stays_and_nothing_of_the_answer_is_left_out(
    found: tuple[str, Predictor, PartExamples, Path],
) -> None:
    task, _, every, _ = found
    for example in every.worst:
        words = example.words or ()
        if task in ("tag", "aspect"):
            assert example.spans
            assert example.target_name is not None
            entity = example.target_name.split("”")[0][1:]
            at = example.text.index(entity)
            assert example.text.count(entity) > 1 or not [word for word in words if word.start <= at < word.end]
        elif task == "span":
            assert example.spans
            assert example.text_b in ASKED
            assert all(word.in_second_text for word in words)
        else:
            assert len(example.selected.options) > 1
            assert example.text_b is None
        assert all(word.end <= len((example.text_b or "") if word.in_second_text else example.text) for word in words)


def test_the_page_says_so(found: tuple[str, Predictor, PartExamples, Path]) -> None:
    task, _, every, page = found
    said = Reader(page.read_text()).said("worst")
    assert "Which words mattered" in said
    assert "“" in said or "No word alone moves the probability" in said
    assert ("The lines stand above the words" in said) == (task in ("tag", "aspect"))
    assert ("Only words of the question were left out" in said) == (task == "span")
    assert "(none)" in said or task in ("span", "choice")
    assert all(str(example.selected.row) in said for example in every.worst)


def test_words_of_a_cell_with_tags_are_those_that_were_tagged(tiny: str, tmp_path: Path) -> None:
    plain = [" ".join(word for word, _ in row[:5]) for row in words_and_tags(60)]
    cells = [{"text": f"a-b {text}", "tags": " ".join(["B-X", *["O"] * len(text.split())])} for text in plain]
    run = train(cells, output=tmp_path / "cells", model=tiny, task="tag", learning_rate=3e-3, epochs=6, report=False)
    cells[4]["tags"] = " ".join([*["O"] * len(plain[4].split()), "B-X"])
    predictor, source = load_predictor(run.folder), open_source(cells)
    made = evaluate(predictor, cells)
    assert made.picks is not None
    every = show_examples(predictor, source, predictor.resolve_columns(source), made.picks)
    example = next(one for one in every.worst if one.selected.row == 5)
    true = [mark for mark in example.spans if mark.kind == "true"]
    assert [example.text[mark.start : mark.end] for mark in true] == [plain[4].split()[-1]]
    assert all(example.text[mark.start : mark.end] in example.text.split() for mark in example.spans)
