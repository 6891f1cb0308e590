"""The built documentation site (`make docs`), where there is one: it loads nothing from other hosts, and links work."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from functools import partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import unquote

import pytest

from tests.explain.test_browser import browser

__all__ = ["browser"]  # the fixture

SITE = Path(__file__).parents[2] / "site"
REMOTE = re.compile(r"(?:[a-z]+:)?//", re.I)
IN_STYLE = re.compile(r"url\(\s*['\"]?((?:https?:)?//[^)'\"]+)|@import\s+['\"]((?:https?:)?//[^'\"]+)", re.I)


class Page(HTMLParser):
    """What a page loads, where it links to, and the anchors that it has."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.loaded: list[str] = []
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)
        self.loaded += [first or second for first, second in IN_STYLE.findall(text)]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.anchors |= {values[name] for name in ("id", "name") if name in values}
        sources = [values[name] for name in ("src", "data", "poster", "background", "xlink:href") if name in values]
        sources += [candidate.split()[0] for candidate in values.get("srcset", "").split(",") if candidate.strip()]
        if tag != "a" and "href" in values:
            sources.append(values["href"])
        elif "href" in values:
            self.links.append(values["href"])
        self.loaded += sources


def remote(page: Page) -> list[str]:
    """What a page loads from other hosts."""
    return [url for url in page.loaded if REMOTE.match(url)]


@pytest.mark.parametrize(
    "text",
    [
        '<script src="https://example.org/a.js"></script>',
        '<link rel="stylesheet" href="//example.org/a.css">',
        '<img alt="" src="HTTP://example.org/a.png">',
        '<img alt="" srcset="a.png 1x, https://example.org/a.png 2x">',
        "<style>@import 'https://example.org/a.css';</style>",
        '<p style="background: url(https://example.org/a.png)">',
        '<svg><image xlink:href="https://example.org/a.png"/></svg>',
    ],
)
def test_a_remote_resource_is_found(text: str) -> None:
    assert len(remote(Page(text))) == 1


def test_links_and_local_resources_are_not_remote() -> None:
    page = Page('<a href="https://example.org">x</a><img src="a.png"><style>p { background: url(a.png) }</style>')
    assert remote(page) == []


@pytest.fixture(scope="module")
def pages() -> dict[Path, Page]:
    if not SITE.is_dir():
        if os.environ.get("CLEARHEAD_NEED_SITE"):
            pytest.fail("the site is not built, and CLEARHEAD_NEED_SITE is set")
        pytest.skip("the site is not built: make docs")
    return {path: Page(path.read_text()) for path in sorted(SITE.rglob("*.html"))}


def test_pages_load_nothing_from_other_hosts(pages: dict[Path, Page]) -> None:
    assert len(pages) > 30
    assert {path.name: remote(page) for path, page in pages.items() if remote(page)} == {}
    for path in SITE.rglob("*.css"):
        assert not IN_STYLE.search(path.read_text()), path.name


def test_links_lead_to_pages_and_anchors(pages: dict[Path, Page]) -> None:
    for path, page in pages.items():
        for link in page.links:
            if path.name == "404.html" or re.match(r"[a-z]+:", link):
                continue
            file, _, anchor = unquote(link).partition("#")
            target = (path.parent / file).resolve() if file else path
            target = target / "index.html" if target.is_dir() else target
            assert target.is_file(), f"{path.name} links to {link}"
            assert not anchor or target not in pages or anchor in pages[target].anchors, f"{path.name} links to {link}"


@pytest.fixture
def server(pages: dict[Path, Page]) -> Iterator[str]:
    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(SITE))) as http:
        Thread(target=http.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{http.server_port}"
        http.shutdown()


@pytest.mark.parametrize("scheme", ["http", "file"])
def test_search_finds_a_page_without_other_hosts(browser: Any, server: str, scheme: str) -> None:
    address = server if scheme == "http" else SITE.as_uri()
    page, foreign = browser.new_page(), list[str]()
    page.on("request", lambda request: foreign.extend([request.url] * (not request.url.startswith(address))))
    page.on("pageerror", lambda error: foreign.append(str(error)))
    page.goto(f"{address}/index.html")
    page.locator("input.md-search__input").press_sequentially("label smoothing")
    page.locator("a.md-search-result__link").first.wait_for(timeout=20_000)
    assert not foreign
    page.close()


@pytest.mark.parametrize("width", [360, 1280])
def test_pages_fit_the_screen(browser: Any, pages: dict[Path, Page], width: int) -> None:
    page = browser.new_page(viewport={"width": width, "height": 800})
    for path in pages:
        page.goto(path.as_uri())
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), path.name
    page.close()
