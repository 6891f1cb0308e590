"""Progress callbacks, and the shorter ones of public functions."""

from __future__ import annotations

import pytest

from clearhead.progress import for_stage, from_counts, from_done, no_progress


def test_an_inner_stage_is_reported_as_the_outer_one() -> None:
    reports: list[tuple[str, int, int | None]] = []
    for_stage(lambda *report: reports.append(report), "measuring")("scoring", 3, None)
    assert reports == [("measuring", 3, None)]


def test_shorter_callbacks_get_what_they_document() -> None:
    counts: list[tuple[int, int | None]] = []
    done: list[int] = []
    from_counts(lambda *count: counts.append(count))("embedding", 2, 5)
    from_done(done.append)("evaluating", 2, None)
    assert (counts, done) == ([(2, 5)], [2])


@pytest.mark.parametrize("adapt", [from_counts, from_done])
def test_without_a_callback_nothing_is_reported(adapt: object) -> None:
    assert adapt(None) is no_progress  # type: ignore[operator]
    no_progress("embedding", 1, 2)
