"""Run every command and every Python block of README.md and docs/, each page in an empty folder.

    python docs/check.py [PAGE ...]

| block | what is checked |
|---|---|
| ```sh | the commands succeed; `make` and `pip install` lines are compared with the Makefile and the extras instead |
| ```console | the same for lines that start with `$ `; the lines below each command are its expected output |
| ```python | the blocks of a page are one program, which runs at the last of them; each can have expected output |
| ```text after `<!-- output -->` | the expected output of the block above |

Expected output may contain `...`: on a line of its own it stands for any lines, inside a line for any text.
Decimal numbers may differ by 2 % or 0.02, because CPUs differ in the last digits. Each page finds `examples/`
beside it. A block after `<!-- needs NAME -->` runs when the environment variable NAME is set
(CLEARHEAD_WEIGHTS defaults to ../shared/weights).
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

REPO = Path(__file__).parents[1]
BLOCK = re.compile(r"(?:<!-- (?:needs (\w+)|(output)) -->\n)?^```(sh|console|python|text)\n(.*?)^```", re.M | re.S)
DECIMAL = re.compile(r"-?\d+\.\d+")
ANYTHING = "..."
BLOCK_END = "-- end of a Python block --"  # printed between the Python blocks of a page


@dataclass(frozen=True)
class Block:
    """A code block of a page."""

    language: str
    text: str
    needs: str = ""  # an environment variable
    is_output: bool = False  # of the block above

    @property
    def title(self) -> str:
        """The first line that is not empty."""
        return next((line for line in self.text.splitlines() if line.strip()), "")


def read_blocks(page: str) -> list[Block]:
    """Return the blocks of a page in order; text blocks only where they are marked as output."""
    blocks = [
        Block(language, text, needs, bool(output))
        for needs, output, language, text in (match.groups(default="") for match in BLOCK.finditer(page))
    ]
    return [block for block in blocks if block.language != "text" or block.is_output]


def page_environment() -> dict[str, str]:
    """Return the environment of a block: this installation's commands first, no network, 80 columns."""
    environment = os.environ | {"HF_HUB_OFFLINE": "1", "PYTHONWARNINGS": "error::UserWarning", "COLUMNS": "80"}
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environment.get('PATH', '')}"
    weights = Path(environment.get("CLEARHEAD_WEIGHTS", REPO.parent / "shared" / "weights"))
    if weights.is_dir():
        environment["CLEARHEAD_WEIGHTS"] = str(weights)
    return environment


def missing_targets(text: str) -> list[str]:
    """Return the targets of `make` lines that the Makefile does not have."""
    makefile = (REPO / "Makefile").read_text()
    return [target for target in re.findall(r"^(?:\$ )?make ([\w-]+)", text, re.M) if f"\n{target}:" not in makefile]


def missing_extras(text: str) -> list[str]:
    """Return the extras in `pip install` lines that the package does not have."""
    project = tomllib.loads((REPO / "pyproject.toml").read_text())["project"]
    named = [
        name for names in re.findall(r"^pip install [^#\n]*\[([\w,-]+)\]", text, re.M) for name in names.split(",")
    ]
    return [name for name in named if name not in project["optional-dependencies"]]


def read_console(text: str) -> Iterator[tuple[str, str]]:
    """Yield each command of a console block with its expected output; `make` lines are left out."""
    commands = re.split(r"^\$ ", text, flags=re.M)[1:]
    for command in commands:
        lines = command.splitlines()
        end = next((number for number, line in enumerate(lines) if not line.endswith("\\")), len(lines) - 1) + 1
        if not command.startswith("make "):
            yield "\n".join(lines[:end]), "\n".join(lines[end:])


def matches(expected: str, printed: str) -> bool:
    """Whether printed text is what a page shows, apart from `...` and the last digits of numbers."""
    return _match_lines(_strip_lines(expected), _strip_lines(printed))


def _strip_lines(text: str) -> list[str]:
    return [" ".join(line.split()) for line in text.strip().splitlines() if line.strip()]


def _match_lines(expected: list[str], printed: list[str]) -> bool:
    if not expected:
        return not printed
    if expected[0] == ANYTHING:
        return any(_match_lines(expected[1:], printed[start:]) for start in range(len(printed) + 1))
    return bool(printed) and _match_line(expected[0], printed[0]) and _match_lines(expected[1:], printed[1:])


def _match_line(expected: str, printed: str) -> bool:
    parts = re.split(rf"({re.escape(ANYTHING)}|{DECIMAL.pattern})", expected)
    pattern = "".join(
        ".*?" if part == ANYTHING else f"({DECIMAL.pattern})" if DECIMAL.fullmatch(part) else re.escape(part)
        for part in parts
    )
    match = re.fullmatch(pattern, printed)
    numbers = [float(part) for part in parts if DECIMAL.fullmatch(part)]
    return match is not None and all(
        abs(float(found) - number) <= max(0.02, 0.02 * abs(number))
        for found, number in zip(match.groups(), numbers, strict=True)
    )


def run_in(folder: str, command: list[str]) -> subprocess.CompletedProcess[str]:
    """Run a command in a folder and capture what it prints."""
    return subprocess.run(command, cwd=folder, env=page_environment(), capture_output=True, text=True, check=False)


def describe_failure(finished: subprocess.CompletedProcess[str]) -> str:
    """Return the exit code and the output of a failed command."""
    return f"exit code {finished.returncode}\n{finished.stdout}{finished.stderr}"


def describe_difference(expected: str | None, printed: str) -> str:
    """Return how printed text differs from the expected output; empty if it matches or nothing is expected."""
    if expected is None or matches(expected, printed):
        return ""
    return f"the page shows\n{expected}\nand the command prints\n{printed}"


class PageCheck:
    """The blocks of one page, run in an empty folder."""

    def __init__(self, page: Path) -> None:
        self.page = page
        self.passed = self.failed = 0

    def run(self) -> None:
        """Run all blocks and print a line for each."""
        environment = page_environment()
        blocks = read_blocks(self.page.read_text())
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "examples").symlink_to(REPO / "examples")
            program = ""
            outputs: list[tuple[str, str | None]] = []  # title and expected output of each Python block
            for index, block in enumerate(blocks):
                following = blocks[index + 1 :]
                expected = following[0].text if following and following[0].is_output else None
                if block.is_output:
                    continue
                if block.needs and block.needs not in environment:
                    print(f"skip  {self.page.name}: {block.title} (set {block.needs})")
                    continue
                if block.language == "python":
                    program += f"{block.text}\nprint({BLOCK_END!r})\n"
                    outputs.append((block.title, expected))
                    if not any(later.language == "python" for later in following):
                        self._run_program(program, outputs, folder)
                elif targets := missing_targets(block.text):
                    self._report(block.title, f"the Makefile has no target {targets[0]}")
                elif extras := missing_extras(block.text):
                    self._report(block.title, f"pyproject.toml has no extra {extras[0]}")
                elif block.language == "console":
                    for command, output in read_console(block.text):
                        self._run_command(["bash", "-euc", command], command, output, folder)
                else:
                    lines = [line for line in block.text.splitlines() if not line.startswith(("make ", "pip install "))]
                    self._run_command(["bash", "-euc", "\n".join(lines)], block.title, expected, folder)

    def _run_program(self, program: str, outputs: list[tuple[str, str | None]], folder: str) -> None:
        finished = run_in(folder, [sys.executable, "-c", program])
        printed = finished.stdout.split(f"{BLOCK_END}\n")
        if finished.returncode:
            self._report(outputs[-1][0], describe_failure(finished))
            return
        for (title, expected), output in zip(outputs, printed, strict=False):
            self._report(title, describe_difference(expected, output))

    def _run_command(self, command: list[str], title: str, expected: str | None, folder: str) -> None:
        finished = run_in(folder, command)
        failed = bool(finished.returncode)
        self._report(title, describe_failure(finished) if failed else describe_difference(expected, finished.stdout))

    def _report(self, title: str, problem: str) -> None:
        self.failed += bool(problem)
        self.passed += not problem
        print(f"FAIL  {self.page.name}: {title}\n{problem}" if problem else f"ok    {self.page.name}: {title}")


def main(names: list[str]) -> int:
    """Check the pages; return 1 if a block fails or none was run."""
    pages = [REPO / name for name in names] or [REPO / "README.md", *sorted((REPO / "docs").glob("*.md"))]
    checks = [PageCheck(page) for page in pages]
    for check in checks:
        check.run()
    passed, failed = sum(check.passed for check in checks), sum(check.failed for check in checks)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
