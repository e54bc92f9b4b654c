"""One session's path into the outbox: makes frames, and stores the state that they change with them (D-6, D-7)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import msgspec

from interlock.ports.clock import Clock, Entropy
from interlock.ports.outbox import (
    CloseBlock,
    OutboxWrite,
    PutController,
    PutPolicy,
    PutState,
    RefuseControl,
    TransientText,
)
from interlock.protocol import payloads as p
from interlock.protocol.clock import iso
from interlock.protocol.envelope import Frame
from interlock.protocol.frames import encode
from interlock.protocol.identifiers import uuid4
from interlock.protocol.limits import LARGEST_SEQ
from interlock.runner.session_state import SessionState, encode_state

MAX_SENTENCE_CHARS = 8_000
"""Limit of a message for people; a longer one is cut, so that an agent cannot make a frame too large (L-2)."""
MAX_TITLE_CHARS = 1_000
MAX_NAME_CHARS = 256


class Flow(Protocol):
    """The path to the outbox and from there to the link. Writes happen in the order of the calls: a call enqueues its
    arguments before it waits, so one that is cancelled while it waits loses nothing.

    `emit` enqueues one transaction; `emit_delta` a transient frame with its text, and waits while the outbox is too
    full (D-3); `flushed` returns once everything emitted before is durable; `forget` drops the counts of an ended
    session, until it is written to again. A block of text may have `block_bytes`, encoded.
    """

    @property
    def block_bytes(self) -> int: ...

    async def emit(self, *writes: OutboxWrite) -> None: ...

    async def emit_delta(self, frame: Frame, piece: TransientText) -> None: ...

    async def flushed(self) -> None: ...

    def forget(self, session_id: str) -> None: ...


class Journal:
    """Makes the frames of one session and writes them with the state after them."""

    def __init__(self, session_id: str, state: SessionState, flow: Flow, clock: Clock, entropy: Entropy) -> None:
        self.session_id = session_id
        self.state = state
        self._flow = flow
        self._clock = clock
        self._entropy = entropy
        self._keys_left_out: Sequence[str] = ()

    @property
    def keys_left_out(self) -> Sequence[str]:
        """Return the keys that the agent could use and that are set for the runner, but not passed on to the agent
        (Y-12)."""
        return self._keys_left_out

    def leave_out(self, keys: Sequence[str]) -> None:
        """Note the keys that are not passed on to the agent; messages about its failures name them."""
        self._keys_left_out = keys

    @property
    def block_bytes(self) -> int:
        """Return the encoded size at which a block of text is closed and continued in another (E-5)."""
        return self._flow.block_bytes

    @property
    def now_ms(self) -> int:
        """Return wall time in milliseconds since the epoch."""
        return self._clock.now_ms()

    @property
    def monotonic_ms(self) -> int:
        """Return milliseconds that never decrease, for durations."""
        return self._clock.monotonic_ms()

    @property
    def at(self) -> str:
        """Return the current time as text."""
        return iso(self.now_ms)

    def new_uuid(self) -> str:
        """Make a UUID v4."""
        return uuid4(self._entropy(16))

    def frame(self, kind: str, payload: p.Payload, metadata: dict[str, Any] | None = None) -> Frame:
        """Make a frame of this session."""
        return Frame(
            type=kind, payload=payload, message_id=self.new_uuid(), session_id=self.session_id, timestamp=self.at,
            metadata=metadata or {},
        )

    async def write(self, *writes: Frame | CloseBlock | PutPolicy | PutController | RefuseControl) -> None:
        """Write durable frames, and the state after them, in one step. The flow enqueues them before it waits, so state
        and frames keep the order of the calls even if one caller waits."""
        for write in writes:
            if isinstance(write, Frame):
                self.state.take(write)
        await self._flow.emit(*writes, PutState(self.session_id, encode_state(self.state)))

    async def relay(self, kind: str, payload: Any, metadata: dict[str, Any]) -> None:
        """Implement `ports.agent.Relay`: write a report of the agent outside of its turns. Raises InvalidFrame (L-2).
        """
        frame = self.frame(kind, payload, metadata)
        encode(msgspec.structs.replace(frame, seq=LARGEST_SEQ))
        await self.write(frame)

    async def keep(self) -> None:
        """Write only the state."""
        await self.write()

    async def delta(self, frame: Frame, block: str, offset: int, text: str) -> None:
        """Write text of an open block, then offer it for sending (D-6)."""
        await self._flow.emit_delta(frame, TransientText(self.session_id, block, offset, text))

    async def durable(self) -> None:
        """Wait until everything written before survives power loss."""
        await self._flow.flushed()

    def state_changed(self, state: p.AgentState) -> list[Frame]:
        """Return the frame for a new state; none if the state is unchanged."""
        previous = self.state.state
        if state == previous:
            return []
        return [self.frame("agent.state.changed", p.StateChanged(state=state, previous=previous))]

    def session_error(self, code: str, message: str, fatal: bool, reply_to: str | None = None,
                      workspace_files: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET) -> Frame:
        """Return `session.error`; `reply_to` is the message_id of the control frame that it answers."""
        payload = p.SessionError(error_code=code, message=message[:MAX_SENTENCE_CHARS], fatal=fatal,
                                 workspace_files=workspace_files)
        return self.frame("session.error", payload, {"in_reply_to": reply_to} if reply_to else None)

    def agent_error(self, severity: p.Severity, code: str, message: str, turn_id: str | None = None,
                    metadata: dict[str, Any] | None = None) -> Frame:
        """Return `agent.error`."""
        payload = p.AgentError(
            severity=severity, error_code=code, message=message[:MAX_SENTENCE_CHARS], turn_id=turn_id
        )
        return self.frame("agent.error", payload, metadata)
