"""A Slack app as a chat service: the Web API for sending, Socket Mode for receiving (O-12)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import aiohttp
import structlog
from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient

from interlock.channels.slack.blocks import LIMITS, message_blocks, preview
from interlock.channels.slack.events import NAME, read_envelope
from interlock.channels.slack.socket import SlackSocket
from interlock.ports.chat_service import (
    BotRejected,
    Button,
    ButtonPress,
    ChatLimits,
    ChatMessage,
    ChatRefused,
    ChatService,
    FileWanted,
    Id,
    Spot,
)

TIMEOUT_S = 20.0
PAUSE_S = 0.5
PAUSE_MAX_S = 30.0
RETRY_AFTER_MAX_S = 300.0
"""Limit of the delay that Slack requests; after it the request is repeated."""
PASSING = frozenset({"internal_error", "fatal_error", "service_unavailable", "ratelimited", "rate_limited",
                     "request_timeout"})
"""Slack's errors that are transient."""
BAD_TOKEN = frozenset({"invalid_auth", "not_authed", "account_inactive", "token_revoked", "token_expired",
                       "not_allowed_token_type"})
EPHEMERAL_CHARS = 2_000
LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})

log = structlog.get_logger("interlock.slack")


class SlackTokens(NamedTuple):
    """`bot` (xoxb-…) writes, `app` (xapp-…) opens the socket."""

    bot: str
    app: str


class SlackApp(ChatService):
    """One app in one workspace; people, channels and messages have Slack's text ids."""

    name: str = NAME
    limits: ChatLimits = LIMITS

    def __init__(self, tokens: SlackTokens, api_url: str) -> None:
        self._tokens = tokens
        self._api_url = api_url
        self._session: aiohttp.ClientSession | None = None
        self._bot_id = ""
        self._team_id = ""
        self._chats: dict[Id, Id] = {}
        self._socket = SlackSocket(self._socket_url)
        self._unconfirmed: list[str] = []

    async def connect(self) -> str:
        """Check the bot's token and open the socket; `receive` raises for the app's token."""
        me = await self._retrying(lambda: self._client().auth_test())
        self._bot_id = str(me.get("user_id"))
        # Members of an organisation's workspaces have ids that are unique in all of them.
        self._team_id = "" if me.get("enterprise_id") else str(me.get("team_id") or "")
        self._socket.start()
        return self._bot_id

    async def close(self) -> None:
        await self._socket.stop()
        if self._session is not None:
            await self._session.close()

    async def receive(self) -> list[ChatMessage | ButtonPress]:
        while True:
            for envelope_id in self._unconfirmed:
                await self._socket.confirm(envelope_id)
            envelopes = await self._socket.take()
            self._unconfirmed = [one.envelope_id for one in envelopes]
            read = [read_envelope(one, self._bot_id, self._team_id) for one in envelopes]
            found = [item for item in read if item is not None]
            if found:
                return found

    async def open_chat(self, chat_id: Id) -> Id:
        """Return the direct chat of a person; a channel's id is returned unchanged."""
        if not str(chat_id).startswith(("U", "W")):
            return chat_id
        if chat_id not in self._chats:
            opened = await self._retrying(lambda: self._client().conversations_open(users=str(chat_id)))
            self._chats[chat_id] = str(opened.get("channel", {}).get("id"))
        return self._chats[chat_id]

    async def send(self, spot: Spot, text: str, *, answers: Id | None = None, buttons: Sequence[Button] = ()) -> Id:
        """Send a message. A card in a thread is also shown in the channel, so that people notice it."""
        thread = None if spot.topic_id is None else str(spot.topic_id)
        sent = await self._retrying(lambda: self._client().chat_postMessage(
            channel=str(spot.chat_id), text=preview(text), blocks=message_blocks(text, buttons), thread_ts=thread,
            reply_broadcast=True if buttons and thread is not None else None, unfurl_links=False, unfurl_media=False))
        return str(sent.get("ts"))

    async def edit(self, spot: Spot, message_id: Id, text: str) -> None:
        try:
            await self._retrying(lambda: self._client().chat_update(
                channel=str(spot.chat_id), ts=str(message_id), text=preview(text), blocks=message_blocks(text)))
        except BotRejected:
            raise
        except ChatRefused as refused:
            log.info("message_not_edited", chat_id=spot.chat_id, error=str(refused))

    async def show_typing(self, spot: Spot) -> None:
        """Do nothing: apps cannot show typing in Slack."""

    async def answer_press(self, press: ButtonPress, text: str) -> None:
        """Reply so that only the person sees it."""
        spot = press.spot
        if spot is None:
            return
        with suppress(ChatRefused):
            await self._retrying(lambda: self._client().chat_postEphemeral(
                channel=str(spot.chat_id), user=str(press.user_id), text=preview(text),
                blocks=message_blocks(text[:EPHEMERAL_CHARS]),
                thread_ts=None if spot.topic_id is None else str(spot.topic_id)))

    async def fetch(self, wanted: FileWanted, limit_bytes: int) -> bytes | None:
        """Refuse: the bot's token would have to be sent to an address that a message names."""
        raise ChatRefused("Files cannot be sent from Slack; put the file where the agent can read it.")

    async def _socket_url(self) -> str:
        opened = await self._retrying(lambda: self._client().apps_connections_open(app_token=self._tokens.app))
        url = str(opened.get("url"))
        parts = urlsplit(url)
        if parts.scheme != "wss" and not (parts.scheme == "ws" and parts.hostname in LOOPBACK):
            raise ChatRefused("Slack named a socket without TLS, so it is not opened.")
        return url

    def _client(self) -> Any:
        """Return the client; the library's methods have untyped arguments."""
        if self._session is None:
            self._session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=TIMEOUT_S))
        return AsyncWebClient(self._tokens.bot, base_url=self._api_url, session=self._session, retry_handlers=[])

    async def _retrying(self, ask: Callable[[], Awaitable[Any]]) -> Any:
        pause_s = PAUSE_S
        while True:
            try:
                return await ask()
            except SlackApiError as error:
                status, code, after_s = _reason(error)
                if status == 429:
                    await asyncio.sleep(after_s)
                    continue
                if code in BAD_TOKEN:
                    raise BotRejected(f"Slack does not accept the app's tokens: {code}.") from None
                if status < 500 and code not in PASSING:
                    raise ChatRefused(f"Slack refused: {code}.") from None
                log.warning("slack_unreachable", error=code, again_in_s=pause_s)
            except (aiohttp.ClientError, TimeoutError, OSError) as error:
                log.warning("slack_unreachable", error=type(error).__name__, again_in_s=pause_s)
            await asyncio.sleep(pause_s)
            pause_s = min(pause_s * 2, PAUSE_MAX_S)


def _reason(error: SlackApiError) -> tuple[int, str, float]:
    """Return the status, Slack's error code, and the delay in seconds that it requests."""
    response: Any = error.response  # type: ignore[reportUnknownMemberType]
    status = int(getattr(response, "status_code", None) or getattr(response, "status", 0) or 0)
    data: Any = getattr(response, "data", None)
    code = str(data.get("error", f"status {status}")) if isinstance(data, dict) else f"status {status}"  # type: ignore[reportUnknownMemberType]
    try:
        after_s = float(getattr(response, "headers", {}).get("Retry-After", "1"))
    except ValueError:
        after_s = 1.0
    return status, code, min(max(after_s, 0.0), RETRY_AFTER_MAX_S)
