"""The config of chats in the engine's form (I-1, R-3)."""

from __future__ import annotations

import os
from datetime import UTC, tzinfo
from pathlib import Path
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from interlock.config import Config
from interlock.engine.chats import ChatSettings
from interlock.session.chat.chat_route import Naming
from interlock.session.chat.resets import ResetRule, ResetRules
from interlock.session.chat.send_policy import SendRules

HOST_ZONE = Path("/etc/localtime")


def chat_settings(config: Config) -> ChatSettings:
    """Return the chat settings of the config."""
    section = config.session
    by_type: dict[str, ResetRule] = {**section.reset_by_type}
    return ChatSettings(
        resets=ResetRules(section.reset, by_type,
                          {name.lower(): rule for name, rule in section.reset_by_channel.items()},
                          section.idle_minutes),
        zone=ZoneInfo(section.time_zone) if section.time_zone is not None else host_zone(),
        naming=Naming(section.dm_scope, section.identity_links), bindings=config.bindings,
        default_agent=answering_agent(config), workspace=section.workspace,
        sending=SendRules(section.send_policy.default, section.send_policy.rules), models=frozenset(section.models),
    )


def host_zone() -> tzinfo:
    """Return the host's own time zone: TZ, otherwise /etc/localtime, otherwise UTC."""
    named = os.environ.get("TZ", "").removeprefix(":")
    try:
        if named:
            return ZoneInfo(named)
        with HOST_ZONE.open("rb") as file:
            return ZoneInfo.from_file(file, key="localtime")
    except (OSError, ValueError, ZoneInfoNotFoundError):
        return UTC


def answering_agent(config: Config) -> str:
    """Return the agent that answers if none is named: the default agent, the config's only agent, otherwise the
    built-in one."""
    return config.session.default_agent or (next(iter(config.agents)) if len(config.agents) == 1 else "shell")
