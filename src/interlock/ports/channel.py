"""A way to people who decide: they are asked there, and answer at the gateway, with a credential of theirs (P-8)."""

from __future__ import annotations

from typing import Protocol

import msgspec


class Asking(msgspec.Struct, frozen=True, kw_only=True):
    """What an approver is told: title, digest and redacted input, and nothing more of the call (P-8)."""

    approval_id: str
    title: str
    digest: str
    input: str
    """The input as text, redacted (K-4), cut at MAX_INPUT_CHARS."""
    expires_at: str


class NotAsked(Exception):
    """The question did not arrive; the text is one sentence. `final`: it never will, so it is not tried again."""

    def __init__(self, sentence: str, *, final: bool = False) -> None:
        super().__init__(sentence)
        self.final = final


class Channel(Protocol):
    """Guarantees: `ask` returns when the other side has said that it has the question; a question that is sent again
    carries the same `delivery_id`, so that it can be told from a new one."""

    async def ask(self, delivery_id: str, at_ms: int, asking: Asking) -> None:
        """Raises NotAsked."""
        ...
