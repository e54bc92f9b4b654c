"""The files that a command and a frame pass through, and the moves between packages, traced in a complete gateway.

`python -m benchmarks.product.path_trace STATE` is the process that is traced: a gateway in the main thread, and a
scripted runner and a viewer in another. It writes one JSON list of `Path` to STATE/paths.json.
"""

from __future__ import annotations

import contextlib
import dis
import inspect
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
from types import CodeType, FrameType
from typing import Any, NamedTuple

import msgspec
import uvloop

import interlock
from benchmarks.harness import websocket
from benchmarks.harness.scripted_runner import ScriptedRunner, Session
from interlock.app.gateway import run_gateway
from interlock.config import Config, GatewaySection
from interlock.gateway.access.credentials import read_owner_key

TRIES = 7
"""Each path is walked so often; the shortest walk counts, since timers of the gateway may fall into the others."""
PATIENCE_S = 60.0
FOUND_NAME = "paths.json"
WAITING = inspect.CO_COROUTINE | inspect.CO_GENERATOR | inspect.CO_ASYNC_GENERATOR
PACKAGE = str(FilePath(interlock.__file__).parent) + os.sep


class Path(msgspec.Struct, frozen=True):
    """One path: modules of the package entered, the rooms they are in, and the moves from a room to another."""

    name: str
    files: int
    """Modules that ran at all: called, resumed, or asked for one comprehension."""
    rooms: int
    moves: int
    changes: int
    """How often the room of one event is another than that of the event before: each call that is a move counts twice,
    there and back, and so does each coroutine that resumes on the way back."""
    visited: dict[str, int]
    """Each module, with the lines of its functions that ran."""
    moved: list[str]
    """Each move as `module > module`, in order."""


class Entry(NamedTuple):
    """A function of the package that ran, and why."""

    module: str
    caller: str | None
    """The module of the package that called it, directly or through a library; None if a loop or a thread ran it."""
    goes_on: bool = False
    """A coroutine or generator continued after a wait. It called nothing: it is the way back of a call, unless it
    is a task that waited for something before the walk began."""
    code: CodeType | None = None


class Tracer:
    """Notes, while armed, which of the package's functions are entered, in the order of the calls."""

    def __init__(self) -> None:
        self._armed = False
        self._entered = list[Entry]()
        self._frames = set[int]()
        """Frames that ran in this walk, by their id."""

    def install(self) -> None:
        """Trace the calling thread and all that begin afterwards."""
        threading.setprofile(self._on_event)
        sys.setprofile(self._on_event)

    @contextlib.contextmanager
    def walk(self) -> Generator[list[Entry]]:
        """Note what is entered inside the block."""
        self._entered = entered = list[Entry]()
        self._frames = set[int]()
        self._armed = True
        try:
            yield entered
        finally:
            self._armed = False

    def _on_event(self, frame: FrameType, event: str, _argument: Any) -> None:
        if not self._armed or event != "call" or (module := _module(frame)) is None:
            return
        caller = frame.f_back
        while caller is not None and _module(caller) is None:
            caller = caller.f_back
        goes_on = has_waited(frame) and (caller is not None or id(frame) in self._frames)
        self._frames.add(id(frame))
        self._entered.append(Entry(module, _module(caller) if caller is not None else None, goes_on,
                                   frame.f_code))


def _module(frame: FrameType) -> str | None:
    file = frame.f_code.co_filename
    return file[len(PACKAGE):] if file.startswith(PACKAGE) else None


def has_waited(frame: FrameType) -> bool:
    """Return whether the frame of a coroutine or generator is past its beginning: the argument of its last RESUME says
    after what it continues, a yield or an await."""
    code = frame.f_code
    if not code.co_flags & WAITING:
        return False
    instruction, argument = code.co_code[frame.f_lasti:frame.f_lasti + 2]
    return instruction == dis.opmap["RESUME"] and argument & 3 != 0


def run() -> list[Path]:
    """Trace both paths in a process of their own."""
    with tempfile.TemporaryDirectory(prefix="interlock-trace-") as state:
        subprocess.run([sys.executable, "-m", "benchmarks.product.path_trace", state], stdout=subprocess.DEVNULL,
                       check=True, timeout=PATIENCE_S)
        return msgspec.json.decode((FilePath(state) / FOUND_NAME).read_bytes(), type=list[Path])


def summary(name: str, entered: list[Entry]) -> Path:
    """Count one walk. A call is a move if the caller's module is in another package; a callback of a loop or a thread
    is one if it is in another package than the last call, which scheduled it. The continuation of a coroutine
    is not a move, and neither is a return: the reader comes from there."""
    modules = [each.module for each in entered]
    rooms, moved, last = [_room(module) for module in modules], list[str](), None
    for each in entered:
        if each.goes_on:
            continue
        origin = each.caller or last
        if origin is not None and _room(origin) != _room(each.module):
            move = f"{origin} > {each.module}"
            if not moved or moved[-1] != move:
                moved.append(move)
        last = each.module
    return Path(name=name, files=len(set(modules)), rooms=len(set(rooms)), moves=len(moved),
                changes=sum(one != other for one, other in pairwise(rooms)), visited=_lines_run(entered),
                moved=moved)


def _lines_run(entered: list[Entry]) -> dict[str, int]:
    """Return each module with the number of lines of its functions that ran, sorted by name."""
    lines: dict[str, set[int]] = {one.module: set() for one in sorted(entered, key=lambda one: one.module)}
    for one in entered:
        if one.code is not None:
            lines[one.module].update(line for _, _, line in one.code.co_lines() if line is not None)
    return {module: len(ran) for module, ran in lines.items()}


def _room(module: str) -> str:
    return module.partition(os.sep)[0]


def _shortest(name: str, walks: Iterator[list[Entry]]) -> Path:
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

    def _frames(self, session: Session) -> Iterator[list[Entry]]:
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

    def _commands(self, session: Session) -> Iterator[list[Entry]]:
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
