"""All sessions of one runner, for the links."""

from __future__ import annotations

import asyncio

import structlog

from interlock.ports.outbox import Outbox, OutboxError, PutState, SessionRow
from interlock.protocol import payloads as p
from interlock.protocol.envelope import Frame
from interlock.protocol.frames import Direction, decode
from interlock.protocol.integers import whole
from interlock.protocol.limits import FORGOTTEN_SENT, FORGOTTEN_SENT_MS, LARGEST_SEQ
from interlock.runner.session.recovery import recover
from interlock.runner.session.session import RunnerSession
from interlock.runner.session.session_context import Surroundings
from interlock.runner.session.session_control import ControllerRule, NotifyRefused, TakeRefused
from interlock.runner.session.uploads import held_by
from interlock.runner.session.workspace_changes import WorkspaceReader
from interlock.runner.session_state import SessionState, decode_state, encode_state

log = structlog.get_logger()


REPEATED_CHARS = 200
"""Characters of a refusal that hello repeats; its `session.error` has the whole text."""


class RunnerSessions:
    """Created empty; `recover` comes before the link. `control` handles stored frames, in order per session."""

    def __init__(self, around: Surroundings, outbox: Outbox) -> None:
        self._around = around
        self._outbox = outbox
        self._control = ControllerRule(outbox)
        self._reader = WorkspaceReader(around.spawn, around.offered, around.boxing, around.environment)
        self.all: dict[str, RunnerSession] = {}
        """By session_id, those in the outbox."""
        self._stopping = False
        self._holding = False

    async def recover(self) -> None:
        """Close what the last run left open (D-6), in the outbox before this returns."""
        for gateway in await self._outbox.gateways():
            # A gateway that was attached when the last run ended counts as absent from now on, not since its attach.
            await self._outbox.leave(gateway.gateway_id, self._around.clock.now_ms())
        for row in await self._outbox.sessions():
            session = self.all[row.session_id] = RunnerSession(
                self._around, row.session_id, decode_state(row.state)
            )
            session.controlled_by(row.controller)
            in_turn = session.state.turn is not None
            await recover(session.journal, self._outbox)
            await session.recover_landing(in_turn=in_turn)
        await self._around.flow.flushed()
        needed = set[str]().union(*(held_by(session.state) for session in self.all.values()))
        for name in set(await self._around.objects.names()) - needed:
            await self._around.objects.drop(name)  # A chunk whose frame was not stored, or whose turn began.

    def on_refused(self, notify: NotifyRefused) -> None:
        """Notify a gateway at once of a refused frame; without this, at its next welcome (D-7)."""
        self._control.on_refused.connect(notify)

    def attached(self, gateway_id: str) -> None:
        """Assign the sessions from before gateways had names to a gateway."""
        for session in self.all.values():
            session.controlled_by(session.controller or gateway_id)

    async def control(self, frame: Frame, raw: bytes, gateway_id: str = "") -> None:
        """Handle one control frame. While the runner stops, none is handled: stored ones are answered at its next start
        (D-7)."""
        if self._stopping or frame.session_id is None:
            return
        if self._holding and not self._works(frame.session_id):
            # No frame of this session is handled from here on, so that the order is kept for the next start (D-7).
            return
        while not await self._acted(frame, frame.session_id, gateway_id):
            pass  # The session was forgotten while the frame waited.

    async def _acted(self, frame: Frame, session_id: str, gateway_id: str) -> bool:
        """Handle a control frame; return False, with nothing done, if the session has a new object meanwhile."""
        session = await self._session(session_id)
        async with session.order:
            if self.all.get(session_id) is not session:
                return False
            if not await self._control.allows(session, frame, gateway_id):
                return True
            match frame.payload:
                case p.SessionRelease():
                    await self._control.release(session, frame, frame.payload.to)
                    return True
                case p.SessionOpen():
                    await self._number_on(session_id, frame.metadata.get("last_durable_seq"))
                    await self._control.announce(session, frame.payload)
                case _:
                    pass
            await session.control(frame)
        return True

    async def take(self, session_id: str, to: str) -> None:
        """Pass control of a session to a gateway, on request of a local user (D-5). Raises TakeRefused."""
        session = self.all.get(session_id)
        if session is None:
            raise TakeRefused(f"This runner has no session {session_id}; list them at its gateway with: "
                              "interlock sessions")
        async with session.order:
            await self._control.hand_over(session, to)

    async def _number_on(self, session_id: str, durable: object) -> None:
        """Continue at the gateway's number if the outbox is behind the gateway, that is, was lost (D-6)."""
        row = await self._outbox.session(session_id)
        seq = whole(durable)
        if seq is not None and row is not None and row.last_seq < seq <= LARGEST_SEQ:
            await self._outbox.ack(session_id, seq, "", self._around.clock.now_ms())

    async def _session(self, session_id: str) -> RunnerSession:
        session = self.all.get(session_id)
        if session is None:
            row = await self._outbox.open_session(session_id, self._around.clock.now_ms(), b"")
            state = decode_state(row.state) if row.state else SessionState()
            session = self.all.setdefault(session_id, RunnerSession(self._around, session_id, state))
        return session

    async def hello_sessions(self, gateway_id: str = "") -> list[p.HelloSession]:
        """Return every session in the outbox that is not over, for hello to a gateway (L-4)."""
        found: list[p.HelloSession] = []
        for row in await self._outbox.sessions(gateway_id):
            session = self.all.get(row.session_id)
            state = session.state if session is not None else decode_state(row.state)
            if row.settled and await self._forget(row.session_id):
                continue
            turn = state.turn
            found.append(p.HelloSession(
                session_id=row.session_id, last_seq_sent=row.last_seq, control_seq=row.control_seq,
                acked_seq=row.acked_seq,
                state=state.state if state.opening == "open" else "terminated",
                turn_id=turn.turn_id if turn else None,
                prompt_id=turn.prompt_id if turn else None, controller=row.controller,
                refused=[*row.refused, *(await self._unconfirmed(row) if row.controller == gateway_id else ())],
                agent_id=state.agent_id, workspace=state.workspace,
            ))
        return found

    async def hello_forgotten(self, gateway_id: str = "") -> list[p.ForgottenSession]:
        """Return the latest forgotten sessions, for hello to a gateway whose ledger may be older (L-4)."""
        since_ms = self._around.clock.now_ms() - FORGOTTEN_SENT_MS
        return [p.ForgottenSession(session_id=row.session_id, acked_seq=row.acked_seq, control_seq=row.control_seq)
                for row in await self._outbox.forgotten(since_ms, FORGOTTEN_SENT, gateway_id)
                if row.acked_seq or row.control_seq]

    async def forget_over(self) -> None:
        """Forget every closed session whose frames are all acknowledged, so that neither hello nor memory grows during
        a long link."""
        for row in await self._outbox.sessions():
            if row.settled:
                await self._forget(row.session_id)

    async def _forget(self, session_id: str) -> bool:
        """Forget a session if it is over; return whether it was."""
        session = self.all.get(session_id)
        if session is None or not session.over or self._stopping:
            return False
        async with session.order:
            try:
                await self._around.flow.flushed()
                if not session.over or self.all.get(session_id) is not session:
                    return False
                await self._outbox.forget(session_id, session.state.handled_seqs)
            except OutboxError:
                return False  # A frame arrived meanwhile, or some are not acknowledged.
            del self.all[session_id]
            session.forget()
            self._around.flow.forget(session_id)
            await self._drop_files(session_id, session.state)
        return True

    async def _unconfirmed(self, row: SessionRow) -> list[p.RefusedControl]:
        """Return the controller's refused control frames: each is repeated until the `session.error` that answers it is
        acknowledged (D-7)."""
        answers = (decode(row.raw, Direction.C) for row in await self._outbox.answers(row.session_id, row.acked_seq))
        refusals = ((frame.metadata.get("in_reply_to"), frame.payload) for frame in answers)
        return [p.RefusedControl(message_id=message_id, error_code=error.error_code,
                                 message=error.message[:REPEATED_CHARS])
                for message_id, error in refusals if isinstance(message_id, str)]

    async def _drop_files(self, session_id: str, state: SessionState) -> None:
        """Discard the files of prompts that never came, with their session."""
        if state.uploads:
            held, state.uploads = held_by(state), {}
            await self._outbox.write([PutState(session_id, encode_state(state))])
            for name in held:
                await self._around.objects.drop(name)

    async def look(self, request: p.WorkspaceLook) -> p.WorkspaceChanges:
        """Return the changes that git finds in a session's workspace (J-4)."""
        session = self.all.get(request.session_id)
        return await self._reader.look(request, session.state if session is not None else SessionState(
            agent_id=request.agent_id, workspace=request.workspace, access=request.workspace_access))

    def live_agents(self) -> list[p.LiveAgent]:
        """Return every agent that is up (L-5)."""
        return [
            p.LiveAgent(
                session_id=session_id, agent_id=session.state.agent_id, state=session.state.state,
                turn_id=session.state.turn.turn_id if session.state.turn else None,
            )
            for session_id, session in self.all.items()
            if session.state.opening == "open"
        ]

    def hold(self) -> int:
        """Begin no further turn: an idle session handles nothing from now on. Return how many turns run."""
        self._holding = True
        return sum(session.busy for session in self.all.values())

    async def rested(self) -> None:
        """Wait until no turn runs; their last frames are in the outbox then."""
        while working := [session.rested() for session in self.all.values() if session.busy]:
            await asyncio.gather(*working)
        await self._around.flow.flushed()

    def _works(self, session_id: str) -> bool:
        session = self.all.get(session_id)
        return session is not None and session.busy

    async def close_all(self, reason: str) -> None:
        """End every turn as cancelled and every agent; their frames are in the outbox when this returns."""
        self._stopping = True
        stops = (session.stop(reason) for session in self.all.values())
        for failure in await asyncio.gather(*stops, return_exceptions=True):
            if isinstance(failure, BaseException):
                # Its agent is ended all the same; the next start writes what is missing (D-6).
                log.error("the end of a session could not be written", exc_info=failure)
        await self._around.flow.flushed()
