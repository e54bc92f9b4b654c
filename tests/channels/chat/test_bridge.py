"""No chat lets a person do what their key may not do over REST: each role of each tenant, through each service (O-12,
O-13)."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from channels.chat.busy_chat import BusyChat
from channels.chat.paper_chat import PaperChat
from gateway.rest.operations.test_inbound import chatting
from interlock.channels.chat.approvals import Approvals
from interlock.channels.chat.bridge import Bridge, Settings
from interlock.channels.chat.messages import DIGEST_SHOWN
from interlock.channels.chat.places import AskedQuestion, Places, PlacesFile, QueuedMessage
from interlock.channels.slack.blocks import LIMITS as SLACK
from interlock.channels.telegram.updates import LIMITS as TELEGRAM
from interlock.ports.chat_service import (
    BotRejected,
    Button,
    ButtonPress,
    ChatLimits,
    ChatMessage,
    FileWanted,
    Id,
    Spot,
)
from interlock.sdk import AsyncInterlock
from interlock.sdk.problems import Refused
from small_gateway.running import Gateway, running

pytestmark = [pytest.mark.anyio, pytest.mark.req("O-12", "O-13", "P-3")]
ROLES = ("owner", "admin", "operator", "approver", "viewer", "auditor")
TENANTS = ("default", "other")
COMMAND = b'{"command":"make"}'
DIGEST = hashlib.sha256(COMMAND).hexdigest()
CARD, SPOT = 5, Spot(1)
PERSON = 7
PATIENCE_S = 20.0


SERVICES = [("telegram", TELEGRAM), ("slack", SLACK)]


async def hold(gateway: Gateway, name: str, **fields: Any) -> None:
    await gateway.desk.add_approval(name, door="tool", input=msgspec.Raw(COMMAND), digest=DIGEST, **fields)


async def over_rest(key: AsyncInterlock, name: str, decision: Any) -> str:
    """What a key's vote comes to: the approval's state, or the refusal's code."""
    try:
        return (await key.approvals.vote(name, decision, digest=DIGEST)).state
    except Refused as no:
        return no.problem


@pytest.mark.parametrize(("service", "limits"), SERVICES)
@pytest.mark.parametrize("decision", ["grant", "deny"])
async def test_a_button_decides_the_same_as_the_key_over_rest(service: str, limits: ChatLimits, decision: str) -> None:
    differing, outcomes = list[str](), set[str]()
    async with running(30.0) as gateway:
        for role in ROLES:
            for tenant in TENANTS:
                rest, chat = f"apr_{tenant}_{role}_rest", f"apr_{tenant}_{role}_chat"
                await hold(gateway, rest)
                await hold(gateway, chat)
                async with AsyncInterlock(gateway.base, f"ilk_{tenant}_{role}") as key:
                    expected = await over_rest(key, rest, decision)
                    bot = PaperChat(service, limits)
                    places = Places(asked={chat: AskedQuestion("make", [(SPOT, CARD)])})
                    approvals = Approvals(key, bot, {PERSON: key}, [], places, lambda: None, str)
                    reply = str(await approvals.pressed(ButtonPress(
                        chat, PERSON, f"{decision[0]}:{chat}:{DIGEST[:DIGEST_SHOWN]}", SPOT, CARD)))
                record = await gateway.desk.ledger.approval(chat, "default")
                assert record is not None
                outcomes.add(expected)
                if record.approval.state != (expected if expected in ("granted", "denied") else "pending"):
                    differing.append(f"{tenant} {role}: {expected} over REST, {record.approval.state} in {service}")
                if (expected in ("granted", "denied")) == reply.startswith("✖️"):
                    differing.append(f"{tenant} {role}: {reply}")
    assert differing == []
    assert outcomes == {"granted" if decision == "grant" else "denied", "Forbidden", "NotFound"}


class WatchedPlaces(PlacesFile):
    """The file, and whether what was queued in it was delivered."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._queued = False
        self.delivered = asyncio.Event()

    def save(self) -> None:
        super().save()
        self._queued = self._queued or bool(self.now.inbox)
        if self._queued and not self.now.inbox:
            self.delivered.set()


@pytest.mark.parametrize(("service", "limits"), SERVICES)
async def test_a_message_starts_the_same_as_the_key_over_rest(service: str, limits: ChatLimits, tmp_path: Path) -> None:
    differing, outcomes = list[str](), set[bool]()
    async with chatting() as (gateway, _):
        for role in ROLES:
            async with AsyncInterlock(gateway.base, f"ilk_default_{role}") as key:
                message = ChatMessage(SPOT, PERSON, role, "make it", True, None, None, (), service)
                try:
                    await key.chats.receive(msgspec.structs.replace(message.body("bot", []), message_id=f"{role}-rest"))
                    expected = True
                except Refused:
                    expected = False
                bot = PaperChat(service, limits, message)
                places = WatchedPlaces(tmp_path / f"{role}.json")
                bridge = Bridge(bot, key, places, Settings({PERSON: key}, [], str))
                running_one = asyncio.ensure_future(bridge.run())
                await places.delivered.wait()
                running_one.cancel()
                await asyncio.gather(running_one, return_exceptions=True)
                rejected = any(text.startswith("✖️") for text in bot.sent)
                outcomes.add(expected)
                if rejected == expected:
                    differing.append(f"{role}: accepted over REST is {expected}, and in {service}: {bot.sent}")
    assert (differing, outcomes) == ([], {True, False})


class BrokenChat(PaperChat):
    """A service whose messages fail by an error that no one has foreseen."""

    async def send(self, spot: Spot, text: str, *, answers: Id | None = None, buttons: Sequence[Button] = ()) -> Id:
        raise ArithmeticError(text)


async def test_a_bridge_ends_if_its_approvals_have_failed(tmp_path: Path) -> None:
    """It received messages, and showed no approval any more."""
    async with running(30.0) as gateway, AsyncInterlock(gateway.base, "ilk_default_owner") as key:
        await hold(gateway, "apr_1")
        bridge = Bridge(BrokenChat("telegram", TELEGRAM), key, PlacesFile(tmp_path / "places.json"),
                        Settings({PERSON: key}, [PERSON], str))
        with pytest.raises(ArithmeticError):
            await asyncio.wait_for(bridge.run(), PATIENCE_S)


def start(chat: int) -> ChatMessage:
    return ChatMessage(Spot(chat), PERSON, f"start-{chat}", "/start", True, None, None)


async def test_a_waiting_chat_delays_neither_receiving_nor_approvals_nor_other_answers(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A `retry_after` of one chat was waited for before the next `receive`, and before the next chat's card."""
    monkeypatch.setattr("interlock.channels.chat.replies.STOP_S", 0.0)
    async with running(30.0) as gateway, AsyncInterlock(gateway.base, "ilk_default_owner") as key:
        await hold(gateway, "apr_1")
        await hold(gateway, "apr_2")
        pressed = ButtonPress("press", 1, f"d:apr_2:{DIGEST[:DIGEST_SHOWN]}")
        bot = BusyChat([start(1)], [start(2)], [], [pressed], [start(3)], waiting=[1])
        bridge = Bridge(bot, key, PlacesFile(tmp_path / "places.json"), Settings({PERSON: key, 1: key}, [1, 2], str))
        running_one = asyncio.ensure_future(bridge.run())
        await bot.until(lambda: bool(bot.texts(3)))
        await bot.until(lambda: any("make" in text for text in bot.texts(2)))
        assert (bot.texts(1), bot.answers) == ([], [])
        await bot.accept()
        await bot.until(lambda: bool(bot.answers and bot.texts(1)))
        running_one.cancel()
        await asyncio.gather(running_one, return_exceptions=True)
    assert bot.answers == ["Denied."]


PHOTO = FileWanted("photo", 0, "image/png", None)


def message(chat: int, text: str, *files: FileWanted) -> ChatMessage:
    return ChatMessage(Spot(chat), PERSON, text, text, True, None, None, files)


async def test_a_slow_file_delays_only_its_own_chat(tmp_path: Path) -> None:
    """No chat's messages were received until it was there. A viewer's messages are refused, which shows that they came.
    """
    async with chatting() as (gateway, _), AsyncInterlock(gateway.base, "ilk_default_viewer") as key:
        bot = BusyChat([message(1, "look", PHOTO), message(2, "one")], [message(1, "and then")], [message(2, "two")],
                       waiting=["photo"])
        bridge = Bridge(bot, key, PlacesFile(tmp_path / "places.json"), Settings({PERSON: key}, [], str))
        running_one = asyncio.ensure_future(bridge.run())
        await bot.until(lambda: len(bot.texts(2)) == 2)
        assert bot.texts(1) == []
        await bot.accept()
        await bot.until(lambda: len(bot.texts(1)) == 2)
        running_one.cancel()
        await asyncio.gather(running_one, return_exceptions=True)


async def test_a_message_possibly_sent_by_the_last_start_is_awaited_by_its_prompts_viewers(tmp_path: Path) -> None:
    """One whose file was not there yet was not sent, and no one waits for it."""
    place = PlacesFile(tmp_path / "places.json")
    place.now.inbox = [QueuedMessage(message(1, "look", PHOTO)), QueuedMessage(message(2, "plain")),
                       QueuedMessage(message(3, "seen", PHOTO), fetched=True)]
    async with chatting() as (gateway, _), AsyncInterlock(gateway.base, "ilk_default_viewer") as key:
        bot = BusyChat(waiting=["photo"])
        bridge = Bridge(bot, key, place, Settings({PERSON: key}, [], str))
        running_one = asyncio.ensure_future(bridge.run())
        await bot.until(lambda: bool(bot.texts(2)))
        settled = asyncio.ensure_future(bridge._handing.settled())
        await bot.handled.wait()
        assert not settled.done()
        await bot.accept()
        await asyncio.wait_for(settled, PATIENCE_S)
        await bot.until(lambda: bool(bot.texts(1) and bot.texts(3)))
        running_one.cancel()
        await asyncio.gather(running_one, return_exceptions=True)


class MovingChat(BusyChat):
    """A service whose chat 1 becomes the chat 2 when its first card is sent."""

    async def send(self, spot: Spot, text: str, *, answers: Id | None = None, buttons: Sequence[Button] = ()) -> Id:
        return await super().send(Spot(2), text, answers=answers, buttons=buttons)

    async def open_chat(self, chat_id: Id) -> Id:
        return 2 if self.delivered else chat_id


async def test_a_button_counts_on_a_card_that_was_sent_during_a_chats_migration(tmp_path: Path) -> None:
    async with running(30.0) as gateway, AsyncInterlock(gateway.base, "ilk_default_owner") as key:
        await hold(gateway, "apr_1")
        bot = MovingChat()
        place = PlacesFile(tmp_path / "places.json")
        bridge = Bridge(bot, key, place, Settings({PERSON: key}, [1], str))
        running_one = asyncio.ensure_future(bridge.run())
        await bot.until(lambda: bool(bot.texts(2)))
        async with asyncio.timeout(PATIENCE_S):
            while not place.now.asked["apr_1"].messages:
                await asyncio.sleep(0)
        assert await bridge._approvals.pressed(
            ButtonPress("press", PERSON, f"d:apr_1:{DIGEST[:DIGEST_SHOWN]}", Spot(2), 1)) == "Denied."
        running_one.cancel()
        await asyncio.gather(running_one, return_exceptions=True)


class RevokedChat(PaperChat):
    """A service that rejects the bot's token."""

    async def connect(self) -> str:
        raise BotRejected("Telegram does not know the bot's token.")


async def test_the_reason_for_the_bridges_end_is_kept_until_it_connects_again(tmp_path: Path) -> None:
    """`interlock doctor` reported that every approval was shown."""
    place = tmp_path / "places.json"
    async with running(30.0) as gateway, AsyncInterlock(gateway.base, "ilk_default_owner") as key:
        with pytest.raises(BotRejected):
            await Bridge(RevokedChat("telegram", TELEGRAM), key, PlacesFile(place), Settings({}, [], str)).run()
        assert PlacesFile(place).now.ended == "Telegram does not know the bot's token."
        bot = PaperChat("telegram", TELEGRAM)
        running_one = asyncio.ensure_future(Bridge(bot, key, PlacesFile(place), Settings({}, [], str)).run())
        await bot.handled.wait()
        assert PlacesFile(place).now.ended is None
        running_one.cancel()
        await asyncio.gather(running_one, return_exceptions=True)
