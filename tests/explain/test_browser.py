"""The attention page in a real browser, if one is installed."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import replace
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from clearhead.explain import save_alignment, save_attention
from tests.explain.traces import EXAMPLE_TOKENS, HOSTILE, make_trace

FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    missing = "playwright" if find_spec("playwright") is None else "chromium" if chromium is None else None
    if missing and os.environ.get("CLEARHEAD_NEED_BROWSER"):
        pytest.fail(f"{missing} is not installed, and CLEARHEAD_NEED_BROWSER is set")
    if missing:
        pytest.skip(f"{missing} is not installed")
    playwright = import_module("playwright.sync_api")
    with playwright.sync_playwright() as session:
        instance = session.chromium.launch(executable_path=chromium, args=FLAGS)
        yield instance
        instance.close()


def open_page(browser: Any, path: Path, **settings: Any) -> tuple[Any, list[str]]:
    """Open a page; return it with the list of its messages, errors and requests."""
    page, problems = browser.new_page(**settings), list[str]()
    page.on("console", lambda message: problems.append(message.text))
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("dialog", lambda dialog: problems.append(dialog.message))
    page.on("request", lambda request: problems.extend([request.url] if not request.url.startswith("file:") else []))
    page.goto(path.as_uri())
    return page, problems


def test_selections_change_the_picture(browser: Any, tmp_path: Path) -> None:
    trace = make_trace(layers=4, heads=5, seed=2)
    it_index = EXAMPLE_TOKENS.index("it")
    page, problems = open_page(browser, save_attention(trace, tmp_path / "a.html", layer=2, word="it"))
    lines = page.locator("#lines line")
    assert page.get_by_label("Hide").is_checked()  # special tokens are hidden at first
    expected = int((trace.layers[2].probs[:, it_index, 1:-1] >= 0.01).sum())
    assert abs(lines.count() - expected) <= 1
    page.get_by_label("head 3", exact=True).click()
    assert page.locator('#lines line[data-head="3"]').count() == 0
    page.get_by_label("layer 1, head 4", exact=True).click()
    assert "layer 1 of 0 to 3, head 4" in page.inner_text("#picture-title")
    assert set(lines.evaluate_all("all => all.map(line => line.dataset.head)")) == {"4"}
    best_key = int(trace.layers[1].probs[4, it_index, 1:-1].argmax()) + 1
    darkest = lines.evaluate_all(
        "all => all.map(line => [Number(line.getAttribute('stroke-opacity')), Number(line.dataset.key)])"
    )
    assert max(darkest)[1] == best_key
    page.keyboard.press("Escape")
    words = set(range(1, len(EXAMPLE_TOKENS) - 1))
    assert set(lines.evaluate_all("all => all.map(line => Number(line.dataset.query))")) == words
    assert page.locator("#picture .word.special").count() == 0
    page.get_by_label("Hide").uncheck()
    assert set(lines.evaluate_all("all => all.map(line => Number(line.dataset.query))")) == set(
        range(len(EXAMPLE_TOKENS))
    )
    page.get_by_label("Heat map").check()
    assert page.locator("#picture canvas").count() == 1
    assert not problems


def test_an_alignment_opens_as_a_heat_map(browser: Any, tmp_path: Path) -> None:
    trace = replace(make_trace(["das", "haus"], ["<start>", "the"]), next_tokens=["the", "house"])
    page, problems = open_page(browser, save_alignment(trace, tmp_path / "a.html", layer=1))
    assert page.locator("#picture canvas").count() == 1
    assert page.get_by_role("radio", name="Heat map").is_checked()
    labels = page.locator("#picture text").evaluate_all("all => all.map(text => text.firstChild.data)")
    assert labels == ["the", "house", "das", "haus"]
    page.get_by_label("Lines").check()
    assert page.locator("#lines line").count() > 0
    assert not problems


def test_keyboard_only(browser: Any, tmp_path: Path) -> None:
    page, problems = open_page(browser, save_attention(make_trace(), tmp_path / "a.html", word="it"))
    pressed_query = page.locator('[data-side="query"][aria-pressed="true"]')
    pressed_query.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    assert pressed_query.get_attribute("data-index") == str(EXAMPLE_TOKENS.index("it") + 1)
    assert "was attends to" in page.inner_text("#readout")
    page.get_by_label("layer 0, head 0", exact=True).focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    assert "layer 1 of 0 to 1, head 0" in page.inner_text("#picture-title")
    assert not problems


def test_steps_add_up(browser: Any, tmp_path: Path) -> None:
    trace = make_trace(seed=5)
    page, problems = open_page(browser, save_attention(trace, tmp_path / "a.html", layer=1, head=2, word="it"))
    page.select_option("#pair-key", "2")
    it_index, layer = EXAMPLE_TOKENS.index("it"), trace.layers[1]
    sums = [float(text.replace("−", "-")) for text in page.locator(".sums dd").all_inner_texts()]
    product = float(layer.queries[2, it_index] @ layer.keys[2, 2])
    assert sums == pytest.approx([product, product / 8**0.5, layer.probs[2, it_index, 2]], abs=2e-3)
    assert not problems


def test_renormalized_rows_add_up(browser: Any, tmp_path: Path) -> None:
    trace = make_trace()
    page, problems = open_page(browser, save_attention(trace, tmp_path / "a.html", layer=0, head=1, word="it"))
    special_share = trace.layers[0].probs[1, EXAMPLE_TOKENS.index("it"), [0, -1]].sum()
    assert f"they get {round(100 * special_share)} %" in page.inner_text("#hidden")
    page.get_by_label("Renormalize").check()
    assert "renormalized to add up to 1" in page.inner_text("#hidden")
    row = trace.layers[0].probs[1, EXAMPLE_TOKENS.index("it"), 1:-1]
    assert f"{row.max() / row.sum():.2f}" in page.inner_text("#readout")
    assert not problems


@pytest.mark.parametrize("width", [360, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_fits_and_is_safe(browser: Any, tmp_path: Path, width: int, scheme: str) -> None:
    path = save_attention(make_trace(HOSTILE, HOSTILE[:5], heads=12), tmp_path / "a.html", title="<b>x</b>" * 9)
    page, problems = open_page(browser, path, viewport={"width": width, "height": 800}, color_scheme=scheme)
    for part in ("decoder", "cross", "encoder"):
        page.select_option("#part", part)
        for view in ("Heat map", "Lines"):
            page.get_by_label(view).check()
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert not page.evaluate("Boolean(document.querySelector('h1 b, main script, main img'))")
    assert not problems
