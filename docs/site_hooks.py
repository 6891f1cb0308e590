"""Hooks of the documentation site: pages from the root of the repository, and links that leave docs/."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

REPO = Path(__file__).parents[1]
ROOT_PAGES = {"SECURITY.md": "security.md", "CHANGELOG.md": "changelog.md", "CONTRIBUTING.md": "contributing.md"}
TARGETS = {**ROOT_PAGES, "README.md": "index.md"}
LINK = re.compile(r"(\]\()(?!https?:|#)([^)\s#]+)((?:#[^)]*)?\))")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages from the root of the repository."""
    for name, page in ROOT_PAGES.items():
        files.append(File.generated(config, page, content=(REPO / name).read_text(encoding="utf-8")))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, **_: Any) -> str:
    """Point every relative link to a page of the site, or to the file in the repository online."""
    name = page.file.src_uri
    if name.startswith("reference/") or name == "changelog.md":
        page.meta["search"] = {"boost": 0.5}  # below the pages that explain
    if name == "index.md":
        page.meta["hide"] = ["navigation", "toc"]
    folder = REPO if name in ROOT_PAGES.values() else (REPO / "docs" / name).parent
    up = "../" * name.count("/")

    def replace(match: re.Match[str]) -> str:
        path = (folder / match[2]).resolve().relative_to(REPO).as_posix()
        if path in TARGETS:
            target = up + TARGETS[path]
        elif path.startswith("docs/") and not path.endswith(".py"):
            target = up + path.removeprefix("docs/")
        else:
            target = f"{config.extra['repository']}/blob/main/{path}"
        return f"{match[1]}{target}{match[3]}"

    return LINK.sub(replace, markdown)


def on_page_content(html: str, **_: Any) -> str:
    """Mark options of the command line, so that they are not broken at their hyphens."""
    return re.sub(r"<code>(--?[\w-]+)</code>", r'<code class="option">\1</code>', html)


def on_post_build(config: MkDocsConfig, **_: Any) -> None:
    """Remove the theme's source maps: they name files that the site does not have."""
    for path in Path(config.site_dir).rglob("*.map"):
        path.unlink()
