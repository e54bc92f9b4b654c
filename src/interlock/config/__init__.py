"""The config file, `<state>/interlock.toml` (G-1), and the location of the state directory (G-2).

Read by gateway, runner and command line. An unknown key is an error that names file, line and the nearest known key.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock.lazy_names import lazy_names

if TYPE_CHECKING:
    from interlock.command.redaction import RedactionRule
    from interlock.config.chats import CronSection, HookSection, SessionSection
    from interlock.config.config_error import ConfigError
    from interlock.config.directory import state_directory
    from interlock.config.loader import check, key_lines, load, parse
    from interlock.config.notices import AppriseSection, NtfySection
    from interlock.config.redacted import show
    from interlock.config.sections import (
        DEFAULT_PORT,
        AuditSection,
        ClusterSection,
        Config,
        ConfigSection,
        GatewaySection,
        LimitsSection,
        ObjectsSection,
        OidcSection,
        OutgoingSection,
        PolicySection,
        RatesSection,
        RedactionSection,
        RunnerSection,
        WebhookSection,
    )
    from interlock.config.slack import SlackSection
    from interlock.config.telegram import PersonSection, TelegramSection
    from interlock.ports.agent import AgentSpec

FILE_NAME = "interlock.toml"

__getattr__ = lazy_names(__name__, {
    "interlock.command.redaction": ("RedactionRule",),
    "interlock.config.chats": ("CronSection", "HookSection", "SessionSection"),
    "interlock.config.directory": ("state_directory",),
    "interlock.config.config_error": ("ConfigError",),
    "interlock.config.loader": ("check", "key_lines", "load", "parse"),
    "interlock.config.notices": ("AppriseSection", "NtfySection", "PushSection"),
    "interlock.config.redacted": ("show",),
    "interlock.config.sections": (
        "DEFAULT_PORT",
        "AuditSection",
        "ClusterSection",
        "Config",
        "ConfigSection",
        "GatewaySection",
        "LimitsSection",
        "ObjectsSection",
        "OidcSection",
        "OutgoingSection",
        "PolicySection",
        "RatesSection",
        "RedactionSection",
        "RunnerSection",
        "WebhookSection",
    ),
    "interlock.config.slack": ("SlackSection",),
    "interlock.config.telegram": ("PersonSection", "TelegramSection"),
    "interlock.ports.agent": ("AgentSpec",),
})

__all__ = [
    "DEFAULT_PORT",
    "FILE_NAME",
    "AgentSpec",
    "AppriseSection",
    "AuditSection",
    "ClusterSection",
    "Config",
    "ConfigError",
    "ConfigSection",
    "CronSection",
    "GatewaySection",
    "HookSection",
    "LimitsSection",
    "NtfySection",
    "ObjectsSection",
    "OidcSection",
    "OutgoingSection",
    "PersonSection",
    "PolicySection",
    "RatesSection",
    "RedactionRule",
    "RedactionSection",
    "RunnerSection",
    "SessionSection",
    "SlackSection",
    "TelegramSection",
    "WebhookSection",
    "check",
    "key_lines",
    "load",
    "parse",
    "show",
    "state_directory",
]
