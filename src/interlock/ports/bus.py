"""The bus between the gateways of a cluster, for nudges, routing and transient frames.

Nothing durable depends on it: it may lose messages, and never blocks. After a possible loss, the subscribers are
notified (`on_gap`) and read again from the stores.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import NamedTuple, Protocol

MAX_NOTE_BYTES = 1_000_000
"""A published body larger than this is dropped and counted: a transient frame fits."""
MAX_REQUEST_BYTES = 16 * 1024 * 1024
"""A body of a request or an answer larger than this is refused with BusError: the largest REST request fits."""
UNDER_WAY = 1_024
"""Requests that one `serve` answers at the same time; a further one is refused, and its sender gets NoResponder."""

_TOKEN = r"[A-Za-z0-9_:@=/+~-]+"
_EXACT = re.compile(rf"{_TOKEN}(\.{_TOKEN})*")
_WIDE = re.compile(rf"{_TOKEN}(\.{_TOKEN})*(\.>)?")


class BusError(Exception):
    """Raised if the bus fails; the text is one sentence."""


class BusTimeout(BusError):
    """Raised if no answer arrived in time. The request may have been carried out all the same."""


class NoResponder(BusError):
    """Raised if no responder is subscribed to this subject, or this gateway is disconnected from the bus. The request
    was not carried out."""


class CutOff(NoResponder):
    """Raised if this gateway is disconnected from the bus, whether or not others serve the subject. `where` is the
    bus's address for people."""

    def __init__(self, where: str) -> None:
        super().__init__(f"{where} does not answer.")
        self.where = where


class LostOver(BusError):
    """Raised if the bus was lost while a request was under way: no answer can arrive. Whether it was carried out is
    unknown."""

    def __init__(self, where: str) -> None:
        super().__init__(f"{where} was lost while a gateway was asked.")
        self.where = where


class AnswerFailed(BusError):
    """Raised if the responder failed while it answered. How much it had carried out is unknown."""


class BusProbe(NamedTuple):
    """A bus server's answer to a probe."""

    version: str
    latency_ms: float


class BusCounts(NamedTuple):
    """Counts of the published messages since the start."""

    published: int
    dropped: int
    """Never sent, because the bus was unavailable or full, or the body too large."""
    missed: int
    """Received, and dropped because the subscriber was too far behind; it was notified of a gap."""


class Subscription(Protocol):
    """A subscription, active until it is ended."""

    async def end(self) -> None:
        """Stop receiving. May be called again."""
        ...


class Bus(Protocol):
    """One gateway's connection to the bus.

    Guarantees: messages of one publisher under one subject arrive in order, each at most once at a subscription; a
    publisher receives its own messages if it has subscribed. `receive` is called on the event loop, one call at a time,
    never inside `publish`; its exceptions are logged and end nothing. Bodies are bytes that no one changes.

    Subjects are words separated by dots, of letters, digits and `_ : @ = / + ~ -`; a subscription's may end in `.>`,
    which matches one word or more. Any other subject is a ValueError.
    """

    def publish(self, subject: str, body: bytes) -> None:
        """Publish to the current subscribers. Never blocks, and never raises if the bus is unavailable: the message is
        counted as dropped."""
        ...

    async def subscribe(self, subject: str, receive: Callable[[bytes], None]) -> Subscription:
        """Receive messages under a subject from when this returns, including after a reconnect."""
        ...

    async def request(self, subject: str, body: bytes, timeout_ms: int) -> bytes:
        """Send a request to a responder of a subject. Raises NoResponder (CutOff), BusTimeout, LostOver, AnswerFailed,
        BusError."""
        ...

    async def serve(self, subject: str, answer: Callable[[bytes], Awaitable[bytes]]) -> Subscription:
        """Answer requests, several at the same time; if several gateways serve a subject, one of them gets each
        request."""
        ...

    def on_gap(self, missed: Callable[[], None]) -> None:
        """Call `missed` if messages may have been lost: after the bus was unavailable, or a subscriber fell behind."""
        ...

    def counts(self) -> BusCounts: ...

    def connected(self) -> bool:
        """Return whether messages reach other gateways now."""
        ...

    @property
    def where(self) -> str:
        """Return the bus and its addresses for people, without credentials: "NATS at nats://host:4222"."""
        ...

    async def probe(self, timeout_ms: int) -> BusProbe:
        """Probe a server. Raises CutOff if none answers within `timeout_ms`."""
        ...

    async def close(self) -> None:
        """Close every subscription and service. Requests under way fail with BusError. May be called again."""
        ...


def check_subject(subject: str, *, wide: bool = False) -> None:
    """Raise ValueError if this is not a valid subject; `wide` allows `.>` at the end."""
    if not (_WIDE if wide else _EXACT).fullmatch(subject):
        raise ValueError(f"{subject!r} is not a subject of the bus: words with dots between them are.")


def matches(wanted: str, subject: str) -> bool:
    """Return whether a subscription to `wanted` matches `subject`."""
    return subject.startswith(wanted[:-1]) if wanted.endswith(".>") else wanted == subject
