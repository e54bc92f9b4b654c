"""The Telegram bridge's composition: the bot, the people with their keys, and what is kept over a restart."""

from __future__ import annotations

import asyncio
import os
import signal
import ssl
from contextlib import AsyncExitStack
from pathlib import Path
from typing import NamedTuple

from interlock.channels.telegram.bot import BotRefused, TelegramBot
from interlock.channels.telegram.bridge import Bridge, Settings
from interlock.channels.telegram.places import PlacesFile
from interlock.command.redaction import Redaction
from interlock.config import Config, ConfigError, PersonSection, TelegramSection
from interlock.sdk import AsyncInterlock

PLACES_NAME = "telegram.json"


class Gate(NamedTuple):
    """The gateway: its URL, the key that the bridge reads with, and the owner's key where there is one."""

    url: str
    key: str
    tls: ssl.SSLContext | None = None


async def run_telegram(state: Path, config: Config, gate: Gate) -> None:
    """Carry messages until SIGTERM or SIGINT. Raises ConfigError, BotRefused, OSError, ValueError, each with one
    sentence."""
    section = config.telegram
    if section is None:
        raise ConfigError(["there is no [telegram] table; docs/how-to/telegram.md says what it holds"])
    places = await asyncio.to_thread(PlacesFile, state / PLACES_NAME)
    token = _secret("telegram", state, section.token_file, section.token_env, "token")
    async with AsyncExitStack() as open_ones:
        def door(key: str) -> AsyncInterlock:
            api = AsyncInterlock(gate.url, key, tls=gate.tls or True)
            open_ones.push_async_callback(api.close)
            return api

        people = {int(name): door(_key(name, person, state, gate)) for name, person in section.people.items()}
        bot = TelegramBot(token, section.api_url)
        open_ones.push_async_callback(bot.close)
        bridge = Bridge(bot, door(gate.key), places, Settings(
            people, _asking(section), section.groups, Redaction(config.redaction.rules).text))
        await _until_stopped(asyncio.ensure_future(bridge.run()))


async def _until_stopped(running: asyncio.Future[None]) -> None:
    """Raises what the bridge raises."""
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopped.set)
    waiting = asyncio.ensure_future(stopped.wait())
    try:
        await asyncio.wait([running, waiting], return_when=asyncio.FIRST_COMPLETED)
        if running.done():
            running.result()
    finally:
        for task in (running, waiting):
            task.cancel()
        await asyncio.gather(running, waiting, return_exceptions=True)


def _asking(section: TelegramSection) -> list[int]:
    """Chats where questions go: those of the config, else each person's own."""
    return section.ask if section.ask is not None else [int(name) for name in section.people]


def _key(name: str, person: PersonSection, state: Path, gate: Gate) -> str:
    if person.owner:
        return gate.key
    return _secret(f"telegram.people.{name}", state, person.key_file, person.key_env, "key")


def _secret(table: str, state: Path, file: str | None, variable: str | None, what: str) -> str:
    """Read a secret of one line. Raises ConfigError."""
    if variable is not None:
        text = os.environ.get(variable, "")
        if not text.strip():
            raise ConfigError([f"[{table}] {what}_env: there is no variable {variable} in the environment"])
        return text.strip()
    try:
        text = (state / str(file)).read_text("ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not plain text"
        raise ConfigError([f"[{table}] {what}_file: {state / str(file)} cannot be read: {why}"]) from None
    if not text:
        raise ConfigError([f"[{table}] {what}_file: {state / str(file)} is empty"])
    return text


__all__ = ["BotRefused", "Gate", "run_telegram"]
