"""Lazy imports of a package's names at their first use (PEP 562).

A package that imports all of its modules slows each verb of the command line down: `interlock status` needs one class
of the library, and took twice as long with the rest.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazy_names(package: str, modules: Mapping[str, tuple[str, ...]]) -> Callable[[str], Any]:
    """Return the `__getattr__` of a package. `modules` has the names that each module of the package defines; a name
    that is looked up once is an attribute of the package from then on. Raises AttributeError for any other."""
    home = {name: module for module, names in modules.items() for name in names}

    def lookup(name: str) -> Any:
        module = home.get(name)
        if module is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(module), name)
        setattr(sys.modules[package], name, value)
        return value

    return lookup
