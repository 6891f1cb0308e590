"""Parallel rows in parts: equal sources stay together, and targets that are like labels are in every part."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from clearhead.data import open_source
from clearhead.jobs.plan import make_plan
from clearhead.translate.dataset import ParallelTexts, read_parallel_texts


def split_pairs(pairs: list[tuple[str, str]]) -> ParallelTexts:
    rows = [{"source": source, "target": target} for source, target in pairs]
    return read_parallel_texts({"train": open_source(rows)}, make_plan({"task": "translate"}), lambda *_: None)


@pytest.mark.parametrize("labels", [2, 3, 7, 20])
def test_targets_like_labels_keep_their_share_in_every_part(labels: int) -> None:
    parts = split_pairs([(f"review number {index}", f"class {index % labels}") for index in range(200)]).parts
    assert {part: len(rows) for part, rows in parts.items()} == {"train": 160, "dev": 20, "test": 20}
    for part, rows in parts.items():
        counts = [sum(pair.target == f"class {label}" for pair in rows) for label in range(labels)]
        assert min(counts) >= 1
        assert max(counts) - min(counts) <= 2, part


def test_a_rare_target_is_trained_on() -> None:
    pairs = [(f"review number {index}", "rare" if index % 100 == 7 else "common") for index in range(300)]
    parts = split_pairs(pairs).parts
    assert {pair.target for pair in parts["train"]} == {"common", "rare"}
    assert len(parts["dev"]) == len(parts["test"]) == 30


PAIRS: dict[str, Callable[[int], tuple[str, str]]] = {
    "each source twice": lambda index: (f"source {index // 2}", f"target {index}"),
    "each pair twice": lambda index: (f"source {index // 2}", f"target {index // 2}"),
    "sources and targets that share": lambda index: (f"source {index // 3}", f"target {(index * 7) % 60}"),
    "one source for a third": lambda index: ("the same" if index % 3 == 0 else f"source {index}", f"target {index}"),
    "a source in two spellings": lambda index: (f"Source  {index // 2}" if index % 2 else f"source {index // 2}", "x"),
}


@pytest.mark.parametrize("name", list(PAIRS))
def test_equal_sources_stay_on_one_side(name: str) -> None:
    texts = split_pairs([PAIRS[name](index) for index in range(240)])
    sizes = {part: len(rows) for part, rows in texts.parts.items()}
    assert sizes.keys() == {"train", "dev", "test"}
    assert abs(sizes["dev"] - 24) <= 4
    assert abs(sizes["test"] - 24) <= 4
    sides = [{" ".join(pair.source.casefold().split()) for pair in rows} for rows in texts.parts.values()]
    assert sum(map(len, sides)) == len(set.union(*sides))
    assert not texts.leaks


def test_few_sources_cannot_be_kept_apart() -> None:
    """A model that writes what a label says: every label is trained on, and that this flatters is said."""
    texts = split_pairs([("good" if index % 2 else "bad", f"a review of number {index}") for index in range(100)])
    assert {part: len(rows) for part, rows in texts.parts.items()} == {"train": 80, "dev": 10, "test": 10}
    assert len({pair.source for pair in texts.parts["train"]}) == 2
    assert texts.leaks


@pytest.mark.parametrize("count", range(4, 12))
@pytest.mark.parametrize("labels", [1, 2])
def test_few_rows_leave_no_part_empty(count: int, labels: int) -> None:
    parts = split_pairs([(f"number {index}", str(index % labels)) for index in range(count)]).parts
    assert parts.keys() == {"train", "dev", "test"}
    assert {pair.target for pair in parts["train"]} == {str(label) for label in range(labels)}
