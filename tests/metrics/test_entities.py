"""Entities are extracted and counted as in seqeval, for any tags."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clearhead.errors import InputError
from clearhead.metrics import (
    EntityCounts,
    bootstrap,
    count_entities,
    detect_scheme,
    entity_f1,
    entity_precision,
    entity_recall,
    entity_scores,
    entity_table,
    extract_entities,
    measure_entities,
    slice_table,
    to_bio,
)
from clearhead.metrics.entities import Entity
from tests.metrics.rows import silent

seqeval: Any = import_module("seqeval.metrics")
labeling: Any = import_module("seqeval.metrics.sequence_labeling")
score_by_seqeval = silent(labeling.precision_recall_fscore_support)

Rows = list[list[str]]
ENTITY_TYPES = st.sampled_from(["PER", "LOC", "A-B", "", "_"])
PREFIXES = {"iob": "BI", "iobes": "BIES", "bare": "I"}


def tag_strategy(prefixes: str) -> st.SearchStrategy[str]:
    prefixed = st.builds(lambda prefix, entity_type: f"{prefix}-{entity_type}", st.sampled_from(prefixes), ENTITY_TYPES)
    return st.one_of(st.just("O"), prefixed, st.sampled_from(prefixes), st.builds("O-{}".format, ENTITY_TYPES))


@st.composite
def tag_row_pairs(draw: st.DrawFn, prefixes: str = "BIES") -> tuple[Rows, Rows]:
    """True and predicted tags of sentences: random, so mostly invalid, and often partly equal."""
    true: Rows = draw(st.lists(st.lists(tag_strategy(prefixes), max_size=7), min_size=1, max_size=6))
    predicted = [[tag if draw(st.integers(0, 2)) else draw(tag_strategy(prefixes)) for tag in row] for row in true]
    return true, predicted


@st.composite
def sentences(draw: st.DrawFn) -> tuple[int, list[Entity]]:
    """A sentence length and valid entities within it."""
    entities: list[Entity] = []
    position = 0
    for gap, length, entity_type in draw(
        st.lists(st.tuples(st.integers(0, 2), st.integers(1, 3), st.sampled_from(["PER", "LOC", "A-B"])), max_size=6)
    ):
        entities.append((position + gap, position + gap + length, entity_type))
        position += gap + length
    return position + draw(st.integers(0, 2)), entities


def write_tags(length: int, entities: list[Entity], scheme: str) -> list[str]:
    """Write the tags of entities by the definition of the scheme."""
    tag_row = ["O"] * length
    for start, end, entity_type in entities:
        previous_tag = tag_row[start - 1] if start else "O"
        for position in range(start, end):
            tag_row[position] = f"I-{entity_type}"
        if scheme == "iob2" or (scheme == "iob1" and previous_tag.endswith(f"-{entity_type}")):
            tag_row[start] = f"B-{entity_type}"
        if scheme in ("BILOU", "IOBES"):
            single, final = ("U", "L") if scheme == "BILOU" else ("S", "E")
            tag_row[end - 1] = f"{final}-{entity_type}"
            tag_row[start] = f"{single if end - start == 1 else 'B'}-{entity_type}"
    return tag_row


def count_tag_rows(true: Rows, predicted: Rows) -> EntityCounts:
    return count_entities([extract_entities(row) for row in true], [extract_entities(row) for row in predicted])


@given(st.data(), st.sampled_from(list(PREFIXES)))
def test_any_tags_are_read_as_the_reference_reads_them(data: st.DataObject, prefix_set: str) -> None:
    row = data.draw(st.lists(tag_strategy(PREFIXES[prefix_set]), max_size=12))
    expected = [(start, end + 1, entity_type) for entity_type, start, end in silent(labeling.get_entities)(row)]
    assert extract_entities(row) == expected


@given(st.lists(tag_strategy("BILU"), max_size=12))
def test_bilou_is_read_as_the_same_tags_in_iobes(row: list[str]) -> None:
    iobes_row = [{"U": "S", "L": "E"}.get(tag[0], tag[0]) + tag[1:] for tag in row]
    expected = [(start, end + 1, entity_type) for entity_type, start, end in silent(labeling.get_entities)(iobes_row)]
    assert extract_entities(row) == expected


@given(sentences(), st.sampled_from(["iob1", "iob2", "BILOU", "IOBES"]))
def test_every_scheme_gives_back_what_was_written(sentence: tuple[int, list[Entity]], scheme: str) -> None:
    length, entities = sentence
    tag_row = write_tags(length, entities, scheme)
    assert extract_entities(tag_row) == entities
    assert to_bio(tag_row) == write_tags(length, entities, "iob2")
    assert extract_entities(to_bio(tag_row)) == entities


@given(tag_row_pairs())
def test_scores_equal_the_reference(rows: tuple[Rows, Rows]) -> None:
    counts = count_tag_rows(*rows)
    scores = entity_scores(counts)
    score_functions = (entity_precision, entity_recall, entity_f1)
    expected = score_by_seqeval(*rows, average="micro", zero_division=0)
    assert [scores[name] for name in ("precision", "recall", "f1")] == pytest.approx(expected[:3])
    assert [score(counts.array) for score in score_functions] == pytest.approx(expected[:3])
    if counts.types:
        expected = score_by_seqeval(*rows, average="macro", zero_division=0)
        assert [score(counts.array, average="macro") for score in score_functions] == pytest.approx(expected[:3])
        assert scores["f1_macro"] == pytest.approx(expected[2])
    for line, *values in zip(
        entity_table(counts), *score_by_seqeval(*rows, average=None, zero_division=0), strict=True
    ):
        assert [line.precision, line.recall, line.f1, line.rows] == pytest.approx(values)
    assert sum(line.predicted for line in entity_table(counts)) == sum(len(extract_entities(row)) for row in rows[1])


@given(tag_row_pairs(), st.integers(0, 5))
def test_resamples_are_the_metric_of_the_rows_drawn(rows: tuple[Rows, Rows], seed: int) -> None:
    counts = count_tag_rows(*rows)
    measures = measure_entities(counts, n=40, seed=seed)
    for name, value in entity_scores(counts).items():
        assert measures[name].value == pytest.approx(value)
    weights = np.random.default_rng(seed).integers(0, 3, len(counts.array))
    if weights.any() and counts.types:
        drawn = counts.array.repeat(weights, 0)
        for score in (entity_f1, entity_recall):
            for average in ("micro", "macro"):
                bound = score.spec.bind(counts.array, average=average)  # type: ignore[attr-defined]
                assert bound.values(weights[:, None].astype(float))[0] == pytest.approx(score(drawn, average=average))


def test_intervals_cover_the_value_and_narrow_with_rows() -> None:
    rng = np.random.default_rng(0)
    rows = [[(position, position + 1, str(rng.choice(["PER", "LOC"]))) for position in range(3)] for _ in range(2000)]
    predicted = [[entity for entity in row if rng.random() < 0.8] for row in rows]
    few, many = (measure_entities(count_entities(rows[:n], predicted[:n])) for n in (100, 2000))
    for name in ("recall", "f1", "f1_macro"):
        assert few[name].low < few[name].value < few[name].high
        assert many[name].high - many[name].low < 0.5 * (few[name].high - few[name].low)
    assert many["precision"].value == 1
    counts = count_entities(rows, predicted)
    assert many["f1"] == bootstrap(entity_f1, counts.array)
    assert len(slice_table({"half": ["a", "b"] * 1000}, entity_f1, counts.array)) == 2


def test_the_scheme_is_found() -> None:
    assert detect_scheme([["O", "I-PER", "I-PER"], ["I-LOC", "B-LOC"]]) == "iob1"
    assert detect_scheme([["I-PER", "I-LOC", "O"]]) == "iob1"
    assert detect_scheme([["B-PER", "I-PER", "B-PER"], ["O", "B-LOC"]]) == "iob2"
    assert detect_scheme([["B-PER"], ["I-LOC"]]) == "iob2"  # neither, strictly; it reads the same
    assert (
        detect_scheme([["O", "B-PER", "L-PER"]]) == detect_scheme([["S-PER"]]) == detect_scheme([["U-PER"]]) == "bilou"
    )
    assert detect_scheme([["NN", "VB", "-LRB-"], ["I", "S"]]) == "plain"
    assert detect_scheme([["B", "I", "O"]]) == "iob2"
    assert detect_scheme([]) == detect_scheme([["O"], []]) == "iob2"
    with pytest.raises(InputError, match="The tag PER has no prefix and B-LOC has one"):
        detect_scheme([["PER", "B-LOC"]])


def test_plain_tags_are_words() -> None:
    assert extract_entities(["NN", "NN", "O", "X-PER"]) == [(0, 1, "NN"), (1, 2, "NN"), (3, 4, "X-PER")]
    assert extract_entities(["S", "I-X", "O"], scheme="plain") == [(0, 1, "S"), (1, 2, "I-X")]
    assert to_bio(["NN", "VB", "O"]) == ["NN", "VB", "O"]
    assert to_bio(["S", "I"], scheme="plain") == ["S", "I"]
    assert to_bio(["B", "I", "O"]) == ["B-_", "I-_", "O"]


def test_types_can_be_given_and_missing_ones_do_not_count() -> None:
    counts = count_entities([[(0, 1, "PER")]], [[(0, 1, "PER"), (0, 1, "PER")]], types=["LOC", "PER"])
    assert [line.label for line in entity_table(counts)] == ["LOC", "PER"]
    assert counts.array.tolist() == [[[0, 0, 0], [1, 1, 1]]]
    assert entity_scores(counts)["f1_macro"] == 1


def test_rows_without_entities_score_nothing_and_are_measured() -> None:
    measures = measure_entities(count_entities([[], []], [[], []]), n=20)
    assert {interval.value for interval in measures.values()} == {0.0}


def test_mistakes_are_refused() -> None:
    with pytest.raises(InputError, match="true has 1 row and predicted has 2"):
        count_entities([[]], [[], []])
    with pytest.raises(InputError, match="no rows"):
        count_entities([], [])
    with pytest.raises(InputError, match="The type LOC occurs"):
        count_entities([[(0, 1, "LOC")]], [[]], types=["PER"])
    with pytest.raises(InputError, match="A tag is empty"):
        extract_entities(["O", ""])
    with pytest.raises(InputError, match="scheme must be one of"):
        to_bio(["O"], scheme="ioe")
    with pytest.raises(InputError, match="micro or macro"):
        entity_f1(np.zeros((1, 1, 3)), average="weighted")
    with pytest.raises(InputError, match="got shape"):
        entity_f1(np.zeros((2, 3)))
