"""Recorded tool calls compared with policy rules, as REST responses (J-13)."""

from __future__ import annotations

import msgspec


class ReplayedCall(msgspec.Struct, frozen=True):
    """A recorded tool call compared with rules. `was` and `now` are allow, ask or deny. `unknown` names facts that a
    rule may use and that are not on record: `command`, `driver`, `trusted_kinds`."""

    session_id: str
    at: str
    agent: str
    tool: str
    what: str
    was: str
    was_rule: str
    now: str
    now_rule: str
    unknown: list[str] = []

    @property
    def changed(self) -> bool:
        """Return whether the decision differs."""
        return self.was != self.now


class PolicyReplay(msgspec.Struct, frozen=True):
    """`POST /v1/policy/replay`: the calls, newest session first, and within a session in their order. `changed` counts
    among `calls`. With `has_more` the gateway stopped at a bound, of the request or of its own."""

    calls: list[ReplayedCall]
    sessions: int
    changed: int
    has_more: bool
