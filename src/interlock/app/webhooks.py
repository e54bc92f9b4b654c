"""The channels to approvers in the config, webhooks and notices, each with its secret and its transport (P-8, O-11)."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, TypeVar
from urllib.parse import urlsplit

from interlock.channels.apprise_service import AppriseChannel
from interlock.channels.ntfy import NtfyChannel, Topic, check_topic, read_token
from interlock.channels.webhook import WebhookChannel, read_secret
from interlock.config import AppriseSection, Config, ConfigError, NtfySection, WebhookSection
from interlock.gateway.webhooks import ConfiguredWebhook
from interlock.ports.channel import Channel
from interlock.ports.outbound_http import Outgoing, UrlRefused

SECRET_REMEDY = " Make one with: interlock webhooks secret"
T = TypeVar("T")


class Ways(NamedTuple):
    """Channels for the notifier and lines for REST, both by tenant and name."""

    channels: dict[tuple[str, str], Channel]
    hooks: dict[tuple[str, str], ConfiguredWebhook]


def open_ways(config: Config, state: Path, outgoing: Outgoing) -> Ways:
    """Read the secrets and check the URLs. Raises ConfigError with one sentence for each mistake."""
    ways, mistakes = Ways({}, {}), list[str]()
    public_url = config.gateway.public_url()

    def webhook(section: WebhookSection) -> ConfiguredWebhook:
        outgoing.check(section.url)
        secret = _secret(state, "secret", section.secret_file, section.secret_env, read_secret, SECRET_REMEDY)
        return ConfiguredWebhook(_host(section.url), WebhookChannel(section.url, secret, outgoing))

    def ntfy(section: NtfySection) -> ConfiguredWebhook:
        outgoing.check(section.url)
        check_topic(section.url)
        token = None if section.token_file is None and section.token_env is None else _secret(
            state, "token", section.token_file, section.token_env, read_token)
        topic = Topic(section.url, token, section.priority, section.details, public_url)
        return ConfiguredWebhook(_host(section.url), NtfyChannel(topic, outgoing), "ntfy")

    def apprise(section: AppriseSection) -> ConfiguredWebhook:
        url = _secret(state, "url", section.url_file, section.url_env, _one_line)
        channel = AppriseChannel(url, details=section.details, public_url=public_url)
        return ConfiguredWebhook(channel.scheme, channel, "apprise")

    def add(table: str, name: str, tenant: str, make: Callable[[], ConfiguredWebhook]) -> None:
        try:
            hook = make()
        except (UrlRefused, ValueError) as error:
            mistakes.append(f"[{table}.{name}]: {error}")
            return
        ways.channels[tenant, name] = hook.channel
        ways.hooks[tenant, name] = hook

    for name, section in config.webhooks.items():
        add("webhooks", name, section.tenant, lambda section=section: webhook(section))
    for name, section in config.ntfy.items():
        add("ntfy", name, section.tenant, lambda section=section: ntfy(section))
    for name, section in config.apprise.items():
        add("apprise", name, section.tenant, lambda section=section: apprise(section))
    if mistakes:
        raise ConfigError(mistakes)
    return ways


def _host(url: str) -> str:
    return urlsplit(url).hostname or ""


def _secret(state: Path, what: str, file: str | None, variable: str | None, read: Callable[[str], T],
            remedy: str = "") -> T:
    """Read a secret from its file below the state directory, or from the environment. Raises ValueError with one
    sentence, which never contains the secret."""
    if file is not None:
        try:
            text = (state / file).read_text("utf-8")
        except OSError as error:
            raise ValueError(f"{what}_file {error.filename} cannot be read: {error.strerror}.{remedy}") from None
        except UnicodeDecodeError:
            raise ValueError(f"{what}_file {file} is not text.{remedy}") from None
    else:
        text = os.environ.get(variable or "", "")
        if not text:
            raise ValueError(f"{what}_env: there is no variable {variable} in the gateway's environment.")
    try:
        return read(text)
    except ValueError as error:
        place = f"{what}_file {file}" if file is not None else f"{what}_env {variable}"
        raise ValueError(f"{place} {error}.{remedy}") from None


def _one_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    if len(lines) != 1:
        raise ValueError(f"has {len(lines)} URLs; it holds one, and each further one has a table of its own")
    return lines[0]
