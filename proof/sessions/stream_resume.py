"""R10: a stream of 1,000 events, cut at every position and resumed, in four real ways to read: 1..N, each once.

The ways are pages by poll, server-sent events, the WebSocket of all streams, and the reader of `interlock attach`. Each
of them receives the same bytes of an event.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import socket
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import httpx2
import msgspec
from websockets.sync.client import connect

from interlock import config
from interlock.app.place import SystemClock
from interlock.app.stores import open_stores
from interlock.cli.config.place import Where
from interlock.cli.link.gateway_link import GatewayLink
from interlock.cli.link.sse import SseEvent, SseStream
from interlock.ports.ledger import Append, WriteBatch
from interlock.protocol.identifiers import session_stream
from proof.processes.fork_server import ForkServer
from proof.processes.stack import Stack
from proof.workload.clients import CONFIG, Clients, Pace

EVENTS = 1_000
BEFORE = 3
"""A reader that is cut after event p began this many events before it, at its own cursor."""
AFTER = 50
"""The number of events that are read after a cut …"""
TO_THE_END = 20
"""… and behind every so-many-th, and the first and last, all that there are."""
PATIENCE_S = 30.0
_silent = logging.Logger("websockets", logging.CRITICAL + 1)
"""Breaking off is what is meant here, and no error."""
_page = msgspec.json.Decoder(dict[str, msgspec.Raw])
_events = msgspec.json.Decoder(list[msgspec.Raw])
_message = msgspec.json.Decoder(dict[str, msgspec.Raw])
_EVENTS_OF = msgspec.json.Decoder(list[dict[str, msgspec.Raw]])


class Seen(NamedTuple):
    """An event as a reader was given it: its bytes, and the cursor behind it."""

    data: bytes
    cursor: str


Reader = Callable[[str | None, int, float], list[Seen]]
"""Reads after a cursor until it has this many events, then disconnects. The float draws the size of a page."""


class Findings(NamedTuple):
    """What a run counted."""

    events: int
    cuts: Counter[str]
    read: Counter[str]
    seconds: dict[str, float]
    wrong: list[str]


class Ways:
    """The four ways to one stream. `at` gives address and state directory of the gateway that is asked next."""

    def __init__(self, stack: Stack, session_id: str, at: Callable[[], tuple[str, Path]] | None = None) -> None:
        self._stack = stack
        self._at = at or (lambda: (stack.url, stack.state))
        self._path = f"/v1/sessions/{session_id}/frames"
        self._http = httpx2.Client(timeout=PATIENCE_S)
        self._loop = asyncio.Runner()
        self._links: dict[Path, GatewayLink] = {}

    def named(self) -> dict[str, Reader]:
        """By name."""
        return {"poll": self.poll, "SSE": self.sse, "WebSocket": self.websocket, "attach": self.attach}

    def poll(self, cursor: str | None, wanted: int, drawn: float) -> list[Seen]:
        """Pages of a drawn size."""
        seen: list[Seen] = []
        url, _ = self._at()
        while len(seen) < wanted:
            limit = min(1 + int(drawn * 200), wanted - len(seen))
            page = _page.decode(self._http.get(
                url + self._path, headers=self._stack.headers,
                params={"limit": limit, **({"since": cursor} if cursor else {})}).raise_for_status().content)
            cursor = msgspec.json.decode(page["next_cursor"], type=str)
            events = _events.decode(page["events"])
            # A page has one cursor, at its end: a reader that is cut within it reads it again.
            seen += [Seen(bytes(event), cursor) for event in events]
        return seen

    def sse(self, cursor: str | None, wanted: int, _drawn: float) -> list[Seen]:
        """One connection, broken off after `wanted` events, wherever in what follows the last piece ended."""
        seen: list[Seen] = []
        rest = b""
        headers = {**self._stack.headers, "Accept": "text/event-stream"}
        if cursor is not None:
            headers["Last-Event-ID"] = cursor
        url, _ = self._at()
        with self._http.stream("GET", url + self._path, headers=headers) as answer:
            for piece in answer.iter_raw():
                *events, rest = (rest + piece).split(b"\n\n")
                seen += [received for event in events if (received := _of_sse(event)) is not None]
                if len(seen) >= wanted:
                    break
        return seen[:wanted]

    def websocket(self, cursor: str | None, wanted: int, _drawn: float) -> list[Seen]:
        """One subscription; its connection is broken off, not closed."""
        url = self._at()[0].replace("http", "ws", 1) + "/v1/stream"
        seen: list[Seen] = []
        asked = {"op": "subscribe", "ref": "r", "path": self._path, **({"since": cursor} if cursor else {})}
        with connect(url, additional_headers=self._stack.headers, max_size=None, compression=None,
                     close_timeout=0, logger=_silent) as link:
            link.send(msgspec.json.encode(asked).decode())
            while len(seen) < wanted:
                message = _message.decode(link.recv(PATIENCE_S))
                seen += [Seen(bytes(event["data"]), msgspec.json.decode(event["id"], type=str))
                         for event in _EVENTS_OF.decode(message["events"]) if "id" in event]
            with contextlib.suppress(OSError):
                link.socket.shutdown(socket.SHUT_RDWR)
        return seen[:wanted]

    def attach(self, cursor: str | None, wanted: int, _drawn: float) -> list[Seen]:
        """What the command line follows a stream with."""
        return self._loop.run(self._attach(cursor, wanted))

    async def _attach(self, cursor: str | None, wanted: int) -> list[Seen]:
        seen: list[Seen] = []
        _, state = self._at()
        if state not in self._links:
            self._links[state] = GatewayLink(Where(state=state))
        incoming = aiter(SseStream(self._links[state], self._path, cursor))
        while len(seen) < wanted:
            received = await asyncio.wait_for(anext(incoming), PATIENCE_S)
            if isinstance(received, SseEvent) and received.cursor is not None:
                seen.append(Seen(msgspec.json.encode(received.data), received.cursor))
        await incoming.aclose()
        return seen

    def close(self) -> None:
        """End the loop that `attach` has read in."""
        self._loop.close()


def _of_sse(event: bytes) -> Seen | None:
    """One durable event; None for comments and deltas."""
    members = dict(line.split(b": ", 1) for line in event.split(b"\n") if b": " in line)
    if b"id" not in members or b"data" not in members:
        return None
    return Seen(members[b"data"], members[b"id"].decode())


def resume(place: Path, seed: int, events: int) -> Findings:
    """Create a stream of this many events, and cut each reader after every one of them."""
    draw = random.Random(seed)
    fork_server = ForkServer()
    stack = Stack(place, CONFIG, fork_server)
    try:
        session_id = one_session(stack, seed)
        stack.down()
        asyncio.run(lengthen(stack.state, session_id, events))
        stack.up()
        with contextlib.closing(Ways(stack, session_id)) as ways:
            return cut_everywhere(ways.named(), draw, events)
    finally:
        stack.down()
        fork_server.close()


def one_session(stack: Stack, seed: int) -> str:
    """Start the stack, run a task in a session, and return its id."""
    stack.up()
    clients = Clients(stack, seed, Pace(writers=1, sessions=1, rest_s=60.0))
    clients.start()
    stack.until(lambda: bool(clients.commands()))
    clients.stop()
    clients.settle(PATIENCE_S)
    return clients.commands()[0][2]


async def lengthen(state: Path, session_id: str, events: int) -> None:
    """Lengthen a session's stream to at least `events`: its events are repeated under new ids."""
    stores = await open_stores(state, config.load(state / config.FILE_NAME).cluster, SystemClock())
    ledger = stores.ledger
    try:
        stream = session_stream(session_id)
        there = await ledger.events("default", stream, 0, EVENTS)
        event = next(one for one in there if b"agent.text.done" in one.body)
        frame = msgspec.json.decode(event.body)
        writes: list[Append] = []
        for number in range(len(there), events):
            frame["message_id"] = f"again-{number}"
            frame["payload"]["block_id"] = f"block-{number}"
            writes.append(Append("default", stream, "notice" if number % 10 == 0 else "C", event.at_ms + number,
                                 msgspec.json.encode({"code": "Again", "message": f"number {number}"}
                                                     if number % 10 == 0 else frame), f"again-{number}"))
        await ledger.commit(WriteBatch(writes))
    finally:
        await stores.close()


def cut_everywhere(ways: dict[str, Reader], draw: random.Random, events: int) -> Findings:
    """Cut each reader behind every event, and resume it."""
    whole = {name: read(None, events, 0.5) for name, read in ways.items()}
    wrong = list(_compared(whole, events))
    # A page has no cursor of each event, so all of them get the same.
    cursors = [None, *(seen.cursor for seen in whole["SSE"])]
    cuts: Counter[str] = Counter()
    read_in_all: Counter[str] = Counter()
    seconds: dict[str, float] = {}
    for name, read in ways.items():
        began = time.monotonic()
        for position in range(events + 1):
            start = max(0, position - BEFORE)
            first = read(cursors[start], position - start, draw.random())
            resumed_at = first[-1].cursor if first else cursors[start]
            end = events if position % TO_THE_END == 0 else min(events, position + AFTER)
            second = read(resumed_at, end - position, draw.random())
            got = [seen.data for seen in (*first, *second)]
            if got != [seen.data for seen in whole[name][start:end]]:
                wrong.append(f"{name}, cut at {position}: it is not events {start + 1} to {end}, once and in order")
            cuts[name] += 1
            read_in_all[name] += len(got)
        seconds[name] = time.monotonic() - began
    return Findings(events, cuts, read_in_all, seconds, wrong)


def _compared(whole: dict[str, list[Seen]], events: int) -> Iterator[str]:
    """The faults of the whole stream by each way to read it."""
    for name, seen in whole.items():
        numbers = [msgspec.json.decode(one.data)["n"] for one in seen]
        if numbers != list(range(1, events + 1)):
            yield f"{name}: its numbers are not 1 to {events}"
    for name in ("poll", "WebSocket"):
        if [seen.data for seen in whole[name]] != [seen.data for seen in whole["SSE"]]:
            yield f"{name} gives other bytes than SSE"
    if [msgspec.json.decode(seen.data) for seen in whole["attach"]] != [
            msgspec.json.decode(seen.data) for seen in whole["SSE"]]:
        yield "attach gives something else than SSE"
    for name in ("WebSocket", "attach"):
        if [seen.cursor for seen in whole[name]] != [seen.cursor for seen in whole["SSE"]]:
            yield f"{name} gives other cursors than SSE"


def print_findings(seen: Findings, seed: int) -> bool:
    """Print the findings; whether nothing is wrong."""
    for name, cuts in seen.cuts.items():
        print(f"{name:<10} {cuts} cuts and resumptions of {seen.events} events, {seen.read[name]} events read in "
              f"{seen.seconds[name]:.0f} s")
    for sentence in seen.wrong[:20]:
        print("  !", sentence)
    print("passed: 1..N each time, poll == SSE == WebSocket" if not seen.wrong
          else f"FAILED {len(seen.wrong)} times; repeat with --seed {seed}")
    return not seen.wrong


def run(seed: int, rounds: int | None) -> bool:
    """Run the proof and print its findings; `rounds` is the length of the stream."""
    with tempfile.TemporaryDirectory(prefix="interlock-r10-") as place:
        return print_findings(resume(Path(place), seed, rounds or EVENTS), seed)
