"""Heartbeats of the runners of one gateway, as the other gateways know them (L-5, S-2).

Each runner reports its agents every 15 s, and nearly always repeats itself. If each heartbeat were forwarded, every
gateway of a cluster would work for every runner of it. So a gateway sends the others one message a second: changes in
full, and otherwise only which heartbeats arrived. Messages are numbered: a gateway that misses one, or is new, requests
everything, and receives it with the next heartbeat of each runner.

So another gateway's view of a runner is late by at most BEATS_TOGETHER_S, and by one heartbeat more after a lost
message.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from typing import NamedTuple

import msgspec

from interlock.protocol.payloads import LiveAgent

BEATS_TOGETHER_S = 1.0
"""How long heartbeats are collected before they are sent."""
AGENTS_A_NOTE = 2_000
"""A message with this number of runners and agents is sent at once: some 300 kB, of the 1 MB that the bus accepts."""
SENDERS_KNOWN = 256
"""Gateways whose last number is remembered; if one was forgotten, everything is requested again."""
ASK_EVERY_MS = 5_000
"""Minimum interval between requests for everything to one gateway."""


class ReportedAgents(msgspec.Struct, array_like=True):
    """A runner's heartbeat, and its link."""

    runner_id: str
    link_id: str
    agents: list[LiveAgent]


class HeartbeatNote(msgspec.Struct, array_like=True):
    """The heartbeats that one gateway received since its previous message. `unchanged` lists runners whose report was
    unchanged."""

    instance_id: str
    n: int
    at_ms: int
    unchanged: list[str]
    changed: list[ReportedAgents]


class _Sender(NamedTuple):
    n: int
    """The last note that was received."""
    at_ms: int | None
    """When everything was requested."""


_notes = msgspec.msgpack.Decoder(HeartbeatNote)
_encode = msgspec.msgpack.Encoder().encode


class OwnBeats:
    """Heartbeats of the runners that are attached here. `send` sends a message to the others, `now_ms` is the wall
    clock."""

    def __init__(self, instance_id: Callable[[], str], send: Callable[[bytes], None], now_ms: Callable[[], int]
                 ) -> None:
        self._instance_id = instance_id
        self._send = send
        self._now_ms = now_ms
        self._known: dict[str, ReportedAgents] = {}
        """As known to the others."""
        self._unchanged: dict[str, None] = {}
        self._changed: dict[str, ReportedAgents] = {}
        self._size = 0
        self._n = 0
        self._timer: asyncio.TimerHandle | None = None

    def add(self, runner_id: str, link_id: str, agents: list[LiveAgent]) -> None:
        """Add a heartbeat."""
        reported = ReportedAgents(runner_id, link_id, agents)
        if self._known.get(runner_id) == reported:
            if runner_id not in self._changed:
                self._unchanged[runner_id] = None
        else:
            self._known[runner_id] = self._changed[runner_id] = reported
            self._unchanged.pop(runner_id, None)
            self._size += len(agents)
        self._size += 1
        if self._size >= AGENTS_A_NOTE:
            self.flush()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(BEATS_TOGETHER_S, self.flush)

    def drop_link(self, runner_id: str, link_id: str) -> None:
        """Remove a closed link: nothing more is reported of it."""
        known = self._known.get(runner_id)
        if known is not None and known.link_id == link_id:
            del self._known[runner_id]
            self._changed.pop(runner_id, None)
            self._unchanged.pop(runner_id, None)

    def send_all_in_full(self) -> None:
        """Send each runner's next heartbeat in full, since another gateway missed a message."""
        self._known.clear()

    def flush(self) -> None:
        """Send what was collected."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._unchanged or self._changed:
            self._n += 1
            self._send(_encode(HeartbeatNote(self._instance_id(), self._n, self._now_ms(), list(self._unchanged),
                                             list(self._changed.values()))))
        self._unchanged, self._changed, self._size = {}, {}, 0


class NoteReceiver(NamedTuple):
    """Receivers of a message. Each returns False if that runner's link, or its last report, is unknown here."""

    unchanged: Callable[[str, str, int], bool]
    """(runner, gateway, when)"""
    changed: Callable[[ReportedAgents, int], bool]


class OthersBeats:
    """Heartbeats of the runners at other gateways. `ask` requests everything from one of these; `now_ms` never
    decreases."""

    def __init__(self, receiver: NoteReceiver, ask: Callable[[str], None], now_ms: Callable[[], int]) -> None:
        self._receiver = receiver
        self._ask = ask
        self._now_ms = now_ms
        self._senders: OrderedDict[str, _Sender] = OrderedDict()

    def receive(self, body: bytes) -> None:
        """Process a message."""
        note = _notes.decode(body)
        known = [self._receiver.changed(reported, note.at_ms) for reported in note.changed]
        known += [self._receiver.unchanged(runner_id, note.instance_id, note.at_ms) for runner_id in note.unchanged]
        n, asked_ms = self._senders.pop(note.instance_id, _Sender(0, None))
        if note.n != n + 1 or not all(known):
            now_ms = self._now_ms()
            if asked_ms is None or now_ms >= asked_ms + ASK_EVERY_MS:
                self._ask(note.instance_id)
                asked_ms = now_ms
        self._senders[note.instance_id] = _Sender(note.n, asked_ms)
        while len(self._senders) > SENDERS_KNOWN:
            self._senders.popitem(last=False)
