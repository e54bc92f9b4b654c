"""The webhooks of the config, each with its secret and its way out (P-8)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from interlock.channels.webhook import WebhookChannel, read_secret
from interlock.config import ConfigError, WebhookSection
from interlock.gateway.webhooks import Hook
from interlock.ports.outbound_http import Outgoing, UrlRefused


class Ways(NamedTuple):
    """Channels for the notifier and lines for REST, both by tenant and name."""

    channels: dict[tuple[str, str], WebhookChannel]
    hooks: dict[tuple[str, str], Hook]


def open_ways(sections: Mapping[str, WebhookSection], state: Path, outgoing: Outgoing) -> Ways:
    """Read the secrets and check the URLs. Raises ConfigError with one sentence for each mistake."""
    ways, mistakes = Ways({}, {}), list[str]()
    for name, section in sections.items():
        try:
            outgoing.check(section.url)
            channel = WebhookChannel(section.url, _secret(section, state), outgoing)
        except (UrlRefused, ValueError) as error:
            mistakes.append(f"[webhooks.{name}]: {error}")
            continue
        except OSError as error:
            mistakes.append(f"[webhooks.{name}]: secret_file {error.filename} cannot be read: {error.strerror}. Make "
                            "one with: interlock webhooks secret")
            continue
        ways.channels[section.tenant, name] = channel
        ways.hooks[section.tenant, name] = Hook(urlsplit(section.url).hostname or "", channel)
    if mistakes:
        raise ConfigError(mistakes)
    return ways


def _secret(section: WebhookSection, state: Path) -> bytes:
    if section.secret_file is not None:
        return _read(f"secret_file {section.secret_file}", (state / section.secret_file).read_text("utf-8"))
    named = section.secret_env or ""
    if named not in os.environ:
        raise ValueError(f"secret_env: there is no variable {named} in the gateway's environment.")
    return _read(f"secret_env {named}", os.environ[named])


def _read(place: str, text: str) -> bytes:
    try:
        return read_secret(text)
    except ValueError as error:
        raise ValueError(f"{place} {error}. Make one with: interlock webhooks secret") from None
