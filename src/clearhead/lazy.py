"""Import the exported names of a package on first use (PEP 562), so that importing the package is fast."""

from __future__ import annotations

import sys

TYPE_CHECKING = False  # not from typing: importing the package imports nothing
if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import ModuleType
    from typing import Any
else:
    ModuleType = type(sys)


class LazyPackage(ModuleType):
    """A package whose exported names are imported from their modules on first use.

    Importing a submodule normally binds it as an attribute of its package. Here, a module with the name of an exported
    function (`clearhead.train`, `clearhead.core.build`) does not hide the function.
    """

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self.__dict__["_lazy_modules"] and isinstance(value, ModuleType):
            return
        super().__setattr__(name, value)

    def __getattr__(self, name: str) -> Any:
        from importlib import import_module

        module = self.__dict__["_lazy_modules"].get(name)
        if module is None and name in self.__dict__["_former_names"]:
            from warnings import warn

            current = self.__dict__["_former_names"][name]
            message = f"{self.__name__}.{name} is deprecated; use {self.__name__}.{current}."
            warn(message, DeprecationWarning, stacklevel=2)
            return getattr(self, current)
        if module is None:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        return getattr(import_module(f"{self.__name__}.{module}"), name)

    def __dir__(self) -> list[str]:
        return sorted(self.__dict__["__all__"])


def export_lazily(package: str, names: Mapping[str, tuple[str, ...]], former: Mapping[str, str] | None = None) -> None:
    """Export names of modules, {module: (name, ...)}, from a package without importing the modules.

    The same names are listed in `__all__` and, for type checkers, in imports under TYPE_CHECKING. `former` maps former
    names to current ones; former names still work, with a DeprecationWarning.
    """
    module = sys.modules[package]
    module.__dict__["_lazy_modules"] = {
        name: module_name for module_name, exported in names.items() for name in exported
    }
    module.__dict__["_former_names"] = former or {}
    module.__class__ = LazyPackage
