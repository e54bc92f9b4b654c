"""A context by its entries: what X-1 puts before a model, each message with the id of the entry that it comes from."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from interlock.session.context import context
from interlock.session.tree import Tree


class Identified(NamedTuple):
    """One message of a context, as JSON, and its entry's id."""

    id: str
    message: msgspec.Raw


def identified(tree: Tree, leaf: int | None = None) -> list[Identified]:
    """The context of the leaf, or of the entry at the place `leaf` (X-1). A compaction's summary has its entry's id."""
    found = context(tree, leaf)
    return [Identified(tree.nodes[place].id, raw) for place, raw in zip(found.places, found.raw, strict=True)]
