"""An ACP client for tests: each message that it gets is checked against ACP's own schema."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from interlock.doors.acp.door import AcpDoor, DoorError, OnExit
from interlock.sdk import AsyncInterlock
from proof.processes.stack import Stack

PATIENCE_S = 30
Transport = Literal["stdio", "websocket"]
RESULTS = {
    "initialize": "InitializeResponse", "session/new": "NewSessionResponse", "session/load": "LoadSessionResponse",
    "session/resume": "ResumeSessionResponse", "session/list": "ListSessionsResponse",
    "session/prompt": "PromptResponse", "session/set_mode": "SetSessionModeResponse",
    "session/close": "CloseSessionResponse", "session/delete": "DeleteSessionResponse"}
Answer = Callable[[dict[str, Any]], str | None]
"""What the editor's user chooses: an option's id, or None to cancel the question."""


def validate(name: str, value: Any) -> None:
    """Check a message against ACP's own schema. Its 280 models are built by the worker that runs this file alone."""
    import acp.schema

    getattr(acp.schema, name).model_validate(value)


def allowing(_asked: dict[str, Any]) -> str | None:
    return "allow"


class Editor:
    """The editor's end of the pipe. `asked` are the permission requests so far, `updates` the session updates."""

    def __init__(self, answer: Answer | None) -> None:
        self._answer = answer
        self._numbers = itertools.count(1)
        self._lines = asyncio.Queue[bytes | None]()
        self._waiting: dict[int, tuple[str, asyncio.Future[Any]]] = {}
        self.asked: list[dict[str, Any]] = []
        self.withdrawn: list[int] = []
        self.updates: list[dict[str, Any]] = []
        self.changed = asyncio.Event()
        self.disconnected = asyncio.Event()

    # --- the door's pipes ---
    async def lines(self) -> AsyncIterator[bytes]:
        while (line := await self._lines.get()) is not None:
            yield line

    async def write(self, data: bytes) -> None:
        for line in data.splitlines():
            self._take(json.loads(line))
        self.changed.set()

    def _take(self, message: dict[str, Any]) -> None:
        match message.get("method"):
            case None:
                method, future = self._waiting.pop(message["id"])
                if "error" in message:
                    future.set_exception(DoorError(message["error"]["code"], message["error"]["message"],
                                                   message["error"].get("data")))
                else:
                    validate(RESULTS[method], message["result"])
                    future.set_result(message["result"])
            case "session/update":
                validate("SessionNotification", message["params"])
                self.updates.append(message["params"]["update"])
            case "session/request_permission":
                validate("RequestPermissionRequest", message["params"])
                self.asked.append(message["params"])
                if self._answer is not None:
                    option = self._answer(message["params"])
                    outcome = {"outcome": "selected", "optionId": option} if option else {"outcome": "cancelled"}
                    self._send({"id": message["id"], "result": {"outcome": outcome}})
            case "$/cancel_request":
                self.withdrawn.append(message["params"]["requestId"])
            case unknown:
                raise AssertionError(f"the door sent {unknown}")

    # --- the editor's requests ---
    def ask(self, method: str, **params: Any) -> asyncio.Future[Any]:
        number, future = next(self._numbers), asyncio.get_running_loop().create_future()
        self._waiting[number] = method, future
        self._send({"id": number, "method": method, "params": params})
        return future

    async def new(self, cwd: Path, **params: Any) -> str:
        return (await self.ask("session/new", cwd=str(cwd), mcpServers=[], **params))["sessionId"]

    def prompt(self, session: str, text: str) -> asyncio.Future[Any]:
        return self.ask("session/prompt", sessionId=session, prompt=[{"type": "text", "text": text}])

    def notify(self, method: str, **params: Any) -> None:
        self._send({"method": method, "params": params})

    def leave(self) -> None:
        self._lines.put_nowait(None)

    async def until(self, reached: Callable[[], Any]) -> Any:
        async with asyncio.timeout(PATIENCE_S):
            while not (found := reached()):
                self.changed.clear()
                await self.changed.wait()
        return found

    def text(self, kind: str = "agent_message_chunk") -> str:
        return "".join(one["content"]["text"] for one in self.updates if one["sessionUpdate"] == kind)

    def _send(self, message: dict[str, Any]) -> None:
        self._lines.put_nowait(json.dumps({"jsonrpc": "2.0", **message}).encode())


@asynccontextmanager
async def editor(stack: Stack, agent: str | None = "shell", answer: Answer | None = allowing, key: str | None = None,
                 on_exit: OnExit = "detach", transport: Transport = "stdio") -> AsyncGenerator[Editor]:
    """Connect to a door of this process, or to the one of the gateway."""
    at = Editor(answer)
    if transport == "websocket":
        async with over_websocket(stack, at, agent, key):
            yield at
        return
    serving = asyncio.create_task(AcpDoor(at, lambda: client(stack, key), agent, None, on_exit).run())
    try:
        yield at
    finally:
        at.leave()
        await asyncio.wait_for(serving, PATIENCE_S)


@asynccontextmanager
async def over_websocket(
    stack: Stack, at: Editor, agent: str | None, key: str | None
) -> AsyncGenerator[ClientConnection]:
    """Carry an editor's messages over a WebSocket to the gateway, a message in each text frame."""
    url = stack.url.replace("http", "ws", 1) + "/acp" + (f"?agent={agent}" if agent else "")
    headers = {"Authorization": f"Bearer {key or key_of(stack)}"}
    async with connect(url, additional_headers=headers, max_size=None) as link:

        async def send() -> None:
            async for line in at.lines():
                await link.send(line.decode())

        async def receive() -> None:
            try:
                while True:
                    message = await link.recv()
                    assert isinstance(message, str)
                    await at.write(message.encode())
            except ConnectionClosed:
                at.disconnected.set()
                at.changed.set()

        async with asyncio.TaskGroup() as both:
            sending, receiving = both.create_task(send()), both.create_task(receive())
            try:
                yield link
            finally:
                sending.cancel()
                await link.close()
                await receiving


def key_of(stack: Stack) -> str:
    return stack.headers["Authorization"].removeprefix("Bearer ")


def client(stack: Stack, key: str | None = None) -> AsyncInterlock:
    return AsyncInterlock(stack.url, key or key_of(stack))
