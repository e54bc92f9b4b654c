"""The runner's outbox: durable frames until the gateway has them, open blocks' text, control frames it was given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import Literal, NamedTuple, Protocol

from interlock.protocol.envelope import Frame
from interlock.protocol.payloads import RefusedControl
from interlock.protocol.records import ControlRecord

Policy = Literal["RING", "DROP", "NONE"]
"""What goes where a session's buffer is full: RING the oldest content, DROP the newest; NONE keeps no content that
comes while no gateway is attached (D-3)."""

ANSWERS_READ = 256
"""Refusals that hello repeats while they are not acknowledged; of more, the newest."""

WhyLost = Literal["", "bytes", "absent", "joined"]
"""Why a gateway has no place in a session, or not from its beginning (D-5): it was behind by more than the buffer
holds, it was away for OBSERVER_ABSENT_MS, or it joined when the first frames were no longer kept."""


class TransientText(NamedTuple):
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


class StoredFrame(NamedTuple):
    """A durable frame in the outbox, numbered and encoded."""

    session_id: str
    seq: int
    message_id: str
    frame_type: str
    raw: bytes


class GatewayRow(NamedTuple):
    """A gateway that was attached once. `link` names the pairing that leads to it; `left_ms` is when it was last seen
    to go, None while it is here."""

    gateway_id: str
    link: str
    left_ms: int | None


class SessionRow(NamedTuple):
    """What the outbox knows of one session. `state` is the runner's own bytes (msgspec JSON).

    `acked_seq`, `control_seq`, `last_message_id`, `last_sync_ms`, `why_lost` and `refused` are of the gateway that was
    asked for, and so is `bytes_peak`, the most that was kept for it since its last acknowledgement; `bytes_kept`,
    `lost_frames` and `lost_ranges` of the controller. `settled`: everyone who holds a place
    has, and has confirmed, all of it.
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
    """From here on the session's buffer has this policy (D-3)."""

    session_id: str
    policy: Policy


class StoreControl(NamedTuple):
    """Store a gateway's control frame before acting on it (D-7). A session that has no controller gets this one."""

    record: ControlRecord
    at_ms: int
    gateway_id: str = ""


class RefuseControl(NamedTuple):
    """The outcome of a gateway's stored control frame: it was refused (D-7)."""

    session_id: str
    gateway_id: str
    refusal: RefusedControl


class PutController(NamedTuple):
    """From here on this gateway controls the session (D-5)."""

    session_id: str
    gateway_id: str


OutboxWrite = Frame | TransientText | CloseBlock | PutState | PutPolicy | StoreControl | RefuseControl | PutController


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

    One numbered stream a session, and one cursor a gateway (D-5). Frames are trimmed as the controller acknowledges
    them, and kept beyond that for every known gateway that holds a place: one that is behind by more than the limit
    loses it. A `gateway_id` of None means the session's controller.
    """

    async def write(self, writes: Sequence[OutboxWrite], *, attached: Set[str] | None = None) -> list[StoredFrame]:
        """Apply in one transaction; returns the durable frames with their numbers. Raises InvalidFrame
        (FRAME_TOO_LARGE) or UnknownSession before anything is written. StoreControl makes the session's row where
        there is none; a control frame that is stored already changes nothing. `attached` are the gateways that are
        here, None means all: a session with NONE whose controller is not loses its content (D-3); a frame that is not
        kept is numbered, returned, and counted lost.
        """
        ...

    async def open_session(self, session_id: str, at_ms: int, state: bytes) -> SessionRow:
        """Make or return the session's row. A row that only a control frame made takes `state`."""
        ...

    async def sessions(self, gateway_id: str | None = None) -> list[SessionRow]: ...

    async def forgotten(self, since_ms: int, limit: int, gateway_id: str | None = None) -> list[SessionRow]:
        """Return the forgotten sessions whose controller acknowledged something since then, the newest first."""
        ...

    async def session(self, session_id: str, gateway_id: str | None = None) -> SessionRow | None: ...

    async def frames(self, session_id: str, after: int, limit_bytes: int) -> list[StoredFrame]:
        """Durable frames with seq > after, in order, at least one if any, up to about limit_bytes."""
        ...

    async def answers(self, session_id: str, after: int) -> list[StoredFrame]:
        """The session's own `session.error` frames with seq > after, in order; the newest ANSWERS_READ at most."""
        ...

    async def pieces(self, session_id: str) -> list[TransientText]:
        """Open blocks' text, one merged Piece a block from the lowest offset kept, in the order they were opened.
        A tool channel whose middle was dropped gives two Pieces."""
        ...

    async def controls(self, session_id: str, after: int, gateway_id: str | None = None) -> list[ControlRecord]:
        """A gateway's stored control frames with seq > after."""
        ...

    async def controlling(self, session_id: str) -> list[str]:
        """The gateways that ever sent the session a control frame, its controller first."""
        ...

    async def ack(self, session_id: str, seq: int, message_id: str, at_ms: int, gateway_id: str | None = None) -> None:
        """The gateway has all up to `seq`: trim what no one needs any more. An ack beyond the last seq raises it
        (D-6: power loss); a stale one changes nothing. With "" for `message_id` the outbox names its own frame. A
        gateway that had lost its place holds one again."""
        ...

    async def confirm(self, session_id: str, gateway_id: str, message_ids: Sequence[str]) -> None:
        """The gateway has these refusals: they are repeated no more (D-7)."""
        ...

    async def join(self, gateway_id: str, link: str, *, adopt: bool) -> None:
        """A gateway is attached through `link`. From now on frames are kept for it; with `adopt` it is the controller
        of the sessions that were made before gateways had names."""
        ...

    async def leave(self, gateway_id: str, at_ms: int) -> None:
        """The gateway is attached no more."""
        ...

    async def number_link(self, beyond: int = 0) -> int:
        """Number a link that is about to be opened: larger than every number given before, and than `beyond`, which
        a gateway knows of though this outbox does not. It is durable before it is returned."""
        ...

    async def gateways(self) -> list[GatewayRow]:
        """Every gateway that ever joined."""
        ...

    async def sweep(self, at_ms: int) -> list[tuple[str, str]]:
        """Take their places from observers that were away for OBSERVER_ABSENT_MS (D-5); returns (session, gateway) of
        those that lose something by it."""
        ...

    async def forget(self, session_id: str, handled: Mapping[str, int]) -> None:
        """Drop a session that is closed and settled: `sessions` lists it no more until it is opened again; its numbers
        and state stay. `handled` names for each gateway its last control frame that was acted on. Raises OutboxError
        while somebody who holds a place does not have all of it, or while a control frame waits to be acted on."""
        ...

    async def close(self) -> None: ...
