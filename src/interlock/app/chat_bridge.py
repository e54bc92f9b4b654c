"""The composition of a chat bridge: the service, the people with their keys, and the state that survives a restart."""

from __future__ import annotations

import asyncio
import os
import signal
import ssl
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import NamedTuple

from interlock.channels.chat.bridge import Bridge, Settings
from interlock.channels.chat.places import PlacesFile
from interlock.command.redaction import Redaction
from interlock.config import Config, ConfigError, PersonSection
from interlock.ports.chat_service import ChatService, Id
from interlock.sdk import AsyncInterlock
from interlock.sdk.place import KeySource


class Gate(NamedTuple):
    """The gateway: its URL, the key that the bridge reads with, which is the owner's on the gateway's own machine, and
    its TLS context. The key of a login that expires is read at each request."""

    url: str
    key: str | KeySource
    tls: ssl.SSLContext | None = None


class ChatMembers(NamedTuple):
    """The people of a service, by its ids, and the chats where approvals are shown; None: each person's own."""

    people: Mapping[Id, PersonSection]
    approval_chats: Sequence[Id] | None


async def run_bridge(bot: ChatService, members: ChatMembers, state: Path, config: Config, gate: Gate) -> None:
    """Forward messages until SIGTERM or SIGINT, then close the service. Raises ConfigError, ChatRefused, OSError or
    ValueError, each with one sentence."""
    async with AsyncExitStack() as stack:
        stack.push_async_callback(bot.close)
        places = await asyncio.to_thread(PlacesFile, state / f"{bot.name}.json")

        def client(key: str | KeySource) -> AsyncInterlock:
            api = AsyncInterlock(gate.url, key, tls=gate.tls or True)
            stack.push_async_callback(api.close)
            return api

        people = {name: client(_key(f"{bot.name}.people.{name}", person, state, gate))
                  for name, person in members.people.items()}
        bridge = Bridge(bot, client(gate.key), places, Settings(
            people, members.approval_chats if members.approval_chats is not None else list(members.people),
            Redaction(config.redaction.rules).text, config.gateway.public_url()))
        await _until_stopped(asyncio.ensure_future(bridge.run()))


async def _until_stopped(running: asyncio.Future[None]) -> None:
    """Wait for the end; raises the bridge's exception."""
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


def _key(table: str, person: PersonSection, state: Path, gate: Gate) -> str | KeySource:
    return gate.key if person.owner else secret(table, state, person.key_file, person.key_env, "key")


def secret(table: str, state: Path, file: str | None, variable: str | None, what: str) -> str:
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
