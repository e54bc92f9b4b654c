"""Reading of lanes from the ledger after they were taken: one, or many of them, in the same few round trips."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

import msgspec
import structlog

from interlock.command.audit.register import Register
from interlock.engine.bridge import seals
from interlock.engine.bridge.context.transcriber import Transcriber
from interlock.engine.bridge.lane import Lane
from interlock.engine.bridge.lane_state import LaneHome, LaneState, Limits
from interlock.engine.bridge.link.mismatch import RowMismatch, examine, subjects
from interlock.engine.lanes.rehydration import digests, refold
from interlock.engine.lanes.rows import RowAudit
from interlock.ports.clock import Entropy
from interlock.ports.ledger import LaneName, Ledger
from interlock.ports.objects import Objects
from interlock.ports.stored_lanes import LaneHistory, LaneQuestion, StoredLane
from interlock.ports.transcripts import KeptEntries, TranscriptStore
from interlock.protocol.identifiers import session_stream
from interlock.protocol.limits import PAGE_MAX, RECENT_MESSAGE_IDS
from interlock.session.transcript.transcript import TranscriptFold
from interlock.session.turn_output import TurnFold

SEALS_READ = 1_024
"""The last decisions of a session whose sealed frames are read: no more wait for a runner."""
IN_TURN = ("turn", "usage")
log = structlog.get_logger()
decode_state = msgspec.json.Decoder(LaneState).decode


class LaneSources(Protocol):
    """The sources for reading and creating lanes."""

    ledger: Ledger
    transcripts: TranscriptStore | None
    objects: Objects | None
    rows: RowAudit
    entropy: Entropy
    limits: Limits

    def home_of(self, tenant_id: str) -> LaneHome: ...


class ReadLane(NamedTuple):
    """A lane as stored in the ledger, and the rows that differ from their audit records (H-5)."""

    lane: Lane
    findings: list[RowMismatch]
    broken: seals.SealMismatch


class LaneReader:
    """A reader of lanes. The caller has taken them, so no other gateway writes to them meanwhile."""

    def __init__(self, sources: LaneSources) -> None:
        self._from = sources

    async def read(self, lane: LaneName) -> ReadLane | None:
        """Return a session's lane; None if there is no such session. Raises LedgerError."""
        found = (await self.read_many([lane])).get(lane.name)
        if isinstance(found, Exception):
            raise found
        return found

    async def read_many(self, lanes: Sequence[LaneName]) -> dict[str, ReadLane | Exception]:
        """Return the existing ones of these sessions' lanes by id, or the exception why one cannot be built. Raises
        LedgerError if none can be read."""
        found: dict[str, ReadLane | Exception] = {}
        read = list[_Parts]()
        for session_id, stored in (await self._from.ledger.stored_lanes(lanes, RECENT_MESSAGE_IDS)).items():
            try:
                read.append(self._parts(stored))
            except (msgspec.MsgspecError, ValueError) as error:
                found[session_id] = error
        # In parallel, and after the entries that wait for their file: those may be written meanwhile.
        owners, histories, entries = await asyncio.gather(
            self._from.rows.adopted(),
            self._from.ledger.lane_histories([_question(one) for one in read], PAGE_MAX, SEALS_READ),
            self._entries([one.lane.state for one in read]))
        for one, history in zip(read, histories, strict=True):
            session_id = one.lane.state.session_id
            try:
                found[session_id] = await self._made(one, owners, history, entries.get(session_id))
            except Exception as error:  # noqa: BLE001 - the others are read all the same
                found[session_id] = error
            await asyncio.sleep(0)  # Yields to other tasks: there may be many.
        return found

    def _parts(self, stored: StoredLane) -> _Parts:
        state = decode_state(stored.session.machine)
        return _Parts(Lane(state, stored.commands, stored.approvals, TurnFold(), self._from.entropy, self._from.limits,
                           self._from.home_of(state.tenant_id), None, stored.received), stored)

    async def _entries(self, states: Sequence[LaneState]) -> Mapping[str, KeptEntries | OSError]:
        if self._from.transcripts is None or not states:
            return {}
        names = [(state.session_id, state.agent_id, state.tenant_id) for state in states]
        try:
            found = await self._from.transcripts.kept_entries(names)
        except OSError as error:
            found = [error for _ in names]
        return {session_id: one for (session_id, *_), one in zip(names, found, strict=True)}

    async def _made(self, parts: _Parts, owners: Register, history: LaneHistory, entries: KeptEntries | OSError | None
                    ) -> ReadLane:
        lane, stored = parts
        state = lane.state
        transcriber = _transcriber(state, stored.pending, entries) if entries is not None else None
        lane.rehydrate(*await refold(state, transcriber, self._from.ledger, self._from.objects, history.events),
                       transcriber)
        findings = examine(lane, history.about)
        lane.digests.update(await digests(state, self._from.objects))
        controls = [one for one in stored.controls if one.seq > state.control_acked]
        broken = seals.SealMismatch()
        if owners.begun:
            sealed = seals.read(state.session_id, history.seals, seals.from_adopted(state, owners.rows))
            lane.note_sealed(seals.deciding(state) if sealed.state is not None else b"")
            broken = seals.examine(state, stored.controls, sealed)
        for control in controls:
            if control.seq not in broken.changed and control.seq not in broken.inserted:
                lane.unconfirmed[control.seq] = control.body
        return ReadLane(lane, findings, broken)


class _Parts(NamedTuple):
    lane: Lane
    stored: StoredLane


def _question(parts: _Parts) -> LaneQuestion:
    state = parts.lane.state
    after = state.turn_start_n - 1 if state.machine.phase in IN_TURN else None
    return LaneQuestion(state.tenant_id, session_stream(state.session_id), after, subjects(parts.lane),
                        seals.frames_of(state.session_id))


def _transcriber(state: LaneState, pending: Sequence[str], entries: KeptEntries | OSError) -> Transcriber:
    """Return the state of the transcript. Once it is in the file, the file is authoritative (X-3): another program may
    have continued it."""
    ids, leaf = set(pending), state.transcript_leaf
    if isinstance(entries, OSError):
        log.error("a transcript cannot be read", session_id=state.session_id, error=str(entries))
    else:
        ids |= entries.ids
        leaf = pending[-1] if pending else entries.leaf
    return Transcriber(state.tenant_id, state.session_id, TranscriptFold(state.agent_id, state.model), leaf, ids,
                       state.context.leaf, state.context.next_entry)
