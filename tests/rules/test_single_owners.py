"""Single owners: only `text/words.py` splits text into words, only `text/subwords.py` knows subword markers, and only
`data/column_resolver.py` assigns roles to columns.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import clearhead
from clearhead.data.column_layout import ColumnLayout
from clearhead.data.names import normalize_name
from clearhead.tasks import TASKS, Task

ROOT = Path(clearhead.__file__).parent
# the two text modules above, and the one that checks regular expressions of tokenizer files
EXEMPT_FILES = {ROOT / "text" / name for name in ("words.py", "subwords.py", "limits/patterns.py")}
FILES = sorted(set(ROOT.rglob("*.py")) - EXEMPT_FILES)

# letter classes, word boundaries, non-whitespace; ranges of scripts that are written without spaces
WORD_PATTERN = re.compile(
    r"\\[wWbBS]|[\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff]-[\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff]"
)
MARKER = re.compile(r"[ĠĊ▁]|</w>|@@|##(?![# \n])")

# patterns that match letters but split nothing; a pattern anchored at both ends matches a whole cell
ALLOWED_PATTERNS = {
    "(?<![\\w./'\\\"-])": "the name of a setting in an error message",
    "(?<![\\w./'\\\"=-])": "the name of a setting in an error message",
    "(?![\\w/'\\\"=(-]|\\.\\w)": "the name of a setting in an error message",
    "GLOBAL (\\S+)": "the class that torch names in a message",
    "[^\\W\\d][\\w.\\-/#]*": "a whole cell that may be the name of a column",
    "[^\\W\\d_]?[\\w#./()-]*( [\\w#./()-]+){0,2}": "a whole cell that may be the name of a column",
    "\\b(a|an|the)\\b": "the published rules of SQuAD",
}
# modules that may normalize and compare column names
COMPARES_NAMES = {
    "data/column_detection.py",
    "data/column_resolver.py",
    "data/column_stats.py",
    "data/names.py",
    "data/sources/header.py",  # whether a first line names columns
    "data/sources/piped.py",
    "tasks/choice/columns.py",  # numbered columns of options
}
ALLOWED_MARKERS = {
    " ▁▂▃▄▅▆▇█": "the bars of a histogram",
}


def iter_literals(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the strings of a file, also parts of f-strings, but not docstrings and other string statements."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    prose = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose:
            yield node.lineno, node.value


def is_violation(value: str, rule: re.Pattern[str], allowed: dict[str, str]) -> bool:
    """Whether a string breaks a rule."""
    is_anchored = value.startswith("^") and value.endswith("$")
    return rule.search(value) is not None and value not in allowed and not is_anchored


def find_violations(path: Path, rule: re.Pattern[str], allowed: dict[str, str]) -> list[str]:
    """List the lines of a file that break a rule."""
    return [
        f"{path.name}:{line} holds {value!r}"
        for line, value in iter_literals(path)
        if is_violation(value, rule, allowed)
    ]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_only_text_splits_words(path: Path) -> None:
    assert find_violations(path, WORD_PATTERN, ALLOWED_PATTERNS) == []


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_only_text_knows_subword_markers(path: Path) -> None:
    assert find_violations(path, MARKER, ALLOWED_MARKERS) == []


def test_every_exception_is_still_needed() -> None:
    values = {value for path in FILES for _, value in iter_literals(path)}
    assert [value for value in (*ALLOWED_PATTERNS, *ALLOWED_MARKERS) if value not in values] == []


def test_the_rules_detect_the_exempt_modules() -> None:
    assert len(find_violations(ROOT / "text" / "words.py", WORD_PATTERN, ALLOWED_PATTERNS)) > 8
    assert len(find_violations(ROOT / "text" / "subwords.py", MARKER, ALLOWED_MARKERS)) == 5


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
def test_a_second_splitter_is_detected(code: str, tmp_path: Path) -> None:
    (tmp_path / "near.py").write_text(f'"""Splits at \\\\w."""\n{code}\n', encoding="utf-8")
    assert len(find_violations(tmp_path / "near.py", WORD_PATTERN, ALLOWED_PATTERNS)) == 1


@pytest.mark.parametrize("marker", ["##", "Ġ", "▁", "</w>", "@@", "\\u2581", "\\u0120", "er</w>", "##s"])
def test_a_second_reader_of_markers_is_detected(marker: str, tmp_path: Path) -> None:
    (tmp_path / "lesson.py").write_text(f'"""Reads ▁."""\nMARK = "{marker}"\n', encoding="utf-8")
    assert len(find_violations(tmp_path / "lesson.py", MARKER, ALLOWED_MARKERS)) == 1


def test_headings_and_quoted_words_are_not_markers(tmp_path: Path) -> None:
    (tmp_path / "card.py").write_text('LINES = ["# Title", "## Part", "### Third", "^\\\\S+$"]\n', encoding="utf-8")
    assert find_violations(tmp_path / "card.py", MARKER, ALLOWED_MARKERS) == []
    assert find_violations(tmp_path / "card.py", WORD_PATTERN, ALLOWED_PATTERNS) == []


def find_column_decisions(name: str, text: str) -> list[str]:
    """List where a module assigns roles to columns itself, by comparing names or in `Columns`."""
    if name in COMPARES_NAMES:
        return []
    decisions = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and node.module == "clearhead.data.names":
            decisions += [
                f"{name}:{node.lineno} compares names" for alias in node.names if alias.name == "normalize_name"
            ]
        elif isinstance(node, ast.comprehension | ast.For) and re.search(r"(columns|header)$", ast.unparse(node.iter)):
            decisions += [f"{name} compares names"] * _folds_case(node.target, text)
        elif isinstance(node, ast.Call) and ast.unparse(node.func) == "Columns":
            parts = [part.value for part in node.keywords if part.arg == "text"]
            if not all(isinstance(part, ast.Constant) for part in parts):
                decisions.append(f"{name}:{node.lineno} chooses columns")
    return decisions


def _folds_case(target: ast.expr, text: str) -> bool:
    """Whether the case of a name is folded."""
    return re.search(rf"\b{re.escape(ast.unparse(target))}(\.strip\(\))?\.(lower|casefold)\(", text) is not None


@pytest.mark.parametrize("path", sorted(ROOT.rglob("*.py")), ids=lambda path: str(path.relative_to(ROOT)))
def test_only_the_resolver_chooses_columns(path: Path) -> None:
    assert find_column_decisions(path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    "code",
    [
        "from clearhead.data.names import TEXT_NAMES, normalize_name",
        "called = {name.lower(): name for name in source.columns}",
        "for column in header:\n    if column.strip().casefold() in TEXTS: break",
        "columns = Columns(text=found, label=label)",
    ],
)
def test_a_second_resolver_is_detected(code: str) -> None:
    assert find_column_decisions("predict/near.py", code)
    assert not find_column_decisions("data/column_resolver.py", code)


def test_fixed_columns_are_not_a_violation() -> None:
    assert not find_column_decisions("estimators/near.py", 'columns = Columns(text="text", text_b=second)')


@pytest.mark.parametrize("task", TASKS.values(), ids=TASKS)
def test_a_task_describes_its_columns_in_a_layout(task: Task) -> None:
    layout = task.rows.layout
    assert isinstance(layout, ColumnLayout)
    assert len({role.name for role in layout.roles}) == len(layout.roles)
    # names are stored as they are compared
    assert all(role.column_names == tuple(map(normalize_name, role.column_names)) for role in layout.roles)
