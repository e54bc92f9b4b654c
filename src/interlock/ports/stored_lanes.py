"""Bulk reads of lanes: after a takeover, at the start, or on demand."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from interlock.ports.streams import StreamReads
from interlock.ports.writes import LaneName
from interlock.protocol.identifiers import session_stream
from interlock.protocol.records import (
    ApprovalRecord,
    AuditRecord,
    CommandRecord,
    ControlRecord,
    Event,
    SessionRecord,
    TranscriptLine,
)


class StoredLane(NamedTuple):
    """A session with its pending work, each list in the order of the read of one lane."""

    session: SessionRecord
    commands: list[CommandRecord]
    """Commands that are not in a terminal state."""
    approvals: list[ApprovalRecord]
    """Approvals in state pending or granted."""
    received: list[str]
    """Message ids of the last frames of kind C or refused, oldest first."""
    controls: list[ControlRecord]
    """All stored control frames."""
    pending: list[str]
    """Entry ids of transcript lines that no file is known to have."""


class LaneQuestion(NamedTuple):
    """A query about a lane whose state has been read."""

    tenant_id: str
    stream: str
    after: int | None
    """Requests the events of the stream after this number; none if None."""
    subjects: Sequence[str]
    """Commands, and approvals without a command, whose audit records are requested."""
    seals_of: str
    """The session's name in the records that seal its frames."""


class LaneHistory(NamedTuple):
    """The answer to a LaneQuestion: the first events, the audit records of each subject, and the last records that
    seal."""

    events: list[Event]
    about: Mapping[str, list[AuditRecord]]
    seals: list[AuditRecord]


class SessionClock(NamedTuple):
    """When a session acts by itself, if ever; `state` is its state in lists."""

    session_id: str
    runner_id: str
    state: str
    deadline_ms: int | None
    tenant_id: str

    @property
    def lane(self) -> LaneName:
        """Return the session's lane."""
        return LaneName(self.tenant_id, self.session_id)


class LaneReads(StreamReads, Protocol):
    """Reads of lane data: for one lane, or for many lanes at once. See `Ledger`."""

    async def session(self, session_id: str, tenant_id: str | None = None) -> SessionRecord | None: ...

    async def session_clocks(self, lanes: Sequence[LaneName]) -> list[SessionClock]:
        """Return the clocks of those of these lanes' sessions that exist, by session id, in one read."""
        ...

    async def live_commands(self, session_id: str, tenant_id: str) -> list[CommandRecord]:
        """Return commands of a session that are not in a terminal state, oldest first."""
        ...

    async def live_approvals(self, session_id: str, tenant_id: str) -> list[ApprovalRecord]:
        """Return approvals of a session in state pending or granted, oldest first."""
        ...

    async def controls(self, session_id: str, tenant_id: str, after: int) -> list[ControlRecord]:
        """Return a session's stored control frames after a number, in order."""
        ...

    async def audit_about(self, tenant_id: str, subject_id: str) -> list[AuditRecord]:
        """Return the records that name a command, or an approval without a command, in order, without their personal
        values."""
        ...

    async def audit_seals(self, tenant_id: str, name: str, limit: int) -> list[AuditRecord]:
        """Return the last records that seal the frames of a session, by its name of 32 hex digits
        (`engine.bridge.seals`), in order, without their personal values."""
        ...

    async def transcript_pending(
        self, of: tuple[str, str] | None = None, limit: int | None = None
    ) -> list[TranscriptLine]:
        """Return lines that are not known to be in a file, of one session (its id and its tenant) or of all, in the
        order they were written; the first `limit` of them."""
        ...

    async def stored_lanes(self, lanes: Sequence[LaneName], received: int) -> dict[str, StoredLane]:
        """Return the stored data of those of these lanes' sessions that exist, by session id, with the last `received`
        message ids of each. A networked store reads all of them in one round trip."""
        found = {one.name: await self._lane(*one, received) for one in lanes}
        return {session_id: lane for session_id, lane in found.items() if lane is not None}

    async def _lane(self, tenant_id: str, session_id: str, received: int) -> StoredLane | None:
        session = await self.session(session_id, tenant_id)
        if session is None:
            return None
        commands, approvals, ids, controls, pending = await asyncio.gather(
            self.live_commands(session_id, tenant_id), self.live_approvals(session_id, tenant_id),
            self.recent_message_ids(tenant_id, session_stream(session_id), received),
            self.controls(session_id, tenant_id, 0), self.transcript_pending((session_id, tenant_id)))
        return StoredLane(session, commands, approvals, ids, controls, [line.entry_id for line in pending])

    async def lane_histories(self, questions: Sequence[LaneQuestion], events: int, seals: int) -> list[LaneHistory]:
        """Answer each question, with at most `events` events and `seals` sealing records. A networked store reads all
        in one round trip."""
        return [await self._lane_history(one, events, seals) for one in questions]

    async def _lane_history(self, question: LaneQuestion, events: int, seals: int) -> LaneHistory:
        tail, sealing, about = await asyncio.gather(
            self.events(question.tenant_id, question.stream, question.after, events)
            if question.after is not None else _no_events(),
            self.audit_seals(question.tenant_id, question.seals_of, seals),
            asyncio.gather(*(self.audit_about(question.tenant_id, one) for one in question.subjects)))
        return LaneHistory(tail, dict(zip(question.subjects, about, strict=True)), sealing)


async def _no_events() -> list[Event]:
    return []
