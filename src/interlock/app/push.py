"""The config of browser notifications: the contact, and the key that is derived from the gateway's own (J-18)."""

from __future__ import annotations

from pathlib import Path

from interlock.channels.web_push import WebPush
from interlock.config import Config
from interlock.gateway.access.push import PushSettings
from interlock.gateway.audit.signing_key import load_or_make_key
from interlock.ports.outbound_http import Outgoing


def push_settings(config: Config, state: Path, outgoing: Outgoing) -> PushSettings | None:
    """Return how messages are sent; None without `[push]`. Raises KeyUnusable, OSError."""
    if config.push is None:
        return None
    return PushSettings(WebPush(load_or_make_key(state), config.push.contact, outgoing), config.push.details)
