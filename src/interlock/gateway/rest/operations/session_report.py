"""The last reports of a session's agent on its plan and its settings, read at their position in the stream (J-14)."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from interlock.ports.ledger import Ledger
from interlock.protocol.envelope import Frame
from interlock.protocol.frames import Direction, decode
from interlock.protocol.identifiers import session_stream
from interlock.protocol.payloads import AgentSettings, Capabilities, PlanChanged
from interlock.protocol.records import SessionRecord
from interlock.session.silence import is_silent


class _Machine(msgspec.Struct):
    """The fields of a lane's state that are read here."""

    plan_n: int = 0
    settings_n: int = 0


class AgentReport(NamedTuple):
    """None for what was never reported, or was pruned, and for settings that do not exist."""

    plan: PlanChanged | None
    settings: AgentSettings | None


_machine = msgspec.json.Decoder(_Machine)


async def read_report(ledger: Ledger, session: SessionRecord) -> AgentReport:
    """Read the report. The plan of a silent turn is not shown (Z-5)."""
    places = _machine.decode(session.machine)
    plan = await _frame(ledger, session, places.plan_n)
    latest = await _frame(ledger, session, places.settings_n)
    settings = latest.payload.settings if latest is not None and isinstance(latest.payload, Capabilities) else \
        latest.payload if latest is not None else None
    shown = plan is not None and isinstance(plan.payload, PlanChanged) and not is_silent(plan.type, None, plan.metadata)
    return AgentReport(plan.payload if plan is not None and shown else None,
                       settings if isinstance(settings, AgentSettings) and settings != AgentSettings() else None)


async def _frame(ledger: Ledger, session: SessionRecord, number: int) -> Frame | None:
    if not number:
        return None
    events = await ledger.events(session.tenant_id, session_stream(session.session_id), number - 1, 1)
    return decode(events[0].body, Direction.C) if events and events[0].n == number else None
