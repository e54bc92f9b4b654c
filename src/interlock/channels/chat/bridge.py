"""The bridge between a chat service and the gateway: messages become commands, replies and approvals are sent back."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

import structlog

from interlock.channels.chat.approvals import Approvals, Redact
from interlock.channels.chat.conversation import Conversation, HandOvers
from interlock.channels.chat.message_queues import MessageQueues
from interlock.channels.chat.messages import HELP, refused
from interlock.channels.chat.places import FollowedSession, PlacesFile, QueuedMessage
from interlock.channels.chat.replies import Replies
from interlock.ports.chat_service import (
    BotRejected,
    ButtonPress,
    ChatMessage,
    ChatMoves,
    ChatRefused,
    ChatService,
    Id,
)
from interlock.protocol.inbound import Attachment
from interlock.protocol.limits import MAX_INLINE_BINARY_BYTES
from interlock.sdk import AsyncInterlock
from interlock.sdk.problems import InterlockError, Refused, Unreachable, for_people

AGAIN_S = 2.0
MAX_STRANGERS = 1_000
"""Unknown people who are remembered, so that each gets one answer; further ones get none."""
MAX_PRESS_ANSWERS = 100
"""Outcomes of presses that are on their way; above it a press counts, and only its card shows the outcome."""

log = structlog.get_logger("interlock.chat")


class Settings(NamedTuple):
    """The people who may write, by the service's ids, each with a client with their own key; the chats that receive
    approvals; the redaction of outgoing text (K-4); the page of an approval, if other machines can reach it."""

    people: Mapping[Id, AsyncInterlock]
    asking: Sequence[Id]
    redact: Redact
    public_url: str | None = None


class Bridge:
    """One bot at one gateway. `gateway` is a client with the bridge's own key, which only reads."""

    def __init__(self, bot: ChatService, gateway: AsyncInterlock, places: PlacesFile, settings: Settings) -> None:
        self._bot = bot
        self._gateway = gateway
        self._file = places
        self._settings = settings
        self._account = ""
        self._conversations: dict[str, Conversation] = {}
        self._strangers: set[Id] = set()
        self._handing = HandOvers()
        self._replies = Replies(bot, places.now, places.save)
        self._inbox = MessageQueues(places.now, places.save, self._deliver)
        self._press_answers: set[asyncio.Task[None]] = set()
        self._approvals = Approvals(gateway, bot, settings.people, settings.asking, places.now, places.save,
                                    settings.redact, settings.public_url)

    async def run(self) -> None:
        """Run until cancelled. Raises ChatRefused if the service rejects the bot, OSError if the state for a restart
        cannot be written, and the exception that ends the approvals: a bridge that shows none must end."""
        try:
            await self._run()
        except ChatRefused as refused:  # `interlock doctor` reads it.
            self._file.now.ended = str(refused)
            with suppress(OSError):
                self._file.save()
            raise

    async def _run(self) -> None:
        self._bot.keep_moves(ChatMoves(self._file.now.moved, self._file.save))
        self._account = await self._bot.connect()
        if self._file.now.ended is not None:
            self._file.now.ended = None
            self._file.save()
        log.info("chat_ready", service=self._bot.name, bot=self._account, people=len(self._settings.people))
        for queued in self._file.now.inbox:
            if queued.fetched or not queued.message.files:
                self._handing.begin(queued.message)  # The last start may have sent it, and its answer is not here.
        for session_id, followed in list(self._file.now.sessions.items()):
            if followed.commands:
                self._conversation(session_id).go_on()
        parts = [asyncio.create_task(part) for part in (
            self._replies.run(), self._inbox.run(), self._approvals.follow(), self._listen())]
        try:
            ended, _ = await asyncio.wait(parts, return_when=asyncio.FIRST_COMPLETED)
            for part in ended:
                part.result()
        finally:
            for part in (*parts, *self._press_answers):
                part.cancel()
            await asyncio.gather(*parts, *self._press_answers, *(one.stop() for one in self._conversations.values()),
                                 return_exceptions=True)
            with suppress(OSError):
                self._file.save()

    async def _listen(self) -> None:
        """Receive for ever. A batch is confirmed, by the next `receive`, only when its messages are durable in the
        queues of their chats, and its presses at the gateway."""
        while True:
            items = await self._bot.receive()
            by_person: dict[Id, list[ButtonPress]] = {}
            messages: list[ChatMessage] = []
            for item in items:
                if isinstance(item, ButtonPress):
                    by_person.setdefault(item.user_id, []).append(item)
                elif not self._is_answered_here(item):
                    messages.append(item)
            await asyncio.gather(self._inbox.put(messages), *(self._press(ones) for ones in by_person.values()))

    async def _press(self, presses: list[ButtonPress]) -> None:
        for press in presses:
            self._answer_press(press, await self._approvals.pressed(press))

    def _answer_press(self, press: ButtonPress, text: str | None) -> None:
        """Show a press's outcome; its chat may be to wait, and what is received does not wait for it."""
        if text is not None and len(self._press_answers) < MAX_PRESS_ANSWERS:
            task = asyncio.create_task(self._bot.answer_press(press, text))
            self._press_answers.add(task)
            task.add_done_callback(self._press_answers.discard)

    def _is_answered_here(self, message: ChatMessage) -> bool:
        """Answer what is not for the gateway."""
        if message.user_id not in self._settings.people:
            self._turn_away(message)
            return True
        if message.text.split("@")[0].strip() == "/start":
            self._replies.answer(message.spot, HELP)
            return True
        return False

    async def _deliver(self, queued: QueuedMessage) -> None:
        message = queued.message
        person = self._settings.people.get(message.user_id)
        if person is None:  # The config named them when it was received.
            self._turn_away(message)
        elif (attachments := await self._attachments(message)) is not None:
            if message.files and not queued.fetched:
                queued.fetched = True
                self._file.save()
            self._handing.begin(message)
            await self._keep_trying(message, person, attachments)
        self._handing.end(message)

    async def _keep_trying(self, message: ChatMessage, person: AsyncInterlock, attachments: list[Attachment]) -> None:
        while True:
            try:
                if not await self._approvals.answered(message, person):
                    await self._hand_over(message, person, attachments)
                return
            except Unreachable as error:  # The idempotency key is the same, so repeated requests have one effect.
                log.warning("message_not_taken_yet", error=str(error))
                await asyncio.sleep(AGAIN_S)
            except Refused as no:
                hint = for_people(no.hint, no.retry_after_s)
                self._replies.answer(message.spot, refused(no.problem, no.detail, hint), message.message_id)
                return
            except InterlockError as error:
                self._replies.answer(message.spot, f"✖️ {error}", message.message_id)
                return

    async def _hand_over(self, message: ChatMessage, person: AsyncInterlock, attachments: list[Attachment]) -> None:
        """Send a message to the gateway. Raises InterlockError."""
        received = await person.chats.receive(message.body(self._account, attachments))
        if received.reply is not None:
            self._replies.answer(message.spot, received.reply, message.message_id)
            return
        if received.command_id is not None:
            self._conversation(received.session_id).expect(received.command_id, message.spot, message.message_id)
        elif not received.denied:
            self._replies.answer(message.spot, "A new session begins." if received.reset else "Accepted.")

    async def _attachments(self, message: ChatMessage) -> list[Attachment] | None:
        """Fetch the files of a message; None, with a message to the person, if one cannot be sent along."""
        found: list[Attachment] = []
        for wanted in message.files:
            try:
                data = await self._bot.fetch(wanted, MAX_INLINE_BINARY_BYTES)
            except BotRejected:  # It is fetched by the next start, with a valid token.
                raise
            except ChatRefused as no:
                self._replies.answer(message.spot, f"✖️ The file cannot be fetched. {no}", message.message_id)
                return None
            if data is None:
                self._replies.answer(message.spot, "✖️ A file of a message has at most "
                                 f"{MAX_INLINE_BINARY_BYTES // 1024} KiB here; this one has {wanted.size // 1024}.",
                                 message.message_id)
                return None
            found.append(Attachment(data=base64.b64encode(data).decode(), media_type=wanted.media_type,
                                    name=wanted.name))
        return found

    def _turn_away(self, message: ChatMessage) -> None:
        """Answer an unknown person once, and only in a direct chat."""
        if message.direct and message.user_id not in self._strangers and len(self._strangers) < MAX_STRANGERS:
            self._strangers.add(message.user_id)
            name = self._bot.name.capitalize()
            self._replies.answer(message.spot, f"You are not known here. Your {name} id is {message.user_id}; the "
                             "person who runs this bot can add it.")

    def _conversation(self, session_id: str) -> Conversation:
        found = self._conversations.get(session_id)
        if found is None:
            place = self._file.now.sessions.setdefault(session_id, FollowedSession())
            found = self._conversations[session_id] = Conversation(
                session_id, place, self._gateway, self._bot, self._replies, self._handing, self._file.save, self._over)
        return found

    def _over(self, session_id: str) -> None:
        """Drop a conversation without awaited commands: its stored cursor lets the next message continue from there."""
        self._conversations.pop(session_id, None)
