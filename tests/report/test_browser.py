"""The report in a real browser, where there is one: it fits a phone, asks nobody, and runs nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from clearhead.report import save_report
from tests.explain.test_browser import browser, opened
from tests.report.samples import HOSTILE, classes, whole
from tests.report.test_escaping import hostile

__all__ = ["browser"]  # the fixture


@pytest.mark.parametrize("width", [360, 1200])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_fits_and_is_safe(browser: Any, tmp_path: Path, width: int, scheme: str) -> None:
    many = classes(600, labels=tuple(f"a label with the number {number}" for number in range(30)))
    wild = hostile(HOSTILE[9] + HOSTILE[1])
    for name, data in {"plain": whole(), "many": whole(parts={"dev": many}), "hostile": wild}.items():
        path = save_report(data, tmp_path / f"{name}.html")
        page, wrong = opened(browser, path, viewport={"width": width, "height": 800}, color_scheme=scheme)
        page.evaluate("document.querySelectorAll('details').forEach(each => { each.open = true; })")
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert page.evaluate(  # what is too wide scrolls in its own box
            "[...document.querySelectorAll('main *')].every(each => each.closest('.scroll') || each.closest('svg')"
            " || each.getBoundingClientRect().right <= innerWidth)"
        )
        assert not page.evaluate("Boolean(document.querySelector('script, img, iframe, object, [src], [onerror]'))")
        assert not wrong
        page.close()


def test_letters_of_pictures_stay_readable_on_a_phone(browser: Any, tmp_path: Path) -> None:
    page, _ = opened(browser, save_report(whole(), tmp_path / "a.html"), viewport={"width": 360, "height": 800})
    heights = page.evaluate("[...document.querySelectorAll('svg')].map(each => each.getScreenCTM().a)")
    assert len(heights) == 10
    assert min(heights) * 12 >= 10  # 12 is the smallest letter in them


def test_links_lead_to_sections_and_the_command_is_taken_as_a_whole(browser: Any, tmp_path: Path) -> None:
    data = whole()
    page, wrong = opened(browser, save_report(data, tmp_path / "a.html"))
    page.get_by_role("link", name="Command").click()
    assert page.url.endswith("#command")
    page.locator("pre.command").click()
    assert page.evaluate("getSelection().toString()").strip() == data.command
    assert not wrong
