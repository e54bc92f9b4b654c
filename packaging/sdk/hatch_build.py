"""Take the library's sources from the repository, or from the sdist that holds a copy of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PARTS = ("__init__.py", "lazy_names.py", "protocol", "py.typed", "sdk")
"""What `import interlock.sdk` needs of the package `interlock`; tests/packaging compares it with the imports."""


class SourcesHook(BuildHookInterface[Any]):
    """Add `PARTS` to the wheel as the package, and to the sdist as its sources."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Name the files before they are collected; with `-e` nothing is copied, and the sources are on the path."""
        here = Path(self.root)
        sources, is_checkout = here / "src/interlock", False
        if not sources.is_dir():
            sources, is_checkout = here.parents[1] / "src/interlock", True
        if version == "editable":
            self.app.abort("interlock-sdk has no editable form; pip install -e . at the root has the library.")
        below = "interlock" if self.target_name == "wheel" else "src/interlock"
        build_data["force_include"].update({str(sources / part): f"{below}/{part}" for part in PARTS})
        if is_checkout and self.target_name == "sdist":
            build_data["force_include"][str(here.parents[1] / "LICENSE")] = "LICENSE"
