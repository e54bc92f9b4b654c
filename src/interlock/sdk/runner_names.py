"""Resolution of a runner's name as people type it (Y-10)."""

from __future__ import annotations

from collections.abc import Iterable

from interlock.protocol.resources import Node

ID_PREFIX = "rnr_"


def runners_named(text: str, nodes: Iterable[Node]) -> list[Node]:
    """Return the runners that `text` may mean, ignoring case: those with this id or name, otherwise those whose id or
    name begins with it. An id may be written without its prefix. An empty text means none."""
    wanted, known = text.strip().lower(), list(nodes)
    if not wanted:
        return []
    return [one for one in known if wanted in _names(one)] or [
        one for one in known if any(name.startswith(wanted) for name in _names(one))]


def _names(node: Node) -> tuple[str, ...]:
    full = node.node_id.lower()
    return full, full.removeprefix(ID_PREFIX), node.device_name.lower()
