"""The agent's copy of its conversation. The transcript is its context (B-1), and the gateway sends the missing part:
this is a cache, and never the source. Pure.

`context` of a prompt or a plan is {base, entries, leaf, pruning?}: entries {id, message} that follow the entry `base`,
with the messages as X-1 has them; without a base they are the whole context. `leaf` is the id of the last one.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from interlock.session.context.tool_result_limits import PruningSettings

Message = dict[str, Any]
"""A message in the transcript's format (sessions.md section 4), with the roles that X-1 gives to other entries."""


class ContextEntry(msgspec.Struct, frozen=True):
    """One entry that contributes to the context."""

    id: str
    message: dict[str, Any]


class SentContext(msgspec.Struct, frozen=True, kw_only=True):
    """`context`, as sent by the gateway."""

    entries: list[ContextEntry]
    base: str | None = None
    leaf: str | None = None
    pruning: PruningSettings = PruningSettings()


class ContextUnknown(Exception):
    """The context does not continue the cached one; the text is one sentence."""


class Cache(NamedTuple):
    """The conversation up to `leaf`; empty if nothing was sent."""

    entries: tuple[ContextEntry, ...] = ()
    pruning: PruningSettings = PruningSettings()
    """How requests shorten old tool results, according to the gateway's config (Z-7)."""

    @property
    def leaf(self) -> str | None:
        """Return the id of the last entry, None if there is none."""
        return self.entries[-1].id if self.entries else None

    @property
    def messages(self) -> list[Message]:
        """Return the messages, in order."""
        return [entry.message for entry in self.entries]

    def up_to(self, entry_id: str | None) -> int | None:
        """Return the number of entries up to this one; None if it is not cached."""
        if entry_id is None:
            return 0
        return next((at for at, entry in enumerate(self.entries, 1) if entry.id == entry_id), None)

    def following(self, context: dict[str, Any]) -> Cache:
        """Return the cache with the sent entries. Raises ContextUnknown if they follow an entry that is not cached."""
        try:
            sent = msgspec.convert(context, SentContext)
        except (msgspec.ValidationError, RecursionError) as error:
            raise ContextUnknown(f"The prompt's context cannot be read: {error}.") from None
        kept = self.up_to(sent.base)
        if kept is None:
            raise ContextUnknown(f"The prompt's context continues from the entry {sent.base}, which is not here.")
        followed = Cache((*self.entries[:kept], *sent.entries), sent.pruning)
        if followed.leaf != sent.leaf:
            raise ContextUnknown(f"The prompt's context ends with {followed.leaf}, but {sent.leaf} was announced.")
        return followed
