"""`AsyncInterlock`: the API as methods to be awaited; `resources` lists them, `requests` builds each request."""

from __future__ import annotations

import ssl
from collections.abc import AsyncGenerator
from types import TracebackType
from typing import Self, Unpack

import httpx2

from interlock.protocol.resources import ExecutePayload
from interlock.sdk import resources
from interlock.sdk.awaiting_link import AsyncLink, AsyncWatch
from interlock.sdk.exchange import RetryPolicy
from interlock.sdk.methods import Awaiting
from interlock.sdk.place import KeySource
from interlock.sdk.prompt_stream import OnApproval, PromptPart, PromptTarget, prompt_stream
from interlock.sdk.requests import commands

_RETRY_POLICY = RetryPolicy()


class AsyncCommands(resources.CommandMethods, Awaiting):
    __doc__ = resources.CommandMethods.__doc__


class AsyncApprovals(resources.ApprovalMethods, Awaiting):
    __doc__ = resources.ApprovalMethods.__doc__


class AsyncSessions(resources.SessionMethods, Awaiting):
    __doc__ = resources.SessionMethods.__doc__


class AsyncTranscripts(resources.TranscriptMethods, Awaiting):
    __doc__ = resources.TranscriptMethods.__doc__


class AsyncChats(resources.ChatMethods, Awaiting):
    __doc__ = resources.ChatMethods.__doc__


class AsyncCron(resources.CronMethods, Awaiting):
    __doc__ = resources.CronMethods.__doc__


class AsyncEvents(resources.EventMethods, Awaiting):
    __doc__ = resources.EventMethods.__doc__


class AsyncRunners(resources.RunnerMethods, Awaiting):
    __doc__ = resources.RunnerMethods.__doc__


class AsyncPolicy(resources.PolicyMethods, Awaiting):
    __doc__ = resources.PolicyMethods.__doc__


class AsyncAudit(resources.AuditMethods, Awaiting):
    __doc__ = resources.AuditMethods.__doc__


class AsyncWebhooks(resources.WebhookMethods, Awaiting):
    __doc__ = resources.WebhookMethods.__doc__


class AsyncKeys(resources.KeyMethods, Awaiting):
    __doc__ = resources.KeyMethods.__doc__


class AsyncBrowsers(resources.BrowserMethods, Awaiting):
    __doc__ = resources.BrowserMethods.__doc__


class AsyncPush(resources.PushMethods, Awaiting):
    __doc__ = resources.PushMethods.__doc__


class AsyncTenants(resources.TenantMethods, Awaiting):
    __doc__ = resources.TenantMethods.__doc__


class AsyncInterlock(resources.GatewayMethods, Awaiting):
    __doc__ = resources.GatewayMethods.__doc__

    def __init__(self, url: str | None = None, key: str | KeySource | None = None, *,
                 retries: RetryPolicy = _RETRY_POLICY, in_clear: bool = False, tls: ssl.SSLContext | bool = True,
                 transport: httpx2.AsyncBaseTransport | None = None) -> None:
        link = AsyncLink(url, key, retries, in_clear=in_clear, tls=tls, transport=transport)
        super().__init__(link)
        self.commands = AsyncCommands(link)
        self.approvals = AsyncApprovals(link)
        self.sessions = AsyncSessions(link)
        self.transcripts = AsyncTranscripts(link)
        self.chats = AsyncChats(link)
        self.cron = AsyncCron(link)
        self.events = AsyncEvents(link)
        self.runners = AsyncRunners(link)
        self.policy = AsyncPolicy(link)
        self.audit = AsyncAudit(link)
        self.webhooks = AsyncWebhooks(link)
        self.keys = AsyncKeys(link)
        self.browsers = AsyncBrowsers(link)
        self.push = AsyncPush(link)
        self.tenants = AsyncTenants(link)

    def stream(self, prompt: str | ExecutePayload, *, on_approval: OnApproval | None = None,
               **target: Unpack[PromptTarget]) -> AsyncGenerator[PromptPart]:
        """Ask an agent to work, and give what comes of it as typed parts; the last one is `EndPart` (Y-14).

        Args: `target` as for `commands.submit`. `on_approval` is called with each approval or question of this prompt
        that waits: True allows, False denies, a text answers a question, None leaves it to somebody else.
        Raises: InterlockError. A prompt whose reader leaves continues.
        Example: `for part in gateway.stream("ls", agent="shell"): print(part)`.
        """
        return self.link.stream(prompt_stream(commands.submit(prompt, **target), on_approval, self.link.retries))

    def watch(self) -> AsyncWatch:
        """Follow any number of streams over one connection."""
        return AsyncWatch(self.link)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close its connections."""
        await self.link.close()
