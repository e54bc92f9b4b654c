"""A button in a chat: a grant covers the text that the gateway sent, or it is not a vote (P-2, Y-3)."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
from structlog.testing import capture_logs

from bot_api.server import TOKEN, BotApi, bot_api
from channels.chat.busy_chat import BusyChat
from channels.chat.paper_chat import PaperChat
from interlock.channels.chat.approvals import Approvals
from interlock.channels.chat.messages import DIGEST_SHOWN
from interlock.channels.chat.places import Places
from interlock.channels.telegram.updates import LIMITS
from interlock.ports.chat_service import BotRejected, Button, ButtonPress, ChatService, Id, Spot
from interlock.protocol.resources import FeedEvent
from interlock.sdk import AsyncInterlock
from lazily import lazily
from small_gateway.running import Gateway, running

pytestmark = pytest.mark.anyio
telegram = lazily("interlock.channels.telegram.bot")
SUBJECT = b'{"tool_name":"shell","input":{"command":"rm -rf build"}}'
RIGHT, WRONG = hashlib.sha256(SUBJECT).hexdigest(), "f" * 64
ANN = 7


@pytest.fixture
async def gateway(anyio_backend: str) -> AsyncIterator[Gateway]:
    async with running(30.0) as there:
        yield there


@pytest.mark.req("P-2", "P-8", "Y-3")
@pytest.mark.parametrize(("digest", "button", "state", "sentence"), [
    (RIGHT, "g", "granted", "Allowed."),
    (WRONG, "g", "pending", "✖️ What the gateway sent of apr_1 does not match the digest that it states, so it cannot be"
                            " allowed."),
    (WRONG, "k", "pending", "✖️ What the gateway sent of apr_1 does not match the digest that it states, so it cannot be"
                            " allowed."),
    (WRONG, "d", "denied", "Denied."),
])
async def test_a_button_grants_only_a_request_with_the_stated_digest(
    gateway: Gateway, digest: str, button: str, state: str, sentence: str
) -> None:
    await gateway.desk.add_approval("apr_1", door="tool", digest=digest, subject=msgspec.Raw(SUBJECT),
                                    input=msgspec.Raw(b'{"command":"rm -rf build"}'))
    async with bot_api() as api, AsyncInterlock(gateway.base, "ilk_default_owner") as ann:
        bot = telegram.TelegramBot(TOKEN, api.url)
        approvals = Approvals(ann, bot, {ANN: ann}, [ANN], Places(), lambda: None, str)
        press = ButtonPress("press", ANN, f"{button}:apr_1:{digest[:DIGEST_SHOWN]}")
        assert await approvals.pressed(press) == sentence
        await bot.close()
        assert (await ann.approvals.get("apr_1")).state == state


@asynccontextmanager
async def shown_by(
    gateway: Gateway, bot: ChatService, asking: Sequence[Id], places: Places
) -> AsyncIterator[Approvals]:
    """Approvals followed in the chats of a service."""
    async with AsyncInterlock(gateway.base, "ilk_default_owner") as ann:
        approvals = Approvals(ann, bot, {ANN: ann}, asking, places, lambda: None, str, "https://gw.example")
        following = asyncio.ensure_future(approvals.follow())
        try:
            yield approvals
        finally:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)


@asynccontextmanager
async def asked(gateway: Gateway, api: BotApi, places: Places) -> AsyncIterator[Approvals]:
    """Approvals followed in Ann's chat with a Telegram bot."""
    bot = telegram.TelegramBot(TOKEN, api.url)
    async with shown_by(gateway, bot, [ANN], places) as approvals:
        yield approvals
    await bot.close()


def buttons_of(message: dict[str, Any]) -> list[dict[str, Any]]:
    return [one for row in message.get("reply_markup", {}).get("inline_keyboard", []) for one in row]


@pytest.mark.req("O-13", "P-4")
@pytest.mark.parametrize("fields", [{"required": 2}, {"signed": True}, {"dangerous": True}, {"input": msgspec.Raw(
    msgspec.json.encode({"command": "echo x\n" * 5_000}))}])
async def test_an_approval_that_a_chat_cannot_decide_has_a_link_and_a_button_decides_nothing(
        gateway: Gateway, fields: dict[str, Any]) -> None:
    found = {"input": msgspec.Raw(b'{"command":"rm"}'), **fields}
    digest = hashlib.sha256(bytes(found["input"])).hexdigest()
    await gateway.desk.add_approval("apr_1", door="tool", digest=digest, **found)
    async with bot_api() as api, asked(gateway, api, Places()) as approvals:
        message = await api.until_posted(ANN, "interlock approve apr_1")
        assert [(one["text"], one["url"]) for one in buttons_of(message)] == [
            ("Read and decide", "https://gw.example/a/apr_1")]
        if "input" not in fields:
            forged = ButtonPress("press", ANN, f"g:apr_1:{digest[:DIGEST_SHOWN]}")
            assert str(await approvals.pressed(forged)).startswith("✖️")
    found_now = await gateway.desk.ledger.approval("apr_1", "default")
    assert found_now is not None
    assert found_now.approval.state == "pending"


@pytest.mark.req("O-13")
async def test_a_button_below_another_message_decides_nothing(gateway: Gateway) -> None:
    held = b'{"command":"rm -rf build"}'
    digest = hashlib.sha256(held).hexdigest()
    await gateway.desk.add_approval("apr_1", door="tool", digest=digest, input=msgspec.Raw(held))
    async with bot_api() as api, asked(gateway, api, Places()) as approvals:
        message = await api.until_posted(ANN, "rm -rf build")
        for chat, number in ((ANN, message["message_id"] + 1), (ANN + 1, message["message_id"])):
            press = ButtonPress(f"{chat}/{number}", ANN, f"g:apr_1:{digest[:DIGEST_SHOWN]}", Spot(chat), number)
            outcome = str(await approvals.pressed(press))
            assert outcome.startswith("This card does not belong")
            assert outcome.endswith("or with: interlock approve apr_1")


@pytest.mark.req("O-13", "P-5")
@pytest.mark.parametrize(("state", "by", "sentence"), [
    ("granted", "user:lee", "allowed by user:lee."), ("denied", "user:lee", "denied by user:lee."),
    ("expired", None, "not answered in time."), ("void", None, "withdrawn, since what asked for it is gone."),
])
async def test_a_button_that_is_pressed_too_late_is_answered_with_the_outcome(
    gateway: Gateway, state: str, by: str | None, sentence: str
) -> None:
    await gateway.desk.add_approval("apr_1", door="tool", digest=RIGHT, state=state, decided_by=by)
    async with bot_api() as api, asked(gateway, api, Places()) as approvals:
        press = ButtonPress("press", ANN, f"g:apr_1:{RIGHT[:DIGEST_SHOWN]}", Spot(ANN), 5)
        assert await approvals.pressed(press) == f"It is too late, so nothing was decided: {sentence}"


@pytest.mark.req("O-13")
async def test_a_card_that_telegram_rejects_is_resent_shorter_and_then_undelivered(
        gateway: Gateway) -> None:
    await gateway.desk.add_approval("apr_1", door="tool", digest=hashlib.sha256(b"{}").hexdigest())
    refused = ("sendmessage", 400, "Bad Request: message is too long", {})
    async with bot_api() as api:
        api.refusals = [refused]
        async with asked(gateway, api, Places()):
            message = await api.until_posted(ANN, "cannot be shown here")
            assert [one["text"] for one in buttons_of(message)] == ["Read and decide"]
        api.refusals = [refused, refused]
        places = Places()
        async with asked(gateway, api, places), asyncio.timeout(30):
            while not places.undelivered:
                await asyncio.sleep(0)
    assert "message is too long" in places.undelivered["apr_1"]


class SlowChat(PaperChat):
    """Never has a reply to what is sent."""

    async def send(self, spot: Spot, text: str, *, answers: Id | None = None, buttons: Sequence[Button] = ()) -> Id:
        self.handled.set()
        await asyncio.Event().wait()
        return 0


@pytest.mark.req("O-12", "O-13", "P-5")
async def test_a_bridge_that_stops_during_a_send_shows_the_card_after_its_restart(gateway: Gateway) -> None:
    await gateway.desk.add_approval("apr_1", door="tool", digest=hashlib.sha256(b"{}").hexdigest())
    places = Places()
    async with AsyncInterlock(gateway.base, "ilk_default_owner") as ann:
        slow, quick = SlowChat("paper", LIMITS), PaperChat("paper", LIMITS)
        following = asyncio.ensure_future(Approvals(ann, slow, {}, [ANN], places, lambda: None, str).follow())
        await slow.handled.wait()
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
        assert places.asked["apr_1"].waiting == [ANN]
        following = asyncio.ensure_future(Approvals(ann, quick, {}, [ANN], places, lambda: None, str).follow())
        async with asyncio.timeout(30):
            while not places.asked["apr_1"].messages:
                await asyncio.sleep(0)
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
    assert "rule: ask" in quick.sent[0]


@pytest.mark.req("J-5")
async def test_chats_with_a_card_are_reported_to_the_gateway_also_after_a_restart(gateway: Gateway) -> None:
    await gateway.desk.add_approval("apr_1", door="tool", digest=hashlib.sha256(b"{}").hexdigest())

    async def cards() -> list[tuple[str, str]]:
        found = await gateway.desk.ledger.approval("apr_1", "default")
        assert found is not None
        return [(card.service, card.chat) for card in found.approval.cards]

    places = Places()
    for start in range(2):
        async with AsyncInterlock(gateway.base, "ilk_default_owner") as ann:
            bot = PaperChat("paper", LIMITS)
            approvals = Approvals(ann, bot, {"U1": ann}, ["U1", "C1"], places, lambda: None, str)
            following = asyncio.ensure_future(approvals.follow())
            async with asyncio.timeout(30):
                while len(await cards()) < 2:
                    await asyncio.sleep(0)
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)
        assert await cards() == [("paper", "user:owner"), ("paper", "C1")]
        assert len(bot.sent) == (2 if start == 0 else 0), "a card is posted once"
        await gateway.desk.add_approval("apr_1", door="tool", digest=hashlib.sha256(b"{}").hexdigest())


@pytest.mark.req("J-5")
async def test_a_bridge_with_a_read_only_key_posts_cards_and_reports_once_why_none_is_named(gateway: Gateway) -> None:
    for approval_id in ("apr_1", "apr_2", "apr_3"):  # The third is posted after the second's outcome was reported.
        await gateway.desk.add_approval(approval_id, door="tool", digest=hashlib.sha256(b"{}").hexdigest())
    async with AsyncInterlock(gateway.base, "ilk_default_viewer") as reader, \
            AsyncInterlock(gateway.base, "ilk_default_owner") as ann:
        bot = PaperChat("paper", LIMITS)
        approvals = Approvals(reader, bot, {"U1": ann}, ["U1"], Places(), lambda: None, str)
        with capture_logs() as lines:
            following = asyncio.ensure_future(approvals.follow())
            async with asyncio.timeout(30):
                while len(bot.sent) < 3:
                    await asyncio.sleep(0)
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)
    assert [line["log_level"] for line in lines if line["event"] == "cards_not_reported"] == ["warning"]


def input_of(name: str) -> bytes:
    return msgspec.json.encode({"command": name})


async def hold(gateway: Gateway, *names: str) -> None:
    for name in names:
        held = input_of(name)
        await gateway.desk.add_approval(name, door="tool", input=msgspec.Raw(held),
                                        digest=hashlib.sha256(held).hexdigest())


@pytest.mark.req("O-13")
async def test_cards_of_one_chat_keep_their_order_and_a_waiting_chat_delays_no_other(gateway: Gateway) -> None:
    names = ["apr_1", "apr_2", "apr_3"]
    await hold(gateway, *names)
    bot, places = BusyChat(waiting=[ANN]), Places()
    async with shown_by(gateway, bot, [ANN, ANN + 1], places):
        await bot.until(lambda: len(bot.texts(ANN + 1)) == 3)
        assert bot.texts(ANN) == []
        assert [places.asked[name].waiting for name in names] == [[ANN]] * 3
        await bot.accept()
        await bot.until(lambda: len(bot.texts(ANN)) == 3)
    assert bot.texts(ANN) == bot.texts(ANN + 1)


@pytest.mark.req("O-13", "P-5")
async def test_an_approval_decided_during_a_wait_is_not_asked_in_that_chat(gateway: Gateway) -> None:
    await hold(gateway, "apr_1", "apr_2", "apr_3")
    bot, places = BusyChat(waiting=[ANN]), Places()
    async with shown_by(gateway, bot, [ANN, ANN + 1], places), AsyncInterlock(
            gateway.base, "ilk_default_owner") as key:
        await bot.until(lambda: len(bot.texts(ANN + 1)) == 3)
        for name in ("apr_1", "apr_2"):  # The first is being sent to Ann's chat, the second waits for it.
            await key.approvals.vote(name, "deny", digest=hashlib.sha256(input_of(name)).hexdigest())
            await gateway.desk.feed(msgspec.json.encode(
                FeedEvent(event="approval", at="2026-11-01T00:00:00.000Z", id=name, state="denied")))
        await bot.until(lambda: len(bot.edited) == 2)
        assert {chat for chat, _ in bot.edited} == {ANN + 1}
        await bot.accept()
        await bot.until(lambda: len(bot.texts(ANN)) == 2 and len(bot.edited) == 3)
        await until(lambda: list(places.asked) == ["apr_3"])
    assert "apr_1" in bot.texts(ANN)[0]
    assert "apr_3" in bot.texts(ANN)[1]
    chat, text = bot.edited[-1]
    assert chat == ANN
    assert "denied" in text.lower()


async def until(reached: Callable[[], bool]) -> None:
    """Wait while the bridge works."""
    async with asyncio.timeout(30):
        while not reached():
            await asyncio.sleep(0)


@pytest.mark.req("O-13")
async def test_cards_beyond_a_chats_limit_are_sent_to_the_other_chats_only(
        gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("interlock.channels.chat.approvals.MAX_CARDS_WAITING", 2)
    await hold(gateway, "apr_1", "apr_2", "apr_3")
    bot, places = BusyChat(waiting=[ANN]), Places()
    with capture_logs() as lines:
        async with shown_by(gateway, bot, [ANN], places):
            async with asyncio.timeout(30):
                while not places.undelivered:
                    await asyncio.sleep(0)
    assert places.undelivered == {"apr_3": f"2 others wait for the chat {ANN}"}
    assert [line["approval"] for line in lines if line["event"] == "card_left_out"] == ["apr_3"]


class Revoked(PaperChat):
    """A service that has revoked the bot's token."""

    async def send(self, spot: Spot, text: str, *, answers: Id | None = None, buttons: Sequence[Button] = ()) -> Id:
        raise BotRejected("Telegram does not know the bot's token.")


@pytest.mark.req("O-13")
async def test_an_approval_of_a_bot_with_a_revoked_token_is_shown_by_the_next_start(gateway: Gateway) -> None:
    """It was noted as undelivered, and no later start showed it."""
    await hold(gateway, "apr_1")
    places = Places()
    async with AsyncInterlock(gateway.base, "ilk_default_owner") as ann:
        approvals = Approvals(ann, Revoked("paper", LIMITS), {}, [ANN], places, lambda: None, str)
        with pytest.raises(BotRejected):
            await asyncio.wait_for(approvals.follow(), 30)
    assert places.undelivered == {}
    bot = BusyChat()
    async with shown_by(gateway, bot, [ANN], places):
        await bot.until(lambda: bool(bot.delivered))
    assert "apr_1" in bot.texts(ANN)[0]
