"""The tables of the config file and what each key may be (G-1)."""

from __future__ import annotations

import ipaddress
from typing import Annotated, Literal

import msgspec

from interlock.command.policy import Rule
from interlock.ports.agent import AgentSpec
from interlock.protocol import limits

DEFAULT_PORT = 7420


class Section(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of the config's tables."""


class GatewaySection(Section, frozen=True, kw_only=True):
    """`[gateway]`: where it listens and over what (L-2), the host names it answers for beside loopback, the browser
    origins it allows."""

    host: str = "127.0.0.1"
    port: int = DEFAULT_PORT
    hosts: list[str] = []
    origins: list[str] = []
    tls_cert: str | None = None
    tls_key: str | None = None
    behind_proxy: bool = False
    trusted_proxies: list[str] = []
    buffer_policy: Literal["RING", "DROP", "NONE"] = "RING"
    """What of a session's output a runner gives up while the link is down and its buffer is full (D-3)."""

    def __post_init__(self) -> None:
        if (self.tls_cert is None) != (self.tls_key is None):
            missing = "tls_key" if self.tls_key is None else "tls_cert"
            raise ValueError(f"{missing}: a certificate needs its key, and a key its certificate")
        for text in self.trusted_proxies:
            try:
                ipaddress.ip_network(text)
            except ValueError:
                raise ValueError(f"trusted_proxies: {text!r} is no address and no network like 10.0.0.0/8") from None


class PolicySection(Section, frozen=True, kw_only=True):
    """`[policy]`: the ordered rules of P-1, `[[policy.rules]]`."""

    rules: list[Rule] = []


class LimitsSection(Section, frozen=True, kw_only=True):
    """`[limits]`: the clocks of C-1 and C-7, in milliseconds."""

    timeout_ms: int = limits.TIMEOUT_DEFAULT_MS
    approval_ttl_ms: int = limits.APPROVAL_TTL_MS
    queue_ttl_ms: int = limits.QUEUE_TTL_MS
    detach_ttl_ms: int = limits.DETACH_TTL_MS

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            if getattr(self, name) < 1:
                raise ValueError(f"{name}: a time in milliseconds, at least 1")
        if self.approval_ttl_ms > limits.APPROVAL_TTL_MAX_MS:
            raise ValueError(f"approval_ttl_ms: at most 30 days ({limits.APPROVAL_TTL_MAX_MS})")


class RunnerSection(Section, frozen=True, kw_only=True):
    """`[runner]`: the roots under which workspaces lie (A-1); empty means where it was started."""

    roots: list[str] = []
    outbox_bytes: int = limits.OUTBOX_BYTES
    agent_idle_ms: int = limits.AGENT_IDLE_MS
    drain_ms: Annotated[int, msgspec.Meta(ge=0)] = 0


class Config(Section, frozen=True, kw_only=True):
    """The whole file; a missing file is all defaults."""

    gateway: GatewaySection = GatewaySection()
    policy: PolicySection = PolicySection()
    limits: LimitsSection = LimitsSection()
    runner: RunnerSection = RunnerSection()
    agents: dict[str, AgentSpec] = {}
