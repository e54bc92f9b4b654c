"""The queues of messages to chats: durable, in order, with a limit that is counted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from channels.chat.busy_chat import BusyChat
from interlock.channels.chat.places import PlacesFile
from interlock.channels.chat.replies import MAX_WAITING, Replies
from interlock.channels.telegram.updates import LIMITS
from interlock.ports.chat_service import BotRejected, Button, ChatRefused, Id, Spot

pytestmark = [pytest.mark.anyio, pytest.mark.req("O-12", "O-13")]
ANN, BO = Spot(7), Spot(8)


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stop without waiting for a chat that never accepts a message."""
    monkeypatch.setattr("interlock.channels.chat.replies.STOP_S", 0.0)


@asynccontextmanager
async def replying(bot: BusyChat, place: Path) -> AsyncIterator[Replies]:
    kept = PlacesFile(place)
    replies = Replies(bot, kept.now, kept.save)
    running = asyncio.ensure_future(replies.run())
    await asyncio.sleep(0)
    try:
        yield replies
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def test_replies_that_a_chat_did_not_accept_are_sent_in_order_by_the_next_start(tmp_path: Path) -> None:
    busy = BusyChat(waiting=[7])
    async with replying(busy, tmp_path / "places.json") as replies:
        for text in ("one", "two", "three"):
            replies.answer(ANN, text)
        replies.answer(BO, "for Bo")
        await busy.until(lambda: busy.texts(8) == ["for Bo"])
        assert busy.texts(7) == []
    free = BusyChat()
    async with replying(free, tmp_path / "places.json"):
        await free.until(lambda: len(free.delivered) == 3)
    assert free.delivered == [(7, "one"), (7, "two"), (7, "three")]
    assert PlacesFile(tmp_path / "places.json").now.unsent == []


async def test_identical_replies_are_each_sent(tmp_path: Path) -> None:
    bot = BusyChat()
    async with replying(bot, tmp_path / "places.json") as replies:
        replies.answer(ANN, "yes")
        replies.answer(ANN, "yes")
        await bot.until(lambda: len(bot.delivered) == 2)
    assert bot.delivered == [(7, "yes"), (7, "yes")]


class FirstPieceOnly(BusyChat):
    """Waits after one piece of each message."""

    async def send(self, spot: Spot, text: str, *, answers: Id | None = None, buttons: Sequence[Button] = ()) -> Id:
        self._waiting |= {spot.chat_id} if self.delivered else set()
        return await super().send(spot, text, answers=answers, buttons=buttons)


async def test_a_long_reply_continues_after_the_piece_that_was_sent(tmp_path: Path) -> None:
    text = "\n".join(f"line {number}" for number in range(1_000))
    assert LIMITS.units(text) > 2 * LIMITS.message_units
    first, second = FirstPieceOnly(), BusyChat()
    async with replying(first, tmp_path / "places.json") as replies:
        replies.answer(ANN, text)
        await first.until(lambda: bool(first.delivered))
    async with replying(second, tmp_path / "places.json"):
        await second.until(lambda: any("line 999" in text for text in second.texts(7)))
    assert "\n".join([*first.texts(7), *second.texts(7)]) == text


async def test_answers_beyond_the_limit_are_counted_and_left_out_and_replies_wait(tmp_path: Path) -> None:
    bot = BusyChat(waiting=[7])
    async with replying(bot, tmp_path / "places.json") as replies:
        for number in range(MAX_WAITING + 3):
            replies.answer(ANN, str(number))
        room = asyncio.ensure_future(replies.room(7))
        await replies.room(8)
        await asyncio.sleep(0)  # It begins to wait.
        assert not room.done()
        await bot.accept()
        await room
        await bot.until(lambda: len(bot.delivered) == MAX_WAITING + 1)
    assert bot.texts(7)[:-1] == [str(number) for number in range(MAX_WAITING)]
    assert bot.texts(7)[-1] == ("⚠️ Answers that were left out here, while Telegram accepted no more messages: 3. Write "
                                "/status to see the state.")


class Refusing(BusyChat):
    """Refuses what is sent to one chat, for the given reason."""

    def __init__(self, reason: ChatRefused) -> None:
        super().__init__()
        self._reason = reason

    async def send(self, spot: Spot, text: str, *, answers: Id | None = None, buttons: Sequence[Button] = ()) -> Id:
        if spot.chat_id == ANN.chat_id:
            raise self._reason
        return await super().send(spot, text, answers=answers, buttons=buttons)


async def test_a_deleted_chat_ends_only_its_own_messages(tmp_path: Path) -> None:
    bot = Refusing(ChatRefused("Telegram refused: Forbidden: bot was blocked by the user"))
    async with replying(bot, tmp_path / "places.json") as replies:
        replies.answer(ANN, "hello")
        replies.answer(BO, "hello")
        await bot.until(lambda: bot.texts(8) == ["hello"])
    assert PlacesFile(tmp_path / "places.json").now.unsent == []


async def test_a_bot_without_valid_credentials_loses_no_message(tmp_path: Path) -> None:
    place = PlacesFile(tmp_path / "places.json")
    replies = Replies(Refusing(BotRejected("Telegram does not know the bot's token.")), place.now, place.save)
    replies.answer(ANN, "hello")
    with pytest.raises(BotRejected):
        await asyncio.wait_for(replies.run(), 20)
    assert [reply.text for reply in PlacesFile(tmp_path / "places.json").now.unsent] == ["hello"]
