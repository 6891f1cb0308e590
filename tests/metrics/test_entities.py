"""Entities are read and counted as seqeval does, whatever the tags."""

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
scored = silent(labeling.precision_recall_fscore_support)

Rows = list[list[str]]
KINDS = st.sampled_from(["PER", "LOC", "A-B", "", "_"])
MARKS = {"iob": "BI", "iobes": "BIES", "bare": "I"}


def tags(marks: str) -> st.SearchStrategy[str]:
    marked = st.builds(lambda mark, kind: f"{mark}-{kind}", st.sampled_from(marks), KINDS)
    return st.one_of(st.just("O"), marked, st.sampled_from(marks), st.builds("O-{}".format, KINDS))


@st.composite
def pairs(draw: st.DrawFn, marks: str = "BIES") -> tuple[Rows, Rows]:
    """Tags of some sentences twice over: random, so most are invalid, and often partly equal."""
    true: Rows = draw(st.lists(st.lists(tags(marks), max_size=7), min_size=1, max_size=6))
    said = [[tag if draw(st.integers(0, 2)) else draw(tags(marks)) for tag in row] for row in true]
    return true, said


@st.composite
def sentences(draw: st.DrawFn) -> tuple[int, list[Entity]]:
    """A length and entities that fit into it, as a tidy corpus has them."""
    made: list[Entity] = []
    place = 0
    for gap, words, kind in draw(
        st.lists(st.tuples(st.integers(0, 2), st.integers(1, 3), st.sampled_from(["PER", "LOC", "A-B"])), max_size=6)
    ):
        made.append((place + gap, place + gap + words, kind))
        place += gap + words
    return place + draw(st.integers(0, 2)), made


def written(length: int, found: list[Entity], scheme: str) -> list[str]:
    """The tags of entities, written down by the definition of the scheme."""
    made = ["O"] * length
    for start, end, kind in found:
        last = made[start - 1] if start else "O"
        for place in range(start, end):
            made[place] = f"I-{kind}"
        if scheme == "iob2" or (scheme == "iob1" and last.endswith(f"-{kind}")):
            made[start] = f"B-{kind}"
        if scheme in ("BILOU", "IOBES"):
            single, final = ("U", "L") if scheme == "BILOU" else ("S", "E")
            made[end - 1] = f"{final}-{kind}"
            made[start] = f"{single if end - start == 1 else 'B'}-{kind}"
    return made


def counted(true: Rows, said: Rows) -> EntityCounts:
    return count_entities([extract_entities(row) for row in true], [extract_entities(row) for row in said])


@given(st.data(), st.sampled_from(list(MARKS)))
def test_any_tags_are_read_as_the_reference_reads_them(data: st.DataObject, marks: str) -> None:
    row = data.draw(st.lists(tags(MARKS[marks]), max_size=12))
    theirs = [(start, end + 1, kind) for kind, start, end in silent(labeling.get_entities)(row)]
    assert extract_entities(row) == theirs


@given(st.lists(tags("BILU"), max_size=12))
def test_bilou_is_read_as_the_same_tags_in_iobes(row: list[str]) -> None:
    same = [{"U": "S", "L": "E"}.get(tag[0], tag[0]) + tag[1:] for tag in row]
    theirs = [(start, end + 1, kind) for kind, start, end in silent(labeling.get_entities)(same)]
    assert extract_entities(row) == theirs


@given(sentences(), st.sampled_from(["iob1", "iob2", "BILOU", "IOBES"]))
def test_every_scheme_gives_back_what_was_written(sentence: tuple[int, list[Entity]], scheme: str) -> None:
    length, found = sentence
    row = written(length, found, scheme)
    assert extract_entities(row) == found
    assert to_bio(row) == written(length, found, "iob2")
    assert extract_entities(to_bio(row)) == found


@given(pairs())
def test_scores_equal_the_reference(rows: tuple[Rows, Rows]) -> None:
    counts = counted(*rows)
    made = entity_scores(counts)
    three = (entity_precision, entity_recall, entity_f1)
    theirs = scored(*rows, average="micro", zero_division=0)
    assert [made[name] for name in ("precision", "recall", "f1")] == pytest.approx(theirs[:3])
    assert [score(counts.array) for score in three] == pytest.approx(theirs[:3])
    if counts.types:
        theirs = scored(*rows, average="macro", zero_division=0)
        assert [score(counts.array, average="macro") for score in three] == pytest.approx(theirs[:3])
        assert made["f1_macro"] == pytest.approx(theirs[2])
    for line, *values in zip(entity_table(counts), *scored(*rows, average=None, zero_division=0), strict=True):
        assert [line.precision, line.recall, line.f1, line.rows] == pytest.approx(values)
    assert sum(line.predicted for line in entity_table(counts)) == sum(len(extract_entities(row)) for row in rows[1])


@given(pairs(), st.integers(0, 5))
def test_resamples_are_the_metric_of_the_rows_drawn(rows: tuple[Rows, Rows], seed: int) -> None:
    counts = counted(*rows)
    made = measure_entities(counts, n=40, seed=seed)
    for name, value in entity_scores(counts).items():
        assert made[name].value == pytest.approx(value)
    weights = np.random.default_rng(seed).integers(0, 3, len(counts.array))
    if weights.any() and counts.types:
        drawn = counts.array.repeat(weights, 0)
        for score in (entity_f1, entity_recall):
            for average in ("micro", "macro"):
                bound = score.spec.bind(counts.array, average=average)  # type: ignore[attr-defined]
                assert bound.values(weights[:, None].astype(float))[0] == pytest.approx(score(drawn, average=average))


def test_intervals_cover_the_value_and_narrow_with_rows() -> None:
    rng = np.random.default_rng(0)
    rows = [[(place, place + 1, str(rng.choice(["PER", "LOC"]))) for place in range(3)] for _ in range(2000)]
    said = [[one for one in row if rng.random() < 0.8] for row in rows]
    few, many = (measure_entities(count_entities(rows[:n], said[:n])) for n in (100, 2000))
    for name in ("recall", "f1", "f1_macro"):
        assert few[name].low < few[name].value < few[name].high
        assert many[name].high - many[name].low < 0.5 * (few[name].high - few[name].low)
    assert many["precision"].value == 1
    counts = count_entities(rows, said)
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
    made = measure_entities(count_entities([[], []], [[], []]), n=20)
    assert {interval.value for interval in made.values()} == {0.0}


def test_mistakes_are_refused() -> None:
    with pytest.raises(InputError, match="true has 1 rows and said has 2"):
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
    with pytest.raises(InputError, match="its shape is"):
        entity_f1(np.zeros((2, 3)))
