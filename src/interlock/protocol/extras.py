"""The installation of optional parts of Interlock, for messages about a missing one."""

from __future__ import annotations

from typing import Literal

Extra = Literal["agent", "agents", "apprise", "cluster", "cluster-local", "mcp", "otel", "s3", "slack", "telegram"]
"""The extras of pyproject.toml that a user may need."""
CHAT_SERVICES: tuple[Extra, ...] = ("telegram", "slack")
"""The chat services: each has a table of the config, a composition in `app/` and a verb of this name."""


def install(extra: Extra) -> str:
    """Return the command that installs an extra. It names the source, since no package index has Interlock yet: another
    party could register the name there."""
    return f"pip install '.[{extra}]' in Interlock's source directory"
