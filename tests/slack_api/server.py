"""Slack's Web API methods that an app uses here, and its Socket Mode, as documented."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any, NamedTuple

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed

BOT_TOKEN, APP_TOKEN, BOT = "xoxb-of-the-test", "xapp-of-the-test", "UBOT"
PATIENCE_S = 30
MAX_BLOCKS, MAX_SECTION, MAX_ALL = 50, 3_000, 13_000
_numbers = itertools.count(1)


class Refusal(NamedTuple):
    """What the next call of a method is answered."""

    method: str
    error: str
    status: int = 200
    headers: dict[str, str] | None = None


class SlackApi:
    """What people see of the app: `messages` by channel and ts, each as it is now; `whispers` that one person sees."""

    def __init__(self) -> None:
        self.url = ""
        self.messages: dict[str, dict[str, dict[str, Any]]] = {}
        self.whispers: list[tuple[str, str]] = []
        self.refusals: list[Refusal] = []
        self.calls: list[str] = []
        self.confirmed: list[str] = []
        self.fault: Exception | None = None
        self.links = 0
        self.down = False
        """Whether new sockets are rejected."""
        self._socket_url = ""
        self._pending: dict[str, dict[str, Any]] = {}
        self._tickets: set[str] = set()
        self._socket: ServerConnection | None = None
        self._changed = asyncio.Condition()
        self.called = asyncio.Event()
        """An app with the right token has called."""

    # --- what people do ---
    async def write(self, channel: str, user: str, text: str, *, thread: str | None = None, **event: Any) -> str:
        """Write a message, in a direct chat if the channel is one, else with a mention; its ts."""
        ts = f"1800000000.{next(_numbers):06}"
        direct = channel.startswith("D")
        found = {"type": "message" if direct else "app_mention", "user": user, "text": text, "ts": ts,
                 "channel": channel, **({"channel_type": "im"} if direct else {}),
                 **({"thread_ts": thread} if thread is not None else {}), **event}
        await self.deliver("events_api", {"type": "event_callback", "event": found})
        return ts

    async def press(self, channel: str, user: str, ts: str, label: str, *, value: str | None = None,
                    action_ts: str | None = None, elsewhere: str | None = None, team: str = "T1") -> None:
        """Press a button; with `value`, send that instead of its own; `elsewhere` names another channel, `team`
        the workspace of the person."""
        message = self.messages[channel][ts]
        buttons = [one for block in message["blocks"] if block["type"] == "actions" for one in block["elements"]]
        button = next((one for one in buttons if one["text"]["text"] == label), None)
        if button is None and value is None:
            raise AssertionError(f"no button {label} in {buttons}")
        action = {"action_id": "interlock-vote-0", "action_ts": action_ts or f"{next(_numbers)}.0",
                  "value": value if value is not None else (button or {}).get("value", "")}
        await self.deliver("interactive", {
            "type": "block_actions", "user": {"id": user, "team_id": team}, "actions": [action], "container": {
                "type": "message", "message_ts": ts, "channel_id": elsewhere or channel,
                **({"thread_ts": message["thread_ts"]} if "thread_ts" in message else {})}})

    async def deliver(self, kind: str, payload: dict[str, Any]) -> None:
        """Send an envelope; it is sent again over the next socket until it is confirmed."""
        envelope_id = f"envelope-{next(_numbers)}"
        self._pending[envelope_id] = {"envelope_id": envelope_id, "type": kind, "payload": payload,
                                      "accepts_response_payload": kind == "interactive"}
        if self._socket is not None:
            with suppress(ConnectionClosed):
                await self._socket.send(json.dumps(self._pending[envelope_id]))

    async def cut(self, reason: str | None = None) -> None:
        """End the socket, after a `disconnect` if there is a reason."""
        await self.until(lambda: self._socket is not None)
        assert self._socket is not None
        if reason is not None:
            await self._socket.send(json.dumps({"type": "disconnect", "reason": reason}))
        await self._socket.close()

    # --- what people see ---
    def posted_texts(self, channel: str) -> list[str]:
        return [text_of(message) for message in self.messages.get(channel, {}).values()]

    async def until_posted(self, channel: str, part: str) -> dict[str, Any]:
        """Wait until a message of a channel has a text; the message."""
        def found() -> dict[str, Any] | None:
            return next((one for one in self.messages.get(channel, {}).values() if part in text_of(one)), None)

        await self.until(lambda: found() is not None)
        message = found()
        assert message is not None
        return message

    async def until_whispered(self, user: str, part: str) -> None:
        await self.until(lambda: any(who == user and part in text for who, text in self.whispers))

    async def until(self, reached: Any) -> None:
        """Wait until something is so; a call that this server could not answer fails the test at once."""
        async with self._changed, asyncio.timeout(PATIENCE_S):
            await self._changed.wait_for(lambda: self.fault is not None or reached())
        if self.fault is not None:
            raise AssertionError("the Slack of the tests failed") from self.fault

    async def _notify(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    # --- what the app calls ---
    async def answer(self, request: Request) -> Response:
        try:
            return await self._answer(request)
        except Exception as fault:
            self.fault = self.fault or fault
            raise
        finally:
            await self._notify()

    async def _answer(self, request: Request) -> Response:
        method = request.path_params["method"]
        self.calls.append(method)
        for refusal in self.refusals:
            if refusal.method == method:
                self.refusals.remove(refusal)
                return JSONResponse({"ok": False, "error": refusal.error}, refusal.status, refusal.headers)
        wanted = APP_TOKEN if method == "apps.connections.open" else BOT_TOKEN
        if request.headers.get("authorization") != f"Bearer {wanted}":
            return JSONResponse({"ok": False, "error": "invalid_auth"})
        self.called.set()
        body = await request.body()
        typed = request.headers.get("content-type", "")
        form: dict[str, Any] = json.loads(body) if "json" in typed else dict((await request.form()).items())
        form = {**request.query_params, **form}
        result = getattr(self, "_" + method.replace(".", "_").lower())(form)
        return JSONResponse({"ok": True, **result} if isinstance(result, dict) else {"ok": False, "error": result})

    def _auth_test(self, _form: dict[str, Any]) -> Any:
        return {"user_id": BOT, "team_id": "T1"}

    def _apps_connections_open(self, _form: dict[str, Any]) -> Any:
        ticket = f"ticket-{next(_numbers)}"
        self._tickets.add(ticket)
        return {"url": f"{self._socket_url}/link/?ticket={ticket}"}

    def _conversations_open(self, form: dict[str, Any]) -> Any:
        return {"channel": {"id": "D" + form["users"][1:]}}

    def _chat_postmessage(self, form: dict[str, Any]) -> Any:
        message = _message(form)
        if isinstance(message, str):
            return message
        ts = f"1800000000.{next(_numbers):06}"
        self.messages.setdefault(form["channel"], {})[ts] = {**message, "ts": ts}
        return {"ts": ts, "channel": form["channel"]}

    def _chat_update(self, form: dict[str, Any]) -> Any:
        message = _message(form)
        if isinstance(message, str):
            return message
        if form["ts"] not in self.messages.get(form["channel"], {}):
            return "message_not_found"
        self.messages[form["channel"]][form["ts"]].update(message)
        return {"ts": form["ts"], "channel": form["channel"]}

    def _chat_postephemeral(self, form: dict[str, Any]) -> Any:
        message = _message(form)
        if isinstance(message, str):
            return message
        self.whispers.append((form["user"], text_of(message)))
        return {"message_ts": "1.0"}

    # --- the socket ---
    async def link(self, connection: ServerConnection) -> None:
        """One connection of Socket Mode."""
        ticket = (connection.request.path if connection.request is not None else "").partition("ticket=")[2]
        if self.down or ticket not in self._tickets:
            await connection.close(1008)
            return
        self._tickets.remove(ticket)
        self.links += 1
        await connection.send(json.dumps({"type": "hello", "num_connections": 1}))
        for envelope in list(self._pending.values()):
            await connection.send(json.dumps(envelope))
        self._socket = connection
        await self._notify()
        with suppress(ConnectionClosed):
            async for raw in connection:
                envelope_id = json.loads(raw)["envelope_id"]
                self.confirmed.append(envelope_id)
                self._pending.pop(envelope_id, None)
                await self._notify()
        self._socket = None
        await self._notify()

    @property
    def unconfirmed(self) -> int:
        return len(self._pending)


def text_of(message: dict[str, Any]) -> str:
    """What people read of a message."""
    return "\n".join(block["text"]["text"] for block in message["blocks"] if block["type"] == "section")


def labels_of(message: dict[str, Any]) -> list[str]:
    return [one["text"]["text"] for block in message["blocks"] if block["type"] == "actions"
            for one in block["elements"]]


def _message(form: dict[str, Any]) -> dict[str, Any] | str:
    """A message as it would be shown, or Slack's word for what is wrong with it."""
    blocks = form["blocks"] if isinstance(form["blocks"], list) else json.loads(form["blocks"])
    texts = [block["text"]["text"] for block in blocks if block["type"] == "section"]
    if not blocks or len(blocks) > MAX_BLOCKS or any(not 0 < len(text) <= MAX_SECTION for text in texts):
        return "invalid_blocks"
    if sum(map(len, texts)) > MAX_ALL:
        return "msg_blocks_too_long"
    assert all(block["expand"] for block in blocks if block["type"] == "section"), "folded text is not shown"
    message = {"text": form["text"], "blocks": blocks}
    return {**message, "thread_ts": form["thread_ts"]} if form.get("thread_ts") else message


@asynccontextmanager
async def slack_api() -> AsyncIterator[SlackApi]:
    """Serve both on free ports."""
    api = SlackApi()
    routes = [Route("/api/{method}", api.answer, methods=["POST"])]
    web = uvicorn.Server(uvicorn.Config(Starlette(routes=routes), host="127.0.0.1", port=0, log_level="warning",
                                        lifespan="off"))
    serving = asyncio.ensure_future(web.serve())
    while not web.started:
        await asyncio.sleep(0)
    api.url = f"http://127.0.0.1:{web.servers[0].sockets[0].getsockname()[1]}/api/"
    async with serve(api.link, "127.0.0.1", 0) as sockets:
        api._socket_url = f"ws://127.0.0.1:{next(iter(sockets.sockets)).getsockname()[1]}"
        try:
            yield api
        finally:
            web.should_exit = True
            await serving
