"""A channel to approvers: it delivers the question, and they answer at the gateway with their own credential (P-8)."""

from __future__ import annotations

from typing import Protocol

import msgspec


class ApprovalNotice(msgspec.Struct, frozen=True, kw_only=True):
    """What is sent about an approval: who requests what, and where; all of it redacted (K-4, P-8)."""

    approval_id: str
    title: str
    """The action itself, derived from the input (Y-1)."""
    agent_title: str = ""
    """The agent's own description of it."""
    agent_id: str = ""
    runner_id: str = ""
    workspace: str = ""
    requested_by: str = ""
    """The person or agent that requested it, such as `user:ann`."""
    lines: str = ""
    """The request as shown on every surface, line by line, cut at MAX_INPUT_CHARS."""
    digest: str
    input: str
    """The input as text, redacted (K-4), cut at MAX_INPUT_CHARS."""
    is_cut: bool = False
    """Whether `lines` or `input` was cut: the approver has to read the rest at the gateway (H-4)."""
    expires_at: str


class NotAsked(Exception):
    """Raised if the question was not delivered; the text is one sentence. `final`: it never will be, so there is no
    retry. `retry_after_ms`: the service asked for at least this pause before the next attempt."""

    def __init__(self, sentence: str, *, final: bool = False, retry_after_ms: int = 0) -> None:
        super().__init__(sentence)
        self.final = final
        self.retry_after_ms = retry_after_ms


class NoReceiver(Exception):
    """Raised if the channel has no recipient at present; the text is one sentence."""


class Channel(Protocol):
    """Guarantees: `ask` returns after the other side has confirmed the question; a resent question has the same
    `delivery_id`, so that it can be distinguished from a new one."""

    async def ask(self, delivery_id: str, at_ms: int, asking: ApprovalNotice) -> None:
        """Raises NotAsked or NoReceiver."""
        ...

    async def test(self, delivery_id: str, at_ms: int) -> None:
        """Send a message that names no approval, to check that messages arrive. Raises NotAsked."""
        ...
