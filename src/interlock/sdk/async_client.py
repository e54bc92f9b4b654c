"""`AsyncInterlock`: the API as methods to be awaited; `resources` lists them, `requests` builds each request."""

from __future__ import annotations

import ssl
from types import TracebackType
from typing import Self

import httpx2

from interlock.sdk import resources
from interlock.sdk.awaiting_link import Link, Watch
from interlock.sdk.exchange import Manners
from interlock.sdk.methods import Awaiting

_PATIENT = Manners()


class AsyncCommands(resources.Commands, Awaiting):
    __doc__ = resources.Commands.__doc__


class AsyncApprovals(resources.Approvals, Awaiting):
    __doc__ = resources.Approvals.__doc__


class AsyncSessions(resources.Sessions, Awaiting):
    __doc__ = resources.Sessions.__doc__


class AsyncTranscripts(resources.Transcripts, Awaiting):
    __doc__ = resources.Transcripts.__doc__


class AsyncChats(resources.Chats, Awaiting):
    __doc__ = resources.Chats.__doc__


class AsyncCron(resources.Cron, Awaiting):
    __doc__ = resources.Cron.__doc__


class AsyncEvents(resources.Events, Awaiting):
    __doc__ = resources.Events.__doc__


class AsyncRunners(resources.Runners, Awaiting):
    __doc__ = resources.Runners.__doc__


class AsyncPolicy(resources.Policy, Awaiting):
    __doc__ = resources.Policy.__doc__


class AsyncAudit(resources.Audit, Awaiting):
    __doc__ = resources.Audit.__doc__


class AsyncWebhooks(resources.Webhooks, Awaiting):
    __doc__ = resources.Webhooks.__doc__


class AsyncKeys(resources.Keys, Awaiting):
    __doc__ = resources.Keys.__doc__


class AsyncBrowsers(resources.Browsers, Awaiting):
    __doc__ = resources.Browsers.__doc__


class AsyncTenants(resources.Tenants, Awaiting):
    __doc__ = resources.Tenants.__doc__


class AsyncInterlock(resources.Gateway, Awaiting):
    __doc__ = resources.Gateway.__doc__

    def __init__(self, url: str | None = None, key: str | None = None, *, manners: Manners = _PATIENT,
                 in_clear: bool = False, tls: ssl.SSLContext | bool = True,
                 transport: httpx2.AsyncBaseTransport | None = None) -> None:
        link = Link(url, key, manners, in_clear=in_clear, tls=tls, transport=transport)
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
        self.tenants = AsyncTenants(link)

    def watch(self) -> Watch:
        """Follow any number of streams over one connection."""
        return Watch(self.link)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close its connections."""
        await self.link.close()
