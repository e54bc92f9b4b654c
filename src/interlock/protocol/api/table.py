"""The API as a table: every operation once, in the order of the OpenAPI document (F-2)."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from interlock.protocol.api import (
    access,
    approvals,
    audit,
    commands,
    gateway,
    messages,
    policy,
    runners,
    session_entries,
    sessions,
    transcripts,
    upkeep,
    webhooks,
)
from interlock.protocol.api.operation import Operation


def _declared(module: ModuleType) -> list[Operation[Any]]:
    return [one for one in vars(module).values() if isinstance(one, Operation)]


OPERATIONS: tuple[Operation[Any], ...] = tuple(one for module in (
    commands, approvals, sessions, gateway, audit, runners, policy, access, messages, session_entries, webhooks,
    transcripts, upkeep) for one in _declared(module))
"""All of them: a module's operations in the order in which it declares them."""
