"""One of each: `text/words.py` alone splits text into words, `text/subwords.py` alone knows subword markers."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import clearhead

ROOT = Path(clearhead.__file__).parent
# the two modules of the title, and the one that judges regular expressions of tokenizer files
HOMES = {ROOT / "text" / name for name in ("words.py", "subwords.py", "limits/patterns.py")}
FILES = sorted(set(ROOT.rglob("*.py")) - HOMES)

# a class of letters, the border of a word, what is no blank; a range of a script that writes no spaces
WORD_PATTERN = re.compile(
    r"\\[wWbBS]|[\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff]-[\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff]"
)
MARKER = re.compile(r"[ĠĊ▁]|</w>|@@|##(?![# \n])")

# patterns that look at letters and split nothing; one that is anchored at both ends reads a whole cell
ALLOWED_PATTERNS = {
    "(?<![\\w./'\\\"-])": "the name of a setting in an error message",
    "(?<![\\w./'\\\"=-])": "the name of a setting in an error message",
    "(?![\\w/'\\\"=(-]|\\.\\w)": "the name of a setting in an error message",
    "GLOBAL (\\S+)": "the class that torch names in a message",
    "[^\\W\\d][\\w.\\-/#]*": "a whole cell that may be the name of a column",
    "[^\\W\\d_]?[\\w#./()-]*( [\\w#./()-]+){0,2}": "a whole cell that may be the name of a column",
    "\\b(a|an|the)\\b": "the published rules of SQuAD",
}
ALLOWED_MARKERS = {
    " ▁▂▃▄▅▆▇█": "the bars of a histogram",
}


def literals(path: Path) -> Iterator[tuple[int, str]]:
    """The strings of a file, parts of f-strings too; docstrings and other strings that stand alone are prose."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    prose = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose:
            yield node.lineno, node.value


def is_violation(value: str, rule: re.Pattern[str], allowed: dict[str, str]) -> bool:
    """Whether a string breaks a rule."""
    is_anchored = value.startswith("^") and value.endswith("$")
    return rule.search(value) is not None and value not in allowed and not is_anchored


def violations(path: Path, rule: re.Pattern[str], allowed: dict[str, str]) -> list[str]:
    """The lines of a file that break a rule."""
    return [
        f"{path.name}:{line} holds {value!r}" for line, value in literals(path) if is_violation(value, rule, allowed)
    ]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_only_text_splits_words(path: Path) -> None:
    assert violations(path, WORD_PATTERN, ALLOWED_PATTERNS) == []


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_only_text_knows_subword_markers(path: Path) -> None:
    assert violations(path, MARKER, ALLOWED_MARKERS) == []


def test_every_exception_is_still_needed() -> None:
    values = {value for path in FILES for _, value in literals(path)}
    assert [value for value in (*ALLOWED_PATTERNS, *ALLOWED_MARKERS) if value not in values] == []


def test_the_rules_see_the_modules_themselves() -> None:
    assert len(violations(ROOT / "text" / "words.py", WORD_PATTERN, ALLOWED_PATTERNS)) > 8
    assert len(violations(ROOT / "text" / "subwords.py", MARKER, ALLOWED_MARKERS)) == 5


@pytest.mark.parametrize(
    "code",
    [
        r'WORD = re.compile(r"\w+")',
        r'words = re.findall("[^\\W_]+", text)',
        r'words = re.split(rf"{left}\S+", text)',
        r'WORD = re.compile("[\u3040-\u30ff\u3400-\u9fff]")',
        r'WORD = re.compile("[\u0e00-\u0eff]")',
    ],
)
def test_a_second_splitter_would_be_seen(code: str, tmp_path: Path) -> None:
    (tmp_path / "near.py").write_text(f'"""Splits at \\\\w."""\n{code}\n', encoding="utf-8")
    assert len(violations(tmp_path / "near.py", WORD_PATTERN, ALLOWED_PATTERNS)) == 1


@pytest.mark.parametrize("marker", ["##", "Ġ", "▁", "</w>", "@@", "\\u2581", "\\u0120", "er</w>", "##s"])
def test_a_second_reader_of_markers_would_be_seen(marker: str, tmp_path: Path) -> None:
    (tmp_path / "lesson.py").write_text(f'"""Reads ▁."""\nMARK = "{marker}"\n', encoding="utf-8")
    assert len(violations(tmp_path / "lesson.py", MARKER, ALLOWED_MARKERS)) == 1


def test_headings_and_quoted_words_are_no_markers(tmp_path: Path) -> None:
    (tmp_path / "card.py").write_text('LINES = ["# Title", "## Part", "### Third", "^\\\\S+$"]\n', encoding="utf-8")
    assert violations(tmp_path / "card.py", MARKER, ALLOWED_MARKERS) == []
    assert violations(tmp_path / "card.py", WORD_PATTERN, ALLOWED_PATTERNS) == []
