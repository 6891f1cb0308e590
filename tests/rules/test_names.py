"""Names of the field: no filler words, no bare participles, one meaning for each class name.

The counts find only obvious cases; CONTRIBUTING.md says what a good name is.
"""

from __future__ import annotations

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

REPO = Path(__file__).parents[2]
TREES = ("src/clearhead", "tests", "benchmarks", "fuzz")
MAX_SHARE = 0.005  # of all names of a kind
MAX_SHARED_CLASS_NAMES = 5  # class names with a meaning in several files
FILLERS = frozenset(
    {
        "one",
        "made",
        "found",
        "place",
        "places",
        "said",
        "given",
        "seen",
        "own",
        "every",
        "kept",
        "there",
        "some",
        "told",
        "asked",
        "other",
        "taken",
        "here",
        "rest",
        "looked",
        "begun",
        "written",
        "shown",
        "read",
        "named",
        "whole",
        "both",
        "each",
        "near",
        "known",
        "wanted",
        "chosen",
        "right",
        "wrong",
        "old",
        "new",
        "say",
        "tell",
        "look",
        "turn",
    }
)
PARTICIPLE = re.compile(r"[A-Za-z]+(?:ed|own|ept|ade|aid|took|een|ound|ritten|aken|iven|old|osen|ought)")
TERMS = frozenset(  # terms of the field and words that only look like participles
    {
        "embed",
        "embedded",
        "need",
        "feed",
        "speed",
        "seed",
        "shed",
        "bed",
        "red",
        "led",
        "fed",
        "bounded",
        "based",
        "indexed",
        "thread",
        "spread",
        "fold",
        "threshold",
        "hold",
        "scaffold",
        "unfold",
        "round",
        "background",
        "bound",
        "sound",
        "ground",
        "packed",
        "padded",
        "pooled",
        "quantized",
        "masked",
        "cached",
        "sorted",
        "reversed",
        "tokenized",
        "fused",
        "shared",
        "tied",
        "sharded",
        "encoded",
        "decoded",
        "exceed",
        "proceed",
        "succeed",
        "hundred",
        "normalized",
        "weighted",
        "gated",
        "calibrated",
        "trainingscreen",
    }
)
Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def read_trees(root: Path) -> dict[str, ast.Module]:
    """The syntax trees of the files of a folder by their path."""
    return {str(path.relative_to(root)): ast.parse(path.read_text()) for path in sorted(root.rglob("*.py"))}


def variables(tree: ast.Module) -> Iterator[str]:
    """The names of all locals and parameters."""
    for node in ast.walk(tree):
        if isinstance(node, ast.arg):
            name = node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            name = node.id
        else:
            continue
        if name not in ("self", "cls", "_"):
            yield name


def definitions(tree: ast.Module) -> Iterator[Definition]:
    """All functions and classes but special methods."""
    for node in ast.walk(tree):
        if isinstance(node, Definition) and not node.name.startswith("__"):
            yield node


def is_participle(name: str) -> bool:
    plain = name.strip("_")
    return PARTICIPLE.fullmatch(plain) is not None and plain.lower() not in TERMS


def shared_class_names(trees: dict[str, ast.Module]) -> dict[str, list[str]]:
    """Class names that several files define."""
    files: defaultdict[str, list[str]] = defaultdict(list)
    for path, tree in trees.items():
        for name in {node.name for node in definitions(tree) if isinstance(node, ast.ClassDef)}:
            files[name].append(path)
    return {name: paths for name, paths in files.items() if len(paths) > 1}


@pytest.mark.parametrize("folder", TREES)
def test_variables_say_what_they_hold(folder: str) -> None:
    names = Counter(name for tree in read_trees(REPO / folder).values() for name in variables(tree))
    fillers = {name: count for name, count in names.most_common() if name in FILLERS}
    assert sum(fillers.values()) <= MAX_SHARE * names.total(), fillers


@pytest.mark.parametrize("folder", TREES)
def test_functions_are_verbs_and_classes_are_nouns(folder: str) -> None:
    names = [node.name for tree in read_trees(REPO / folder).values() for node in definitions(tree)]
    participles = [name for name in names if is_participle(name)]
    assert len(participles) <= MAX_SHARE * len(names), sorted(participles)


@pytest.mark.parametrize("folder", TREES)
def test_a_class_name_has_one_meaning(folder: str) -> None:
    shared = shared_class_names(read_trees(REPO / folder))
    assert len(shared) <= MAX_SHARED_CLASS_NAMES, shared


def test_the_counters_find_what_they_look_for() -> None:
    tree = ast.parse(
        "def told(one, *, rows):\n    made, (kept, row) = rows\n    return [place for place in row]\n"
        "class Counted:\n    def __init__(self, said=None): self.said = said\n    def embed(self): ...\n"
    )
    assert {name for name in variables(tree) if name in FILLERS} == {"made", "kept", "one", "place", "said"}
    assert [node.name for node in definitions(tree) if is_participle(node.name)] == ["told", "Counted"]
    assert not is_participle("embed")
    twice = {"a.py": tree, "b.py": ast.parse("class Counted: ...\nclass Other: ...")}
    assert shared_class_names(twice) == {"Counted": ["a.py", "b.py"]}
