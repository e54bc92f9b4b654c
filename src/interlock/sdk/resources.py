"""The parts of the library, defined once for both shells; only their links differ."""

from __future__ import annotations

from interlock.sdk.methods import LinkT
from interlock.sdk.requests.access import BrowserMethods, KeyMethods, PushMethods, TenantMethods
from interlock.sdk.requests.approvals import ApprovalMethods
from interlock.sdk.requests.audit import AuditMethods
from interlock.sdk.requests.chats import ChatMethods
from interlock.sdk.requests.commands import CommandMethods
from interlock.sdk.requests.cron import CronMethods
from interlock.sdk.requests.gateway import GatewayMethods
from interlock.sdk.requests.policy import PolicyMethods
from interlock.sdk.requests.runners import RunnerMethods
from interlock.sdk.requests.sessions import EventMethods, SessionMethods
from interlock.sdk.requests.transcripts import TranscriptMethods
from interlock.sdk.requests.webhooks import WebhookMethods

__all__ = [
    "RESOURCES",
    "ApprovalMethods",
    "AuditMethods",
    "BrowserMethods",
    "ChatMethods",
    "CommandMethods",
    "CronMethods",
    "EventMethods",
    "GatewayMethods",
    "GatewayResources",
    "KeyMethods",
    "PolicyMethods",
    "PushMethods",
    "RunnerMethods",
    "SessionMethods",
    "TenantMethods",
    "TranscriptMethods",
    "WebhookMethods",
]

RESOURCES: dict[str, type] = {
    "commands": CommandMethods, "approvals": ApprovalMethods, "sessions": SessionMethods,
    "transcripts": TranscriptMethods, "chats": ChatMethods, "cron": CronMethods, "events": EventMethods,
    "runners": RunnerMethods, "policy": PolicyMethods, "audit": AuditMethods, "webhooks": WebhookMethods,
    "keys": KeyMethods, "browsers": BrowserMethods, "push": PushMethods, "tenants": TenantMethods,
}
"""The methods of each resource, by the attribute of the client that has them; the client's own are `GatewayMethods`."""


class GatewayResources(GatewayMethods[LinkT]):
    """The methods of a gateway, and its resources."""

    def __init__(self, link: LinkT) -> None:
        super().__init__(link)
        self.commands = CommandMethods(link)
        self.approvals = ApprovalMethods(link)
        self.sessions = SessionMethods(link)
        self.transcripts = TranscriptMethods(link)
        self.chats = ChatMethods(link)
        self.cron = CronMethods(link)
        self.events = EventMethods(link)
        self.runners = RunnerMethods(link)
        self.policy = PolicyMethods(link)
        self.audit = AuditMethods(link)
        self.webhooks = WebhookMethods(link)
        self.keys = KeyMethods(link)
        self.browsers = BrowserMethods(link)
        self.push = PushMethods(link)
        self.tenants = TenantMethods(link)
