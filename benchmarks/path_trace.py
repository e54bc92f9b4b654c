"""The files that a command and a frame pass through, and the moves between rooms, traced in a whole gateway.

`python -m benchmarks.path_trace STATE` is the process that is traced: a gateway in the main thread, and a scripted
runner and a viewer in another. It writes one JSON list of `Path` to STATE/paths.json.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Generator, Iterator
from itertools import pairwise
from pathlib import Path as FilePath
from types import FrameType
from typing import Any

import msgspec
import uvloop

import interlock
from benchmarks import websocket
from benchmarks.scripted_runner import ScriptedRunner, Session
from interlock.app.gateway import run_gateway
from interlock.config import Config, GatewaySection
from interlock.gateway.credentials import read_owner_key

TRIES = 7
"""Each path is walked so often; the shortest walk counts, since timers of the gateway may fall into the others."""
PATIENCE_S = 60.0
FOUND_NAME = "paths.json"
PACKAGE = str(FilePath(interlock.__file__).parent) + os.sep


class Path(msgspec.Struct, frozen=True):
    """One path: modules of the package entered, the rooms they are in, and the calls that go from a room to another.

    A call is counted once for each pair of modules and place in the order of calls, so a loop over a hundred rows
    counts as often as it runs."""

    name: str
    files: int
    rooms: int
    moves: int
    visited: list[str]


class Tracer:
    """Notes, while armed, which of the package's modules are entered, in the order of the calls."""

    def __init__(self) -> None:
        self._armed = False
        self._entered = list[str]()

    def install(self) -> None:
        """Trace the calling thread and all that begin afterwards."""
        threading.setprofile(self._on_event)
        sys.setprofile(self._on_event)

    @contextlib.contextmanager
    def walk(self) -> Generator[list[str]]:
        """Note the modules that are entered inside the block."""
        self._entered = entered = list[str]()
        self._armed = True
        try:
            yield entered
        finally:
            self._armed = False

    def _on_event(self, frame: FrameType, event: str, _argument: Any) -> None:
        if self._armed and event == "call":
            file = frame.f_code.co_filename
            if file.startswith(PACKAGE):
                self._entered.append(file[len(PACKAGE):])


def run() -> list[Path]:
    """Trace both paths in a process of their own."""
    with tempfile.TemporaryDirectory(prefix="interlock-trace-") as state:
        subprocess.run([sys.executable, "-m", "benchmarks.path_trace", state], stdout=subprocess.DEVNULL, check=True,
                       timeout=PATIENCE_S)
        return msgspec.json.decode((FilePath(state) / FOUND_NAME).read_bytes(), type=list[Path])


def summary(name: str, entered: list[str]) -> Path:
    """Count one walk: `entered` are the modules in the order of the calls."""
    rooms = [module.partition(os.sep)[0] for module in entered]
    return Path(name=name, files=len(set(entered)), rooms=len(set(rooms)),
                moves=sum(one != other for one, other in pairwise(rooms)),
                visited=sorted(set(entered)))


def _shortest(name: str, walks: Iterator[list[str]]) -> Path:
    return min((summary(name, entered) for entered in walks), key=lambda path: (path.files, path.moves))


class _Driver:
    """The runner and the viewer, and the walks that they make the gateway do."""

    def __init__(self, tracer: Tracer, port: int, token: str, key: str) -> None:
        self._tracer = tracer
        self._runner = ScriptedRunner(port, token, key)

    def walks(self) -> list[Path]:
        session = self._runner.open()
        frame = _shortest("a durable frame until a viewer has it", self._frames(session))
        self._runner.finish(session)
        command = _shortest("a POSTed command until its 202", self._commands(session))
        return [command, frame]

    def _frames(self, session: Session) -> Iterator[list[str]]:
        viewer = self._runner.viewer(session)
        for _ in range(TRIES):
            message = websocket.message(self._runner.text_frame(session))
            viewer.expect_all()
            with self._tracer.walk() as entered:
                self._runner.sock.sendall(message)
                while not viewer.done:
                    viewer.feed(viewer.sock.recv(websocket.RECEIVE_BYTES))
            yield entered
        viewer.sock.close()

    def _commands(self, session: Session) -> Iterator[list[str]]:
        for _ in range(TRIES):
            with self._tracer.walk() as entered:
                self._runner.request("POST", "/v1/commands", {
                    "type": "execute", "on_busy": "enqueue", "target": {"session_id": session.session_id},
                    "payload": {"messages": [{"role": "user", "content": [{"contentType": "text", "value": "go"}]}]}})
            yield entered


def _untraced(work: Callable[[], None]) -> None:
    sys.setprofile(None)
    work()


def main() -> None:
    """Serve in this thread, drive from another, print what was found."""
    state, token = FilePath(sys.argv[1]), secrets.token_urlsafe(32)
    (state / "token").write_text(token, "ascii")
    tracer, found = Tracer(), list[Path]()

    def drive(port: int) -> None:
        try:
            key = read_owner_key(state)
            assert key is not None, "the gateway has made no owner key"
            found.extend(_Driver(tracer, port, token, key).walks())
        finally:
            os.kill(os.getpid(), signal.SIGTERM)

    def ready(url: str) -> None:
        port = int(url.rpartition(":")[2])
        threading.Thread(target=_untraced, args=(lambda: drive(port),), daemon=True).start()

    tracer.install()
    uvloop.run(run_gateway(state, Config(gateway=GatewaySection(port=0)), ready=ready,
                           local_runner_token=state / "token"))
    (state / FOUND_NAME).write_bytes(msgspec.json.encode(found))


if __name__ == "__main__":
    main()
