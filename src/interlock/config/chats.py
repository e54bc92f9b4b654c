"""The tables of the config file that say what becomes of messages (I-1, R-1, R-4), with the names of the session
store."""

from __future__ import annotations

from typing import Annotated, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec

from interlock.session.resetting import ResetRule
from interlock.session.routing import DmScope
from interlock.session.sending import SendRule

ResetKind = Literal["thread", "group", "direct"]


class ChatSection(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of these tables."""


class SendPolicySection(ChatSection, frozen=True, kw_only=True):
    """`[session.sendPolicy]`: which chats are answered; a session's own `sendPolicy` comes first (R-4)."""

    default: Literal["allow", "deny"] = "allow"
    rules: list[SendRule] = []


class SessionSection(ChatSection, frozen=True, kw_only=True, rename="camel"):
    """`[session]`: keys of direct messages (R-1), resets (I-1), and who is answered."""

    dm_scope: DmScope = "main"
    identity_links: dict[str, list[str]] = {}
    """People by name, each with their `channel:peer`."""
    reset: ResetRule | None = None
    reset_by_type: dict[ResetKind, ResetRule] = {}
    reset_by_channel: dict[str, ResetRule] = {}
    idle_minutes: Annotated[int, msgspec.Meta(ge=1)] | None = None
    """The old setting; `session.reset.idleMinutes` says it now."""
    time_zone: str | None = None
    """Where the daily hour is meant, such as `Europe/Berlin`; without it the host's own."""
    default_agent: str | None = None
    """Who answers where no binding fits."""
    workspace: str | None = None
    """Absolute on the runner; without it the runner's first root."""
    models: list[str] = []
    """What `/new MODEL` may name beside `provider/model`."""
    send_policy: SendPolicySection = SendPolicySection()

    def __post_init__(self) -> None:
        if self.time_zone is not None:
            _check_zone("timeZone", self.time_zone)
        if self.workspace is not None and not self.workspace.startswith("/"):
            raise ValueError("workspace: an absolute path on the runner")
        seen = set[str]()
        for name, peers in self.identity_links.items():
            for peer in peers:
                if ":" not in peer:
                    raise ValueError(f"identityLinks: {peer!r} of {name} is not written channel:peer")
                if peer in seen:
                    raise ValueError(f"identityLinks: {peer!r} stands twice")
                seen.add(peer)


def _check_zone(name: str, zone: str) -> None:
    try:
        ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError(f"{name}: there is no time zone {zone!r}; write one like Europe/Berlin") from None
