"""The bus between the gateways of a cluster: where something is, never what it is worth (nudges, routing, transients).

Nothing durable rests on it. What it loses is read again from the stores by those who were notified that they may have
missed something (`on_gap`), so it may lose, and never blocks.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import NamedTuple, Protocol

MAX_NOTE_BYTES = 1_000_000
"""A published body above this is dropped and counted: a transient frame fits."""
MAX_REQUEST_BYTES = 16 * 1024 * 1024
"""A request's or an answer's body above this is refused with BusError: the largest REST request fits."""
UNDER_WAY = 1_024
"""Requests that one `serve` answers at the same time; one more is refused, and its requester gets NobodyThere."""

_TOKEN = r"[A-Za-z0-9_:@=/+~-]+"
_EXACT = re.compile(rf"{_TOKEN}(\.{_TOKEN})*")
_WIDE = re.compile(rf"{_TOKEN}(\.{_TOKEN})*(\.>)?")


class BusError(Exception):
    """The bus could not do it; one sentence."""


class BusTimeout(BusError):
    """No one answered in time. The request may have been acted on all the same."""


class NobodyThere(BusError):
    """No one serves this subject now, or this gateway is cut off. The request was not acted on."""


class CutOff(NobodyThere):
    """This gateway is cut off from the bus, no matter who else is there. `where` is the bus as people know it."""

    def __init__(self, where: str) -> None:
        super().__init__(f"{where} does not answer.")
        self.where = where


class LostOver(BusError):
    """The bus was lost while somebody was asked: the answer cannot come any more. How far it came is not known."""

    def __init__(self, where: str) -> None:
        super().__init__(f"{where} was lost while a gateway was asked.")
        self.where = where


class AnswerFailed(BusError):
    """The one who was asked failed while it answered. How far it came is not known."""


class BusProbe(NamedTuple):
    """What a server of the bus answered."""

    version: str
    latency_ms: float


class BusCounts(NamedTuple):
    """The outcome of the notes since the start."""

    published: int
    dropped: int
    """Never sent, because the bus was away or full, or the body too large."""
    missed: int
    """Came, and were let go since their reader was too far behind; it was notified of a gap."""


class Subscription(Protocol):
    """Something listens; until it is ended."""

    async def end(self) -> None:
        """Receive nothing more. May be called again."""
        ...


class Bus(Protocol):
    """One gateway's place on the bus.

    Guarantees: notes of one publisher under one subject arrive in their order, each at most once at a subscription;
    a publisher receives its own notes if it has subscribed. `receive` is called on the event loop, one at a time, never
    inside `publish`; what it raises is logged and ends nothing. Bodies are bytes that no one changes.

    Subjects are words with dots between them, of letters, digits and `_ : @ = / + ~ -`; a subscription's may end in
    `.>`, which matches one word or more. Another subject is a ValueError.
    """

    def publish(self, subject: str, body: bytes) -> None:
        """Publish to those who listen now. Never blocks, never raises for a bus that is away: then it is counted."""
        ...

    async def subscribe(self, subject: str, receive: Callable[[bytes], None]) -> Subscription:
        """Receive what is published under a subject from when this returns; also after the bus was away."""
        ...

    async def request(self, subject: str, body: bytes, timeout_ms: int) -> bytes:
        """Ask the one who serves a subject. Raises NobodyThere (CutOff), BusTimeout, LostOver, AnswerFailed,
        BusError."""
        ...

    async def serve(self, subject: str, answer: Callable[[bytes], Awaitable[bytes]]) -> Subscription:
        """Answer requests, several at the same time; where several gateways serve a subject, one of them is asked."""
        ...

    def on_gap(self, missed: Callable[[], None]) -> None:
        """Call `missed` when notes may have been missed: after the bus was away, or a reader fell behind."""
        ...

    def counts(self) -> BusCounts: ...

    def connected(self) -> bool:
        """Whether notes reach others now."""
        ...

    @property
    def where(self) -> str:
        """The bus and its addresses for people, without credentials: "NATS at nats://host:4222"."""
        ...

    async def probe(self, timeout_ms: int) -> BusProbe:
        """Ask a server for a sign of life. Raises CutOff if none answers within `timeout_ms`."""
        ...

    async def close(self) -> None:
        """End every subscription and what is served. Requests under way fail with BusError. May be called again."""
        ...


def check_subject(subject: str, *, wide: bool = False) -> None:
    """Refuse what is not a subject; `wide` allows `.>` at the end. Raises ValueError."""
    if not (_WIDE if wide else _EXACT).fullmatch(subject):
        raise ValueError(f"{subject!r} is not a subject of the bus: words with dots between them are.")


def matches(wanted: str, subject: str) -> bool:
    """Return whether a subscription to `wanted` matches `subject`."""
    return subject.startswith(wanted[:-1]) if wanted.endswith(".>") else wanted == subject
