"""Messages that one link still has to send, and each session's position on it (D-2). No input or output here."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from interlock.ports.outbox import StoredFrame
from interlock.protocol.limits import MAX_MESSAGE_BYTES, MIB
from interlock.runner.link.uplink import BlockClosed, Offer, TransientDelta

SEND_BYTES = 4 * MIB
"""Limit of frames that wait for the socket. A session above it falls behind: it is read from the outbox later."""

Message = bytes | Callable[[], bytes]
"""A message, or a function that encodes it when it is sent: a history is not held in memory twice."""


class SessionQueue:
    """One session on one link.

    A `live` session sends what is offered. Otherwise offers are dropped, and the session is read from the outbox after
    `seq` (None: after the gateway's acknowledgement), as history if it `needs_history`. `ends` has the sent length of
    each open block.
    """

    __slots__ = ("ends", "live", "needs_history", "seq")

    def __init__(self, seq: int | None, needs_history: bool) -> None:
        self.seq = seq
        self.live = False
        self.needs_history = needs_history
        self.ends: dict[str, int] = {}

    def reach(self, seq: int) -> None:
        """Note that frames up to `seq` are queued, or acknowledged."""
        self.seq = seq


class Sending:
    """The queue of one link: an `Uplink` for the outflow, drained by the task that writes to the socket."""

    def __init__(self, wake: Callable[[], None], queue_bytes: int = SEND_BYTES) -> None:
        self._wake = wake
        self._queue_bytes = queue_bytes
        self._urgent: deque[bytes] = deque()
        self._queue: deque[tuple[Message, int]] = deque()
        self._queued = 0
        self.lanes: dict[str, SessionQueue] = {}

    def expect(self, session_id: str, after: int) -> None:
        """Add a session of the hello: its history comes first (D-2)."""
        self.lanes[session_id] = SessionQueue(after, needs_history=True)
        self._wake()

    def offer(self, offers: Sequence[Offer]) -> None:
        """Accept written frames. A session that is new on this link begins behind, and is read from the outbox."""
        for offer in offers:
            lane = self.lanes.get(offer.session_id)
            if lane is None:
                lane = self.lanes[offer.session_id] = SessionQueue(None, needs_history=False)
            if lane.live and self._queued > self._queue_bytes:
                lane.live = False
            self._take(lane, offer)
        self._wake()

    def _take(self, lane: SessionQueue, offer: Offer) -> None:
        match offer:
            case BlockClosed():
                lane.ends.pop(offer.block, None)
            case TransientDelta() if lane.live:
                lane.ends[offer.block] = offer.end
                self.push(offer.raw)
            case StoredFrame() if lane.live:
                lane.reach(offer.seq)
                self.push(offer.raw)
            case _:
                pass

    def forget(self, session_id: str) -> None:
        """Drop an ended session; a history that it still owes is sent all the same."""
        lane = self.lanes.get(session_id)
        if lane is not None and not lane.needs_history:
            del self.lanes[session_id]

    def push(self, message: Message, size: int = 0) -> None:
        """Queue a message behind all others; `size` is the size of one that is encoded later."""
        size = len(message) if isinstance(message, bytes) else size
        self._queue.append((message, size))
        self._queued += size
        self._wake()

    def urge(self, raw: bytes) -> None:
        """Queue a link frame before all others: acks and heartbeats must not wait behind a history."""
        self._urgent.append(raw)
        self._wake()

    def pop(self) -> bytes | None:
        """Return the next message for the socket, None if nothing waits."""
        if self._urgent:
            return self._urgent.popleft()
        if not self._queue:
            return None
        message, size = self._queue.popleft()
        self._queued -= size
        return message if isinstance(message, bytes) else message()

    def pop_all(self) -> bytes | None:
        """Return the next message, with as many waiting frames as fit, as JSON lines (L-2). A history is sent alone."""
        frames: list[bytes] = []
        room = MAX_MESSAGE_BYTES + 1
        while self._urgent and len(self._urgent[0]) < room:
            frames.append(self._urgent.popleft())
            room -= len(frames[-1]) + 1
        while self._queue:
            message, size = self._queue[0]
            if not isinstance(message, bytes) or size >= room:
                break
            self._queue.popleft()
            self._queued -= size
            frames.append(message)
            room -= size + 1
        return b"\n".join(frames) if frames else self.pop()

    @property
    def roomy(self) -> bool:
        """Return whether there is space to read more from the outbox."""
        return self._queued <= self._queue_bytes // 2

    def behind(self) -> str | None:
        """Return a session to read from the outbox; sessions that have not sent their history come first."""
        waiting = [(not lane.needs_history, name) for name, lane in self.lanes.items() if not lane.live]
        return min(waiting)[1] if waiting else None

    def go_live(self, lane: SessionQueue, seq: int, deltas: Sequence[TransientDelta]) -> None:
        """Make a session live, once everything up to `seq` and these deltas are queued."""
        lane.seq, lane.live, lane.needs_history = seq, True, False
        for delta in deltas:
            lane.ends[delta.block] = delta.end

    def sent_seq(self, session_id: str) -> int:
        """Return the highest seq that the gateway can have from this link: an ack beyond it is invalid."""
        lane = self.lanes.get(session_id)
        return (lane.seq or 0) if lane else 0
