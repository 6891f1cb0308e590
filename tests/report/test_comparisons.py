"""The report compares methods and layers, and escapes their names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from clearhead.report import report_html, save_report
from tests.explain.test_browser import browser, open_page
from tests.report.pages import Reader
from tests.report.samples import HOSTILE, METHODS, full_report, make_baseline, make_ladder, make_sweep, method_results

__all__ = ["browser"]  # the fixture


def test_both_are_left_out_where_there_are_none() -> None:
    page = Reader(report_html(full_report(ladder=None, sweep=())))
    assert "ladder" not in page.sections
    assert "sweep" not in page.sections


def test_the_ladder_is_described() -> None:
    page = Reader(report_html(full_report(ladder=make_ladder())))
    text = page.section_text("ladder")
    assert text.startswith("Method comparison It is.")
    assert "the same 300 test rows" in text
    for method in METHODS:
        assert method in text
    assert text.count("recommended") == 3  # in the text, beside the picture and in the table
    assert "−0.100 (−0.200 to 0.010)" in text
    assert "best" in text
    assert "at most 0.010 worse than the best one" in text
    assert "Not tried" not in text
    stopped_early = [{**method_results()[4], "epochs": 2, "planned_epochs": 5}]
    text = Reader(
        report_html(full_report(ladder=make_ladder(caveat="Not tried: all of it.", rungs=stopped_early)))
    ).section_text("ladder")
    assert text.startswith("Method comparison It is. Not tried: all of it. ")
    assert "finetune (2 of 5 epochs)" in text
    incomplete = make_ladder(
        rungs=[*method_results()[:2], {**method_results()[2], "left_out": "features would take about 14 min"}]
    )
    assert "skipped: features would take about 14 min" in Reader(
        report_html(full_report(ladder=incomplete))
    ).section_text("ladder")


def test_rows_used_for_selection_are_labeled() -> None:
    text = Reader(report_html(full_report(ladder=make_ladder(part="dev", metric="log_loss")))).section_text("ladder")
    assert "used to select the epoch" in text
    assert "Lower is better" in text


def test_baselines_stand_beside_the_model() -> None:
    features = make_baseline("features", 0.625)
    text = Reader(report_html(full_report(baselines=[features]))).section_text("baselines")
    for word in ("this model", "features", "0.625", "0.500 to 0.750", "0.125", "0.050 to 0.200", "1,234"):
        assert word in text, word
    undefined = {
        **features,
        "value": None,
        "low": None,
        "high": None,
        "difference": dict.fromkeys(features["difference"]),
    }
    assert "features" in Reader(report_html(full_report(baselines=[undefined]))).section_text("baselines")
    assert "baselines" not in Reader(report_html(full_report(baselines=()))).sections
    assert "baselines" not in Reader(report_html(full_report(baselines=[features], parts={}))).sections


def test_the_sweep_lists_the_best_first() -> None:
    text = Reader(report_html(full_report(sweep=make_sweep()))).section_text("sweep")
    assert text.index("layer_5") < text.index("layer_4") < text.index("layer_0")
    assert "0.850" in text
    assert "lower is better" not in text
    unscored = Reader(report_html(full_report(sweep=make_sweep(2, score=None, spread=None)))).section_text("sweep")
    assert "–" in unscored
    negative = Reader(report_html(full_report(sweep=make_sweep(2, score=-3.5)))).section_text("sweep")
    assert "−3.500" in negative


@pytest.mark.parametrize("hostile", HOSTILE)
def test_nothing_in_them_runs(hostile: str) -> None:
    results = [*method_results(method=hostile)[:2], *method_results(left_out=hostile)[:1]]
    ladder = make_ladder(
        reason=hostile, caveat=hostile, recommended=hostile, metric=hostile, part=hostile, rungs=results
    )
    page = Reader(report_html(full_report(ladder=ladder, sweep=make_sweep(2, layer=hostile, pooling=hostile))))
    assert not {"script", "img", "iframe", "object"} & {tag for tag, _ in page.tags}
    assert not [name for _, attributes in page.tags for name in attributes if name.startswith("on")]


@pytest.mark.parametrize("width", [360, 1200])
def test_names_in_the_picture_do_not_cover_each_other(browser: Any, tmp_path: Path, width: int) -> None:
    path = save_report(full_report(ladder=make_ladder(), sweep=make_sweep()), tmp_path / "a.html")
    page, problems = open_page(browser, path, viewport={"width": width, "height": 800})
    assert not problems
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    boxes = page.evaluate(
        "[...document.querySelectorAll('#ladder svg text.name')].map(each => { const b = each.getBoundingClientRect();"
        " const s = each.closest('svg').getBoundingClientRect();"
        " return [b.left, b.right, b.top, b.bottom, s.left, s.right]; })"
    )
    assert len(boxes) == 5
    for index, (left, right, top, bottom, svg_left, svg_right) in enumerate(boxes):
        assert svg_left - 2 <= left
        assert right <= svg_right + 2
        for earlier in boxes[:index]:
            is_apart = right <= earlier[0] or earlier[1] <= left or bottom - 3 <= earlier[2] or earlier[3] - 3 <= top
            assert is_apart


def test_too_few_dev_rows_select_no_epoch() -> None:
    curves = Reader(report_html(full_report())).section_text("curves")
    assert "Because these rows select the epoch" in curves
    kept_last = [{**line, "best": False} for line in full_report().log]
    page = Reader(report_html(full_report(log=kept_last)))
    assert "These rows did not select the epoch: the last one was used." in page.section_text("curves")
    assert "used to fit thresholds and temperature; not a test result" in page.section_text("metrics")
    assert "used to select the epoch" not in page.section_text("metrics")
