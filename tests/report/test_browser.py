"""The report in a real browser, if one is installed: it fits a phone, makes no requests, and runs no scripts."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from clearhead.api import evaluate, train
from clearhead.report import save_report
from tests.explain.test_browser import browser, open_page
from tests.report.samples import HOSTILE, class_evaluation, full_report
from tests.report.test_escaping import hostile_report
from tests.report.test_notebook import results

__all__ = ["browser"]  # the fixture


@pytest.mark.parametrize("width", [360, 1200])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_fits_and_is_safe(browser: Any, tmp_path: Path, width: int, scheme: str) -> None:
    many_labels = class_evaluation(600, labels=tuple(f"a label with the number {number}" for number in range(30)))
    hostile_data = hostile_report(HOSTILE[9] + HOSTILE[1])
    for name, data in {
        "plain": full_report(),
        "many": full_report(parts={"dev": many_labels}),
        "hostile": hostile_data,
    }.items():
        path = save_report(data, tmp_path / f"{name}.html")
        page, problems = open_page(browser, path, viewport={"width": width, "height": 800}, color_scheme=scheme)
        page.evaluate("document.querySelectorAll('details').forEach(each => { each.open = true; })")
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert page.evaluate(  # wide content scrolls in its own box
            "[...document.querySelectorAll('main *')].every(each => each.closest('.scroll') || each.closest('svg')"
            " || each.getBoundingClientRect().right <= innerWidth)"
        )
        assert not page.evaluate("Boolean(document.querySelector('script, img, iframe, object, [src], [onerror]'))")
        assert not problems
        page.close()


def test_letters_of_pictures_stay_readable_on_a_phone(browser: Any, tmp_path: Path) -> None:
    page, _ = open_page(
        browser, save_report(full_report(), tmp_path / "a.html"), viewport={"width": 360, "height": 800}
    )
    page.evaluate("document.querySelectorAll('details').forEach(each => { each.open = true; })")
    heights = page.evaluate("[...document.querySelectorAll('svg')].map(each => each.getScreenCTM().a)")
    assert len(heights) == 13
    assert min(heights) * 12 >= 10  # the smallest font size is 12


def test_links_lead_to_sections_and_a_click_selects_the_command(browser: Any, tmp_path: Path) -> None:
    data = full_report()
    page, problems = open_page(browser, save_report(data, tmp_path / "a.html"))
    page.get_by_role("link", name="Command", exact=True).click()
    assert page.url.endswith("#command")
    page.locator("pre.command").click()
    assert page.evaluate("getSelection().toString()").strip() == data.command
    assert not problems


@pytest.mark.parametrize("width", [360, 1200])
def test_a_cell_opens_its_rows_by_click_and_by_key(browser: Any, tmp_path: Path, width: int) -> None:
    data = full_report()
    picks = data.parts["test"].picks
    assert picks is not None
    page, problems = open_page(
        browser, save_report(data, tmp_path / "a.html"), viewport={"width": width, "height": 800}
    )
    assert page.locator(".cellrows:visible").count() == 0
    cells = picks.cells[:2]
    for cell, input_method in zip(cells, ("click", "key"), strict=True):
        link = page.locator(f'#confusion .heat a[href="#cell-p0-{cell.true}-{cell.predicted}"]')
        if input_method == "click":
            link.click()
        else:
            link.focus()
            page.keyboard.press("Enter")
        open_panel = page.locator(".cellrows:visible")
        assert open_panel.count() == 1
        assert [f"Row {pick.row}" in open_panel.inner_text() for pick in cell.rows] == [True] * len(cell.rows)
        assert page.evaluate("document.querySelector('.cellrows:target').getBoundingClientRect().top < innerHeight")
    page.locator(".cellrows:visible").get_by_role("link").click()
    assert page.locator(".cellrows:visible").count() == 0
    assert not problems


def test_shades_do_not_rely_on_color_only(browser: Any, tmp_path: Path) -> None:
    page, _ = open_page(browser, save_report(full_report(), tmp_path / "a.html"))
    style = "getComputedStyle(document.querySelector('.case mark.{}')).borderBottomStyle"
    assert page.evaluate(style.format("for3")) == "solid"
    assert page.evaluate(style.format("against1")) == "dotted"
    assert page.evaluate("Boolean(document.querySelector('.case .note').innerText.match(/For .*: “/))")


def test_on_paper(browser: Any, tmp_path: Path) -> None:
    page, problems = open_page(
        browser, save_report(full_report(), tmp_path / "a.html"), viewport={"width": 800, "height": 800}
    )
    page.emulate_media(media="print")
    page.goto(f"{page.url}#cell-p0-0-0")
    assert page.locator(".cellrows:visible").count() == 0
    assert page.locator("details.part:visible").count() == 0
    assert page.locator("#passport:visible").count() == 0
    folded = page.locator("#calibration table").first
    assert folded.evaluate("each => each.checkVisibility({contentVisibilityAuto: true})")
    assert not problems


def test_a_hostile_file_from_end_to_end(browser: Any, tmp_path: Path) -> None:
    random_source = random.Random(3)
    text, label, name = HOSTILE[1], HOSTILE[0], "<img src=x onerror=alert(9)>.jsonl"
    rows = [
        {
            text: f"{random_source.choice(HOSTILE[:9])} {word} {random_source.choice(HOSTILE[:9])} {number}",
            label: f"{HOSTILE[4]}{word}" if random_source.random() < 0.85 else f"{HOSTILE[7]}other",
        }
        for number, word in ((n, random_source.choice(("alpha", "beta", "gamma"))) for n in range(300))
    ]
    file = tmp_path / name
    file.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    run = train(file, output=tmp_path / "<svg onload=alert(8)>", method="tfidf", text=text, label=label)
    assert run.report is not None
    evaluation_page = tmp_path / "page.html"
    evaluate(run.folder, file, report=evaluation_page, slices=[label], command=f"clearhead evaluate {name}")
    for path in (run.report, evaluation_page):
        page, problems = open_page(browser, path, viewport={"width": 360, "height": 800})
        page.evaluate("document.querySelectorAll('details').forEach(each => { each.open = true; })")
        page.locator("#confusion .heat a").first.click()
        page.hover("#worst .case mark >> nth=0")
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert not page.evaluate("Boolean(document.querySelector('script, img, iframe, object, [src], [onerror]'))")
        assert page.locator("#worst .case").count() > 0
        assert not problems
        page.close()


def test_results_in_a_notebook_are_safe(browser: Any, tmp_path: Path) -> None:
    for number, word in enumerate(HOSTILE):
        html = "".join(result._repr_html_() for result in results(word))
        path = tmp_path / f"{number}.html"
        path.write_text(f'<!doctype html><meta charset="utf-8"><title>t</title>{html}')
        page, problems = open_page(browser, path)
        assert not page.evaluate("Boolean(document.querySelector('body script, img, svg, iframe, [onerror]'))")
        assert not problems
        page.close()
