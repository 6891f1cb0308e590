"""The checker of pages: which blocks it reads, and when printed output equals what a page shows."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

REPO = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def check() -> ModuleType:
    spec = importlib.util.spec_from_file_location("docs_check", REPO / "docs" / "check.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["docs_check"] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("expected", "printed"),
    [
        ("billing  0.93", "billing 0.93\n"),
        ("billing  0.93", "billing  0.94"),  # the last digits depend on the CPU
        ("loss 1053.7", "loss 1060.2"),
        ("a\n...\nd", "a\nb\nc\nd"),
        ("a\n...\nd", "a\nd"),
        ("took ... s", "took 12 s"),
        ("", ""),
    ],
)
def test_equal_output_matches(check: ModuleType, expected: str, printed: str) -> None:
    assert check.matches(expected, printed)


@pytest.mark.parametrize(
    ("expected", "printed"),
    [
        ("billing  0.93", "delivery 0.93"),
        ("billing  0.93", "billing 0.83"),
        ("3 rows", "4 rows"),  # counts are exact
        ("a\nb", "a"),
        ("a", "a\nb"),
        ("", "a"),
        ("a\n...\nd", "a\nb"),
    ],
)
def test_different_output_does_not_match(check: ModuleType, expected: str, printed: str) -> None:
    assert not check.matches(expected, printed)


def test_console_blocks_pair_commands_with_output(check: ModuleType) -> None:
    text = "$ make demo\n$ clearhead models \\\n    --json\nline 1\n\nline 2\n$ true\n"
    assert list(check.read_console(text)) == [("clearhead models \\\n    --json", "line 1\n\nline 2"), ("true", "")]
    assert check.missing_targets("$ make nothing-like-it\n$ make demo") == ["nothing-like-it"]


def test_extras_of_pip_are_compared_with_the_package(check: ModuleType) -> None:
    page = 'pip install ".[train]"  # in a clone\npip install "clearhead[dev,none]"\npip install torch'
    assert check.missing_extras(page) == ["none"]


def test_text_blocks_count_only_as_output(check: ModuleType) -> None:
    page = "```text\na\n```\n```sh\nb\n```\n\n<!-- output -->\n```text\nc\n```\n<!-- needs X -->\n```python\nd\n```\n"
    blocks = check.read_blocks(page)
    assert [(block.language, block.title, block.needs, block.is_output) for block in blocks] == [
        ("sh", "b", "", False),
        ("text", "c", "", True),
        ("python", "d", "X", False),
    ]


def test_a_page_fails_with_its_difference(
    check: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.md"
    page.write_text("```console\n$ echo 1.00\n1.01\n$ echo no\nyes\n$ false\n```\n```python\nprint(1)\n```\n")
    run = check.PageCheck(page)
    run.run()
    assert (run.passed, run.failed) == (2, 2)
    assert "the page shows\nyes\nand the command prints\nno" in capsys.readouterr().out


def test_each_python_block_of_a_page_has_its_own_output(check: ModuleType, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    blocks = ("value = 1\nprint(value)", "1"), ("print(value + 1)", "3")
    page.write_text(
        "".join(f"```python\n{code}\n```\n<!-- output -->\n```text\n{text}\n```\n" for code, text in blocks)
    )
    run = check.PageCheck(page)
    run.run()
    assert (run.passed, run.failed) == (1, 1)
