"""The bridge: looks for what people write to the bot, hands it to the gateway, and tells them what comes of it."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

import structlog

from interlock.channels.telegram.approvals import Approvals, Redact
from interlock.channels.telegram.bot import BotRefused, TelegramBot
from interlock.channels.telegram.conversation import Conversation, HandOvers
from interlock.channels.telegram.messages import HELP, pieces, refused
from interlock.channels.telegram.places import PlacesFile, Told
from interlock.channels.telegram.updates import Listening, Pressed, Said, Spot, heard
from interlock.protocol.inbound import Attachment
from interlock.protocol.limits import MAX_INLINE_BINARY_BYTES
from interlock.sdk import AsyncInterlock
from interlock.sdk.problems import InterlockError, Refused, Unreachable

if TYPE_CHECKING:
    from aiogram.types import User

AGAIN_S = 2.0
MAX_STRANGERS = 1_000
"""Strangers who were told that they are not known; each is told once."""

log = structlog.get_logger("interlock.telegram")


class Settings(NamedTuple):
    """Who may write (`people` by Telegram id, with the gateway asked under their own key), where questions go, whether
    a group's talk is for the bot only where it is named, and what the config keeps from leaving (K-4)."""

    people: Mapping[int, AsyncInterlock]
    asking: Sequence[int]
    groups: Listening
    redact: Redact


class Bridge:
    """One bot at one gateway. `gateway` is asked under the bridge's own key, which only reads."""

    def __init__(self, bot: TelegramBot, gateway: AsyncInterlock, places: PlacesFile, settings: Settings) -> None:
        self._bot = bot
        self._gateway = gateway
        self._file = places
        self._settings = settings
        self._conversations: dict[str, Conversation] = {}
        self._strangers: set[int] = set()
        self._handing = HandOvers()
        self._approvals = Approvals(gateway, bot, settings.people, settings.asking, places.now, places.save,
                                    settings.redact)

    async def run(self) -> None:
        """Work until it is cancelled. Raises BotRefused where Telegram refuses the bot, OSError where what must not be
        forgotten cannot be written."""
        me = await self._bot.me()
        log.info("telegram_ready", bot=me.username, people=len(self._settings.people))
        last = await self._listen(me, None, until_none=True)
        # Only now: what is told again after a crash has named its command, before that command's replies are read.
        for session_id, told in list(self._file.now.sessions.items()):
            if told.commands:
                self._conversation(session_id).go_on()
        asking = asyncio.create_task(self._approvals.follow())
        try:
            await self._listen(me, last)
        finally:
            asking.cancel()
            await asyncio.gather(asking, *(one.stop() for one in self._conversations.values()), return_exceptions=True)
            with suppress(OSError):
                self._file.save()

    async def _listen(self, me: User, last: int | None, *, until_none: bool = False) -> int | None:
        """Take updates behind the last one; for ever, or until none waits. One is confirmed, by the next look, only
        when what it asked for is durable at the gateway."""
        while True:
            updates = await self._bot.updates(last, wait=not until_none)
            if until_none and not updates:
                return last
            by_chat: dict[int, list[Said | Pressed]] = {}
            for update in updates:
                item = heard(update, me, self._settings.groups)
                if item is not None:
                    by_chat.setdefault(_queue(item), []).append(item)
            await asyncio.gather(*(self._in_order(items, me) for items in by_chat.values()))
            last = updates[-1].update_id if updates else last

    async def _in_order(self, items: list[Said | Pressed], me: User) -> None:
        for item in items:
            if isinstance(item, Pressed):
                await self._approvals.pressed(item)
            else:
                await self._until_taken(item, me)

    async def _until_taken(self, said: Said, me: User) -> None:
        person = self._settings.people.get(said.user_id)
        if person is None:
            await self._turn_away(said)
            return
        if said.text.split("@")[0].strip() == "/start":
            await self._say(said.spot, HELP)
            return
        with self._handing.one():
            await self._keep_trying(said, person, me)

    async def _keep_trying(self, said: Said, person: AsyncInterlock, me: User) -> None:
        while True:
            try:
                if not await self._approvals.answered(said, person):
                    await self._hand_over(said, person, me)
                return
            except Unreachable as error:  # Its key stays the same, so it is taken once, however often it is sent.
                log.warning("message_not_taken_yet", error=str(error))
                await asyncio.sleep(AGAIN_S)
            except Refused as no:
                await self._say(said.spot, refused(no.problem, no.detail, no.hint), said.message_id)
                return
            except InterlockError as error:
                await self._say(said.spot, f"✖️ {error}", said.message_id)
                return

    async def _hand_over(self, said: Said, person: AsyncInterlock, me: User) -> None:
        """Raises InterlockError."""
        attachments = await self._attachments(said)
        if attachments is None:
            return
        body = said.body(me.username or str(me.id), attachments)
        received = await person.chats.receive(body)
        if received.reply is not None:
            await self._say(said.spot, received.reply, said.message_id)
            return
        if received.command_id is not None:
            self._conversation(received.session_id).expect(received.command_id, said.spot, said.message_id)
        elif not received.denied:
            await self._say(said.spot, "A new session begins." if received.reset else "Taken.")

    async def _attachments(self, said: Said) -> list[Attachment] | None:
        """Fetch the files of a message; None where one cannot come along, which is said."""
        found: list[Attachment] = []
        for wanted in said.files:
            try:
                data = await self._bot.fetch(wanted, MAX_INLINE_BINARY_BYTES)
            except BotRefused as no:
                await self._say(said.spot, f"✖️ The file cannot be fetched. {no}", said.message_id)
                return None
            if data is None:
                await self._say(said.spot, f"✖️ A file of a message has at most {MAX_INLINE_BINARY_BYTES // 1024} KiB "
                                f"here; this one has {wanted.size // 1024}.", said.message_id)
                return None
            found.append(Attachment(data=base64.b64encode(data).decode(), media_type=wanted.media_type,
                                    name=wanted.name))
        return found

    async def _turn_away(self, said: Said) -> None:
        """Tell a stranger once, and only where nobody else reads it."""
        if said.direct and said.user_id not in self._strangers and len(self._strangers) < MAX_STRANGERS:
            self._strangers.add(said.user_id)
            await self._say(said.spot, f"You are not known here. Your Telegram id is {said.user_id}; whoever runs this "
                            "bot can add it.")

    async def _say(self, spot: Spot, text: str, answers: int | None = None) -> None:
        try:
            for piece in pieces(text):
                await self._bot.say(spot, piece, answers=answers)
        except BotRefused as no:
            log.warning("message_not_delivered", chat_id=spot.chat_id, error=str(no))

    def _conversation(self, session_id: str) -> Conversation:
        found = self._conversations.get(session_id)
        if found is None:
            place = self._file.now.sessions.setdefault(session_id, Told())
            found = self._conversations[session_id] = Conversation(
                session_id, place, self._gateway, self._bot, self._handing, self._file.save, self._over)
        return found

    def _over(self, session_id: str) -> None:
        """Nothing is awaited: its cursor stays, so that the next message finds its place at once."""
        self._conversations.pop(session_id, None)


def _queue(item: Said | Pressed) -> int:
    """What is said in one chat is taken in order; so are the presses of one person."""
    return item.spot.chat_id if isinstance(item, Said) else item.user_id
