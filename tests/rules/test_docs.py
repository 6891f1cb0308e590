"""Sources of the documentation site: every page is in the navigation, every public name in the reference."""

from __future__ import annotations

import pkgutil
import re
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

import clearhead

REPO = Path(__file__).parents[2]
CONFIG = (REPO / "mkdocs.yml").read_text()
ROOT_PAGES = {"security.md", "changelog.md", "contributing.md"}  # docs/site_hooks.py adds them
REFERENCE = sorted((REPO / "docs/reference").glob("*.md"))
IDENTIFIERS = [name for page in REFERENCE for name in re.findall(r"^::: (\S+)$", page.read_text(), re.M)]


def public_names(identifier: str) -> set[str]:
    """List the names that a directive of the reference documents."""
    documented = pkgutil.resolve_name(identifier)
    if not isinstance(documented, ModuleType):
        return {identifier.rpartition(".")[2]}
    return {name for name, value in vars(documented).items() if getattr(value, "__module__", "") == identifier}


def test_every_page_is_in_the_navigation_once() -> None:
    listed = re.findall(r"^ +- .+: (\S+\.md)$", CONFIG, re.M)
    pages = {path.relative_to(REPO / "docs").as_posix() for path in (REPO / "docs").rglob("*.md")}
    assert sorted(listed) == sorted(pages | ROOT_PAGES)


@pytest.mark.parametrize("identifier", IDENTIFIERS)
def test_every_name_in_the_reference_exists_and_has_a_docstring(identifier: str) -> None:
    assert pkgutil.resolve_name(identifier).__doc__


def test_the_reference_has_every_public_name_once() -> None:
    assert len(IDENTIFIERS) == len(set(IDENTIFIERS))
    documented = {name for identifier in IDENTIFIERS for name in public_names(identifier)}
    assert set(clearhead.__all__) - {"__version__"} <= documented


def test_repository_links_match_the_package_metadata() -> None:
    (repository,) = re.findall(r"^  repository: (\S+)", CONFIG, re.M)
    urls = tomllib.loads((REPO / "pyproject.toml").read_text())["project"]["urls"]
    assert all(url.startswith(repository + "/") for url in urls.values())
