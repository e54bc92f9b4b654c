"""People's requests about sessions: close, change, archive, restore, hand over, compact (V-2, D-5, T-6)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from interlock.engine.bridge.context import compaction
from interlock.engine.bridge.inputs.people import SessionChange, SessionPutAway
from interlock.engine.bridge.lane_state import LaneState
from interlock.engine.lanes.lanes import Lanes
from interlock.engine.presence import RunnerPresence
from interlock.engine.sessions.compactor import Compactor, ask_to_compact
from interlock.protocol.clock import iso
from interlock.protocol.problems import Problem
from interlock.protocol.records import IdempotencyRecord, Principal, SessionRecord
from interlock.protocol.resources import Session
from interlock.session.store.entry import shown as shown_entry
from interlock.session.store.store_view import EntryEdit

MINUTE_MS = 60_000
SET_MS = 1_000
"""A wall clock that differs from the deadline clock by less was not set: the two are read one after the other, and
drift apart."""
Remember = Callable[[Any], IdempotencyRecord]
"""Makes the row that answers a repeated request, from the resource (M-2)."""


class SessionDesk:
    """The service for sessions. Every method returns when its effect is durable, and raises Problem for every refusal
    (F-1)."""

    def __init__(self, lanes: Lanes, presence: RunnerPresence, compactor: Compactor | None) -> None:
        """Create the service; without a `compactor` the gateway owns no session's context."""
        self._lanes = lanes
        self._presence = presence
        self._compactor = compactor

    async def compact(self, principal: Principal, session_id: str, instructions: str | None, remember: Remember
                      ) -> compaction.RequestedCompaction:
        """Start the compaction of a session's conversation (T-6, Z-4)."""
        await self._session(principal, session_id)
        shell = await self._lanes.need(session_id)
        return await ask_to_compact(self._compactor, shell, principal, instructions, remember)

    async def close(self, principal: Principal, session_id: str, reason: str, remember: Remember) -> SessionRecord:
        """Close a session's agent; the record stays."""
        return await self._change(SessionChange("close", principal, {"reason": reason}), session_id, remember)

    async def patch(
        self, principal: Principal, session_id: str, wanted: Mapping[str, Any], remember: Remember
    ) -> SessionRecord:
        """Set fields of a session's entry by their names in I-4, or unknown ones; None clears one (V-2)."""
        return await self._change(SessionChange("patch", principal, wanted), session_id, remember)

    async def archive(self, principal: Principal, session_id: str, reason: str, remember: Remember) -> SessionRecord:
        """End a session's work and archive it (V-2)."""
        return await self._change(SessionChange("archive", principal, {"reason": reason}), session_id, remember)

    async def take_edit(self, principal: Principal, edit: EntryEdit) -> None:
        """Apply a person's edit in the view of an agent's sessions to the key's current session (N-1). A session that
        is newer than the text in which it is missing was not deleted, and stays."""
        record = await self._lanes.ledger.session_by_key(principal.tenant_id, edit.key)
        if record is not None and edit.as_of_ms is not None and record.created_ms > edit.as_of_ms:
            return
        if record is None or (edit.deleted and record.session_id != edit.session_id):
            raise Problem("Conflict", "Its key has gone on to another session since")
        if edit.as_of_ms is not None and record.updated_ms > edit.as_of_ms:
            raise Problem("Conflict", "It went on after the text was loaded, so it stays")
        if edit.deleted:
            await self._change(SessionPutAway(principal), record.session_id)
            return
        await self._change(SessionChange("patch", principal, edit.wanted), record.session_id)

    async def restore(self, principal: Principal, session_id: str, remember: Remember) -> SessionRecord:
        """Restore an archived session (V-2)."""
        return await self._change(SessionChange("restore", principal, {}), session_id, remember)

    async def release(self, principal: Principal, session_id: str, to: str, remember: Remember) -> SessionRecord:
        """Request that the runner passes a session's control to another gateway (D-5)."""
        return await self._change(SessionChange("release", principal, {"to": to}), session_id, remember)

    async def discard(self, principal: Principal, session_id: str, files: list[str] | None, remember: Remember
                      ) -> SessionRecord:
        """Request that the runner discards staged changes, all or the named files (H-17)."""
        return await self._change(SessionChange("discard", principal, {"files": files}), session_id, remember)

    async def _change(self, change: SessionChange | SessionPutAway, session_id: str, remember: Remember | None = None
                      ) -> SessionRecord:
        record = await self._session(change.principal, session_id)
        shell = await self._lanes.need(session_id)
        answer: SessionRecord = await shell.call(change, remember)
        return msgspec.structs.replace(answer, created_ms=record.created_ms)

    def active_after_ms(self, minutes: int) -> int:
        """Return when that many minutes ago was, by the deadline clock, which a session's times are of."""
        return self._lanes.clock.now_ms() - minutes * MINUTE_MS

    def _wall_ms(self, deadline_clock_ms: int) -> int:
        """Return the wall clock's time of an instant of the deadline clock, as the former is set now."""
        set_ms = self._lanes.wall.now_ms() - self._lanes.clock.now_ms()
        return deadline_clock_ms + (set_ms if abs(set_ms) >= SET_MS else 0)

    def shown(self, record: SessionRecord) -> Session:
        """Return a session's row as the resource that is shown."""
        shell = self._lanes.peek(record.session_id) if not self._lanes.room.shared else None
        state = shell.lane.state if shell is not None else msgspec.json.decode(record.machine, type=LaneState)
        turn = state.machine.turn
        return Session(
            session_id=record.session_id, session_key=record.session_key, tenant_id=record.tenant_id,
            agent_id=record.agent_id, runner_id=record.runner_id, workspace=record.workspace or None,
            title=next(filter(None, (state.entry.label, state.entry.display_name, state.entry.subject,
                                     state.first_line)), None),
            workspace_access=state.workspace_access, state=record.state,
            attached=(present := self._presence.get(record.runner_id)) is not None and present.attached,
            created_at=iso(self._wall_ms(record.created_ms)), updated_at=iso(self._wall_ms(record.updated_ms)),
            turn_id=turn.turn_id if turn is not None else None, input_tokens=state.input_tokens,
            output_tokens=state.output_tokens, total_tokens=state.input_tokens + state.output_tokens,
            cost_usd=state.cost_usd,
            context_tokens=state.context_tokens, context_estimated=state.context_estimated,
            context_window=compaction.window_of_state(state, self._lanes.limits),
            model=state.entry.model_override or state.model or None, compactions=state.entry.compaction_count,
            frames=state.n, last_durable_seq=state.last_seq,
            lost_frame_count=state.lost_frames, observed=bool(state.controller),
            controller=state.controller or self._lanes.known_as(state.tenant_id) or None,
            entry=shown_entry(state.entry),
            holding=state.holding_now,
        )

    async def _session(self, principal: Principal, session_id: str) -> SessionRecord:
        record = await self._lanes.ledger.session(session_id, principal.tenant_id)
        if record is None:
            raise Problem("NotFound", f"There is no session {session_id}")
        return record
