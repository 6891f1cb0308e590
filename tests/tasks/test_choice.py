"""Questions with options: all notations, any number of options per row, probabilities over the existing options."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from clearhead.data import Columns, LabelSpace, open_source, resolve_columns, survey_rows
from clearhead.data.examples import TextRow
from clearhead.data.row_codec import LengthPolicy
from clearhead.data.sources.source import BadRow, Row
from clearhead.data.table import encode_rows
from clearhead.errors import InputError
from clearhead.tasks import Calibration, detect_task, get_task
from clearhead.tasks.choice.decoding import collect_scores, decode, fit_calibration
from clearhead.tasks.choice.metrics import measure
from clearhead.tasks.choice.rows import Options, check_row, find_option, name_option
from clearhead.tasks.choice.task import OPTION_ROWS
from clearhead.tasks.packed import pack_table
from clearhead.tasks.ragged import RaggedArray, compute_bounds
from clearhead.training.objectives import ChoiceCrossEntropy, NetworkOutput
from tests.tasks.tokenizers import make_tokenizer
from tests.tiny_models import write_csv
from tests.variation import scaled

CHOICE = get_task("choice")
SPACE = LabelSpace(names=("0", "1", "2", "3"), kind="options", scheme="0")
COLUMNS = Columns(text="question", label="label", options=("options",))
TEXTS = ["a boat", "a net", "a letter", "a storm"]
QUESTION = "What did the keeper write?"


def read_rows(rows_or_path: Any) -> tuple[Columns, LabelSpace, list[TextRow]]:
    source = open_source(rows_or_path)
    assert CHOICE.rows.label_counter is not None
    columns = resolve_columns(source, CHOICE.rows.layout)
    space = survey_rows(source, columns, check=check_row, counter=CHOICE.rows.label_counter())
    assert space is not None
    rows = [check_row(row, columns, space) for row in source.rows() if isinstance(row, Row)]
    return columns, space, [row for row in rows if isinstance(row, TextRow)]


def name_texts(stem: str, names: str = "0123") -> dict[str, str]:
    return {f"{stem}{name}": text for name, text in zip(names, TEXTS, strict=True)}


LETTERS = {"text": TEXTS, "label": ["A", "B", "C", "D"]}
NOTATIONS: dict[
    str, tuple[dict[str, Any], dict[int, Any]]
] = {  # a row without its label, and labels by index of the option
    "SWAG": ({"sent1": "A man sits.", "sent2": "He", **name_texts("ending")}, {0: 0, 2: 2, 3: 3}),
    "OpenBookQA": ({"question_stem": QUESTION, "choices": LETTERS}, {0: "A", 2: "C", 3: "D"}),
    "list of objects": (
        {"question": QUESTION, "choices": [{"label": k, "text": t} for k, t in zip("ABCD", TEXTS, strict=True)]},
        {0: "A", 2: "C"},
    ),
    "as ARC was published": (
        {
            "question": {
                "stem": QUESTION,
                "choices": [{"label": k, "text": t} for k, t in zip("ABCD", TEXTS, strict=True)],
            }
        },
        {0: "A", 2: "C"},
    ),
    "keys that are numbers": ({"question": QUESTION, "choices": {"text": TEXTS, "label": [1, 2, 3, 4]}}, {0: 1, 3: 4}),
    "ARC's keys": ({"question": QUESTION, "choices": {"text": TEXTS, "label": ["1", "2", "3", "4"]}}, {0: "1", 3: "4"}),
    "RACE": ({"article": "Long ago.", "question": QUESTION, "options": TEXTS}, {0: "A", 3: "D"}),
    "HellaSwag": ({"ctx": "A man sits.", "endings": TEXTS}, {0: "0", 3: "3"}),
    "counted from 1": ({"question": QUESTION, **name_texts("option_", "1234")}, {0: 1, 3: 4}),
    "letters": ({"question": QUESTION, **name_texts("option_", "abcd")}, {0: "A", 3: "D"}),
    "small letters": ({"question": QUESTION, **name_texts("choice", "1234")}, {0: "a", 3: "d"}),
    "the text itself": ({"question": QUESTION, **name_texts("option ", "1234")}, {0: "a boat", 3: "a storm"}),
    "A to D": ({"question": QUESTION, "A": TEXTS[0], "B": TEXTS[1], "C": TEXTS[2], "D": TEXTS[3]}, {0: "A", 3: "D"}),
    "MMLU": ({"question": QUESTION, "subject": "sea", "choices": TEXTS}, {0: 0, 3: 3}),
    "PIQA": ({"goal": "To write", "sol1": "take a pen", "sol2": "take a net"}, {0: 0, 1: 1}),
    "Winogrande": ({"sentence": "It was _.", "option1": "red", "option2": "wet"}, {0: 1, 1: 2}),
    "COPA": ({"premise": "It rained.", "choice1": "wet", "choice2": "dry", "question": "effect"}, {0: 0, 1: 1}),
    "JSON in a cell": ({"question": QUESTION, "options": json.dumps(TEXTS)}, {0: 0, 3: 3}),
    "objects in a cell": ({"question": QUESTION, "options": json.dumps(LETTERS)}, {0: "A", 3: "D"}),
    "bars in a cell": ({"question": QUESTION, "options": " | ".join(TEXTS)}, {0: 0, 3: 3}),
    "ReClor": ({"context": "Ada met Tim.", "question": "Whom?", "answers": TEXTS}, {0: 0, 3: 3}),
    "numbers as options": ({"question": "1 + 2?", "options": [5, 4, 3, 2]}, {0: 5, 2: 3, 3: 2}),
}
LABEL_COLUMNS = {"as ARC was published": "answerKey"}
LABEL_COLUMNS |= {"OpenBookQA": "answerKey", "list of objects": "answerKey", "RACE": "answer", "Winogrande": "answer"}


@pytest.mark.parametrize("notation", NOTATIONS)
def test_every_notation_is_read(notation: str, tmp_path: Path) -> None:
    values, labels = NOTATIONS[notation]
    key = LABEL_COLUMNS.get(notation, "label")
    rows = [{**values, key: label} for label in labels.values()]
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    columns, space, parsed_rows = read_rows(path)
    assert columns.label == key
    assert [row.label for row in parsed_rows] == list(labels)
    assert detect_task(open_source(path)) is CHOICE
    for row, index in zip(parsed_rows, labels, strict=True):
        target_text = name_option(index, row.extra, space.scheme)
        assert target_text.casefold() == str(labels[index]).casefold()
    if not any(isinstance(value, dict | list) for value in values.values()):
        assert [row.label for row in read_rows(write_csv(tmp_path / "rows.csv", rows))[2]] == list(labels)


def test_text_pairs_of_each_option() -> None:
    swag = read_rows([{**NOTATIONS["SWAG"][0], "label": 0}])[2][0]
    assert swag.extra.items()[1] == ("A man sits.", "He a net")
    assert read_rows([{**NOTATIONS["letters"][0], "label": "A"}])[2][0].extra.items()[2] == (QUESTION, "a letter")


def test_rows_may_have_fewer_options() -> None:
    rows = [
        {"question": QUESTION, "option1": "a", "option2": "b", "option3": "c", "label": 3},
        {"question": QUESTION, "option1": "a", "option2": "b", "option3": "", "label": 1},
    ]
    columns, space, parsed_rows = read_rows(rows)
    assert [len(row.extra.texts) for row in parsed_rows] == [3, 2]
    assert space == LabelSpace(names=("0", "1", "2"), kind="options", scheme="1")
    bad_row = check_row(
        Row(1, {"question": QUESTION, "option1": "a", "option2": "", "option3": "c", "label": 1}), columns, space
    )
    assert isinstance(bad_row, BadRow)
    assert "an option before the last one is empty" in str(bad_row)


BAD_ROWS: dict[str, tuple[dict[str, Any], str]] = {
    "null": ({"options": None}, "options is not a list of options"),
    "a number": ({"options": 5}, "options is not a list of options"),
    "an object of others": ({"options": {"a": 1}}, "options is not a list of options"),
    "one": ({"options": ["a"]}, "1 options, expected 2 to 1,000"),
    "none": ({"options": []}, "0 options"),
    "too many": ({"options": ["a"] * 1001}, "1001 options"),
    "a null among them": ({"options": ["a", None]}, "an option is empty or not text"),
    "not a number": ({"options": ["a", float("nan")]}, "an option is empty or not text"),
    "an empty one": ({"options": ["a", " "]}, "an option is empty or not text"),
    "an empty one in a cell": ({"options": '["a", "", "b"]'}, "an option is empty or not text"),
    "a list among them": ({"options": ["a", ["b"]]}, "an option is empty or not text"),
    "half a character": ({"options": ["a", "\ud800"]}, "an option is empty or not text"),
    "objects without text": ({"options": [{"label": "A"}, {"label": "B"}]}, "an option is empty or not text"),
    "no label": ({"label": None}, "the label is missing"),
    "a list for a label": ({"label": [0]}, "the label is missing"),
    "too high": ({"label": 4}, "the label '4' is not one of the 4 options"),
    "below 0": ({"label": -1}, "is not one of the 4 options"),
    "two signs": ({"label": "--1"}, "is not one of the 4 options"),
    "a small two": ({"label": "²"}, "is not one of the 4 options"),
    "without end": ({"label": "1" * 5000}, "is not one of the 4 options"),
    "yes": ({"label": True}, "is not one of the 4 options"),
    "no question": ({"question": " "}, "question is empty"),
}


@pytest.mark.parametrize("case", BAD_ROWS)
def test_unusable_rows_are_reported(case: str) -> None:
    values, message = BAD_ROWS[case]
    checked = check_row(Row(3, {"question": QUESTION, "options": TEXTS, "label": 0} | values), COLUMNS, SPACE)
    assert isinstance(checked, BadRow), checked
    assert message in str(checked)
    assert len(str(checked)) < 300
    unlabeled_row = check_row(Row(3, {"question": QUESTION, "options": TEXTS, "label": 0} | values), COLUMNS, None)
    if isinstance(unlabeled_row, TextRow):  # the label space is not known yet
        assert CHOICE.rows.label_counter is not None
        CHOICE.rows.label_counter().add(unlabeled_row.label)


def test_all_bad_rows_are_in_one_error() -> None:
    rows = [
        {"question": QUESTION, "options": TEXTS, "label": 0} | values
        for values, _ in BAD_ROWS.values()
        if "label" not in values
    ]
    with pytest.raises(InputError, match=f"{len(rows)} of {len(rows) + 1} rows cannot be used"):
        read_rows([*rows, {"question": QUESTION, "options": TEXTS, "label": 0}])


def test_duplicate_keys_are_not_used_as_names() -> None:
    checked = check_row(
        Row(1, {"question": QUESTION, "options": {"text": ["a", "b"], "label": ["A", "A"]}, "label": 1}), COLUMNS, SPACE
    )
    assert isinstance(checked, TextRow)
    assert checked.extra.keys == ()
    assert checked.label == 1


def test_a_label_means_one_option() -> None:
    options = Options(("x", "y"), ("k", "l"))
    assert [find_option(label, options, "0") for label in ("k", "l", "0", "1", "2", "m")] == [0, 1, 0, 1, None, None]
    assert name_option(30, Options(tuple(map(str, range(40)))), "A") == "30"


def make_dataset(counts: list[int], length: int | None = None) -> Any:
    rows = []
    for number, count in enumerate(counts):
        texts = [f"option {'keeper ' * (position + number % 3)}{position}" for position in range(count)]
        row = check_row(
            Row(number + 1, {"question": QUESTION, "options": texts, "label": number % count}), COLUMNS, SPACE
        )
        assert isinstance(row, TextRow)
        rows.append(row)
    table = encode_rows(
        rows, COLUMNS, make_tokenizer("distilbert"), SPACE, LengthPolicy(max_length=length, stride=2), OPTION_ROWS
    )
    return pack_table(table, segments=False)


@settings(max_examples=scaled(40), deadline=None)
@given(counts=st.lists(st.integers(2, 6), min_size=1, max_size=6), seed=st.integers(0, 2**31), long=st.booleans())
def test_the_loss_is_cross_entropy_over_the_existing_options(counts: list[int], seed: int, long: bool) -> None:
    dataset = make_dataset(counts, 20 if long else None)
    order = np.random.default_rng(seed).permutation(len(counts))
    batch = dataset.take(order)
    torch.manual_seed(seed)
    logits = torch.randn(len(batch.lengths), 1, requires_grad=True)
    losses = ChoiceCrossEntropy().loss(NetworkOutput(logits=logits), batch)
    smooth = ChoiceCrossEntropy(smoothing=0.1).loss(NetworkOutput(logits=logits), batch)
    window = 0
    for index, row in enumerate(order.tolist()):
        scores = []
        for option in range(counts[row]):
            windows = int(dataset.annotations.window_counts[dataset.annotations.bounds[row] + option])
            scores.append(logits[window : window + windows, 0].mean())
            window += windows
        option_scores, target = torch.stack(scores)[None], torch.tensor([row % counts[row]])
        torch.testing.assert_close(losses[index], torch.nn.functional.cross_entropy(option_scores, target))
        torch.testing.assert_close(
            smooth[index],
            torch.nn.functional.cross_entropy(option_scores, target, label_smoothing=0.1),
            rtol=1e-4,
            atol=1e-5,
        )
    assert window == len(logits)
    (losses.sum() + smooth.sum()).backward()
    assert logits.grad is not None
    assert torch.isfinite(logits.grad).all()


def test_scores_of_windows_are_collected_by_option() -> None:
    dataset = make_dataset([2, 5, 3], 20)
    assert int(dataset.annotations.window_counts.max()) > 1
    windows = int(dataset.row_windows.sum())
    values = np.random.default_rng(0).normal(size=(windows, 1)).astype(np.float32)
    scores = collect_scores(values, dataset)
    assert scores.counts.tolist() == [2, 5, 3]
    bounds = np.concatenate([[0], np.cumsum(dataset.annotations.window_counts)])
    for option, score in enumerate(scores.values.tolist()):
        assert score == pytest.approx(float(values[bounds[option] : bounds[option + 1], 0].mean()), rel=1e-5)
    subset = dataset.select(np.array([2, 0]))
    subset_values = np.concatenate([values[bounds[7] : bounds[10]], values[bounds[0] : bounds[2]]])
    assert collect_scores(subset_values, subset).values.tolist() == pytest.approx(
        [*scores.row(2).tolist(), *scores.row(0).tolist()]
    )


@settings(max_examples=scaled(60), deadline=None)
@given(st.lists(st.integers(2, 7), min_size=1, max_size=8), st.integers(0, 2**31), st.floats(0.1, 10))
def test_probabilities_are_over_the_existing_options(counts: list[int], seed: int, temperature: float) -> None:
    generator = np.random.default_rng(seed)
    scores = RaggedArray(values=generator.normal(size=sum(counts)).astype(np.float32), bounds=compute_bounds(counts))
    answers = decode(scores, SPACE, Calibration(temperature=temperature))
    for index, count in enumerate(counts):
        np.testing.assert_allclose(answers.probs[index, :count].sum(), 1.0)
        assert (answers.probs[index, count:] == 0).all()
        assert answers.labels[index] == scores.row(index).argmax()
        permutation = generator.permutation(count)
        shuffled_answers = decode(
            RaggedArray(values=scores.row(index)[permutation], bounds=compute_bounds([count])), SPACE, Calibration()
        )
        assert permutation[shuffled_answers.labels[0]] == answers.labels[index]  # the order of options does not matter


def test_the_temperature_is_fitted_and_measured_with_ragged_options() -> None:
    generator = np.random.default_rng(0)
    counts = generator.integers(2, 6, 80)
    scores = RaggedArray(
        values=(8 * generator.normal(size=int(counts.sum()))).astype(np.float32), bounds=compute_bounds(counts)
    )
    targets = np.array([generator.integers(0, count) for count in counts])
    calibration = fit_calibration(scores, targets, SPACE)
    assert calibration.temperature > 2  # the model was overconfident
    plain = measure(decode(scores, SPACE, Calibration()), targets, SPACE, 0)
    scaled = measure(decode(scores, SPACE, calibration), targets, SPACE, 0)
    assert plain["accuracy"].value == scaled["accuracy"].value
    assert scaled["log_loss"].value < plain["log_loss"].value
