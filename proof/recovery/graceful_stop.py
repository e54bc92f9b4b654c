"""Half of R13: SIGTERM while 100 streams are open. The gateway ends within 5 s, and each stream resumes where it was.

The streams are of sessions in the middle of a turn, and continue after the start: no reader finds a gap or a
repetition.
"""

from __future__ import annotations

import re
import select
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from proof.processes.fork_server import ForkServer
from proof.processes.stack import Stack
from proof.sessions.fan_out import TICKER

STREAMS = 100
SESSIONS = 5
GONE_S = 5.0
EVENTS_BEFORE = 30
EVENTS_AFTER = 30
A_SECOND = 30
TURN_S = 300
WAIT_S = 60.0
READ_BYTES = 1 << 18
EVENT = re.compile(rb'id: (\S+)\nevent: \w+\ndata: \{"n":(\d+),')


class Findings(NamedTuple):
    """What a run counted."""

    streams: int
    gone_s: float
    ended: int
    """Streams that the gateway ended before it was gone."""
    events: int
    wrong: list[str]


class Stream:
    """One reader: the numbers that it was shown, and the cursor of the last."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.numbers: list[int] = []
        self.cursor = ""
        self.open: socket.socket | None = None
        self._rest = b""

    def ask(self, port: int, key: str) -> None:
        """Open it, after the cursor if there is one."""
        self._rest = b""
        self.open = socket.create_connection(("127.0.0.1", port))
        last = f"Last-Event-ID: {self.cursor}\r\n" if self.cursor else ""
        self.open.sendall((f"GET {self.path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: {key}\r\n"
                           f"Accept: text/event-stream\r\n{last}\r\n").encode())

    def read(self) -> None:
        """Take what is there; what is not whole when it ends was not shown."""
        assert self.open is not None
        try:
            data = self.open.recv(READ_BYTES)
        except ConnectionResetError:
            data = b""
        if not data:
            self.close()
            return
        whole, _, self._rest = (self._rest + data).rpartition(b"\n\n")
        for cursor, number in EVENT.findall(whole + b"\n\n"):
            self.cursor = cursor.decode()
            self.numbers.append(int(number))

    def close(self) -> None:
        """End it."""
        if self.open is not None:
            self.open.close()
            self.open = None


def stop_and_resume(place: Path, streams: int, sessions: int = SESSIONS) -> Findings:
    """Open streams, end the gateway by SIGTERM, start it again, and continue each."""
    script = place / "ticker.py"
    script.write_text(TICKER)
    fork_server = ForkServer()
    stack = Stack(place, f'\n[agents.ticker]\nadapter = "dps"\ncommand = "{sys.executable}"\n'
                         f'args = ["-I", "-S", "{script}"]\n', fork_server)
    readers: list[Stream] = []
    try:
        stack.up()
        paths = [_begin(stack, number) for number in range(sessions)]
        readers += [Stream(paths[number % sessions]) for number in range(streams)]
        _ask(stack, readers)
        wrong = _read_until(readers, lambda: all(len(one.numbers) >= EVENTS_BEFORE for one in readers), "begin")
        stack.until_whole()
        gateway = stack.processes["gateway"]
        began = time.monotonic()
        gateway.terminate()
        wrong += _read_until(readers, lambda: gateway.poll() is not None, "end")
        gone_s = time.monotonic() - began
        _read_until(readers, lambda: not any(one.open for one in readers), "end", wait_s=1.0)
        ended = sum(one.open is None for one in readers)
        stack.start("gateway")
        stack.ready()
        before = {id(one): len(one.numbers) for one in readers}
        _ask(stack, readers)
        wrong += _read_until(readers, lambda: all(len(one.numbers) >= before[id(one)] + EVENTS_AFTER
                                                  for one in readers), "go on")
        wrong += [f"{one.path}: {len(one.numbers)} events, not 1 to {one.numbers[-1]} each once" for one in readers
                  if one.numbers != list(range(1, len(one.numbers) + 1))]
        return Findings(streams, gone_s, ended, sum(len(one.numbers) for one in readers), wrong)
    finally:
        for one in readers:
            one.close()
        stack.down()
        fork_server.close()


def _begin(stack: Stack, number: int) -> str:
    body: dict[str, Any] = {
        "type": "execute", "target": {"agent_id": "ticker", "workspace": str(stack.workspace)},
        "payload": {"messages": [{"role": "user", "content": [
            {"contentType": "text", "value": f"{A_SECOND} {TURN_S}"}]}]}}
    answer = stack.post("/v1/commands", body, f"proof-sigterm-{number}-the-key").json()
    return f"/v1/sessions/{answer['target']['session_id']}/frames"


def _ask(stack: Stack, readers: list[Stream]) -> None:
    for one in readers:
        one.close()
        one.ask(stack.port, stack.headers["Authorization"])


def _read_until(readers: list[Stream], reached: Callable[[], bool], what: str, wait_s: float = WAIT_S) -> list[str]:
    """Read all streams until a condition holds; return the fault if it never does."""
    deadline = time.monotonic() + wait_s
    while not reached():
        if time.monotonic() > deadline:
            return [f"not every stream did {what} within {wait_s:.0f} s"]
        by_number = {one.open.fileno(): one for one in readers if one.open is not None}
        for number in select.select(list(by_number), [], [], 0.02)[0]:
            by_number[number].read()
    return []
