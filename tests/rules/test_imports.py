"""Imports point down, only core and train know torch, and importing the package costs next to nothing."""

from __future__ import annotations

import ast
import json
import pkgutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import clearhead

ROOT = Path(clearhead.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))

# the packages of the architecture, lowest first; a package may import those of its own row or of rows above it
LAYERS = (
    ("errors", "caller", "deprecation", "files", "html", "lazy", "machine", "progress"),
    ("shape", "tensors", "batch", "runner", "text"),
    ("families",),
    ("checkpoint",),
    ("data", "metrics"),
    ("tasks", "pretraining"),
    ("core", "engine", "decode", "classic"),
    ("model",),
    ("words",),
    ("training",),
    ("jobs",),
    ("predict",),
    ("explain",),
    ("report",),
    ("evaluate",),
    ("features",),
    ("train",),
    ("aspects", "ladder", "pretrain", "translate"),
    ("deploy", "embeddings"),
    ("api",),
    ("estimators",),
    ("cli", "__main__"),
)
RANK = {part: rank for rank, parts in enumerate(LAYERS) for part in parts}
TORCH = ("core", "training")
BASE = [path for path in FILES if path.relative_to(ROOT).parts[0] not in TORCH]


def part_of(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def imported(path: Path) -> Iterator[tuple[int, str]]:
    """Every module that a file names in an import, wherever it stands."""
    package = ["clearhead", *path.relative_to(ROOT).parent.parts]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            if module == "clearhead":
                yield from ((node.lineno, f"clearhead.{alias.name}") for alias in node.names)
            else:
                yield node.lineno, module


def upward(path: Path) -> list[str]:
    found = []
    for line, module in imported(path):
        names = module.split(".")
        if names[0] != "clearhead" or names[1:2] in ([], ["__version__"]):
            continue
        if RANK[names[1]] > RANK[part_of(path)]:
            found.append(f"{path.relative_to(ROOT)}:{line} imports {module}")
    return found


@pytest.mark.parametrize("path", [p for p in FILES if p.parent != ROOT or p.name != "__init__.py"], ids=str)
def test_imports_point_down(path: Path) -> None:
    assert upward(path) == []


def test_an_upward_import_would_be_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "clearhead" / "families"
    folder.mkdir(parents=True)
    (folder / "wrong.py").write_text("def f():\n    from clearhead.core.models import Network\n    return Network\n")
    monkeypatch.setattr(sys.modules[__name__], "ROOT", tmp_path / "clearhead")
    assert upward(folder / "wrong.py") == ["families/wrong.py:2 imports clearhead.core.models"]


@pytest.mark.parametrize("path", BASE, ids=lambda path: str(path.relative_to(ROOT)))
def test_only_core_and_train_name_torch(path: Path) -> None:
    assert not [module for _, module in imported(path) if module.split(".")[0] == "torch"]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_peers_are_never_imported(path: Path) -> None:
    peers = {"transformers", "sentence_transformers", "sentencepiece", "datasets", "sklearn_crfsuite", "seqeval"}
    peers |= {"gensim", "safetensors", "regex", "resvg_py"}
    assert not [module for _, module in imported(path) if module.split(".")[0] in peers]


# what makes an import inside a function worth it: start-up time, or an extra that need not be there
HEAVY = {
    "torch",
    "onnxruntime",
    "numpy",
    "sklearn",
    "scipy",
    "tokenizers",
    "huggingface_hub",
    "matplotlib",
    "pyarrow",
    "rich",
    "cyclopts",
    "jinja2",
    "msgspec",
    "markupsafe",
}
AT_START = ("cli", "api", "__init__.py")  # what a command does not use is not imported: --help is instant
CHILD = {"deploy/worker.py", "deploy/runtimes.py"}  # a timed process imports what it measures, after the clock runs


def module_name(path: Path) -> str:
    parts = ("clearhead", *path.relative_to(ROOT).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports_by_depth(path: Path) -> tuple[set[str], set[str]]:
    """The modules that a file imports when it is loaded, and those that its functions import; without types."""
    at_load: set[str] = set()
    inside: set[str] = set()

    def walk(node: ast.AST, in_function: bool) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
                continue
            found = inside if in_function else at_load
            if isinstance(child, ast.Import):
                found.update(alias.name for alias in child.names)
            elif isinstance(child, ast.ImportFrom) and child.module is not None:
                found.update((child.module, *(f"{child.module}.{alias.name}" for alias in child.names)))
            walk(child, in_function or isinstance(child, ast.FunctionDef))

    walk(ast.parse(path.read_text()), in_function=False)
    return at_load, inside


def lazy_names(source: str) -> tuple[dict[str, str], dict[str, str]]:
    """What a package imports for type checkers, and what it exports lazily: name to module, both relative to it."""
    typed: dict[str, str] = {}
    lazy: dict[str, str] = {}
    for node in ast.parse(source).body:
        if not (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"):
            continue
        for statement in node.body:
            if isinstance(statement, ast.ImportFrom) and str(statement.module).startswith("clearhead."):
                typed |= {alias.name: str(statement.module) for alias in statement.names}
        for statement in node.orelse:
            if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
                table = ast.literal_eval(statement.value.args[1])
                lazy |= {name: module for module, names in table.items() for name in names}
    return typed, lazy


def lazily_loaded() -> dict[str, set[str]]:
    """The module that comes with each name that a package exports lazily."""
    packages = {module_name(path): lazy_names(path.read_text())[1] for path in FILES if path.name == "__init__.py"}
    return {
        f"{package}.{name}": {f"{package}.{module}"}
        for package, names in packages.items()
        for name, module in names.items()
    }


def heavy_imports(name: str, at_load: dict[str, set[str]]) -> set[str]:
    """The heavy libraries that come with a module."""
    seen: set[str] = set()
    heavy: set[str] = set()
    waiting = [name]
    while waiting:
        current = waiting.pop()
        if current in seen or current not in at_load:
            continue
        seen.add(current)
        parts = current.split(".")
        waiting += [".".join(parts[:end]) for end in range(1, len(parts))]
        waiting += [other for other in at_load[current] if other in at_load]
        heavy |= {other.split(".")[0] for other in at_load[current]} & HEAVY
    return heavy


def needless(at_load: dict[str, set[str]], inside: dict[str, set[str]]) -> list[str]:
    """Our own modules that a function imports though nothing heavy comes with them."""
    found = []
    for name, others in inside.items():
        own = heavy_imports(name, at_load)
        ours = sorted(other for other in others if other in at_load and other != "clearhead")
        light = [other for other in ours if not heavy_imports(other, at_load) - own]
        heavy = set(ours) - set(light)  # a package is light, and what is imported from it may be heavy
        found += [
            f"{name} imports {other}" for other in light if not any(module.startswith(f"{other}.") for module in heavy)
        ]
    return found


def test_functions_import_our_modules_only_for_what_is_heavy() -> None:
    depths = {path: imports_by_depth(path) for path in FILES}
    at_load = lazily_loaded() | {module_name(path): depth[0] for path, depth in depths.items()}
    counted = [path for path in FILES if path.relative_to(ROOT).parts[0] not in AT_START]
    inside = {module_name(path): depths[path][1] for path in counted if str(path.relative_to(ROOT)) not in CHILD}
    assert needless(at_load, inside) == []


def test_a_needless_import_would_be_seen() -> None:
    at_load = {"low": set(), "heavy": {"torch"}, "above": {"heavy"}}
    inside = {"low": {"heavy", "above"}, "heavy": {"low", "above"}}
    assert needless(at_load, inside) == ["heavy imports above", "heavy imports low"]


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_base_module_imports_with_torch_blocked() -> None:
    names = []
    for path in BASE:
        parts = path.relative_to(ROOT).with_suffix("").parts
        if parts[-1] != "__main__":
            names.append(".".join(["clearhead", *(part for part in parts if part != "__init__")]))
    code = (
        "import sys, importlib\n"
        "class Blocked:\n"  # not sys.modules['torch'] = None: scipy, which scikit-learn brings, looks in there
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.split('.')[0] == 'torch':\n"
        "            raise ModuleNotFoundError(name)\n"
        "sys.meta_path.insert(0, Blocked())\n"
        f"for name in {sorted(names)!r}:\n"
        "    importlib.import_module(name)\n"
        "print('torch' in sys.modules)\n"
    )
    assert run(code).strip() == "False"


def test_importing_the_package_loads_neither_torch_nor_numpy() -> None:
    code = "import sys, json, clearhead\nprint(json.dumps(sorted(sys.modules)))"
    loaded = set(json.loads(run(code)))
    assert not loaded & {"torch", "numpy", "tokenizers", "huggingface_hub", "rich", "cyclopts", "msgspec", "jinja2"}


def test_help_loads_neither_torch_nor_numpy() -> None:
    code = (
        "import sys, json\n"
        "from clearhead.cli import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit:\n    pass\n"
        "print()\nprint(json.dumps(sorted(sys.modules)))"
    )
    loaded = set(json.loads(run(code).splitlines()[-1]))
    assert not loaded & {"torch", "numpy", "tokenizers", "huggingface_hub", "clearhead.api"}


def test_public_names_are_exactly_those_listed() -> None:
    assert sorted(clearhead.__all__) == dir(clearhead)
    for name in clearhead.__all__:
        assert getattr(clearhead, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        getattr(clearhead, "nonsense")  # noqa: B009 - mypy sees that it is not there


def test_verbs_stay_verbs_after_their_packages_were_imported() -> None:
    code = (
        "import sys, json, pkgutil, importlib, clearhead\n"
        "for module in pkgutil.iter_modules(clearhead.__path__):\n"
        "    if module.name != '__main__':\n"
        "        importlib.import_module(f'clearhead.{module.name}')\n"
        "kinds = {name: type(getattr(clearhead, name)) for name in clearhead.__all__}\n"
        "from clearhead import train\n"
        "hidden = sorted(name for name in kinds if issubclass(kinds[name], type(sys)))\n"
        "print(json.dumps([train is clearhead.train, hidden]))"
    )
    assert json.loads(run(code)) == [True, []]
    shadowed = {module.name for module in pkgutil.iter_modules(clearhead.__path__)} & set(clearhead.__all__)
    assert shadowed  # else the test above could not fail


def package_graph(root: Path) -> dict[str, set[str]]:
    """Which package imports which, also inside functions and for types alone."""
    graph: dict[str, set[str]] = {}
    for path in sorted(root.rglob("*.py")):
        package = part_of(path)
        for _, module in imported(path):
            names = module.split(".")
            if names[0] == "clearhead" and names[1:2] not in ([], ["__version__"]) and names[1] != package:
                graph.setdefault(package, set()).add(names[1])
    graph.pop("__init__", None)  # the public names, which point everywhere
    return graph


def find_cycle(graph: dict[str, set[str]]) -> list[str]:
    """One cycle of packages as a path; empty: there is none."""
    done: set[str] = set()

    def walk(package: str, path: list[str]) -> list[str]:
        if package in path:
            return [*path[path.index(package) :], package]
        if package in done:
            return []
        for other in sorted(graph.get(package, ())):
            if cycle := walk(other, [*path, package]):
                return cycle
        done.add(package)
        return []

    return next((cycle for package in sorted(graph) if (cycle := walk(package, []))), [])


def test_packages_form_no_cycle() -> None:
    assert find_cycle(package_graph(ROOT)) == []


def test_a_cycle_would_be_seen() -> None:
    assert find_cycle({"a": {"b"}, "b": {"c"}, "c": {"a"}}) == ["a", "b", "c", "a"]
    assert find_cycle({"a": {"b", "c"}, "b": {"c"}}) == []
