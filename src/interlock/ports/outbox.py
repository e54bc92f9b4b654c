"""The runner's outbox: durable frames until the gateway has acknowledged them, the text of open blocks, received
control frames."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import Literal, NamedTuple, Protocol

from interlock.protocol.envelope import Frame
from interlock.protocol.payloads import RefusedControl
from interlock.protocol.records import ControlRecord

Policy = Literal["RING", "DROP", "NONE"]
"""What is discarded when a session's buffer is full: RING discards the oldest content, DROP the newest; NONE keeps no
content that arrives while no gateway is attached (D-3)."""

ANSWERS_READ = 256
"""Refusals that hello repeats while they are not acknowledged; if there are more, the newest."""

WhyLost = Literal["", "bytes", "absent", "joined"]
"""Why a gateway has no cursor in a session, or not from its beginning (D-5): it was behind by more than the buffer
holds, it was absent for OBSERVER_ABSENT_MS, or it joined when the first frames had been discarded."""


class TransientText(NamedTuple):
    """Text of an open block that was, or will be, sent as a transient frame (D-6).

    `block` names the block: the block_id of a text block, or "invocation_id/channel" of a tool channel.
    """

    session_id: str
    block: str
    offset: int
    text: str


class CloseBlock(NamedTuple):
    """Closes a block: its `.done` or result is in the same write, so its pieces are deleted."""

    session_id: str
    block: str


class StoredFrame(NamedTuple):
    """A durable frame in the outbox, numbered and encoded."""

    session_id: str
    seq: int
    message_id: str
    frame_type: str
    raw: bytes


class GatewayRow(NamedTuple):
    """A gateway that was attached at some time. `link` names the pairing that leads to it; `left_ms` is when it was
    last seen to leave, None while it is attached."""

    gateway_id: str
    link: str
    left_ms: int | None


class SessionRow(NamedTuple):
    """The outbox's record of one session. `state` is the runner's own bytes (msgspec JSON).

    `acked_seq`, `control_seq`, `last_message_id`, `last_sync_ms`, `why_lost` and `refused` belong to the requested
    gateway, and so does `bytes_peak`, the most that was kept for it since its last acknowledgement; `bytes_kept`,
    `lost_frames` and `lost_ranges` belong to the controller. `settled`: every gateway with a cursor has confirmed
    everything.
    """

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
    controller: str = ""
    why_lost: WhyLost = ""
    refused: Sequence[RefusedControl] = ()
    settled: bool = True
    bytes_peak: int = 0


class PutState(NamedTuple):
    """Replace the runner's own bytes for a session, in the same write."""

    session_id: str
    state: bytes


class PutPolicy(NamedTuple):
    """Sets the policy of a session's buffer from here on (D-3)."""

    session_id: str
    policy: Policy


class StoreControl(NamedTuple):
    """Stores a gateway's control frame before it is acted on (D-7). A session without a controller gets this gateway as
    its controller."""

    record: ControlRecord
    at_ms: int
    gateway_id: str = ""


class RefuseControl(NamedTuple):
    """Marks a gateway's stored control frame as refused (D-7)."""

    session_id: str
    gateway_id: str
    refusal: RefusedControl


class PutController(NamedTuple):
    """Makes this gateway the session's controller (D-5)."""

    session_id: str
    gateway_id: str


OutboxWrite = Frame | TransientText | CloseBlock | PutState | PutPolicy | StoreControl | RefuseControl | PutController


class OutboxError(Exception):
    """Raised if the outbox failed, and nothing of the call took effect; the text is one sentence for the user."""


class UnknownSession(OutboxError):
    """Raised if a write names a session that was neither opened nor sent a control frame."""


class Outbox(Protocol):
    """Guarantees: writes take effect in order; a Frame (durable) is numbered 1, 2, 3 … per session, without gaps, and
    survives power loss once `write` returns; a batch of Pieces alone survives kill -9 (no fsync). Nothing is sent
    before `write` returned. Bounds are D-3: beyond the limit of a session, *content* frames are discarded by its
    policy, and counted; `session.*`, `agent.interaction.request`, `agent.error`, `agent.state.changed`,
    `tool.invoke.request` stay.

    There is one numbered stream for each session, and one cursor for each gateway (D-5). Frames are trimmed as the
    controller acknowledges them, and kept beyond that for every known gateway with a cursor: a gateway that is behind
    by more than the limit loses its cursor. A `gateway_id` of None means the session's controller.
    """

    async def write(self, writes: Sequence[OutboxWrite], *, attached: Set[str] | None = None) -> list[StoredFrame]:
        """Apply in one transaction; returns the durable frames with their numbers. Raises InvalidFrame
        (FRAME_TOO_LARGE) or UnknownSession before anything is written. StoreControl creates the session's row if it is
        missing; a control frame that is stored already changes nothing. `attached` are the attached gateways, None
        means all: a session with the policy NONE discards its content while its controller is not attached (D-3); a
        frame that is discarded is numbered, returned, and counted as lost.
        """
        ...

    async def open_session(self, session_id: str, at_ms: int, state: bytes) -> SessionRow:
        """Create or return the session's row. A row that was created by a control frame gets `state`."""
        ...

    async def sessions(self, gateway_id: str | None = None) -> list[SessionRow]: ...

    async def forgotten(self, since_ms: int, limit: int, gateway_id: str | None = None) -> list[SessionRow]:
        """Return the forgotten sessions whose controller acknowledged a frame since then, newest first."""
        ...

    async def session(self, session_id: str, gateway_id: str | None = None) -> SessionRow | None: ...

    async def frames(self, session_id: str, after: int, limit_bytes: int) -> list[StoredFrame]:
        """Return durable frames with seq > after, in order: at least one if there is any, up to about limit_bytes."""
        ...

    async def answers(self, session_id: str, after: int) -> list[StoredFrame]:
        """Return the session's own `session.error` frames with seq > after, in order; at most the newest
        ANSWERS_READ."""
        ...

    async def pieces(self, session_id: str) -> list[TransientText]:
        """Return the text of open blocks, one merged Piece per block from the lowest offset kept, in the order of
        opening. A tool channel whose middle was dropped yields two Pieces."""
        ...

    async def controls(self, session_id: str, after: int, gateway_id: str | None = None) -> list[ControlRecord]:
        """Return a gateway's stored control frames with seq > after."""
        ...

    async def controlling(self, session_id: str) -> list[str]:
        """Return the gateways that ever sent the session a control frame, its controller first."""
        ...

    async def ack(self, session_id: str, seq: int, message_id: str, at_ms: int, gateway_id: str | None = None) -> None:
        """Record that the gateway has everything up to `seq`, and trim what is no longer needed. An ack beyond the last
        seq raises the numbering to it (D-6: power loss); a stale one changes nothing. With "" for `message_id` the
        outbox uses its own frame's. A gateway that had lost its cursor has one again."""
        ...

    async def confirm(self, session_id: str, gateway_id: str, message_ids: Sequence[str]) -> None:
        """Record that the gateway has these refusals: they are no longer repeated (D-7)."""
        ...

    async def join(self, gateway_id: str, link: str, *, adopt: bool) -> None:
        """Attach a gateway through `link`. Frames are kept for it from now on; with `adopt` it becomes the controller
        of the sessions that were created before gateways had names."""
        ...

    async def leave(self, gateway_id: str, at_ms: int) -> None:
        """Detach a gateway."""
        ...

    async def number_link(self, beyond: int = 0) -> int:
        """Return the number for a link that is about to be opened: larger than every number returned before, and than
        `beyond`, which a gateway knows although this outbox does not. It is durable before it is returned."""
        ...

    async def gateways(self) -> list[GatewayRow]:
        """Return every gateway that ever joined."""
        ...

    async def sweep(self, at_ms: int) -> list[tuple[str, str]]:
        """Remove the cursors of observers that were absent for OBSERVER_ABSENT_MS (D-5); returns (session, gateway) of
        those that lose frames by it."""
        ...

    async def forget(self, session_id: str, handled: Mapping[str, int]) -> None:
        """Forget a session that is closed and settled: `sessions` no longer lists it until it is opened again; its
        numbers and state stay. `handled` names for each gateway its last control frame that was acted on. Raises
        OutboxError while a gateway with a cursor does not have everything, or while a control frame waits to be acted
        on."""
        ...

    async def close(self) -> None: ...
