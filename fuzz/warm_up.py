"""Import all modules of the package, and torch, before processes are forked."""

from __future__ import annotations

import pkgutil
from collections.abc import Sequence
from importlib import import_module

import clearhead


def import_package() -> None:
    """Import every module of clearhead."""
    for module in pkgutil.walk_packages(clearhead.__path__, "clearhead."):
        if not module.name.endswith("__main__"):
            import_module(module.name)


def warm_up(libraries: Sequence[str] = ()) -> None:
    """Import the package and some libraries, and run an optimizer step, which triggers more imports."""
    import torch

    for name in libraries:
        import_module(name)
    import_package()
    weight = torch.nn.Parameter(torch.zeros(1))
    weight.grad = torch.zeros(1)
    torch.optim.AdamW([weight], fused=True).step()
