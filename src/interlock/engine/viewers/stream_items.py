"""Items of a stream for viewers: numbered events, transient frames, and runs of them that all viewers share (S-1,
S-4)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TypeAlias

import msgspec

from interlock.protocol import frames
from interlock.protocol.envelope import Frame
from interlock.protocol.limits import KIB, MAX_DELTA_BYTES
from interlock.protocol.records import EventKind
from interlock.session.blocks import CLOSING, joined

ITEM_BYTES = 64
"""The overhead that an item is counted with in addition to its bytes."""


class Durable(msgspec.Struct, gc=False):
    """A numbered event, which is in the ledger. All viewers of a stream share it, so derived values are cached here.

    Nothing in it refers back to it, so the cyclic collector need not track the many that pass.
    """

    n: int
    kind: EventKind
    body: bytes
    at_ms: int
    shown: bytes | None = None
    """The event as written for viewers who see it unaltered, once it was encoded for the first of them."""
    known: Frame | msgspec.UnsetType | None = msgspec.UNSET
    """The result of `closing`, if it is known already."""

    def closing(self) -> Frame | None:
        """Parse a frame that closes blocks, once for all viewers; None for any other event."""
        if self.known is msgspec.UNSET:
            self.known = closing_frame(self.kind, self.body)
        return self.known


class TransientItem(msgspec.Struct, gc=False):
    """A frame without a number; `body` is its bytes, `frame` the parsed frame."""

    body: bytes
    frame: Frame
    shown: bytes | None = None
    """The frame as written for viewers who see it unaltered, once it was encoded for the first of them."""


Item: TypeAlias = Durable | TransientItem


class SharedViews(msgspec.Struct):
    """Views of a run, cached for all viewers that are shown the same."""

    shown: list[bytes] | None = None
    """The run as written for viewers who see it unaltered."""
    spoken: Sequence[str] | msgspec.UnsetType | None = msgspec.UNSET
    """The blocks that it closes if silence affects none of it, None if it might."""


class SharedItems(list[Item]):
    """Items that were published together, as all live viewers of a stream receive them; immutable."""

    __slots__ = ("first", "last", "size", "views")

    def __init__(self, items: Sequence[Item]) -> None:
        super().__init__(items)
        self.first, self.last = _numbers(items)
        """Numbers of the first and last durable item: 0 without one, `first` is OUT_OF_ORDER if they have gaps."""
        self.size = sum([len(item.body) for item in items]) + ITEM_BYTES * len(items)
        """Its size in an outbox, in bytes."""
        self.views = SharedViews()


OUT_OF_ORDER = -1


def _numbers(items: Sequence[Item]) -> tuple[int, int]:
    first = last = 0
    for item in items:
        if isinstance(item, Durable):
            if last and item.n != last + 1:
                return OUT_OF_ORDER, 0
            first, last = first or item.n, item.n
    return first, last


class _TypeOnly(msgspec.Struct, frozen=True):
    type: str = ""


def durable(n: int, kind: EventKind, body: bytes, at_ms: int, frame: Frame | None) -> Durable:
    """Create an item of an event whose frame is parsed already; `frame` is None if the event is not a runner's frame
    that changed something."""
    return Durable(n, kind, body, at_ms, None, frame if frame is not None and frame.type in CLOSING else None)


_type_decoder = msgspec.json.Decoder(_TypeOnly)


def closing_frame(kind: EventKind, body: bytes) -> Frame | None:
    """Parse a durable frame that closes blocks; None for any other event."""
    if kind != "C" or _type_decoder.decode(body).type not in CLOSING:
        return None
    return frames.decode(body, frames.Direction.C)


def coalesced(burst: Sequence[Item]) -> list[Item]:
    """Merge neighbouring transient frames of one block, up to MAX_DELTA_BYTES each (S-4, E-4)."""
    out: list[Item] = []
    size = 0
    grown: Frame | None = None
    for item in burst:
        last = out[-1] if out else None
        merged = None
        if isinstance(item, TransientItem) and isinstance(last,
                                                          TransientItem) and size + len(item.body) <= MAX_DELTA_BYTES:
            merged = joined(grown or last.frame, item.frame)
        if merged is not None:
            grown, size = merged, size + len(item.body)
            out[-1] = TransientItem(b"", merged)
        else:
            out.append(item)
            grown, size = None, len(item.body)
    return [TransientItem(frames.encode(item.frame),
                          item.frame) if isinstance(item, TransientItem) and not item.body else item
            for item in out]


PACE_A_VIEWER_S = 0.0002
"""Pause between two writes of a stream for each of its viewers: some three times the duration of the writes."""
PACE_MIN_S = 0.005
"""Less than this, which is up to 25 viewers, is not waited."""
PACE_MAX_S = 0.1
"""Maximum delay of an event that is sent together with later ones."""
PACE_BYTES = 256 * KIB
"""Bytes that are sent at once, whatever the interval."""


class NotificationPace:
    """A throttle that collects what is published to one stream, and passes it on in order: the first item after a pause
    at once, soon following ones together (S-4). `deliver` is called with one burst at a time.

    Waking a viewer and writing to it takes the same time for one event as for ten. If hundreds watch a busy stream, a
    write for each event would keep the gateway from all other work, and every viewer would fall behind.
    """

    def __init__(self, deliver: Callable[[Sequence[Item]], None]) -> None:
        self._deliver = deliver
        self._waiting: list[Item] = []
        self._bytes = 0
        self._window_s = 0.0
        self._open_at = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def take(self, items: Sequence[Item], viewers: int) -> None:
        """Deliver items now, or together with those within the window for this number of viewers."""
        self._window_s = min(viewers * PACE_A_VIEWER_S, PACE_MAX_S)
        if self._timer is None and self._window_s < PACE_MIN_S:
            self._deliver(items)
            return
        loop = asyncio.get_running_loop()
        if self._timer is None:
            now = loop.time()
            if now >= self._open_at:
                self._open_at = now + self._window_s
                self._deliver(items)
                return
            self._timer = loop.call_at(self._open_at, self.flush)
        self._waiting.extend(items)
        self._bytes += sum([len(item.body) for item in items])
        if self._bytes > PACE_BYTES:
            self.flush()

    def flush(self) -> None:
        """Deliver the waiting items; neighbouring deltas of one block are merged."""
        if self._timer is None:
            return
        self._timer.cancel()
        self._timer = None
        waiting, self._waiting, self._bytes = self._waiting, [], 0
        self._open_at = asyncio.get_running_loop().time() + self._window_s
        self._deliver(coalesced(waiting))

    def forget(self) -> None:
        """Drop the waiting items: no viewer is left."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._waiting, self._bytes = [], 0
