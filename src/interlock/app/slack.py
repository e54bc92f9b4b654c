"""Open a Slack app by the config, and forward its messages."""

from __future__ import annotations

from pathlib import Path

from interlock.app.chat_bridge import ChatMembers, Gate, run_bridge, secret
from interlock.channels.slack.app import SlackApp, SlackTokens
from interlock.config import Config, ConfigError, PersonSection
from interlock.ports.chat_service import Id


async def run(state: Path, config: Config, gate: Gate) -> None:
    """Forward messages until SIGTERM or SIGINT. Raises ConfigError, ChatRefused, OSError, ValueError, each with one
    sentence."""
    section = config.slack
    if section is None:
        raise ConfigError(["there is no [slack] table; docs/how-to/slack.md describes it"])
    tokens = SlackTokens(secret("slack", state, section.bot_token_file, section.bot_token_env, "bot_token"),
                         secret("slack", state, section.app_token_file, section.app_token_env, "app_token"))
    people: dict[Id, PersonSection] = dict(section.people.items())
    await run_bridge(SlackApp(tokens, section.api_url), ChatMembers(people, section.ask), state, config, gate)
