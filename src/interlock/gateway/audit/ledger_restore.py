"""Detection of a ledger that is an older copy: by the runners' cursors, and by what was signed (C-7, D-5, U-3)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from itertools import islice

import structlog

from interlock.command.audit.audit import RESTORED_FACT
from interlock.engine.bridge.inputs.gateway import UnstartedClosed
from interlock.engine.bridge.inputs.runner import RunnerCompared
from interlock.engine.bridge.lane import SYSTEM
from interlock.engine.bridge.link.ledger_restore import Setback
from interlock.engine.engine import Engine
from interlock.engine.lanes.lane_shell import LaneShell
from interlock.engine.membership import Elsewhere, LaneMoved
from interlock.engine.presence import Present
from interlock.engine.setbacks import SESSIONS_LISTED, Setbacks
from interlock.gateway.audit.checkpoints import CheckpointSigner
from interlock.ports.ledger import AuditAppend, CommandQuery, LedgerError, PutFact, WriteBatch
from interlock.protocol import payloads as p
from interlock.protocol.answers import MissingSession
from interlock.protocol.clock import iso
from interlock.protocol.limits import FORGOTTEN_SENT, PAGE_MAX
from interlock.protocol.problems import Problem
from interlock.protocol.records import AuditDraft
from interlock.protocol.resources import CommandState

UNSTARTED: tuple[CommandState, ...] = ("pending_approval", "queued")
"""States from which a command would be run again if it had run since the copy was made."""

log = structlog.get_logger()


FORGOT = ("The runner has closed and forgotten a session that continues in this ledger: an older copy of the ledger "
          "was put back.")


def forgotten(hello: p.Hello, session_id: str) -> p.HelloSession | None:
    """Return a session that the runner has forgotten, in the form of hello. None if hello does not name it among the
    first FORGOTTEN_SENT."""
    named = islice(hello.forgotten, FORGOTTEN_SENT)
    found = next((one for one in named if one.session_id == session_id), None)
    if found is None:
        return None
    return p.HelloSession(session_id=session_id, last_seq_sent=found.acked_seq, acked_seq=found.acked_seq,
                          control_seq=found.control_seq, state="terminated")


def missing(setback: Setback, present: Present) -> MissingSession:
    """Return what a ledger lacks, in the form of the list."""
    return MissingSession(session_id=setback.session_id, runner_id=present.record.runner_id, frames=setback.frames,
                          controls=setback.controls, commands=setback.commands)


class RestoredSessions:
    """The comparison of each session of a runner with its hello."""

    def __init__(self, setbacks: Setbacks, known_as: Callable[[str], str]) -> None:
        """`known_as` returns the id by which a tenant's runners know this gateway."""
        self._setbacks = setbacks
        self._known_as = known_as

    async def last_durable(self, shell: LaneShell, known: p.HelloSession | None, present: Present) -> int:
        """Return the last frame of a session that need not be resent, after reporting what is missing."""
        seq, setback = await shell.call(RunnerCompared(known))
        if setback is not None:
            self._note(present, missing(setback, present),
                       "The runner has what this ledger lacks: an older copy of the ledger was put back.")
        return seq

    def look(self, shell: LaneShell, present: Present) -> None:
        """Compare a lane with its runner's state when it forgot the session, before the lane decides anything else."""
        known = forgotten(present.hello, shell.lane.state.session_id)
        if known is None:
            return

        def note(found: tuple[int, Setback | None]) -> None:
            if found[1] is not None:
                self._note(present, missing(found[1], present), FORGOT)

        shell.send(RunnerCompared(known), note)

    def absent(self, known: p.HelloSession, present: Present) -> None:
        """Report a session that a runner holds for this gateway and that is missing in the ledger."""
        if known.controller == self._known_as(present.record.tenant_id) and known.acked_seq:
            self._note(present, MissingSession(
                session_id=known.session_id[:64], runner_id=present.record.runner_id, known=False,
                frames=known.acked_seq, controls=known.control_seq),
                "The runner holds a session that this ledger does not have: an older copy of the ledger was put back. "
                "Restart the runner to end the session's agent.")

    def _note(self, present: Present, missing: MissingSession, sentence: str) -> None:
        """Record a finding. Beyond those that are listed, the thousandth, the ten thousandth … is logged: a runner can
        name any number of sessions."""
        tenant_id = present.record.tenant_id
        is_new, found = self._setbacks.session(tenant_id, missing), self._setbacks.of(tenant_id)
        count = found.session_count if found is not None else 0
        if is_new and (count <= SESSIONS_LISTED or str(count).strip("0") == "1"):
            log.error("ledger_restored", tenant_id=tenant_id, runner_id=missing.runner_id,
                      session_id=missing.session_id, frames=missing.frames, controls=missing.controls,
                      closed=missing.commands, count=count, reason=sentence)


class RestoredLogs:
    """The search, at the start, for tenants whose log ends before a record that this gateway had signed.

    Their commands that had not started are closed: they may have run since the copy was made. Until that is durable,
    nothing of the tenant starts; a log that cannot be signed accepts no record before a person accepts it (U-3).
    Commands that had started are compared when their runner attaches.
    """

    def __init__(self, engine: Engine, signer: CheckpointSigner) -> None:
        self._engine = engine
        self._signer = signer
        self._closing: asyncio.Task[None] | None = None
        self._found: dict[str, tuple[int, int]] = {}
        engine.signing.on_resumed(self.close)

    async def look(self) -> None:
        """Compare each log with the checkpoints that are stored outside the ledger. Raises LedgerError."""
        try:
            found = await self._signer.ahead()
        except OSError as error:
            log.warning("audit_checkpoints_not_read", reason=str(error))
            return
        for tenant_id, signed, kept in found:
            self._engine.setbacks.records(tenant_id, signed, kept)
            log.error("ledger_restored", tenant_id=tenant_id, records_signed=signed, records_kept=kept,
                      reason=f"{signed - kept} audit records that were signed are missing: an older copy of the ledger "
                             "was put back. Run `interlock audit verify`; a person decides with `interlock audit "
                             "resume`.")
            if kept and await self._engine.ledger.fact(RESTORED_FACT + tenant_id) != str(signed):
                self._found[tenant_id] = (signed, kept)
                self._engine.setbacks.hold(tenant_id)

    def close(self) -> None:
        """Close the commands of the tenants that were found; again when a log can be signed."""
        if self._found and self._closing is None:
            self._closing = asyncio.create_task(self._close_all(), name="commands of a restored ledger")

    async def settled(self) -> None:
        """Return once the tasks under way are done."""
        if self._closing is not None:
            await asyncio.gather(self._closing, return_exceptions=True)

    async def stop(self) -> None:
        """Abandon the tasks under way; the next start finds the gap again."""
        if self._closing is not None:
            self._closing.cancel()
        await self.settled()

    async def _close_all(self) -> None:
        try:
            for tenant_id, (signed, kept) in list(self._found.items()):
                try:
                    closed = await self._close_tenant(tenant_id)
                    draft = AuditDraft(
                        tenant_id=tenant_id, at=iso(self._engine.clock.now_ms()), who=SYSTEM, action="ledger_restored",
                        meta={"signed": signed, "kept": kept, "closed": closed})
                    await self._engine.ledger.commit(
                        WriteBatch([PutFact(RESTORED_FACT + tenant_id, str(signed)), AuditAppend(draft)]))
                except (Problem, LedgerError) as error:
                    log.warning("restored_commands_not_closed", tenant_id=tenant_id, reason=str(error))
                    continue
                del self._found[tenant_id]
                self._engine.setbacks.release(tenant_id)
                self._engine.lanes.look_again()
        finally:
            self._closing = None

    async def _close_tenant(self, tenant_id: str) -> int:
        """Close a tenant's commands that had not started; returns how many. Raises Problem, LedgerError."""
        sessions: dict[str, None] = {}
        for state in UNSTARTED:
            before: str | None = None
            while found := await self._engine.ledger.commands(
                    CommandQuery(tenant_id, state=state, before=before, limit=PAGE_MAX)):
                before = found[-1].command.id
                sessions.update(dict.fromkeys(record.session_id for record in found))
        closed = 0
        for session_id in sessions:
            with suppress(Elsewhere, LaneMoved):  # The gateway that owns the session compares it with its runner.
                shell = await self._engine.lanes.need(session_id)
                ended = len(await shell.call(UnstartedClosed()))
                self._engine.setbacks.commands(tenant_id, ended)
                closed += ended
        return closed
