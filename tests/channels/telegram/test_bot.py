"""The Bot API by a bad way: answers of proxies, files that are gone, and no token in what is reported (R-4)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from structlog.testing import capture_logs

from bot_api.server import TOKEN, BotApi, bot_api
from interlock.ports.chat_service import ChatMoves, ChatRefused, FileWanted, Spot
from lazily import lazily

bots = lazily("interlock.channels.telegram.bot")

pytestmark = [pytest.mark.anyio, pytest.mark.req("R-4")]
PAGE = "<html><h1>502 Bad Gateway</h1></html>"
WANTED = FileWanted("file1", 3, "image/png", None)


@pytest.fixture
async def api(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[BotApi]:
    monkeypatch.setattr(bots, "PAUSE_S", 0.0)
    async with bot_api() as api:
        yield api


@pytest.fixture
async def bot(api: BotApi) -> AsyncIterator[Any]:
    bot = bots.TelegramBot(TOKEN, api.url)
    yield bot
    await bot.close()


@pytest.mark.parametrize(("status", "body"), [(502, PAGE), (200, PAGE), (200, "[]"), (500, '{"ok":')])
async def test_an_answer_from_another_program_is_retried(api: BotApi, bot: Any, status: int, body: str) -> None:
    api.pages = [(method, status, body) for method in ("sendmessage", "getme", "getupdates", "sendchataction")]
    with capture_logs() as logged:
        await bot.send(Spot(7), "made")
        await api.write(7, 7, "hello")
        assert [one.text for one in await bot.receive()] == ["hello"]
        await bot.show_typing(Spot(7))
    assert (api.posted_texts(7), api.pages) == (["made"], [])
    assert [one["error"] for one in logged] == ["an answer that is not the Bot API's"] * 3
    assert TOKEN not in str(logged)


async def test_an_update_of_an_unknown_kind_does_not_delay_the_others(api: BotApi, bot: Any) -> None:
    """All of a batch were rejected for it, and fetched again for ever."""
    await api.write(7, 7, "before")
    await api.write(7, 7, "forwarded", forward_origin={"type": "a kind of tomorrow", "date": 1})
    await api.write(7, 7, "after")
    with capture_logs() as logged:
        assert [one.text for one in await bot.receive()] == ["before", "after"]
        await api.write(7, 7, "last")
        assert [one.text for one in await bot.receive()] == ["last"]
    assert [one["event"] for one in logged] == ["update_unreadable"]
    assert "forwarded" not in str(logged)


async def test_a_deleted_file_is_refused_and_an_unavailable_one_fetched_again(
    api: BotApi, bot: Any
) -> None:
    api.files["file1"] = b"abc"
    api.pages = [("download", 404, PAGE)]
    with pytest.raises(ChatRefused, match=r"^Telegram refused: status 404\.$"):
        await bot.fetch(WANTED, 10)
    api.pages = [("download", 502, PAGE)]
    with capture_logs() as logged:
        assert await bot.fetch(WANTED, 10) == b"abc"
    assert [one["error"] for one in logged] == ["status 502"]


OLD, NEW = -100, -1001
MOVED = ("sendmessage", 400, "Bad Request: group chat was upgraded to a supergroup chat", {"migrate_to_chat_id": NEW})


async def test_a_group_that_became_a_supergroup_is_addressed_by_its_new_id(api: BotApi, bot: Any) -> None:
    """Each message to the old id was refused, for ever."""
    saved: list[int] = []
    moves = ChatMoves([], lambda: saved.append(1))
    bot.keep_moves(moves)
    api.refusals = [MOVED]
    number = await bot.send(Spot(OLD), "made", answers=3)
    assert (api.posted_texts(NEW), api.posted_texts(OLD), moves.pairs, len(saved)) == (["made"], [], [(OLD, NEW)], 1)
    assert await bot.open_chat(OLD) == NEW
    further = await bot.send(Spot(OLD), "and more", answers=3)
    assert [api.answered[one] for one in (number, further)] == [None, None]  # In the new group 3 is another message.
    await bot.edit(Spot(OLD), number, "of another message")
    assert api.posted_texts(NEW) == ["made", "and more"]
    await bot.edit(Spot(NEW), number, "decided")
    assert api.posted_texts(NEW) == ["decided", "and more"]


@pytest.mark.parametrize("direction", ["to", "from"])
async def test_the_messages_of_a_group_that_became_a_supergroup_continue_its_session(
    api: BotApi, bot: Any, direction: str
) -> None:
    """It began another one, and a message with a number of the old group would have counted as its repetition."""
    bot.keep_moves(ChatMoves([], lambda: None))
    await api.write(OLD, 7, "@interlock_bot before", group=True)
    before = (await bot.receive())[0].body("bot", [])
    where, note = (OLD, {"migrate_to_chat_id": NEW}) if direction == "to" else (NEW, {"migrate_from_chat_id": OLD})
    await api.write(where, 7, "", group=True, **note)
    await api.write(NEW, 7, "@interlock_bot after", group=True)
    message = (await bot.receive())[0]
    after = message._replace(message_id=int(before.message_id or "0")).body("bot", [])
    assert (message.spot, after.group_id, before.group_id) == (Spot(NEW), str(OLD), str(OLD))
    assert after.idempotency_key != before.idempotency_key
