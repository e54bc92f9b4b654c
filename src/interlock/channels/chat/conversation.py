"""A session's replies for a chat: each block of text once it is closed, then how the command ended.

The session's delivered view is followed, so silent text never arrives here (Q-1). A message is queued for its chat in
the same write as the cursor after it: a restarted bridge continues from there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgspec
import structlog

from interlock.channels.chat.messages import ending, notices, tool_line
from interlock.channels.chat.places import Awaited, FollowedSession
from interlock.channels.chat.replies import Replies
from interlock.ports.chat_service import ChatMessage, ChatRefused, ChatService, Id, Spot
from interlock.protocol.answers import FrameEvent
from interlock.protocol.limits import PAGE_MAX
from interlock.sdk import AsyncInterlock
from interlock.sdk.follower import StreamEvent
from interlock.sdk.problems import CursorExpired, InterlockError
from interlock.session.store.entry import Verbosity, verbosity

TYPING_S = 4.0
"""The Bot API shows typing for five seconds."""
AGAIN_S = 5.0
"""Delay before a gateway that was unreachable for long is tried again."""

STOP_S = 5.0

log = structlog.get_logger("interlock.chat")


class _Frame(msgspec.Struct):
    """The fields of a frame that are used here."""

    type: str
    payload: dict[str, Any] = {}
    metadata: dict[str, Any] = {}


_frame = msgspec.json.Decoder(_Frame)


class HandOvers:
    """Messages being sent to the gateway. A prompt may appear in a session's stream before the response that names its
    command has arrived: a reader that finds an unawaited prompt checks again after these requests have completed."""

    def __init__(self) -> None:
        self._open: dict[tuple[Id, Id], asyncio.Event] = {}
        """By chat and message."""

    def begin(self, message: ChatMessage) -> None:
        """Note that the gateway may have a message from now on."""
        self._open.setdefault((message.spot.chat_id, message.message_id), asyncio.Event())

    def end(self, message: ChatMessage) -> None:
        """Note that the gateway's answer is durable here."""
        done = self._open.pop((message.spot.chat_id, message.message_id), None)
        if done is not None:
            done.set()

    async def settled(self) -> None:
        """Wait for the current requests."""
        for done in list(self._open.values()):
            await done.wait()


class Conversation:
    """A session. `place` is its part of the file, `save` makes it durable, together with what is queued in `replies`;
    `over` is called when nothing is awaited."""

    def __init__(self, session_id: str, place: FollowedSession, gateway: AsyncInterlock, bot: ChatService,
                 replies: Replies, handing: HandOvers, save: Callable[[], None], over: Callable[[str], None]) -> None:
        self._session_id = session_id
        self._place = place
        self._gateway = gateway
        self._bot = bot
        self._replies = replies
        self._handing = handing
        self._save = save
        self._over = over
        self._lock = asyncio.Lock()
        """Held while an event is handled: the stream is stopped only between two events."""
        self._following: asyncio.Task[None] | None = None
        self._waiting: dict[str, asyncio.Task[None]] = {}
        self._typing: asyncio.Task[None] | None = None
        self._typed_at = 0.0
        self._detail: Verbosity = "off"

    def expect(self, command_id: str, spot: Spot, message_id: Id) -> None:
        """Send a command's replies to a spot; the expectation is durable when this returns. Raises OSError."""
        if command_id not in self._place.commands:
            self._place.commands[command_id] = Awaited(spot, message_id)
            self._save()
        self.go_on()

    def go_on(self) -> None:
        """Follow the awaited commands."""
        if self._following is None:
            self._following = asyncio.create_task(self._follow())
        for command_id in self._place.commands:
            if command_id not in self._waiting:
                self._waiting[command_id] = asyncio.create_task(self._await_end(command_id))

    async def stop(self) -> None:
        """Stop between two messages, unless a full queue keeps one waiting; the next start sends the rest."""
        with suppress(TimeoutError):
            async with asyncio.timeout(STOP_S):
                await self._lock.acquire()
        tasks = [*self._waiting.values(), *(one for one in (self._following, self._typing) if one is not None)]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _follow(self) -> None:
        while True:
            try:
                async for item in self._gateway.sessions.follow(self._session_id, since=self._place.since):
                    if isinstance(item, StreamEvent):
                        async with self._lock:
                            await self._take(item.data, item.cursor)
            except CursorExpired:
                self._place.since = None  # What is no longer stored was sent, or is in the transcript.
            except InterlockError as error:
                log.warning("session_not_followed", session_id=self._session_id, error=str(error))
                await asyncio.sleep(AGAIN_S)

    async def _await_end(self, command_id: str) -> None:
        while True:
            try:
                async for _ in self._gateway.commands.follow(command_id):
                    pass
                async with self._lock:
                    await self._settle(command_id)
                return
            except InterlockError as error:
                log.warning("command_not_followed", command_id=command_id, error=str(error))
                await asyncio.sleep(AGAIN_S)

    async def _settle(self, command_id: str) -> None:
        """Send the rest of the session up to the command's end, then how it ended. Raises InterlockError."""
        command = await self._gateway.commands.get(command_id)
        while True:
            page = await self._gateway.sessions.frames(self._session_id, since=self._place.since, limit=PAGE_MAX)
            for raw in page.events:
                await self._take(msgspec.json.decode(raw, type=FrameEvent), None)
            self._place.since = page.next_cursor
            if not page.has_more:
                break
        awaited = self._place.commands[command_id]
        text = ending(command, self._place.known, verbose=self._detail != "off")
        self._place.known = sorted({*self._place.known, *(one.code for one in notices(command))})
        if text is not None:
            await self._send(awaited, text)
        del self._place.commands[command_id]
        self._waiting.pop(command_id, None)
        self._restart()
        self._save()

    def _restart(self) -> None:
        """Continue from where the pages ended, or stop if nothing is awaited any more."""
        if self._following is not None:
            self._following.cancel()
            self._following = None
        if self._place.commands:
            self.go_on()
        else:
            self._over(self._session_id)

    async def _take(self, event: FrameEvent, cursor: str | None) -> None:
        """Queue one event for its chat; a durable event advances the cursor, and a queued message advances it on
        disk."""
        is_message = False
        if event.kind in ("C", "M") and event.frame is not msgspec.UNSET:
            is_message = await self._show(_frame.decode(event.frame))
        if cursor is not None:
            self._place.since = cursor
            if is_message:
                self._save()

    async def _show(self, frame: _Frame) -> bool:
        payload = frame.payload
        match frame.type:
            case "control.prompt.request":
                command_id = str(payload.get("command_id"))
                if command_id not in self._place.commands:
                    await self._handing.settled()
                awaited = self._place.commands.get(command_id)
                if awaited is not None:
                    awaited.prompt_id, awaited.turn_id = str(payload.get("prompt_id")), ""
            case "session.turn.start":
                prompt_id = frame.metadata.get("prompt_id")
                for awaited in self._place.commands.values():
                    if prompt_id and awaited.prompt_id == prompt_id:
                        awaited.turn_id = str(payload.get("turn_id"))
                        await self._look_how()
            case "agent.text.done":
                awaited = self._of_turn(payload)
                text = str(payload.get("text", ""))
                if awaited is not None and text.strip():
                    await self._send(awaited, text)
                    return True
            case "agent.text.delta":
                awaited = self._of_turn(payload)
                if awaited is not None:
                    self._type(awaited)
            case "tool.invoke.request":
                awaited = self._of_turn(payload)
                if awaited is not None and self._detail != "off":
                    await self._send(awaited, tool_line(payload))
                    return True
                if awaited is not None:
                    self._type(awaited)
            case _:
                pass
        return False

    async def _look_how(self) -> None:
        """Read how much to send, by the session's `verboseLevel` (I-4)."""
        with suppress(InterlockError):
            session = await self._gateway.sessions.get(self._session_id)
            self._detail = verbosity(session.entry.get("verboseLevel"), "off")

    def _of_turn(self, payload: dict[str, Any]) -> Awaited | None:
        turn_id = payload.get("turn_id")
        return next((one for one in self._place.commands.values() if turn_id and one.turn_id == turn_id), None)

    async def _send(self, awaited: Awaited, text: str) -> None:
        """Queue a message for its chat; the caller saves. With a full queue the session waits here, in the ledger."""
        await self._replies.room(awaited.spot.chat_id)
        self._replies.post(awaited.spot, text)

    def _type(self, awaited: Awaited) -> None:
        """Show typing, if no request for it is under way: its chat may be slow, and the session's other chats do not
        wait for it."""
        now = asyncio.get_running_loop().time()
        if now - self._typed_at >= TYPING_S and (self._typing is None or self._typing.done()):
            self._typed_at = now
            self._typing = asyncio.create_task(self._show_typing(awaited.spot))

    async def _show_typing(self, spot: Spot) -> None:
        with suppress(ChatRefused):
            await self._bot.show_typing(spot)
