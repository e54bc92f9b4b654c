"""Requests of local users to the running runner, over a socket in its state directory (D-5).

One line of JSON each way. Only their owner can access the directory and the socket, so anyone who can connect may ask.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import socket
import struct
import sys
import tempfile
from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path

import msgspec
import structlog

from interlock.runner.process.supervisor import process_table
from interlock.runner.session.session_control import TakeRefused
from interlock.runner.session.sessions import RunnerSessions

SOCKET_FILE = "runner.sock"
PLACE_FILE = "runner.place"
"""Contains the socket's path: if that would be longer than the system allows, the socket is in a separate directory."""
SOCKET_PATH_BYTES = 100
"""The shortest limit of any system (104 on macOS), with a margin."""
LINE_BYTES = 4_096
ASKING_S = 10.0
"""A connection that sends no request within this is closed."""
ANSWER_S = 60.0
"""Limit of an answer: control passes only after what the session is doing at the moment."""

Reread = Callable[[], Awaitable[list[str]]]
"""Reload the config; return its mistakes."""

log = structlog.get_logger()


class Take(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="ask", tag="take"):
    """Pass control of a session to a gateway."""

    session_id: str
    to: str


class Reload(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="ask", tag="reload"):
    """Reload agents and roots from the config (G-1)."""


class Handover(msgspec.Struct, frozen=True, kw_only=True):
    """`ok`, or the reason for the failure."""

    ok: bool
    sentence: str = ""


class NoRunner(Exception):
    """No runner answers in this state directory."""


@contextlib.asynccontextmanager
async def listening(directory: Path, sessions: RunnerSessions, reload: Reread) -> AsyncGenerator[None]:
    """Answer on the directory's socket while the context lasts. The runner holds the outbox's lock, so an existing
    socket is a leftover. `reload` reloads the config, waits until attached gateways have the offering, and returns the
    mistakes."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, ValueError, asyncio.TimeoutError):
            async with asyncio.timeout(ASKING_S):
                line = await reader.readline()
            refused = of_an_agent(writer.get_extra_info("socket"))
            answer = Handover(ok=False, sentence=refused) if refused else await _answer(sessions, reload, line)
            writer.write(msgspec.json.encode(answer) + b"\n")
            await writer.drain()
        writer.close()

    own = directory / SOCKET_FILE
    apart = _short_directory() if len(os.fsencode(own)) > SOCKET_PATH_BYTES else None
    path = apart / SOCKET_FILE if apart is not None else own
    path.unlink(missing_ok=True)
    place = directory / PLACE_FILE
    _forget_left(place)
    old_mask = os.umask(0o177)
    try:
        server = await asyncio.start_unix_server(serve, path, limit=LINE_BYTES)
    finally:
        os.umask(old_mask)
    place.write_text(str(path.absolute()), "utf-8")
    try:
        yield
    finally:
        server.close()
        place.unlink(missing_ok=True)
        path.unlink(missing_ok=True)
        if apart is not None:
            shutil.rmtree(apart, ignore_errors=True)


def of_an_agent(link: socket.socket) -> str | None:
    """Return why a connection is refused: it comes from a process that this runner started, an agent's. None on systems
    that do not report the peer (other than Linux): there only the directory's mode protects."""
    if sys.platform != "linux":
        return None
    pid, _, _ = struct.unpack("3i", link.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i")))
    table = process_table()
    if pid and pid not in table:
        return "The requesting process has ended, so it cannot be checked whether it is an agent's."
    while pid in table:  # A process of another container has the number 0 here, and none of those is an agent's.
        pid = table[pid][0]
        if pid == os.getpid():
            return "An agent's processes may not request this from their runner."
    return None


def _forget_left(place: Path) -> None:
    """Remove the socket that a killed runner left elsewhere; its directory only if it is empty."""
    with contextlib.suppress(OSError, ValueError):
        left = Path(place.read_text("utf-8"))
        if left.name == SOCKET_FILE and left.parent != place.parent:
            left.unlink(missing_ok=True)
            left.parent.rmdir()


def _short_directory() -> Path:
    """Return a directory that only its owner can access, with a path short enough: $TMPDIR may be of any length."""
    room = SOCKET_PATH_BYTES - len(SOCKET_FILE) - 1
    made = Path(tempfile.mkdtemp(prefix="interlock-"))
    if len(os.fsencode(made)) <= room:
        return made
    made.rmdir()
    return Path(tempfile.mkdtemp(prefix="interlock-", dir="/tmp"))


async def _answer(sessions: RunnerSessions, reload: Reread, line: bytes) -> Handover:
    try:
        request = msgspec.json.decode(line, type=Take | Reload)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        return Handover(ok=False, sentence=f"The runner does not know this request: {error}.")
    if isinstance(request, Reload):
        wrong = await reload()
        return Handover(ok=not wrong, sentence=" ".join(wrong))
    try:
        await sessions.take(request.session_id, request.to)
    except TakeRefused as refused:
        return Handover(ok=False, sentence=str(refused))
    return Handover(ok=True)


async def ask(directory: Path, question: Take | Reload) -> Handover:
    """Send a request to the runner that works on `directory`. Raises NoRunner and TimeoutError."""
    try:
        path = (directory / PLACE_FILE).read_text("utf-8")
        reader, writer = await asyncio.open_unix_connection(path, limit=LINE_BYTES)
    except (OSError, ValueError) as error:
        raise NoRunner(f"No runner works on {directory}.") from error
    try:
        writer.write(msgspec.json.encode(question) + b"\n")
        async with asyncio.timeout(ANSWER_S):
            line = await reader.readline()
    finally:
        writer.close()
    try:
        return msgspec.json.decode(line, type=Handover)
    except msgspec.DecodeError as error:
        raise NoRunner(f"The runner on {directory} ended before it answered.") from error
