"""First-match policy (P-1): an ordered list of rules decides allow, ask or deny for a command or a tool call."""

from __future__ import annotations

from typing import Literal, NamedTuple


class Subject(NamedTuple):
    """What is decided on. `door` tells which half of the fields is set."""

    door: Literal["command", "tool"]
    tenant_id: str
    agent_id: str
    origin: Literal["user", "agent", "cron", "hook", "flush", "system"]
    permission: Literal["asks", "never"]
    at_ms: int
    command_type: str | None = None
    tool_name: str | None = None
    tool_kind: str | None = None
    """The agent's own word (ACP kind); believed only where `trusted_kinds` says so."""
    trusted_kinds: bool = False
    command_line: str | None = None
    paths: tuple[str, ...] = ()
    allowed_tools: tuple[str, ...] = ()
    """`tools` of the command that the turn belongs to."""
    cost_usd: float = 0.0


class Verdict(NamedTuple):
    """What the first matching rule says. `rule` is its name, shown to everyone who is asked."""

    effect: Literal["allow", "ask", "deny"]
    rule: str
    required: int = 1
    ttl_ms: int | None = None
    reason: str | None = None
    self_approval: bool = True
