"""Open a Telegram bot by the config, and forward its messages."""

from __future__ import annotations

from pathlib import Path

from interlock.app.chat_bridge import ChatMembers, Gate, run_bridge, secret
from interlock.channels.telegram.bot import TelegramBot
from interlock.config import Config, ConfigError, PersonSection
from interlock.ports.chat_service import Id


async def run(state: Path, config: Config, gate: Gate) -> None:
    """Forward messages until SIGTERM or SIGINT. Raises ConfigError, ChatRefused, OSError, ValueError, each with one
    sentence."""
    section = config.telegram
    if section is None:
        raise ConfigError(["there is no [telegram] table; docs/how-to/telegram.md describes it"])
    token = secret("telegram", state, section.token_file, section.token_env, "token")
    people: dict[Id, PersonSection] = {int(name): person for name, person in section.people.items()}
    bot = TelegramBot(token, section.api_url, section.groups)
    await run_bridge(bot, ChatMembers(people, section.ask), state, config, gate)
