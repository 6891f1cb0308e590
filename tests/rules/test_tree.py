"""Rules of the source tree: file names and sizes, what every verb has, what files must not contain."""

from __future__ import annotations

import re
import subprocess
from dataclasses import fields
from pathlib import Path

import pytest

from clearhead.cli import VERBS
from clearhead.cli.train import train
from clearhead.families import FAMILIES
from clearhead.jobs.plan import TASK_NAMES, RunPlan
from clearhead.pretrain.plan import PretrainPlan
from clearhead.training.settings import TrainSettings
from clearhead.words.steps import WordSettings

REPO = Path(__file__).parents[2]
SOURCES = sorted((REPO / "src").rglob("*.py"))


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.name)
def test_files_are_short_nouns(path: Path) -> None:
    assert path.stem not in {"utils", "common", "base", "helpers", "misc"}
    assert len(path.read_text().splitlines()) <= 340


FOLDERS = sorted({path.parent for path in SOURCES})
FILE_PER_ENTRY = ("cli", "families")  # a file for each verb, a file for each family


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_folders_hold_one_subject(folder: Path) -> None:
    modules = [path for path in folder.glob("*.py") if path.name != "__init__.py"]
    assert len(modules) <= 20 or folder.name in FILE_PER_ENTRY, f"{folder.name}: split it by subject"


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.name)
def test_nothing_is_left_unfinished(path: Path) -> None:
    assert not re.search(r"\b(TODO|FIXME|XXX|NotImplementedError)\b", path.read_text())


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_a_file_docs_and_a_test(verb: str) -> None:
    module, function = VERBS[verb][0].split(":")
    assert f"def {function}(" in (REPO / "src/clearhead/cli" / f"{module}.py").read_text()
    assert f"## clearhead {verb}" in (REPO / "docs/command-line.md").read_text()
    tests = "".join(path.read_text() for path in (REPO / "tests/cli").glob("*.py"))
    assert f'"{verb}"' in tests


@pytest.mark.parametrize("family", FAMILIES.values(), ids=lambda family: family.model_type)
def test_every_family_is_in_the_docs(family: object) -> None:
    assert f"`{family.model_type}`" in (REPO / "docs/families.md").read_text()  # type: ignore[attr-defined]


@pytest.mark.parametrize("task", TASK_NAMES)
def test_every_task_is_in_the_docs_and_the_help(task: str) -> None:
    assert f"| `{task}` |" in (REPO / "docs/training.md").read_text()
    assert task in str(train.__doc__)


def test_links_in_docs_have_targets() -> None:
    for page in [REPO / "README.md", REPO / "CONTRIBUTING.md", REPO / "SECURITY.md", *(REPO / "docs").glob("*.md")]:
        for target in re.findall(r"\]\(([^)#\s]+)", page.read_text()):
            if "://" not in target:
                assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_no_tracked_file_names_a_home_folder() -> None:
    process = subprocess.run(["git", "ls-files"], cwd=REPO, capture_output=True, text=True, check=False)
    if process.returncode != 0:
        pytest.skip("not a git checkout")
    pattern = re.compile("/" + "root/|/" + "home/[a-z]|/" + "work/")
    for name in process.stdout.splitlines():
        path = REPO / name
        if path.suffix in {".py", ".md", ".toml", ".txt", ".yaml", ".cff", ""} and path.is_file():
            assert not pattern.search(path.read_text(errors="replace")), name


def test_tested_versions_are_pinned() -> None:
    pins = (REPO / "constraints.txt").read_text()
    assert "torch==2.13.0\n" in pins
    lines = [line for line in pins.splitlines() if line and not line.startswith("#")]
    assert all(re.fullmatch(r"[A-Za-z0-9_.-]+==[^ ]+", line) for line in lines)


@pytest.mark.parametrize(
    ("plan", "limit"), [(RunPlan, 51), (PretrainPlan, 26), (TrainSettings, 24), (WordSettings, 11)]
)
def test_plans_do_not_grow(plan: type, limit: int) -> None:
    assert len(fields(plan)) <= limit, f"{plan.__name__}: a capability with its own settings needs a separate plan"
