"""Clients of every door of a gateway on loopback: a person with a key, and a runner that names a session."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any

import httpx2
from msgspec import inspect
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.typing import Subprotocol

from interlock.protocol.envelope import DPS_VERSION
from interlock.protocol.frames import FRAMES, Class, Direction, decode_wire, understand

if TYPE_CHECKING:
    from mcp.client.client import Client

PATIENCE_S = 20.0
QUIET_S = 5.0
"""How long a stream that has begun may be silent. Only a broken gateway begins one that has nothing."""
LAST = {"message_id": "m-last", "error_code": "X", "message": "x"}
CHANGED = "x-interlock.control.changed"
TEXTS = ("x", "8e6b3c1a-5a0e-4c3f-9d55-1f2a4b6c8d0e", "0" * 64, "2027-01-15T08:00:00.000Z")
"""A text for each pattern that a payload's fields have."""
NAMING: dict[str, dict[str, Any]] = {
    CHANGED: {"gateway_id": "gw_other", "agent_id": "shell", "workspace": "/w"}}
"""Fields of payloads that are needed for a frame to have an effect."""


class Person:
    """A client with a key, at every door; without one it has only tickets."""

    def __init__(self, port: int, key: str | None) -> None:
        self.port = port
        self._headers = {"Authorization": f"Bearer {key}"} if key else {}
        self.http = httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}", headers=self._headers, timeout=PATIENCE_S)
        self._number = 0

    async def get(self, path: str, **query: Any) -> httpx2.Response:
        """GET a page."""
        return await self.http.get(path, params=query)

    async def rpc(self, path: str, method: str, params: dict[str, Any]) -> Any:
        """Call a method of A2A; a stream is read until its end."""
        answer = await self.http.post(path, headers={"A2A-Version": "1.0"}, json={
            "jsonrpc": "2.0", "id": 1, "method": method, "params": params})
        return answer.text

    async def a2a_http(self, asked: dict[str, Any]) -> str:
        """Send a request of A2A's HTTP binding; a stream is read until its end."""
        body = {"json": asked["body"]} if asked["body"] is not None else {}
        answer = await self.http.request(asked["method"], asked["path"], headers={"A2A-Version": "1.0"}, **body)
        return answer.text

    async def first_event(self, path: str, **query: str) -> tuple[int, str]:
        """Read a stream's status, and what it has by the first 3 events or its end."""
        async with self.http.stream("GET", path, params=query, headers={"Accept": "text/event-stream"}) as answer:
            text = ""
            async for chunk in answer.aiter_text():
                text += chunk
                if answer.status_code == 200 and text.count("\ndata:") + text.count(": ") >= 1:
                    break
            return answer.status_code, text

    async def ticket(self, path: str) -> str:
        """Request a ticket."""
        self._number += 1
        answer = await self.http.post("/v1/stream-tickets", json={"path": path},
                                      headers={"Idempotency-Key": f"ticket-{id(self)}-{self._number:06d}"})
        return answer.json()["ticket"]

    @asynccontextmanager
    async def acp(self, query: str) -> AsyncGenerator[Callable[[str, dict[str, Any]], Awaitable[Any]]]:
        """Open a connection of ACP; yields a function that sends a request and returns its answer."""
        async with connect(f"ws://127.0.0.1:{self.port}/acp{query}", additional_headers=self._headers) as link:
            await _asked(link, "initialize", {"protocolVersion": 1})
            yield lambda method, params: _asked(link, method, params)

    async def mcp_tools(self) -> list[str]:
        """Return the names of MCP's tools, as published."""
        async with self._mcp_client() as client:
            return [tool.name for tool in (await client.list_tools()).tools]

    @asynccontextmanager
    async def mcp(self) -> AsyncGenerator[Callable[[str, dict[str, Any]], Awaitable[Any]]]:
        """Open a client of MCP's own SDK; yields a function that calls a tool and returns what a model receives."""
        async with self._mcp_client() as client:
            async def call(name: str, arguments: dict[str, Any]) -> str:
                return (await client.call_tool(name, arguments)).model_dump_json()

            yield call

    @asynccontextmanager
    async def _mcp_client(self) -> AsyncGenerator[Client]:
        from mcp.client.client import Client
        from mcp.client.streamable_http import streamable_http_client

        async with AsyncExitStack() as exits:
            http = await exits.enter_async_context(httpx2.AsyncClient(headers=self._headers, timeout=PATIENCE_S))
            yield await exits.enter_async_context(
                Client(streamable_http_client(f"http://127.0.0.1:{self.port}/mcp", http_client=http)))

    @asynccontextmanager
    async def socket(self) -> AsyncGenerator[Callable[[str], Awaitable[Any]]]:
        """Open `/v1/stream`; yields a function that subscribes to a path and returns the first message about it."""
        async with connect(f"ws://127.0.0.1:{self.port}/v1/stream", additional_headers=self._headers) as link:
            async def follow(path: str) -> str:
                self._number += 1
                ref, received = f"{self._number:04d}", list[dict[str, Any]]()
                await link.send(json.dumps({"op": "subscribe", "ref": ref, "path": path}))
                while not received or received[-1].keys().isdisjoint({"end", "problem"}):
                    message: dict[str, Any]
                    try:
                        message = json.loads(await asyncio.wait_for(link.recv(), QUIET_S))
                    except TimeoutError:  # A stream that begins and has nothing.
                        message = {"ref": ref, "events": []}
                    if message.pop("ref") == ref:
                        received.append(message)
                        await link.send(json.dumps({"op": "unsubscribe", "ref": ref}))
                return json.dumps(received[0])

            yield follow


async def _asked(link: ClientConnection, method: str, params: dict[str, Any]) -> Any:
    await link.send(json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}))
    while True:
        message = json.loads(await asyncio.wait_for(link.recv(), PATIENCE_S))
        if message.get("id") == 1 and "method" not in message:
            return message


async def named_by_runner(port: int, runner_id: str, token: str, session_id: str, *, in_hello: bool, in_frames: bool
                          ) -> str:
    """Attach as a runner that names a session in its hello, in every frame that a runner sends, or both; returns what
    was received, or why the link was refused."""
    own = f"ses-of-{runner_id}"  # As if another gateway had opened it, so that this one observes it.
    sessions = [_reported(own)] + ([_reported(session_id)] if in_hello else [])
    frames = [_frame("x-interlock.hello", {"versions": [DPS_VERSION], "runner_id": runner_id, "boot_id": "b",
                                           "roots": ["/w"], "agents": [], "sessions": sessions})]
    frames += frames_naming(session_id) if in_frames else []
    # Its answer shows that the frames before it were processed.
    frames.append(_frame("x-interlock.control.refused", LAST, session_id=own))
    received: list[str] = []
    try:
        async with connect(f"ws://127.0.0.1:{port}/rawp", subprotocols=[Subprotocol(DPS_VERSION)],
                           additional_headers={"Authorization": f"Bearer {token}"}) as link:
            for frame in frames:
                await link.send(frame)
            while not received or LAST["message_id"] not in received[-1]:
                received.append(str(await asyncio.wait_for(link.recv(), PATIENCE_S)))
    except (InvalidStatus, ConnectionClosed) as over:
        received.append(str(over))
    return "\n".join(received)


def frames_naming(session_id: str) -> list[str]:
    """Return a valid frame of each type that a runner sends, with the session's id wherever it may be."""
    frames: list[str] = []
    for row in FRAMES.values():
        if row.direction is not Direction.M:
            payload = _sample(row.payload, session_id) | NAMING.get(row.name, {})
            numbered = {"seq": 1} if row.frame_class is Class.DURABLE else {}
            frames.append(_frame(row.name, payload, session_id=session_id, **numbered))
            understand(decode_wire(frames[-1].encode()), Direction.C)
    agents = [{"session_id": session_id, "state": "idle", "turn_id": None}]
    return [*frames, _frame("x-interlock.heartbeat", {"agents": agents})]


def _reported(session_id: str) -> dict[str, Any]:
    return {"session_id": session_id, "last_seq_sent": 0, "control_seq": 0, "state": "idle",
            "controller": "gw_other", "agent_id": "shell", "workspace": "/w"}


def _frame(kind: str, payload: dict[str, Any], **more: Any) -> str:
    return json.dumps({"type": kind, "payload": payload, "message_id": f"m-{kind}", "timestamp": "", **more})


def _sample(kind: Any, session_id: str) -> Any:
    """Return the smallest JSON of a type, with a session's id in fields of that name."""
    found = kind if isinstance(kind, inspect.Type) else inspect.type_info(kind)
    match found:
        case inspect.StructType():
            return {field.encode_name: session_id if field.name == "session_id" else _sample(field.type, session_id)
                    for field in found.fields if field.required or field.name == "session_id"}
        case inspect.LiteralType():
            return found.values[0]
        case inspect.UnionType():
            return _sample(found.types[0], session_id)
        case inspect.StrType():
            return next(text for text in TEXTS if re.search(found.pattern or "", text))
        case inspect.BoolType():
            return False
        case inspect.IntType() | inspect.FloatType():
            return 1
        case inspect.ListType() | inspect.CollectionType() | inspect.VarTupleType():
            return []
        case inspect.NoneType():
            return None
        case _:
            return {}
