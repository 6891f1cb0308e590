"""Only explain/svg draws pictures, and only html.py writes HTML tables."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import clearhead

ROOT = Path(clearhead.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))
TEMPLATES = sorted((ROOT / "report" / "template").glob("*.html"))
SVG_PACKAGE = Path("explain", "svg")
TABLE_WRITER = Path("html.py")
SVG_ELEMENT = re.compile(r"<(svg|g|path|rect|line|text|tspan|circle|ellipse|polyline|polygon|image)(?=[\s/>]|$)")
TABLE_ELEMENT = re.compile(r"<(table|caption|thead|tbody|tr|th|td)(?=[\s/>]|$)")
TREE_CALLS = {"Element", "SubElement"}


def iter_literals(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield line and text of every string other than docstrings; of f-strings, the literal parts."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, documented) and node.body and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield node.lineno, node.value


def find_drawn_elements(source: str) -> list[str]:
    """List the SVG elements that a module writes, as text or as tree nodes."""
    tree = ast.parse(source)
    elements = [f"{line}: {match[0]}" for line, text in iter_literals(tree) for match in SVG_ELEMENT.finditer(text)]
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and getattr(node.func, "attr", getattr(node.func, "id", "")) in TREE_CALLS:
            elements.append(f"{node.lineno}: {ast.unparse(node.func)}")
    return elements


def find_table_elements(source: str) -> list[str]:
    """List the HTML table elements that a module writes."""
    return [
        f"{line}: {match[0]}"
        for line, text in iter_literals(ast.parse(source))
        for match in TABLE_ELEMENT.finditer(text)
    ]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_only_the_svg_package_draws(path: Path) -> None:
    if not path.relative_to(ROOT).is_relative_to(SVG_PACKAGE):
        assert find_drawn_elements(path.read_text()) == []


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_only_html_writes_tables(path: Path) -> None:
    if path.relative_to(ROOT) != TABLE_WRITER:
        assert find_table_elements(path.read_text()) == []


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.name)
def test_templates_have_one_table_macro_and_draw_nothing(path: Path) -> None:
    assert not SVG_ELEMENT.search(path.read_text())
    assert path.read_text().count("<table") == (path.name == "macros.html")


def test_the_rules_detect_the_exempt_modules() -> None:
    svg_files = [path for path in FILES if path.relative_to(ROOT).is_relative_to(SVG_PACKAGE)]
    assert any(find_drawn_elements(path.read_text()) for path in svg_files)
    assert find_table_elements((ROOT / TABLE_WRITER).read_text())
    assert TEMPLATES


@pytest.mark.parametrize(
    "source",
    [
        "svg = '<svg viewBox=\"0 0 1 1\">'",
        "def f(x):\n    return f'<rect x=\"{x}\"/>'",
        "parts = ['<g>', '<text x=\"1\">', '</g>']",
        "from xml.etree.ElementTree import SubElement\nSubElement(root, 'line')",
        "from xml.etree import ElementTree\nElementTree.Element('svg')",
        "start = page.index('<svg')",
    ],
)
def test_drawing_elsewhere_is_detected(source: str) -> None:
    assert find_drawn_elements(source)


@pytest.mark.parametrize("source", ["x = f'<table>{rows}</table>'", "x = '<tr>'", "y = f'<td a={x}>'"])
def test_a_table_elsewhere_is_detected(source: str) -> None:
    assert find_table_elements(source)


def test_prose_about_elements_passes() -> None:
    source = '"""Draws <svg> and <rect x>, a <table>."""\nmessage = "give <texts>, <pathology> or <tree>"\n'
    assert find_drawn_elements(source) == []
    assert find_table_elements(source) == []
