"""The Bot API as a chat service: requests are delayed as Telegram requests, a final refusal is a sentence."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from io import BytesIO
from typing import Any, TypeVar

import aiohttp
import structlog
from aiogram import Bot
from aiogram.client.session.aiohttp import AiohttpSession
from aiogram.client.telegram import TelegramAPIServer
from aiogram.exceptions import (
    ClientDecodeError,
    TelegramAPIError,
    TelegramConflictError,
    TelegramMigrateToChat,
    TelegramNetworkError,
    TelegramRetryAfter,
    TelegramServerError,
    TelegramUnauthorizedError,
)
from aiogram.methods import GetUpdates
from aiogram.types import (
    InlineKeyboardButton,
    InlineKeyboardMarkup,
    LinkPreviewOptions,
    ReplyParameters,
    TelegramObject,
    Update,
    User,
)
from pydantic import ValidationError

from interlock.channels.telegram.updates import LIMITS, Listening, move_of, read_update
from interlock.ports.chat_service import (
    BotRejected,
    Button,
    ButtonPress,
    ChatLimits,
    ChatMessage,
    ChatMoves,
    ChatRefused,
    ChatService,
    FileWanted,
    Id,
    Spot,
)

POLL_S = 25
"""Time for which the Bot API holds a request for updates if there are none."""
ANSWER_TIMEOUT_S = 20.0
PAUSE_S = 0.5
PAUSE_MAX_S = 30.0
SERVER_ERROR = 500
UPDATES_A_LOOK = 50
ALLOWED = ["message", "callback_query"]
ALERT_CHARS = 200
"""Characters of an alert that the Bot API shows."""

T = TypeVar("T")
log = structlog.get_logger("interlock.telegram")


class _RawUpdate(TelegramObject):
    """An update of which only the number is read; all else is kept as it came."""

    update_id: int


class _GetRawUpdates(GetUpdates):
    """`getUpdates`, whose updates are parsed one by one: the library rejects all of them because of one of an unknown
    kind, and they would be received again forever."""

    __returning__ = list[_RawUpdate]


class TelegramBot(ChatService):
    """One bot; people and chats have Telegram's numbers."""

    name: str = "telegram"
    limits: ChatLimits = LIMITS

    def __init__(self, token: str, api_url: str, listening: Listening = "mention") -> None:
        """With `listening` "all" the messages of known people in groups are for the bot. Raises ChatRefused for an
        invalid token."""
        session = AiohttpSession(api=TelegramAPIServer.from_base(api_url.rstrip("/")), timeout=ANSWER_TIMEOUT_S)
        try:
            self._bot = Bot(token, session=session)
        except Exception:  # noqa: BLE001 - the library's own error would show the token
            raise ChatRefused("The bot's token does not have BotFather's format.") from None
        self._listening: Listening = listening
        self._me: User | None = None
        self._last: int | None = None
        self._moves = ChatMoves([], lambda: None)

    def keep_moves(self, moves: ChatMoves) -> None:
        self._moves = moves

    async def close(self) -> None:
        await self._bot.session.close()

    async def connect(self) -> str:
        self._me = await self._retrying(self._bot.get_me)
        return self._me.username or str(self._me.id)

    async def receive(self) -> list[ChatMessage | ButtonPress]:
        """Fetch updates; that confirms those before its offset. An unreadable one is logged and skipped."""
        me = self._me or await self._retrying(self._bot.get_me)
        while True:
            offset = None if self._last is None else self._last + 1
            wanted = _GetRawUpdates(offset=offset, limit=UPDATES_A_LOOK, timeout=POLL_S,
                                    allowed_updates=ALLOWED)
            updates: list[Any] = await self._retrying(
                lambda wanted=wanted: self._bot(wanted, request_timeout=POLL_S + int(ANSWER_TIMEOUT_S)))
            if updates:
                self._last = updates[-1].update_id
            read = [self._read(update, me) for update in map(self._update, updates) if update]
            found = [item for item in read if item is not None]
            if found:
                return found

    def _read(self, update: Update, me: User) -> ChatMessage | ButtonPress | None:
        if (move := move_of(update)) is not None:
            self._moves.add(*move)
        item = read_update(update, me, self._listening)
        if not isinstance(item, ChatMessage):
            return item
        return item._replace(first_chat_id=self._moves.first(item.spot.chat_id))

    def _update(self, raw: _RawUpdate) -> Update | None:
        try:
            return Update.model_validate(raw.model_dump(), context={"bot": self._bot})
        except ValidationError as error:
            log.warning("update_unreadable", update_id=raw.update_id, faults=error.error_count())
            return None

    async def open_chat(self, chat_id: Id) -> Id:
        """Return the number of the person, which is that of the direct chat, or the current number of a group."""
        return self._moves.current(chat_id)

    async def send(self, spot: Spot, text: str, *, answers: Id | None = None, buttons: Sequence[Button] = ()) -> Id:
        try:
            return await self._send(spot, text, answers, buttons)
        except TelegramMigrateToChat as moved:
            self._moves.add(spot.chat_id, moved.migrate_to_chat_id)
            return await self._send(spot, text, answers, buttons)

    async def _send(self, spot: Spot, text: str, answers: Id | None, buttons: Sequence[Button]) -> Id:
        chat = self._moves.current(spot.chat_id)
        if chat != spot.chat_id:
            answers = None  # The number of a message in the old chat is that of another message in the new one.
        sent = await self._retrying(lambda: self._bot.send_message(
            chat, text, message_thread_id=None if spot.topic_id is None else int(spot.topic_id),
            reply_markup=_keyboard(buttons), link_preview_options=LinkPreviewOptions(is_disabled=True),
            reply_parameters=None if answers is None else ReplyParameters(
                message_id=int(answers), allow_sending_without_reply=True)))
        return sent.message_id

    async def edit(self, spot: Spot, message_id: Id, text: str) -> None:
        if self._moves.current(spot.chat_id) != spot.chat_id:
            return  # Messages of a chat that has moved cannot be edited.
        try:
            await self._retrying(lambda: self._bot.edit_message_text(text, chat_id=spot.chat_id,
                                                                      message_id=int(message_id)))
        except BotRejected:
            raise
        except ChatRefused as refused:
            log.info("message_not_edited", chat_id=spot.chat_id, error=str(refused))
        except TelegramMigrateToChat as moved:
            self._moves.add(spot.chat_id, moved.migrate_to_chat_id)

    async def show_typing(self, spot: Spot) -> None:
        with suppress(TelegramAPIError, ClientDecodeError):
            await self._bot.send_chat_action(
                self._moves.current(spot.chat_id), "typing",
                message_thread_id=None if spot.topic_id is None else int(spot.topic_id))

    async def answer_press(self, press: ButtonPress, text: str) -> None:
        with suppress(ChatRefused):
            await self._retrying(lambda: self._bot.answer_callback_query(press.press_id, text[:ALERT_CHARS],
                                                                          show_alert=True))

    async def fetch(self, wanted: FileWanted, limit_bytes: int) -> bytes | None:
        if wanted.size > limit_bytes:
            return None
        data = await self._retrying(lambda: self._download(wanted.file_id))
        return data if len(data) <= limit_bytes else None

    async def _download(self, file_id: str) -> bytes:
        into = BytesIO()
        await self._bot.download(file_id, destination=into)
        return into.getvalue()

    async def _retrying(self, ask: Callable[[], Awaitable[T]]) -> T:
        pause_s = PAUSE_S
        while True:
            try:
                return await ask()
            except TelegramRetryAfter as busy:
                await asyncio.sleep(busy.retry_after)
                continue
            except TelegramUnauthorizedError:
                raise BotRejected("Telegram does not know the bot's token; BotFather shows the valid one."
                                 ) from None
            except TelegramConflictError:
                raise ChatRefused("Another program receives this bot's messages; only one can.") from None
            except (TelegramNetworkError, TelegramServerError) as error:
                log.warning("telegram_unreachable", error=self._redacted(error), again_in_s=pause_s)
            except ClientDecodeError:  # A proxy, or a failing server, answers with a page of its own.
                log.warning("telegram_unreachable", error="an answer that is not the Bot API's", again_in_s=pause_s)
            except aiohttp.ClientResponseError as error:  # Of a file, whose address contains the token.
                if error.status < SERVER_ERROR:
                    raise ChatRefused(f"Telegram refused: status {error.status}.") from None
                log.warning("telegram_unreachable", error=f"status {error.status}", again_in_s=pause_s)
            except (aiohttp.ClientError, TimeoutError) as error:
                log.warning("telegram_unreachable", error=type(error).__name__, again_in_s=pause_s)
            except TelegramMigrateToChat:  # Of the methods that name a chat.
                raise
            except TelegramAPIError as error:
                raise ChatRefused(f"Telegram refused: {self._redacted(error)}") from None
            await asyncio.sleep(pause_s)
            pause_s = min(pause_s * 2, PAUSE_MAX_S)

    def _redacted(self, error: TelegramAPIError) -> str:
        return error.message.replace(self._bot.token, "…")


def _keyboard(buttons: Sequence[Button]) -> InlineKeyboardMarkup | None:
    if not buttons:
        return None
    return InlineKeyboardMarkup(inline_keyboard=[[
        InlineKeyboardButton(text=one.label, url=one.url) if one.url is not None else
        InlineKeyboardButton(text=one.label, callback_data=one.data) for one in buttons]])
