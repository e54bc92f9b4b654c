"""Messages on their way to the gateway: durable, in order, and no chat waits for another's (O-12, O-13, R-4)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from interlock.channels.chat.message_queues import MAX_QUEUED, MessageQueues
from interlock.channels.chat.places import PlacesFile, QueuedMessage
from interlock.ports.chat_service import ChatMessage, FileWanted, Id, Spot

pytestmark = [pytest.mark.anyio, pytest.mark.req("O-12", "O-13", "R-4")]
PHOTO = FileWanted("photo", 0, "image/png", None)


def message(chat: int, number: int, *files: FileWanted) -> ChatMessage:
    return ChatMessage(Spot(chat), chat, number, f"{chat}-{number}", True, None, None, files)


class Gateway:
    """Accepts messages; one of a chat in `slow` once `accept` was called."""

    def __init__(self, *slow: Id) -> None:
        self._slow = {*slow}
        self._changed = asyncio.Condition()
        self.texts: list[str] = []

    async def deliver(self, queued: QueuedMessage) -> None:
        async with self._changed:
            await self._changed.wait_for(lambda: queued.message.spot.chat_id not in self._slow)
            self.texts.append(queued.message.text)
            self._changed.notify_all()

    async def accept(self) -> None:
        async with self._changed:
            self._slow.clear()
            self._changed.notify_all()

    async def until(self, count: int) -> None:
        async with asyncio.timeout(20), self._changed:
            await self._changed.wait_for(lambda: len(self.texts) >= count)


@asynccontextmanager
async def receiving(gateway: Gateway, place: Path) -> AsyncIterator[MessageQueues]:
    kept = PlacesFile(place)
    inbox = MessageQueues(kept.now, kept.save, gateway.deliver)
    running = asyncio.ensure_future(inbox.run())
    await asyncio.sleep(0)
    try:
        yield inbox
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def test_a_slow_message_delays_only_its_own_chat_and_keeps_its_order(tmp_path: Path) -> None:
    gateway = Gateway(1)
    async with receiving(gateway, tmp_path / "places.json") as inbox:
        await inbox.put([message(1, 1, PHOTO), message(2, 1), message(1, 2)])
        await inbox.put([message(2, 2), message(1, 3)])
        await gateway.until(2)
        assert gateway.texts == ["2-1", "2-2"]
        await gateway.accept()
        await gateway.until(5)
    assert gateway.texts[2:] == ["1-1", "1-2", "1-3"]


async def test_the_next_start_delivers_remaining_messages_and_a_repeated_one_once(tmp_path: Path) -> None:
    async with receiving(Gateway(1), tmp_path / "places.json") as inbox:
        await inbox.put([message(1, 1, PHOTO), message(1, 2)])
    gateway = Gateway(1)
    async with receiving(gateway, tmp_path / "places.json") as inbox:
        await inbox.put([message(1, 1, PHOTO), message(1, 2), message(1, 3)])
        await gateway.accept()
        await gateway.until(3)
    assert gateway.texts == ["1-1", "1-2", "1-3"]
    assert PlacesFile(tmp_path / "places.json").now.inbox == []


async def test_a_full_queue_makes_the_service_wait_and_loses_nothing(tmp_path: Path) -> None:
    gateway = Gateway(1)
    async with receiving(gateway, tmp_path / "places.json") as inbox:
        await inbox.put([message(1, number) for number in range(MAX_QUEUED)])
        further = asyncio.ensure_future(inbox.put([message(1, MAX_QUEUED)]))
        await inbox.put([message(2, 1)])
        await gateway.until(1)
        assert not further.done()
        await gateway.accept()
        await further
        await gateway.until(MAX_QUEUED + 2)
    assert gateway.texts == ["2-1", *(f"1-{number}" for number in range(MAX_QUEUED + 1))]


async def test_a_batch_larger_than_a_chats_queue_is_delivered_completely(tmp_path: Path) -> None:
    gateway = Gateway()
    async with receiving(gateway, tmp_path / "places.json") as inbox, asyncio.timeout(20):
        await inbox.put([message(1, number) for number in range(2 * MAX_QUEUED + 1)])
        await gateway.until(2 * MAX_QUEUED + 1)
    assert gateway.texts == [f"1-{number}" for number in range(2 * MAX_QUEUED + 1)]
