"""How an optional part of Interlock is installed, for the sentences that say that one is absent."""

from __future__ import annotations

from typing import Literal

Extra = Literal["agent", "agents", "apprise", "cluster", "cluster-local", "mcp", "otel", "s3", "slack", "telegram"]
"""The extras of pyproject.toml that a user may need."""
CHAT_SERVICES: tuple[Extra, ...] = ("telegram", "slack")
"""The services in which people write to agents: each has a table of the config, a composition in `app/` and a verb of
this name."""


def install(extra: Extra) -> str:
    """The command that installs an extra. It names the source, since no package index carries Interlock yet: a name
    that an index does not have could be taken there by somebody else."""
    return f"pip install '.[{extra}]' in Interlock's source directory"
