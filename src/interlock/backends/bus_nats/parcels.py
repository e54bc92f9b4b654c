"""Bodies larger than a message of NATS: they stay with who sends them, and who receives fetches them part by part.

A part is asked for as a request to one place, so a queue of servers that share a subject never splits a body.
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
"""What lies ready to be fetched at the most; beyond it a large body is refused."""
KEEP_S = 60.0
"""A parcel that no one has fetched to its end is thrown away."""
PART_TIMEOUT_S = 10.0
HEADER = "Interlock-Parcel"
"""Names, instead of a body, the place of its parts: `subject parts`."""


class ParcelHeader(Protocol):
    """As much of a message as is read here."""

    @property
    def data(self) -> bytes: ...

    @property
    def subject(self) -> str: ...

    @property
    def headers(self) -> dict[str, str] | None: ...


class Parcels:
    """Large bodies on their way out of one gateway, under subjects of its own."""

    def __init__(self, prefix: str) -> None:
        self._prefix = f"{prefix}.parcel.{secrets.token_hex(8)}"
        self._kept: dict[str, bytes] = {}
        self._timers: dict[str, asyncio.TimerHandle] = {}

    @property
    def subject(self) -> str:
        """Where parts are asked for."""
        return self._prefix + ".>"

    def lend(self, body: bytes) -> dict[str, str]:
        """Keep a body to be fetched; gives the headers that say where. Raises BusError."""
        if sum(map(len, self._kept.values())) + len(body) > KEPT_BYTES:
            raise BusError("Too many large bodies are on their way over the bus; try again in a moment.")
        name = secrets.token_hex(8)
        self._kept[name] = body
        self._timers[name] = asyncio.get_running_loop().call_later(KEEP_S, self._drop, name)
        parts = -(-len(body) // PART_BYTES)
        return {HEADER: f"{self._prefix}.{name} {parts}"}

    def take_back(self, headers: dict[str, str] | None) -> None:
        """Keep a body no more, once it was fetched or no one will."""
        if headers is not None and HEADER in headers:
            self._drop(headers[HEADER].partition(" ")[0].rpartition(".")[2])

    def part(self, subject: str) -> bytes | None:
        """Return the part that is asked for; None when it is not there."""
        place, _, number = subject.rpartition(".")
        body = self._kept.get(place.rpartition(".")[2])
        if body is None or not number.isdecimal():
            return None
        at = int(number) * PART_BYTES
        if at + PART_BYTES >= len(body):
            asyncio.get_running_loop().call_soon(self._drop, place.rpartition(".")[2])
        return body[at : at + PART_BYTES]

    def close(self) -> None:
        """Throw away what is still kept."""
        for name in [*self._kept]:
            self._drop(name)

    def _drop(self, name: str) -> None:
        self._kept.pop(name, None)
        timer = self._timers.pop(name, None)
        if timer is not None:
            timer.cancel()


async def opened(message: ParcelHeader, ask: Callable[[str, float], Awaitable[bytes]]) -> bytes:
    """Return a message's body, fetched where it is a parcel; `ask` requests a subject. Raises BusError."""
    where = (message.headers or {}).get(HEADER)
    if where is None:
        return message.data
    subject, _, count = where.partition(" ")
    if not count.isdecimal() or int(count) * PART_BYTES > MAX_REQUEST_BYTES + PART_BYTES:
        raise BusError("A body on the bus is larger than it may be.")
    return b"".join([await ask(f"{subject}.{number}", PART_TIMEOUT_S) for number in range(int(count))])
