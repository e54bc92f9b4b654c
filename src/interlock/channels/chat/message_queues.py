"""Messages on their way to the gateway: one durable queue for each chat, so that a message that is slow, such as one
with a file that arrives slowly, delays only its own chat."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from interlock.channels.chat.places import Places, QueuedMessage
from interlock.channels.chat.workers import ChatWorkers
from interlock.ports.chat_service import ChatMessage, Id

MAX_QUEUED = 50
"""Messages that wait in one chat's queue. Above it no chat's messages are received: they wait at the service."""


class MessageQueues:
    """The queues. Their contents are part of the bridge's file, which `save` makes durable. `deliver` ends when a
    message's effects are durable at the gateway, or when it was answered that it has none."""

    def __init__(self, places: Places, save: Callable[[], None],
                 deliver: Callable[[QueuedMessage], Awaitable[None]]) -> None:
        self._places = places
        self._save = save
        self._deliver = deliver
        self._workers = ChatWorkers(self._deliver_next)
        self._delivered = asyncio.Event()

    async def run(self) -> None:
        """Deliver until cancelled, beginning with what the last start left. Raises what `deliver` raises, and OSError
        if the file cannot be written."""
        for chat_id in {one.message.spot.chat_id for one in self._places.inbox}:
            self._workers.wake(chat_id)
        await self._workers.run()

    async def put(self, messages: Sequence[ChatMessage]) -> None:
        """Queue messages; they are durable when this returns. One that is queued already is left out: the service
        repeats what was not confirmed. Waits while a chat's queue is full. Raises OSError."""
        for message in messages:
            while self._is_full(message.spot.chat_id):
                self._save()  # What is queued so far is delivered meanwhile.
                self._delivered.clear()
                await self._delivered.wait()
            if not any(one.is_for(message) for one in self._places.inbox):
                self._places.inbox.append(QueuedMessage(message))
            self._workers.wake(message.spot.chat_id)
        if messages:
            self._save()

    def _is_full(self, chat_id: Id) -> bool:
        return sum(one.message.spot.chat_id == chat_id for one in self._places.inbox) >= MAX_QUEUED

    async def _deliver_next(self, chat_id: Id) -> bool:
        queued = next((one for one in self._places.inbox if one.message.spot.chat_id == chat_id), None)
        if queued is None:
            return False
        await self._deliver(queued)
        self._places.inbox.remove(queued)
        self._delivered.set()
        self._save()
        return True
