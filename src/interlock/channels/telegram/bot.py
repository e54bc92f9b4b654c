"""The Bot API, asked with patience: what it refuses for good is one sentence, a pause that it asks for is made."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from io import BytesIO
from typing import TypeVar

import structlog
from aiogram import Bot
from aiogram.client.session.aiohttp import AiohttpSession
from aiogram.client.telegram import TelegramAPIServer
from aiogram.exceptions import (
    TelegramAPIError,
    TelegramConflictError,
    TelegramNetworkError,
    TelegramRetryAfter,
    TelegramServerError,
    TelegramUnauthorizedError,
)
from aiogram.types import InlineKeyboardButton, InlineKeyboardMarkup, LinkPreviewOptions, ReplyParameters, Update, User

from interlock.channels.telegram.messages import Button
from interlock.channels.telegram.updates import FileWanted, Spot

POLL_S = 25
"""The Bot API holds a look for updates so long while there is none."""
ANSWER_TIMEOUT_S = 20.0
PAUSE_S = 0.5
PAUSE_MAX_S = 30.0
UPDATES_A_LOOK = 50
ALLOWED = ["message", "callback_query"]

T = TypeVar("T")
log = structlog.get_logger("interlock.telegram")


class BotRefused(Exception):
    """The Bot API will not do it, however often it is asked; one sentence."""


class TelegramBot:
    """One bot. A message is sent at least once: where the answer was lost it is sent again."""

    def __init__(self, token: str, api_url: str) -> None:
        """Raises BotRefused for a token that cannot be one."""
        session = AiohttpSession(api=TelegramAPIServer.from_base(api_url.rstrip("/")), timeout=ANSWER_TIMEOUT_S)
        try:
            self._bot = Bot(token, session=session)
        except Exception:  # noqa: BLE001 - the library's own error would show the token
            raise BotRefused("The bot's token is not of the form that BotFather gives.") from None

    async def close(self) -> None:
        """Close its connections."""
        await self._bot.session.close()

    async def me(self) -> User:
        """Say who the bot is. Raises BotRefused for a token that is not good."""
        return await self._patiently(self._bot.get_me)

    async def updates(self, after: int | None, *, wait: bool = True) -> list[Update]:
        """Look for what happened behind an update, which is confirmed by asking; wait for it, or give what there is.
        Raises BotRefused."""
        return await self._patiently(lambda: self._bot.get_updates(
            offset=None if after is None else after + 1, limit=UPDATES_A_LOOK, timeout=POLL_S if wait else 0,
            allowed_updates=ALLOWED, request_timeout=POLL_S + int(ANSWER_TIMEOUT_S)))

    async def say(self, spot: Spot, text: str, *, answers: int | None = None, buttons: Sequence[Button] = ()) -> int:
        """Send a message of at most 4,096 units; its id. Raises BotRefused."""
        sent = await self._patiently(lambda: self._bot.send_message(
            spot.chat_id, text, message_thread_id=spot.topic_id, reply_markup=_keyboard(buttons),
            link_preview_options=LinkPreviewOptions(is_disabled=True),
            reply_parameters=None if answers is None else ReplyParameters(
                message_id=answers, allow_sending_without_reply=True)))
        return sent.message_id

    async def change(self, spot: Spot, message_id: int, text: str) -> None:
        """Write a message anew, without buttons. One that is gone, or says so already, is left as it is."""
        with suppress(BotRefused):
            await self._patiently(lambda: self._bot.edit_message_text(text, chat_id=spot.chat_id,
                                                                      message_id=message_id))

    async def typing(self, spot: Spot) -> None:
        """Show that somebody writes; it may fail, and nothing is missing then."""
        with suppress(TelegramAPIError):
            await self._bot.send_chat_action(spot.chat_id, "typing", message_thread_id=spot.topic_id)

    async def answer_press(self, press_id: str, text: str) -> None:
        """Tell whoever pressed a button what became of it; a press that is too old is passed over."""
        with suppress(BotRefused):
            await self._patiently(lambda: self._bot.answer_callback_query(press_id, text[:200], show_alert=True))

    async def fetch(self, wanted: FileWanted, limit_bytes: int) -> bytes | None:
        """Fetch a file; None where it is larger than `limit_bytes`. Raises BotRefused."""
        if wanted.size > limit_bytes:
            return None
        into = BytesIO()
        await self._patiently(lambda: self._bot.download(wanted.file_id, destination=into))
        data = into.getvalue()
        return data if len(data) <= limit_bytes else None

    async def _patiently(self, ask: Callable[[], Awaitable[T]]) -> T:
        pause_s = PAUSE_S
        while True:
            try:
                return await ask()
            except TelegramRetryAfter as busy:
                await asyncio.sleep(busy.retry_after)
                continue
            except TelegramUnauthorizedError:
                raise BotRefused("Telegram does not know the bot's token; BotFather shows the one that is good."
                                 ) from None
            except TelegramConflictError:
                raise BotRefused("Another program asks for this bot's messages; only one can.") from None
            except (TelegramNetworkError, TelegramServerError) as error:
                log.warning("telegram_unreachable", error=self._said(error), again_in_s=pause_s)
            except TelegramAPIError as error:
                raise BotRefused(f"Telegram refused: {self._said(error)}") from None
            await asyncio.sleep(pause_s)
            pause_s = min(pause_s * 2, PAUSE_MAX_S)

    def _said(self, error: TelegramAPIError) -> str:
        return error.message.replace(self._bot.token, "…")


def _keyboard(buttons: Sequence[Button]) -> InlineKeyboardMarkup | None:
    if not buttons:
        return None
    return InlineKeyboardMarkup(inline_keyboard=[[InlineKeyboardButton(text=one.label, callback_data=one.data)
                                                  for one in buttons]])
