"""A RACP client, written from the text alone, on the standard library's HTTP."""

from __future__ import annotations

import asyncio
import http.client
import json
import secrets
import time
from collections.abc import Callable
from typing import Any, NamedTuple, cast

from proof.independent_peers.profile import RECEIVE_S, Broken

Document = dict[str, Any]


class Answer(NamedTuple):
    """What the server answered; `body` is JSON, or else text."""

    status: int
    body: Any
    headers: dict[str, str]

    @property
    def fields(self) -> Document:
        """The body if it is an object of JSON, else an empty one."""
        return cast(Document, self.body) if isinstance(self.body, dict) else {}

    @property
    def code(self) -> str:
        """The error code, or ""."""
        return str(self.fields.get("code", ""))


Tap = Callable[[str, str, Answer], Answer]
"""A relay between: the outcome of an answer on its way."""


def honest(_method: str, _path: str, answer: Answer) -> Answer:
    """A relay that changes nothing."""
    return answer


class Person:
    """A principal with an API key. Paths are the text's own, without a version."""

    def __init__(self, port: int, key: str | None, tap: Tap = honest) -> None:
        self._port = port
        self._key = key
        self._tap = tap

    async def get(self, path: str) -> Answer:
        """GET."""
        return await asyncio.to_thread(self._request, "GET", path, None, {})

    async def post(self, path: str, body: Any, key: str | None = "") -> Answer:
        """POST, under a new idempotency key if `key` is ""; None sends none."""
        headers = {"Idempotency-Key": key or secrets.token_hex(12)} if key is not None else {}
        return await asyncio.to_thread(self._request, "POST", path, body, headers)

    async def ask(self, method: str, path: str, body: Any = None) -> Answer:
        """Any method."""
        return await asyncio.to_thread(self._request, method, path, body, {})

    async def found(self, path: str) -> Any:
        """GET what must be there. Raises Broken."""
        answer = await self.get(path)
        if answer.status != 200:
            raise Broken(f"GET {path}: {answer.status} {answer.body}")
        return answer.body

    async def execute(self, target: Document, text: str = "go", **more: Any) -> Document:
        """`POST /commands {execute}`; a client that has just dialled may be offered a moment later. Raises Broken."""
        deadline = time.monotonic() + RECEIVE_S
        while True:
            answer = await self.post("/commands",
                                     {"type": "execute", "target": target, "payload": text_message(text), **more})
            if answer.status in (200, 201, 202):
                return answer.body
            if answer.status != 409 or time.monotonic() > deadline:
                raise Broken(f"POST /commands: {answer.status} {answer.body}")
            await asyncio.sleep(0.05)

    async def events(self, command_id: str, until: Callable[[Document], bool]) -> list[Document]:
        """Poll `GET /commands/:id/status?since=<cursor>` until an event is there; returns all so far. Raises Broken."""
        found: list[Document] = []
        cursor, deadline = "", time.monotonic() + RECEIVE_S
        while time.monotonic() < deadline:
            since = f"&since={cursor}" if cursor else ""
            page = await self.found(f"/commands/{command_id}/status?wait=2{since}")
            found += page["events"]
            cursor = page["next_cursor"]
            if any(map(until, page["events"])):
                return found
            if page.get("terminal") and not page.get("has_more"):
                break
        raise Broken(f"the event did not come; what came: {[event.get('event') for event in found]}")

    async def ended(self, command_id: str) -> Document:
        """Wait for a command's result or error event; returns the command. Raises Broken."""
        await self.events(command_id, lambda event: event["event"] in ("result", "error"))
        return await self.found(f"/commands/{command_id}")

    async def stream(self, path: str) -> list[Document]:
        """Read an SSE stream to its end: the data of each event."""
        return await asyncio.to_thread(self._stream, path)

    def _request(self, method: str, path: str, body: Any, headers: dict[str, str]) -> Answer:
        link = http.client.HTTPConnection("127.0.0.1", self._port, timeout=60)
        try:
            raw = body if isinstance(body, bytes | None) else json.dumps(body).encode()
            link.request(method, path, raw, {**headers, **self._credential(), "Content-Type": "application/json"})
            answer = link.getresponse()
            text = answer.read()
            shown = dict(answer.getheaders())
        finally:
            link.close()
        try:
            return self._tap(method, path, Answer(answer.status, json.loads(text), shown))
        except ValueError:
            return self._tap(method, path, Answer(answer.status, text.decode("utf-8", "replace"), shown))

    def _stream(self, path: str) -> list[Document]:
        link = http.client.HTTPConnection("127.0.0.1", self._port, timeout=60)
        try:
            link.request("GET", path, headers={**self._credential(), "Accept": "text/event-stream"})
            answer = link.getresponse()
            if answer.status != 200:
                raise Broken(f"GET {path} as a stream: {answer.status}")
            return [json.loads(line[5:]) for line in answer if line.startswith(b"data:")]
        finally:
            link.close()

    def _credential(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self._key}"} if self._key else {}


def text_message(text: str) -> Document:
    """`payload` with a UserMessage of llm-bridge-spec."""
    return {"messages": [{"role": "user", "content": [{"contentType": "text", "value": text}]}]}
