"""Methods and layers beside each other: what the page says of them, and that nothing in it runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from clearhead.report import report_html, save_report
from tests.explain.test_browser import browser, opened
from tests.report.pages import Reader
from tests.report.samples import HOSTILE, METHODS, baseline, climbed, rungs, swept, whole

__all__ = ["browser"]  # the fixture


def test_both_are_left_out_where_there_are_none() -> None:
    page = Reader(report_html(whole(ladder=None, sweep=())))
    assert "ladder" not in page.sections
    assert "sweep" not in page.sections


def test_the_ladder_is_told() -> None:
    page = Reader(report_html(whole(ladder=climbed())))
    said = page.said("ladder")
    assert said.startswith("Method comparison It is.")
    assert "the same 300 test rows" in said
    for method in METHODS:
        assert method in said
    assert said.count("recommended") == 3  # in the text, beside the picture and in the table
    assert "−0.100 (−0.200 to 0.010)" in said
    assert "best" in said
    assert "at most 0.010 worse than the best one" in said
    assert "Not tried" not in said
    short = [{**rungs()[4], "epochs": 2, "planned_epochs": 5}]
    said = Reader(report_html(whole(ladder=climbed(caveat="Not tried: all of it.", rungs=short)))).said("ladder")
    assert said.startswith("Method comparison It is. Not tried: all of it. ")
    assert "finetune (2 of 5 epochs)" in said
    without = climbed(rungs=[*rungs()[:2], {**rungs()[2], "left_out": "features would take about 14 min"}])
    assert "skipped: features would take about 14 min" in Reader(report_html(whole(ladder=without))).said("ladder")


def test_rows_that_chose_are_said_to_have() -> None:
    said = Reader(report_html(whole(ladder=climbed(part="dev", metric="log_loss")))).said("ladder")
    assert "used to select the epoch" in said
    assert "Lower is better" in said


def test_baselines_stand_beside_the_model() -> None:
    one = baseline("features", 0.625)
    said = Reader(report_html(whole(baselines=[one]))).said("baselines")
    for word in ("this model", "features", "0.625", "0.500 to 0.750", "0.125", "0.050 to 0.200", "1,234"):
        assert word in said, word
    undefined = {**one, "value": None, "low": None, "high": None, "difference": dict.fromkeys(one["difference"])}
    assert "features" in Reader(report_html(whole(baselines=[undefined]))).said("baselines")
    assert "baselines" not in Reader(report_html(whole(baselines=()))).sections
    assert "baselines" not in Reader(report_html(whole(baselines=[one], parts={}))).sections


def test_the_sweep_is_told_the_best_first() -> None:
    said = Reader(report_html(whole(sweep=swept()))).said("sweep")
    assert said.index("layer_5") < said.index("layer_4") < said.index("layer_0")
    assert "0.850" in said
    assert "lower is better" not in said
    nothing = Reader(report_html(whole(sweep=swept(2, score=None, spread=None)))).said("sweep")
    assert "–" in nothing
    below = Reader(report_html(whole(sweep=swept(2, score=-3.5)))).said("sweep")
    assert "−3.500" in below


@pytest.mark.parametrize("wild", HOSTILE)
def test_nothing_in_them_runs(wild: str) -> None:
    some = [*rungs(method=wild)[:2], *rungs(left_out=wild)[:1]]
    ladder = climbed(reason=wild, caveat=wild, recommended=wild, metric=wild, part=wild, rungs=some)
    page = Reader(report_html(whole(ladder=ladder, sweep=swept(2, layer=wild, pooling=wild))))
    assert not {"script", "img", "iframe", "object"} & {tag for tag, _ in page.tags}
    assert not [name for _, own in page.tags for name in own if name.startswith("on")]


@pytest.mark.parametrize("width", [360, 1200])
def test_names_in_the_picture_do_not_cover_each_other(browser: Any, tmp_path: Path, width: int) -> None:
    path = save_report(whole(ladder=climbed(), sweep=swept()), tmp_path / "a.html")
    page, wrong = opened(browser, path, viewport={"width": width, "height": 800})
    assert not wrong
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    boxes = page.evaluate(
        "[...document.querySelectorAll('#ladder svg text.name')].map(each => { const b = each.getBoundingClientRect();"
        " const s = each.closest('svg').getBoundingClientRect();"
        " return [b.left, b.right, b.top, b.bottom, s.left, s.right]; })"
    )
    assert len(boxes) == 5
    for place, (left, right, top, bottom, begin, end) in enumerate(boxes):
        assert begin - 2 <= left
        assert right <= end + 2
        for other in boxes[:place]:
            apart = right <= other[0] or other[1] <= left or bottom - 3 <= other[2] or other[3] - 3 <= top
            assert apart


def test_dev_rows_that_were_too_few_chose_no_epoch() -> None:
    chosen = Reader(report_html(whole())).said("curves")
    assert "Because these rows select the epoch" in chosen
    kept_last = [{**line, "best": False} for line in whole().log]
    read = Reader(report_html(whole(log=kept_last)))
    assert "These rows did not select the epoch: the last one was used." in read.said("curves")
    assert "used to fit thresholds and temperature; not a test result" in read.said("metrics")
    assert "used to select the epoch" not in read.said("metrics")
