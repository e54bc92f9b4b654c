"""A chat service of several chats, some of which make their sender wait."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from channels.chat.paper_chat import PaperChat
from interlock.channels.telegram.updates import LIMITS
from interlock.ports.chat_service import Button, ButtonPress, ChatLimits, ChatMessage, FileWanted, Id, Spot

PATIENCE_S = 20.0


class BusyChat(PaperChat):
    """Returns each batch once the one before is confirmed. A call for a chat of `waiting` lasts until `accept`, as with
    a `retry_after` that does not end, and the download of a file of `waiting`."""

    def __init__(self, *batches: Sequence[ChatMessage | ButtonPress], waiting: Sequence[Id] = (),
                 limits: ChatLimits = LIMITS) -> None:
        super().__init__("telegram", limits)
        self._batches = [*batches]
        self._waiting = {*waiting}
        self._changed = asyncio.Condition()
        self.delivered: list[tuple[Id, str]] = []
        """What was sent, in its order, by chat."""
        self.edited: list[tuple[Id, str]] = []

    async def receive(self) -> list[ChatMessage | ButtonPress]:
        if self._batches:
            return list(self._batches.pop(0))
        return await super().receive()

    async def send(self, spot: Spot, text: str, *, answers: Id | None = None, buttons: Sequence[Button] = ()) -> Id:
        async with self._changed:
            await self._changed.wait_for(lambda: spot.chat_id not in self._waiting)
            self.delivered.append((spot.chat_id, text))
            self._changed.notify_all()
        return len(self.delivered)

    async def edit(self, spot: Spot, message_id: Id, text: str) -> None:
        async with self._changed:
            await self._changed.wait_for(lambda: spot.chat_id not in self._waiting)
            self.edited.append((spot.chat_id, text))
            self._changed.notify_all()

    async def fetch(self, wanted: FileWanted, limit_bytes: int) -> bytes | None:
        async with self._changed:
            await self._changed.wait_for(lambda: wanted.file_id not in self._waiting)
        return b"picture"

    async def answer_press(self, press: ButtonPress, text: str) -> None:
        async with self._changed:
            await self._changed.wait_for(lambda: press.user_id not in self._waiting)
            self.answers.append(text)
            self._changed.notify_all()

    async def accept(self) -> None:
        """Let every chat and file continue."""
        async with self._changed:
            self._waiting.clear()
            self._changed.notify_all()

    async def until(self, reached: Callable[[], bool]) -> None:
        """Wait until something is sent, edited or answered."""
        async with asyncio.timeout(PATIENCE_S), self._changed:
            await self._changed.wait_for(reached)

    def texts(self, chat: Id) -> list[str]:
        return [text for where, text in self.delivered if where == chat]
