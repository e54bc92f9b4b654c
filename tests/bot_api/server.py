"""The Bot API's methods that a bot uses here, as documented."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

TOKEN = "12345:stand-in-token-of-the-test"
ME = {"id": 12345, "is_bot": True, "first_name": "Interlock", "username": "interlock_bot"}
DATE = 1_800_000_000
PATIENCE_S = 30
"""For what passes through a gateway, a runner and an agent, which are processes of their own."""
_numbers = itertools.count(1)
"""Ids of messages, updates and button presses: they stay unique if a test's gateway outlives its bot."""


class BotApi:
    """The bot as people see it: the present `messages` by chat, `typing`, and answers to button presses."""

    def __init__(self) -> None:
        self.url = ""
        self.chats: dict[int, dict[int, dict[str, Any]]] = {}
        self.answered: dict[int, int | None] = {}
        self.typing: list[int] = []
        self.answers: dict[str, str] = {}
        self.refusals: list[tuple[str, int, str, dict[str, Any]]] = []
        """What the next call of a method is answered: (method, code, description, parameters)."""
        self.pages: list[tuple[str, int, str]] = []
        """What the next call of a method, or the next `download`, is answered by a proxy on the way: (method, status,
        body)."""
        self.files: dict[str, bytes] = {}
        self.confirmed = 0
        self.closing = False
        self.fault: Exception | None = None
        self.called = asyncio.Event()
        """A bot with the right token has called."""
        self._updates: list[dict[str, Any]] = []
        self._changed = asyncio.Condition()

    # --- what people do ---
    async def write(self, chat: int, user: int, text: str, *, group: bool = False, topic: int | None = None,
                    answers: int | None = None, document: bytes | None = None, **more: Any) -> int:
        """Send a message in a chat, with `more` fields, and return its id."""
        number = next(_numbers)
        place = {"id": chat, "type": "supergroup", "title": "A group", "is_forum": topic is not None} if group else {
            "id": chat, "type": "private", "first_name": "Anna"}
        message: dict[str, Any] = {"message_id": number, "date": DATE, "chat": place,
                                   "from": {"id": user, "is_bot": False, "first_name": "Anna"}}
        if document is None:
            message["text"] = text
        else:
            self.files[f"file{number}"] = document
            message |= {"caption": text, "document": {"file_id": f"file{number}", "file_unique_id": f"u{number}",
                                                      "file_size": len(document), "mime_type": "image/png"}}
        if topic is not None:
            message |= {"message_thread_id": topic, "is_topic_message": True}
        if answers is not None:
            message["reply_to_message"] = {"message_id": answers, "date": DATE, "chat": place, "from": ME, "text": "?"}
        await self._happen({"message": {**message, **more}})
        return number

    async def press(self, chat: int, user: int, message_id: int, label: str) -> str:
        """Press a button; the press's id."""
        rows = self.chats[chat][message_id]["reply_markup"]["inline_keyboard"]
        data = next(button["callback_data"] for row in rows for button in row if button["text"] == label)
        number = f"press{next(_numbers)}"
        await self._happen({"callback_query": {
            "id": number, "from": {"id": user, "is_bot": False, "first_name": "Anna"}, "chat_instance": "1",
            "data": data}})
        return number

    async def again(self) -> None:
        """Send all updates once more, as to a bot that confirmed none of them."""
        self.confirmed = 0
        async with self._changed:
            self._changed.notify_all()

    async def _happen(self, what: dict[str, Any]) -> None:
        async with self._changed:
            self._updates.append({"update_id": next(_numbers), **what})
            self._changed.notify_all()

    # --- what people see ---
    def posted_texts(self, chat: int) -> list[str]:
        """The present texts of the bot in a chat."""
        return [message["text"] for message in self.chats.get(chat, {}).values()]

    async def until_posted(self, chat: int, part: str) -> dict[str, Any]:
        """Wait until a message of a chat holds a text; the message."""
        def found() -> dict[str, Any] | None:
            return next((one for one in self.chats.get(chat, {}).values() if part in one["text"]), None)

        await self.until(lambda: found() is not None)
        message = found()
        assert message is not None
        return message

    async def until(self, reached: Any) -> None:
        """Wait until something is so; a call that this API could not answer fails the test at once."""
        async with self._changed, asyncio.timeout(PATIENCE_S):
            await self._changed.wait_for(lambda: self.fault is not None or reached())
        if self.fault is not None:
            raise AssertionError("the Bot API of the tests failed") from self.fault

    async def close(self) -> None:
        """End every pending request for updates."""
        self.closing = True
        async with self._changed:
            self._changed.notify_all()

    # --- what the bot asks ---
    async def answer(self, request: Request) -> Response:
        """One call of the API."""
        try:
            return await self._answer(request)
        except Exception as fault:
            self.fault = self.fault or fault
            async with self._changed:
                self._changed.notify_all()
            raise

    async def _answer(self, request: Request) -> Response:
        if request.path_params["token"] != TOKEN:
            return _refused(401, "Unauthorized")
        self.called.set()
        method = request.path_params["method"]
        form = {**request.query_params, **{key: str(value) for key, value in (await request.form()).items()}}
        if (page := self._page(method.lower())) is not None:
            return page
        for refusal in self.refusals:
            if refusal[0] == method.lower():
                self.refusals.remove(refusal)
                return _refused(refusal[1], refusal[2], refusal[3])
        result = await getattr(self, f"_{method.lower()}")(form)
        if result is None:
            return _refused(400, "Bad Request: there is no such message")
        async with self._changed:
            self._changed.notify_all()
        return JSONResponse({"ok": True, "result": result})

    async def download(self, request: Request) -> Response:
        """One file."""
        return self._page("download") or Response(self.files[request.path_params["name"]])

    def _page(self, method: str) -> Response | None:
        page = next((one for one in self.pages if one[0] == method), None)
        if page is None:
            return None
        self.pages.remove(page)
        return Response(page[2], page[1], media_type="text/html")

    async def _getme(self, _form: dict[str, str]) -> Any:
        return ME

    async def _getupdates(self, form: dict[str, str]) -> Any:
        self.confirmed = max(self.confirmed, int(form.get("offset", "0")) - 1)
        def waiting() -> list[dict[str, Any]]:
            return [one for one in self._updates if one["update_id"] > self.confirmed]

        async with self._changed:
            try:
                async with asyncio.timeout(float(form.get("timeout", "0"))):
                    await self._changed.wait_for(lambda: waiting() or self.closing)
            except TimeoutError:
                return []
            return waiting()

    async def _sendmessage(self, form: dict[str, str]) -> Any:
        number, chat = next(_numbers), int(form["chat_id"])
        message = {"message_id": number, "date": DATE, "text": form["text"], "chat": {"id": chat, "type": "private"}}
        if "reply_markup" in form:
            message["reply_markup"] = json.loads(form["reply_markup"])
        if "message_thread_id" in form:
            message["message_thread_id"] = int(form["message_thread_id"])
        self.answered[number] = json.loads(form.get("reply_parameters", "{}")).get("message_id")
        self.chats.setdefault(chat, {})[number] = message
        return message

    async def _editmessagetext(self, form: dict[str, str]) -> Any:
        message = self.chats.get(int(form["chat_id"]), {}).get(int(form["message_id"]))
        if message is not None:
            message["text"] = form["text"]
            message.pop("reply_markup", None)
        return message

    async def _sendchataction(self, form: dict[str, str]) -> Any:
        self.typing.append(int(form["chat_id"]))
        return True

    async def _answercallbackquery(self, form: dict[str, str]) -> Any:
        self.answers[form["callback_query_id"]] = form.get("text", "")
        return True

    async def _getfile(self, form: dict[str, str]) -> Any:
        name = form["file_id"]
        return {"file_id": name, "file_unique_id": name, "file_path": name, "file_size": len(self.files[name])}


def _refused(code: int, description: str, parameters: dict[str, Any] | None = None) -> Response:
    return JSONResponse({"ok": False, "error_code": code, "description": description,
                         **({"parameters": parameters} if parameters else {})}, status_code=code)


@asynccontextmanager
async def bot_api() -> AsyncIterator[BotApi]:
    """Serve it on a free port of loopback."""
    api = BotApi()
    app = Starlette(routes=[Route("/file/bot{token}/{name}", api.download),
                            Route("/bot{token}/{method}", api.answer, methods=["GET", "POST"])])
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_level="warning", lifespan="off"))
    serving = asyncio.ensure_future(server.serve())
    while not server.started:
        await asyncio.sleep(0)
    api.url = f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    try:
        yield api
    finally:
        await api.close()
        server.should_exit = True
        await serving
