"""Modules that a test file imports when a test first uses them.

Every worker of a run reads every test file, and each file runs in one of them: what takes seconds to import is imported
by that one alone.
"""

from __future__ import annotations

import importlib
from typing import Any


class _Later:
    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith("_"):  # The collector inspects every name of a module.
            raise AttributeError(attribute)
        return getattr(importlib.import_module(self._name), attribute)


def lazily(name: str) -> Any:
    """A placeholder for the module of this name, which imports it at the first attribute access."""
    return _Later(name)
