"""A chat service without a network, for tests that do not depend on one service."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from interlock.ports.chat_service import (
    Button,
    ButtonPress,
    ChatLimits,
    ChatMessage,
    ChatService,
    FileWanted,
    Id,
    Spot,
)


class PaperChat(ChatService):
    """A service in which one message waits, and of which the replies are kept."""

    def __init__(self, name: str, limits: ChatLimits, *incoming: ChatMessage) -> None:
        self._incoming: list[ChatMessage | ButtonPress] = [*incoming]
        self.handled = asyncio.Event()
        """Set when everything that waited was received, and is confirmed."""
        self.name = name
        self.limits = limits
        self.answers: list[str] = []
        self.sent: list[str] = []

    async def connect(self) -> str:
        return "bot"

    async def receive(self) -> list[ChatMessage | ButtonPress]:
        if not self._incoming:
            self.handled.set()
            await asyncio.Event().wait()
        found, self._incoming = self._incoming, []
        return found

    async def open_chat(self, chat_id: Id) -> Id:
        return chat_id

    async def send(self, spot: Spot, text: str, *, answers: Id | None = None, buttons: Sequence[Button] = ()) -> Id:
        self.sent.append(text)
        return len(self.sent)

    async def edit(self, spot: Spot, message_id: Id, text: str) -> None:
        return

    async def show_typing(self, spot: Spot) -> None:
        return

    async def answer_press(self, press: ButtonPress, text: str) -> None:
        self.answers.append(text)

    async def fetch(self, wanted: FileWanted, limit_bytes: int) -> bytes | None:
        return None

    async def close(self) -> None:
        return
