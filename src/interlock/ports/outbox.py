"""The runner's outbox: durable frames until the gateway has them, open blocks' text, control frames it was given."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple, Protocol

from interlock.protocol.envelope import Frame
from interlock.protocol.records import ControlRecord

Policy = Literal["RING", "DROP", "NONE"]
"""What goes where a session's buffer is full: RING the oldest content, DROP the newest; NONE keeps no content that
comes while no gateway is attached (D-3)."""


class Piece(NamedTuple):
    """Text of an open block that was, or is about to be, sent as a transient frame (D-6).

    `block` names the block: the block_id of a text block, or "invocation_id/channel" of a tool channel.
    """

    session_id: str
    block: str
    offset: int
    text: str


class CloseBlock(NamedTuple):
    """The block's `.done` or result is in the same write: its pieces go."""

    session_id: str
    block: str


class Stored(NamedTuple):
    """A durable frame in the outbox, numbered and encoded."""

    session_id: str
    seq: int
    message_id: str
    frame_type: str
    raw: bytes


class SessionRow(NamedTuple):
    """What the outbox knows of one session. `state` is the runner's own bytes (msgspec JSON)."""

    session_id: str
    last_seq: int
    acked_seq: int
    control_seq: int
    bytes_kept: int
    lost_frames: int
    lost_ranges: list[tuple[int, int]]
    created_ms: int
    last_message_id: str
    last_sync_ms: int
    state: bytes
    policy: Policy = "RING"


class PutState(NamedTuple):
    """Replace the runner's own bytes for a session, in the same write."""

    session_id: str
    state: bytes


class PutPolicy(NamedTuple):
    """From here on the session's buffer has this policy (D-3)."""

    session_id: str
    policy: Policy


class StoreControl(NamedTuple):
    """Store a control frame before acting on it (D-7)."""

    record: ControlRecord
    at_ms: int


OutboxWrite = Frame | Piece | CloseBlock | PutState | PutPolicy | StoreControl


class OutboxError(Exception):
    """The outbox could not do it, and nothing of the call took effect; the text is one sentence for the user."""


class UnknownSession(OutboxError):
    """A write names a session that was neither opened nor given a control frame."""


class Outbox(Protocol):
    """Guarantees: writes take effect in order; a Frame (durable) is numbered 1, 2, 3 … per session, without gaps, and
    survives power loss once `write` returns; a batch of Pieces alone survives kill -9 (no fsync). Nothing is sent
    before `write` returned. Bounds are D-3: past the limit of a session *content* frames go by its policy, and
    are counted; `session.*`, `agent.interaction.request`, `agent.error`, `agent.state.changed`, `tool.invoke.request`
    stay.
    """

    async def write(self, writes: Sequence[OutboxWrite], *, detached: bool = False) -> list[Stored]:
        """Apply in one transaction; returns the durable frames with their numbers. Raises InvalidFrame
        (FRAME_TOO_LARGE) or UnknownSession before anything is written. StoreControl makes the session's row where
        there is none; a control frame that is stored already changes nothing. `detached`: no gateway is attached, which
        costs a session with NONE its content (D-3); a frame that is not kept is numbered, returned, and counted lost.
        """
        ...

    async def open_session(self, session_id: str, at_ms: int, state: bytes) -> SessionRow:
        """Make or return the session's row. A row that only a control frame made takes `state`."""
        ...

    async def sessions(self) -> list[SessionRow]: ...

    async def session(self, session_id: str) -> SessionRow | None: ...

    async def frames(self, session_id: str, after: int, limit_bytes: int) -> list[Stored]:
        """Durable frames with seq > after, in order, at least one if any, up to about limit_bytes."""
        ...

    async def pieces(self, session_id: str) -> list[Piece]:
        """Open blocks' text, one merged Piece a block from the lowest offset kept, in the order they were opened.
        A tool channel whose middle was dropped gives two Pieces."""
        ...

    async def controls(self, session_id: str, after: int) -> list[ControlRecord]:
        """Stored control frames with seq > after."""
        ...

    async def ack(self, session_id: str, seq: int, message_id: str, at_ms: int) -> None:
        """The gateway has all up to `seq`: trim frames and what was told lost. An ack beyond the last seq raises it
        (D-6: power loss); a stale one changes nothing. With "" for `message_id` the outbox names its own frame."""
        ...

    async def forget(self, session_id: str) -> None:
        """Drop a session that is closed and wholly acknowledged: `sessions` lists it no more until it is opened again;
        its numbers and state stay. Raises OutboxError while it has unacknowledged frames."""
        ...

    async def close(self) -> None: ...
