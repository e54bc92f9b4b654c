"""A way to people who decide: they are asked there, and answer at the gateway, with a credential of theirs (P-8)."""

from __future__ import annotations

from typing import Protocol

import msgspec


class ApprovalNotice(msgspec.Struct, frozen=True, kw_only=True):
    """What is sent of an approval: who asks for what, and where; all of it is redacted (K-4, P-8)."""

    approval_id: str
    title: str
    """The act itself, made from the input (Y-1)."""
    agent_title: str = ""
    """What the agent says of it."""
    agent_id: str = ""
    runner_id: str = ""
    workspace: str = ""
    requested_by: str = ""
    """The person or agent whose work it is, such as `user:ann`."""
    lines: str = ""
    """The request as it is shown on every surface, line by line, cut at MAX_INPUT_CHARS."""
    digest: str
    input: str
    """The input as text, redacted (K-4), cut at MAX_INPUT_CHARS."""
    is_cut: bool = False
    """Whether `lines` or `input` was cut: who decides has to read the rest at the gateway (H-4)."""
    expires_at: str


class NotAsked(Exception):
    """The question did not arrive; the text is one sentence. `final`: it never will, so it is not tried again.
    `retry_after_ms`: the other side asked for at least this pause before the next attempt."""

    def __init__(self, sentence: str, *, final: bool = False, retry_after_ms: int = 0) -> None:
        super().__init__(sentence)
        self.final = final
        self.retry_after_ms = retry_after_ms


class NoReceiver(Exception):
    """The channel has no one to notify at present; the text is one sentence."""


class Channel(Protocol):
    """Guarantees: `ask` returns when the other side has said that it has the question; a question that is sent again
    carries the same `delivery_id`, so that it can be distinguished from a new one."""

    async def ask(self, delivery_id: str, at_ms: int, asking: ApprovalNotice) -> None:
        """Raises NotAsked or NoReceiver."""
        ...

    async def test(self, delivery_id: str, at_ms: int) -> None:
        """Send a message that names no approval, to see whether it arrives. Raises NotAsked."""
        ...
