"""Pure: what the agent has of its conversation. The transcript is its context (B-1), and the gateway sends what is
missing here: this is a cache, and is never asked what was said.

`context` of a prompt or a plan is {base, entries, leaf, pruning?}: entries {id, message} that follow the entry `base`,
the messages as X-1 has them; without a base they are all there is. `leaf` is the id of the last one.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from interlock.session.tool_result_limits import PruningSettings

Message = dict[str, Any]
"""A message as a transcript has it (sessions.md section 4), with the roles that X-1 gives to other entries."""


class ContextEntry(msgspec.Struct, frozen=True):
    """One entry that contributes to the context."""

    id: str
    message: dict[str, Any]


class SentContext(msgspec.Struct, frozen=True, kw_only=True):
    """`context`, as the gateway sends it."""

    entries: list[ContextEntry]
    base: str | None = None
    leaf: str | None = None
    pruning: PruningSettings = PruningSettings()


class ContextUnknown(Exception):
    """The context does not go on from what is here; the text is one sentence."""


class Cache(NamedTuple):
    """The conversation up to `leaf`; empty where nothing was sent."""

    entries: tuple[ContextEntry, ...] = ()
    pruning: PruningSettings = PruningSettings()
    """How old tool results are cut short in requests, as the gateway's config says (Z-7)."""

    @property
    def leaf(self) -> str | None:
        """Id of the last entry, None where there is none."""
        return self.entries[-1].id if self.entries else None

    @property
    def messages(self) -> list[Message]:
        """What was said, in order."""
        return [entry.message for entry in self.entries]

    def up_to(self, entry_id: str | None) -> int | None:
        """How many entries there are up to this one; None where it is not here."""
        if entry_id is None:
            return 0
        return next((at for at, entry in enumerate(self.entries, 1) if entry.id == entry_id), None)

    def following(self, context: dict[str, Any]) -> Cache:
        """The cache with what was sent. Raises ContextUnknown where it goes on from an entry that is not here."""
        try:
            sent = msgspec.convert(context, SentContext)
        except (msgspec.ValidationError, RecursionError) as error:
            raise ContextUnknown(f"The prompt's context cannot be read: {error}.") from None
        kept = self.up_to(sent.base)
        if kept is None:
            raise ContextUnknown(f"The prompt's context goes on from the entry {sent.base}, which is not here.")
        followed = Cache((*self.entries[:kept], *sent.entries), sent.pruning)
        if followed.leaf != sent.leaf:
            raise ContextUnknown(f"The prompt's context ends with {followed.leaf}, and {sent.leaf} was announced.")
        return followed
