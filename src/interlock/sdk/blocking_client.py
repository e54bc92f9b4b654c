"""`Interlock`: the API as methods that block; `resources` lists them, `requests` builds each request."""

from __future__ import annotations

import ssl
from collections.abc import Generator
from types import TracebackType
from typing import Self, Unpack

import httpx2

from interlock.protocol.resources import ExecutePayload
from interlock.sdk import resources
from interlock.sdk.blocking_link import BlockingLink, BlockingWatch
from interlock.sdk.exchange import RetryPolicy
from interlock.sdk.methods import Blocking
from interlock.sdk.place import KeySource
from interlock.sdk.prompt_stream import OnApproval, PromptPart, PromptTarget, prompt_stream
from interlock.sdk.requests import commands

_RETRY_POLICY = RetryPolicy()


class BlockingCommands(resources.CommandMethods, Blocking):
    __doc__ = resources.CommandMethods.__doc__


class BlockingApprovals(resources.ApprovalMethods, Blocking):
    __doc__ = resources.ApprovalMethods.__doc__


class BlockingSessions(resources.SessionMethods, Blocking):
    __doc__ = resources.SessionMethods.__doc__


class BlockingTranscripts(resources.TranscriptMethods, Blocking):
    __doc__ = resources.TranscriptMethods.__doc__


class BlockingChats(resources.ChatMethods, Blocking):
    __doc__ = resources.ChatMethods.__doc__


class BlockingCron(resources.CronMethods, Blocking):
    __doc__ = resources.CronMethods.__doc__


class BlockingEvents(resources.EventMethods, Blocking):
    __doc__ = resources.EventMethods.__doc__


class BlockingRunners(resources.RunnerMethods, Blocking):
    __doc__ = resources.RunnerMethods.__doc__


class BlockingPolicy(resources.PolicyMethods, Blocking):
    __doc__ = resources.PolicyMethods.__doc__


class BlockingAudit(resources.AuditMethods, Blocking):
    __doc__ = resources.AuditMethods.__doc__


class BlockingWebhooks(resources.WebhookMethods, Blocking):
    __doc__ = resources.WebhookMethods.__doc__


class BlockingKeys(resources.KeyMethods, Blocking):
    __doc__ = resources.KeyMethods.__doc__


class BlockingBrowsers(resources.BrowserMethods, Blocking):
    __doc__ = resources.BrowserMethods.__doc__


class BlockingPush(resources.PushMethods, Blocking):
    __doc__ = resources.PushMethods.__doc__


class BlockingTenants(resources.TenantMethods, Blocking):
    __doc__ = resources.TenantMethods.__doc__


class Interlock(resources.GatewayMethods, Blocking):
    __doc__ = resources.GatewayMethods.__doc__

    def __init__(self, url: str | None = None, key: str | KeySource | None = None, *,
                 retries: RetryPolicy = _RETRY_POLICY, in_clear: bool = False, tls: ssl.SSLContext | bool = True,
                 transport: httpx2.BaseTransport | None = None) -> None:
        link = BlockingLink(url, key, retries, in_clear=in_clear, tls=tls, transport=transport)
        super().__init__(link)
        self.commands = BlockingCommands(link)
        self.approvals = BlockingApprovals(link)
        self.sessions = BlockingSessions(link)
        self.transcripts = BlockingTranscripts(link)
        self.chats = BlockingChats(link)
        self.cron = BlockingCron(link)
        self.events = BlockingEvents(link)
        self.runners = BlockingRunners(link)
        self.policy = BlockingPolicy(link)
        self.audit = BlockingAudit(link)
        self.webhooks = BlockingWebhooks(link)
        self.keys = BlockingKeys(link)
        self.browsers = BlockingBrowsers(link)
        self.push = BlockingPush(link)
        self.tenants = BlockingTenants(link)

    def stream(self, prompt: str | ExecutePayload, *, on_approval: OnApproval | None = None,
               **target: Unpack[PromptTarget]) -> Generator[PromptPart]:
        """Ask an agent to work, and give what comes of it as typed parts; the last one is `EndPart` (Y-14).

        Args: `target` as for `commands.submit`. `on_approval` is called with each approval or question of this prompt
        that waits: True allows, False denies, a text answers a question, None leaves it to somebody else.
        Raises: InterlockError. A prompt whose reader leaves continues.
        Example: `for part in gateway.stream("ls", agent="shell"): print(part)`.
        """
        return self.link.stream(prompt_stream(commands.submit(prompt, **target), on_approval, self.link.retries))

    def watch(self) -> BlockingWatch:
        """Follow any number of streams over one connection."""
        return BlockingWatch(self.link)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close its connections."""
        self.link.close()
