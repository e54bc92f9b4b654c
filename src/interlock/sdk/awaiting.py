"""`AsyncInterlock`: the API as methods to be awaited; `rooms` says which there are, `asks` what each request is."""

from __future__ import annotations

import ssl
from types import TracebackType
from typing import Self

import httpx2

from interlock.sdk import rooms
from interlock.sdk.awaiting_link import Link, Watch
from interlock.sdk.exchange import Manners
from interlock.sdk.methods import Awaiting

_PATIENT = Manners()


class AsyncCommands(rooms.Commands, Awaiting):
    __doc__ = rooms.Commands.__doc__


class AsyncApprovals(rooms.Approvals, Awaiting):
    __doc__ = rooms.Approvals.__doc__


class AsyncSessions(rooms.Sessions, Awaiting):
    __doc__ = rooms.Sessions.__doc__


class AsyncTranscripts(rooms.Transcripts, Awaiting):
    __doc__ = rooms.Transcripts.__doc__


class AsyncChats(rooms.Chats, Awaiting):
    __doc__ = rooms.Chats.__doc__


class AsyncCron(rooms.Cron, Awaiting):
    __doc__ = rooms.Cron.__doc__


class AsyncEvents(rooms.Events, Awaiting):
    __doc__ = rooms.Events.__doc__


class AsyncRunners(rooms.Runners, Awaiting):
    __doc__ = rooms.Runners.__doc__


class AsyncPolicy(rooms.Policy, Awaiting):
    __doc__ = rooms.Policy.__doc__


class AsyncAudit(rooms.Audit, Awaiting):
    __doc__ = rooms.Audit.__doc__


class AsyncWebhooks(rooms.Webhooks, Awaiting):
    __doc__ = rooms.Webhooks.__doc__


class AsyncKeys(rooms.Keys, Awaiting):
    __doc__ = rooms.Keys.__doc__


class AsyncBrowsers(rooms.Browsers, Awaiting):
    __doc__ = rooms.Browsers.__doc__


class AsyncTenants(rooms.Tenants, Awaiting):
    __doc__ = rooms.Tenants.__doc__


class AsyncInterlock(rooms.Gateway, Awaiting):
    __doc__ = rooms.Gateway.__doc__

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
