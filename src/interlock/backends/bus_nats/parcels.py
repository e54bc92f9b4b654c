"""Bodies larger than a NATS message: the sender stores them, and the receiver fetches them in parts.

A part is requested from one gateway, so a queue of responders that share a subject never splits a body.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from typing import Protocol

from interlock.ports.bus import MAX_REQUEST_BYTES, BusError

PART_BYTES = 512 * 1024
"""One part; servers take messages of 1 MiB unless they are configured otherwise."""
KEPT_BYTES = 16 * MAX_REQUEST_BYTES
"""Maximum size of all parcels that wait to be fetched; beyond it a large body is refused."""
KEEP_S = 60.0
"""A parcel that is not fetched completely within this time is dropped."""
PART_TIMEOUT_S = 10.0
HEADER = "Interlock-Parcel"
"""Names, instead of a body, the source of its parts: `subject parts`."""


class ParcelHeader(Protocol):
    """The part of a message that is read here."""

    @property
    def data(self) -> bytes: ...

    @property
    def subject(self) -> str: ...

    @property
    def headers(self) -> dict[str, str] | None: ...


class Parcels:
    """Large outgoing bodies of one gateway, under subjects of its own."""

    def __init__(self, prefix: str) -> None:
        self._prefix = f"{prefix}.parcel.{secrets.token_hex(8)}"
        self._kept: dict[str, bytes] = {}
        self._timers: dict[str, asyncio.TimerHandle] = {}

    @property
    def subject(self) -> str:
        """Return the subject for requests of parts."""
        return self._prefix + ".>"

    def lend(self, body: bytes) -> dict[str, str]:
        """Store a body to be fetched; returns the headers that name it. Raises BusError."""
        if sum(map(len, self._kept.values())) + len(body) > KEPT_BYTES:
            raise BusError("Too many large bodies are on their way over the bus; try again in a moment.")
        name = secrets.token_hex(8)
        self._kept[name] = body
        self._timers[name] = asyncio.get_running_loop().call_later(KEEP_S, self._drop, name)
        parts = -(-len(body) // PART_BYTES)
        return {HEADER: f"{self._prefix}.{name} {parts}"}

    def take_back(self, headers: dict[str, str] | None) -> None:
        """Drop a body that was fetched, or will not be."""
        if headers is not None and HEADER in headers:
            self._drop(headers[HEADER].partition(" ")[0].rpartition(".")[2])

    def part(self, subject: str) -> bytes | None:
        """Return the requested part; None if it does not exist."""
        place, _, number = subject.rpartition(".")
        body = self._kept.get(place.rpartition(".")[2])
        if body is None or not number.isdecimal():
            return None
        at = int(number) * PART_BYTES
        if at + PART_BYTES >= len(body):
            asyncio.get_running_loop().call_soon(self._drop, place.rpartition(".")[2])
        return body[at : at + PART_BYTES]

    def close(self) -> None:
        """Drop all stored bodies."""
        for name in [*self._kept]:
            self._drop(name)

    def _drop(self, name: str) -> None:
        self._kept.pop(name, None)
        timer = self._timers.pop(name, None)
        if timer is not None:
            timer.cancel()


async def opened(message: ParcelHeader, ask: Callable[[str, float], Awaitable[bytes]]) -> bytes:
    """Return a message's body, fetched if it is a parcel; `ask` requests a subject. Raises BusError."""
    where = (message.headers or {}).get(HEADER)
    if where is None:
        return message.data
    subject, _, count = where.partition(" ")
    if not count.isdecimal() or int(count) * PART_BYTES > MAX_REQUEST_BYTES + PART_BYTES:
        raise BusError("A body on the bus is larger than it may be.")
    return b"".join([await ask(f"{subject}.{number}", PART_TIMEOUT_S) for number in range(int(count))])
