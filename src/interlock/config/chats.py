"""The tables of the config file that determine the outcome of messages (I-1, R-1, R-4), with the names of the session
store."""

from __future__ import annotations

from typing import Annotated, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec

from interlock.protocol.access import TENANT_ID
from interlock.session.chat.chat_route import DmScope
from interlock.session.chat.hook_text import BadTemplate, check_template
from interlock.session.chat.resets import ResetRule
from interlock.session.chat.schedule import BadSchedule, check_schedule
from interlock.session.chat.send_policy import SendRule
from interlock.session.keys import BadKey, canonical_agent, canonical_key

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
    """The old setting; use `session.reset.idleMinutes`."""
    time_zone: str | None = None
    """The time zone of the daily reset, such as `Europe/Berlin`; by default the host's own."""
    default_agent: str | None = None
    """The agent that answers if no binding matches."""
    workspace: str | None = None
    """Absolute on the runner; by default the runner's first root."""
    models: list[str] = []
    """Models that `/new MODEL` accepts besides `provider/model`."""
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
                    raise ValueError(f"identityLinks: {peer!r} appears twice")
                seen.add(peer)


class SystemSection(ChatSection, frozen=True, kw_only=True):
    """Common keys of hooks and cron jobs: the tenant, and the destination of their messages."""

    agent: str | None = None
    """The agent; by default `session.defaultAgent`."""
    key: str | None = None
    """The session key; by default the hook or the job has its own."""
    workspace: str | None = None
    """Absolute on the runner; by default the runner's first root."""
    tenant: str = "default"

    def __post_init__(self) -> None:
        try:
            if self.agent is not None:
                canonical_agent(self.agent)
            if self.key is not None:
                canonical_key(self.key, self.agent or "shell")
        except BadKey as bad:
            raise ValueError(f"{'key' if self.key is not None else 'agent'}: {bad}") from None
        if self.workspace is not None and not self.workspace.startswith("/"):
            raise ValueError("workspace: an absolute path on the runner")
        if TENANT_ID.fullmatch(self.tenant) is None:
            raise ValueError(f"tenant: {self.tenant!r} is not a tenant's id")


class HookSection(SystemSection, frozen=True, kw_only=True):
    """`[hooks.NAME]`: an address for another program's deliveries, and its authentication (R-4)."""

    auth: Literal["hmac", "standard", "token"] = "hmac"
    """`hmac`: HMAC-SHA256 of the raw body in `signature_header`; `standard`: by Standard Webhooks; `token`: the secret
    itself, as a bearer or in `token_header`."""
    secret_file: str | None = None
    secret_env: str | None = None
    signature_header: str = "X-Hub-Signature-256"
    token_header: str | None = None
    delivery_header: str | None = None
    """The header with the sender's number of a delivery; a repeated one is answered again, and done once."""
    message: str = "The hook {name} was called:\n\n{body}"
    """The prompt: `{name}`, `{delivery}`, `{body}`, and `{/a/b}` for a value in a body of JSON."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.secret_file is None) == (self.secret_env is None):
            raise ValueError("secret_file: name the file that holds the secret, or the variable with secret_env")
        try:
            check_template(self.message)
        except BadTemplate as bad:
            raise ValueError(f"message: {bad}") from None


class CronSection(SystemSection, frozen=True, kw_only=True):
    """`[cron.ID]`: a prompt that is sent to an agent repeatedly (R-4)."""

    schedule: str
    """Minute, hour, day, month, weekday."""
    message: Annotated[str, msgspec.Meta(min_length=1)]
    time_zone: str | None = None
    """By default `session.timeZone`, otherwise the host's own."""
    enabled: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        try:
            check_schedule(self.schedule)
        except BadSchedule as bad:
            raise ValueError(f"schedule: {bad}") from None
        if self.time_zone is not None:
            _check_zone("time_zone", self.time_zone)


def _check_zone(name: str, zone: str) -> None:
    try:
        ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError(f"{name}: there is no time zone {zone!r}; write one like Europe/Berlin") from None
