"""Imports point down, only core and training import torch, and importing the package is cheap."""

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

# the packages of the architecture, lowest first; a package may import those of its own row or of earlier rows
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
TORCH_PACKAGES = ("core", "training")
TORCH_FREE_FILES = [path for path in FILES if path.relative_to(ROOT).parts[0] not in TORCH_PACKAGES]


def part_of(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def iter_imports(path: Path) -> Iterator[tuple[int, str]]:
    """Yield line and module of every import of a file, also inside functions."""
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


def find_upward_imports(path: Path) -> list[str]:
    violations = []
    for line, module in iter_imports(path):
        names = module.split(".")
        if names[0] != "clearhead" or names[1:2] in ([], ["__version__"]):
            continue
        if RANK[names[1]] > RANK[part_of(path)]:
            violations.append(f"{path.relative_to(ROOT)}:{line} imports {module}")
    return violations


@pytest.mark.parametrize("path", [p for p in FILES if p.parent != ROOT or p.name != "__init__.py"], ids=str)
def test_imports_point_down(path: Path) -> None:
    assert find_upward_imports(path) == []


def test_an_upward_import_is_detected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "clearhead" / "families"
    folder.mkdir(parents=True)
    (folder / "wrong.py").write_text("def f():\n    from clearhead.core.models import Network\n    return Network\n")
    monkeypatch.setattr(sys.modules[__name__], "ROOT", tmp_path / "clearhead")
    assert find_upward_imports(folder / "wrong.py") == ["families/wrong.py:2 imports clearhead.core.models"]


@pytest.mark.parametrize("path", TORCH_FREE_FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_only_core_and_training_import_torch(path: Path) -> None:
    assert not [module for _, module in iter_imports(path) if module.split(".")[0] == "torch"]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_peers_are_never_imported(path: Path) -> None:
    peers = {"transformers", "sentence_transformers", "sentencepiece", "datasets", "sklearn_crfsuite", "seqeval"}
    peers |= {"gensim", "safetensors", "regex", "resvg_py"}
    assert not [module for _, module in iter_imports(path) if module.split(".")[0] in peers]


# modules that justify an import inside a function: slow to import, or an optional extra
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
AT_START = ("cli", "api", "__init__.py")  # commands import only what they use, so --help is instant
# a timed process imports what it measures after starting the clock
TIMED_PROCESSES = {"deploy/worker.py", "deploy/runtimes.py"}


def module_name(path: Path) -> str:
    parts = ("clearhead", *path.relative_to(ROOT).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports_by_depth(path: Path) -> tuple[set[str], set[str]]:
    """Collect the modules that a file imports at load time and those that its functions import, except for types."""
    at_load: set[str] = set()
    inside: set[str] = set()

    def walk(node: ast.AST, in_function: bool) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
                continue
            modules = inside if in_function else at_load
            if isinstance(child, ast.Import):
                modules.update(alias.name for alias in child.names)
            elif isinstance(child, ast.ImportFrom) and child.module is not None:
                modules.update((child.module, *(f"{child.module}.{alias.name}" for alias in child.names)))
            walk(child, in_function or isinstance(child, ast.FunctionDef))

    walk(ast.parse(path.read_text()), in_function=False)
    return at_load, inside


def lazy_names(source: str) -> tuple[dict[str, str], dict[str, str]]:
    """Map each name to its module: those imported for type checkers, and those exported lazily."""
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


def read_lazy_modules() -> dict[str, set[str]]:
    """Map each lazily exported name to the module that it loads."""
    packages = {module_name(path): lazy_names(path.read_text())[1] for path in FILES if path.name == "__init__.py"}
    return {
        f"{package}.{name}": {f"{package}.{module}"}
        for package, names in packages.items()
        for name, module in names.items()
    }


def find_heavy_imports(name: str, at_load: dict[str, set[str]]) -> set[str]:
    """Collect the heavy libraries that a module imports, directly or not."""
    visited: set[str] = set()
    heavy: set[str] = set()
    queue = [name]
    while queue:
        current = queue.pop()
        if current in visited or current not in at_load:
            continue
        visited.add(current)
        parts = current.split(".")
        queue += [".".join(parts[:end]) for end in range(1, len(parts))]
        queue += [module for module in at_load[current] if module in at_load]
        heavy |= {module.split(".")[0] for module in at_load[current]} & HEAVY
    return heavy


def find_needless_imports(at_load: dict[str, set[str]], inside: dict[str, set[str]]) -> list[str]:
    """List Clearhead modules that a function imports although they load nothing heavy."""
    violations = []
    for name, imported_modules in inside.items():
        module_heavy = find_heavy_imports(name, at_load)
        own_modules = sorted(
            candidate for candidate in imported_modules if candidate in at_load and candidate != "clearhead"
        )
        light = [candidate for candidate in own_modules if not find_heavy_imports(candidate, at_load) - module_heavy]
        heavy = set(own_modules) - set(light)  # a light package may export heavy modules
        violations += [
            f"{name} imports {candidate}"
            for candidate in light
            if not any(module.startswith(f"{candidate}.") for module in heavy)
        ]
    return violations


def test_functions_import_our_modules_only_if_heavy() -> None:
    depths = {path: imports_by_depth(path) for path in FILES}
    at_load = read_lazy_modules() | {module_name(path): depth[0] for path, depth in depths.items()}
    checked_files = [path for path in FILES if path.relative_to(ROOT).parts[0] not in AT_START]
    inside = {
        module_name(path): depths[path][1]
        for path in checked_files
        if str(path.relative_to(ROOT)) not in TIMED_PROCESSES
    }
    assert find_needless_imports(at_load, inside) == []


def test_a_needless_import_is_detected() -> None:
    at_load = {"low": set(), "heavy": {"torch"}, "above": {"heavy"}}
    inside = {"low": {"heavy", "above"}, "heavy": {"low", "above"}}
    assert find_needless_imports(at_load, inside) == ["heavy imports above", "heavy imports low"]


def run_python(code: str) -> str:
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr
    return process.stdout


def test_every_base_module_imports_with_torch_blocked() -> None:
    names = []
    for path in TORCH_FREE_FILES:
        parts = path.relative_to(ROOT).with_suffix("").parts
        if parts[-1] != "__main__":
            names.append(".".join(["clearhead", *(part for part in parts if part != "__init__")]))
    code = (
        "import sys, importlib\n"
        "class Blocked:\n"  # not sys.modules['torch'] = None: scipy, a dependency of scikit-learn, inspects it
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.split('.')[0] == 'torch':\n"
        "            raise ModuleNotFoundError(name)\n"
        "sys.meta_path.insert(0, Blocked())\n"
        f"for name in {sorted(names)!r}:\n"
        "    importlib.import_module(name)\n"
        "print('torch' in sys.modules)\n"
    )
    assert run_python(code).strip() == "False"


def test_importing_the_package_loads_neither_torch_nor_numpy() -> None:
    code = "import sys, json, clearhead\nprint(json.dumps(sorted(sys.modules)))"
    loaded = set(json.loads(run_python(code)))
    assert not loaded & {"torch", "numpy", "tokenizers", "huggingface_hub", "rich", "cyclopts", "msgspec", "jinja2"}


def test_help_loads_neither_torch_nor_numpy() -> None:
    code = (
        "import sys, json\n"
        "from clearhead.cli import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit:\n    pass\n"
        "print()\nprint(json.dumps(sorted(sys.modules)))"
    )
    loaded = set(json.loads(run_python(code).splitlines()[-1]))
    assert not loaded & {"torch", "numpy", "tokenizers", "huggingface_hub", "clearhead.api"}


def test_public_names_are_exactly_those_listed() -> None:
    assert sorted(clearhead.__all__) == dir(clearhead)
    for name in clearhead.__all__:
        assert getattr(clearhead, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        getattr(clearhead, "nonsense")  # noqa: B009 - mypy sees that it is not there


def test_verbs_stay_functions_after_importing_their_packages() -> None:
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
    assert json.loads(run_python(code)) == [True, []]
    shadowed = {module.name for module in pkgutil.iter_modules(clearhead.__path__)} & set(clearhead.__all__)
    assert shadowed  # otherwise the test above could not fail


def package_graph(root: Path) -> dict[str, set[str]]:
    """Map each package to the packages that it imports, also inside functions and for types only."""
    graph: dict[str, set[str]] = {}
    for path in sorted(root.rglob("*.py")):
        package = part_of(path)
        for _, module in iter_imports(path):
            names = module.split(".")
            if names[0] == "clearhead" and names[1:2] not in ([], ["__version__"]) and names[1] != package:
                graph.setdefault(package, set()).add(names[1])
    graph.pop("__init__", None)  # the public names import from every package
    return graph


def find_cycle(graph: dict[str, set[str]]) -> list[str]:
    """Return a cycle of packages as a path, or an empty list."""
    done: set[str] = set()

    def walk(package: str, path: list[str]) -> list[str]:
        if package in path:
            return [*path[path.index(package) :], package]
        if package in done:
            return []
        for dependency in sorted(graph.get(package, ())):
            if cycle := walk(dependency, [*path, package]):
                return cycle
        done.add(package)
        return []

    return next((cycle for package in sorted(graph) if (cycle := walk(package, []))), [])


def test_packages_form_no_cycle() -> None:
    assert find_cycle(package_graph(ROOT)) == []


def test_a_cycle_is_detected() -> None:
    assert find_cycle({"a": {"b"}, "b": {"c"}, "c": {"a"}}) == ["a", "b", "c", "a"]
    assert find_cycle({"a": {"b", "c"}, "b": {"c"}}) == []
