"""Every package states its purpose in a few lines and exports its public names."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import clearhead
from tests.rules.test_imports import lazy_names

ROOT = Path(clearhead.__file__).parent
MAX_LINES = 4  # of a docstring, without the blank one
FOLDERS = sorted(path.parent for path in ROOT.rglob("__init__.py"))
OWN_EXPORTS = {"__version__"}  # defined in the package, not exported lazily


def name_of(folder: Path) -> str:
    """The dotted name of a package."""
    return ".".join((ROOT.name, *folder.relative_to(ROOT).parts))


PACKAGES = [name_of(folder) for folder in FOLDERS]


def sort_key(name: str) -> tuple[int, str]:
    """Sort constants before types before functions, as ruff does (RUF022)."""
    return (0 if name.isupper() and len(name) > 1 else 1 if name[0].isupper() else 2), name


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_states_its_purpose(package: str) -> None:
    lines = [line for line in str(import_module(package).__doc__).splitlines() if line.strip()]
    assert 1 <= len(lines) <= MAX_LINES


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_exports_its_public_names(package: str) -> None:
    exported = import_module(package).__all__
    assert exported
    assert exported == sorted(set(exported), key=sort_key)
    assert not [name for name in exported if name.startswith("_") and name not in OWN_EXPORTS]


@pytest.mark.parametrize("folder", FOLDERS, ids=name_of)
def test_type_checkers_see_lazy_exports(folder: Path) -> None:
    package = name_of(folder)
    typed, lazy = lazy_names((folder / "__init__.py").read_text())
    assert sorted(typed) == sorted(lazy)
    for name, module in lazy.items():
        exported = getattr(import_module(f"{package}.{module}"), name)
        assert getattr(import_module(typed[name]), name) is exported, name
    if lazy:
        assert set(lazy) == set(import_module(package).__all__) - OWN_EXPORTS


def test_exported_names_survive_importing_all_modules() -> None:
    """A module never hides the function of the same name, whatever the order of imports."""
    code = (
        "import sys, json, types\n"
        "from importlib import import_module\n"
        "from pkgutil import walk_packages\n"
        "import clearhead\n"
        "names = [module.name for module in walk_packages(clearhead.__path__, 'clearhead.', onerror=print)]\n"
        "for name in names:\n"
        "    if not name.endswith('__main__'):\n"
        "        import_module(name)\n"
        f"packages = {PACKAGES!r}\n"
        "found = {f'{package}.{name}': type(getattr(sys.modules[package], name)) for package in packages"
        " for name in sys.modules[package].__all__}\n"
        "modules = [name for name, kind in found.items() if issubclass(kind, types.ModuleType)]\n"
        "print(json.dumps([modules, sorted(set(found) & set(names))]))\n"
    )
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr
    modules, shadowed = json.loads(process.stdout)
    assert modules == []
    assert "clearhead.train" in shadowed  # otherwise the test above could not fail
    assert "clearhead.core.trace" in shadowed


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(AttributeError, match=r"module 'clearhead\.jobs' has no attribute 'nonsense'"):
        import_module("clearhead.jobs").nonsense  # noqa: B018
    with pytest.raises(ImportError, match="cannot import name 'nonsense'"):
        exec("from clearhead.jobs import nonsense")


def test_a_difference_is_detected() -> None:
    source = (
        "if TYPE_CHECKING:\n    from clearhead.jobs.plan import RunPlan, make_plan\n"
        "else:\n    export_lazily(__name__, {'plan': ('RunPlan',)})\n"
    )
    typed, lazy = lazy_names(source)
    assert (sorted(typed), sorted(lazy)) == (["RunPlan", "make_plan"], ["RunPlan"])
    assert sorted(["wilson", "Bin", "AUC", "bins"], key=sort_key) == ["AUC", "Bin", "bins", "wilson"]
