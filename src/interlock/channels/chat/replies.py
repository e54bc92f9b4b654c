"""Messages to chats that wait for nothing but the service: one durable queue for each chat, so that a chat that is to
wait (429) delays neither what is received nor the replies of other chats."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable

import structlog

from interlock.channels.chat.messages import pieces
from interlock.channels.chat.places import Places, UnsentReply
from interlock.channels.chat.workers import ChatWorkers
from interlock.ports.chat_service import BotRejected, ChatRefused, ChatService, Id, Spot

MAX_WAITING = 50
"""Replies that wait for one chat. Above it the replies of a session wait in the ledger, and the answer to a message is
left out; how many were is sent when the queue is empty again."""
STOP_S = 5.0
"""Time that a message under way has to end when the bridge stops; what is not sent then is sent by the next start."""

log = structlog.get_logger("interlock.chat")


class Replies:
    """The queues. Their contents are part of the bridge's file, which `save` makes durable."""

    def __init__(self, bot: ChatService, places: Places, save: Callable[[], None]) -> None:
        self._bot = bot
        self._places = places
        self._save = save
        self._workers = ChatWorkers(self._send_next, STOP_S)
        self._left_out: Counter[Id] = Counter()
        self._sent = asyncio.Event()

    async def run(self) -> None:
        """Send until cancelled, beginning with what the last start left. Raises BotRejected, and OSError if the file
        cannot be written."""
        for chat_id in {reply.spot.chat_id for reply in self._places.unsent}:
            self._workers.wake(chat_id)
        await self._workers.run()

    async def room(self, chat_id: Id) -> None:
        """Wait until a chat's queue has room."""
        while self._is_full(chat_id):
            self._sent.clear()
            await self._sent.wait()

    def post(self, spot: Spot, text: str) -> None:
        """Queue a message; it is durable once the caller has saved the file."""
        if text.strip():
            self._places.unsent.append(UnsentReply(spot, text))
            self._workers.wake(spot.chat_id)

    def answer(self, spot: Spot, text: str, answers: Id | None = None) -> None:
        """Queue the answer to a message, durably; if the chat's queue is full it is left out and counted. Raises
        OSError."""
        if self._is_full(spot.chat_id):
            self._left_out[spot.chat_id] += 1
            log.warning("answer_left_out", chat_id=spot.chat_id, waiting=MAX_WAITING)
            return
        self._places.unsent.append(UnsentReply(spot, text, answers))
        self._save()
        self._workers.wake(spot.chat_id)

    def _is_full(self, chat_id: Id) -> bool:
        return sum(reply.spot.chat_id == chat_id for reply in self._places.unsent) >= MAX_WAITING

    async def _send_next(self, chat_id: Id) -> bool:
        """Send the next piece of a chat's oldest reply."""
        reply = next((one for one in self._places.unsent if one.spot.chat_id == chat_id), None)
        if reply is None:
            return self._report_left_out(chat_id)
        parts = pieces(reply.text, self._bot.limits)
        try:
            if reply.sent < len(parts):
                await self._bot.send(reply.spot, parts[reply.sent], answers=reply.answers)
            reply.sent += 1
        except BotRejected:  # It is sent by the next start, with a valid token.
            raise
        except ChatRefused as refused:
            # The chat is gone, or the bot is no longer in it: the transcript has what was to be sent.
            log.warning("message_not_delivered", chat_id=chat_id, error=str(refused))
            reply.sent = len(parts)
        if reply.sent >= len(parts):
            # By identity: replies of the same text are equal, and one of another place must stay.
            self._places.unsent[:] = [one for one in self._places.unsent if one is not reply]
            self._sent.set()
        self._save()
        return True

    def _report_left_out(self, chat_id: Id) -> bool:
        count = self._left_out.pop(chat_id, 0)
        if count:
            service = self._bot.name.capitalize()
            self.answer(Spot(chat_id), f"⚠️ Answers that were left out here, while {service} accepted no more messages: "
                                       f"{count}. Write /status to see the state.")
        return bool(count)
