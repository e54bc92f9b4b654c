"""The one loop that drives a server over sockets and reads what comes back, the same for the gateway and its limit."""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import NamedTuple, Protocol

from benchmarks.harness.websocket import RECEIVE_BYTES

WINDOW = 2_048
"""Messages under way at most: what a runner has sent and no one has confirmed."""
SEND_BYTES = 64 * 1024
STALL_S = 30
"""A round without progress for this time has lost something."""


class Prepared(NamedTuple):
    """Messages that are made before the measurement: their bytes, and the end of each."""

    data: bytes
    ends: list[int]

    @classmethod
    def of(cls, messages: Sequence[bytes]) -> Prepared:
        """Join messages."""
        return cls(b"".join(messages), list(accumulate(len(each) for each in messages)))


class Reader(Protocol):
    """Something that reads along: one viewer."""

    sock: socket.socket

    def feed(self, data: bytes) -> None: ...

    @property
    def done(self) -> bool:
        """Whether it has all that it waits for."""
        ...


class Stalled(Exception):
    """Nothing came any more although something was still to come."""


class Round(NamedTuple):
    """One measured round."""

    seconds: float
    driver_cpu_s: float


def drive(
    sock: socket.socket, prepared: Prepared, confirm: Callable[[bytes], int], readers: Sequence[Reader] = ()
) -> Round:
    """Send all messages, WINDOW ahead of their confirmation, until all are confirmed and every reader is done.

    The socket does not block meanwhile. `confirm` gets the received bytes and returns the number of confirmed messages
    so far. Raises Stalled.
    """
    poll = select.poll()
    by_number = {reader.sock.fileno(): reader for reader in readers}
    for number in by_number:
        poll.register(number, select.POLLIN)
    view, total, sent, confirmed = memoryview(prepared.data), len(prepared.ends), 0, 0
    waiting = {number for number, reader in by_number.items() if not reader.done}
    own = sock.fileno()
    sock.setblocking(False)
    cpu, start = time.process_time(), time.perf_counter()
    while confirmed < total or waiting:
        allowed = prepared.ends[min(total, confirmed + WINDOW) - 1]
        blocked = False
        while sent < allowed and not blocked:
            try:
                sent += sock.send(view[sent:min(allowed, sent + SEND_BYTES)])
            except BlockingIOError:
                blocked = True
        poll.register(own, select.POLLIN | select.POLLOUT if blocked else select.POLLIN)
        ready = poll.poll(STALL_S * 1_000)
        if not ready:
            raise Stalled(f"{confirmed} of {total} messages are confirmed, {len(waiting)} viewers wait")
        for number, event in ready:
            if not event & ~select.POLLOUT:
                continue
            if number == own:
                confirmed = confirm(sock.recv(RECEIVE_BYTES))
                continue
            reader = by_number[number]
            reader.feed(reader.sock.recv(RECEIVE_BYTES))
            if reader.done:
                waiting.discard(number)
    round_ = Round(time.perf_counter() - start, time.process_time() - cpu)
    sock.setblocking(True)
    return round_
