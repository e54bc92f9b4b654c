"""`Interlock`: the API as methods that block; `resources` lists them, `requests` builds each request."""

from __future__ import annotations

import ssl
from types import TracebackType
from typing import Self

import httpx2

from interlock.sdk import resources
from interlock.sdk.blocking_link import Link, Watch
from interlock.sdk.exchange import Manners
from interlock.sdk.methods import Blocking

_PATIENT = Manners()


class Commands(resources.Commands, Blocking):
    __doc__ = resources.Commands.__doc__


class Approvals(resources.Approvals, Blocking):
    __doc__ = resources.Approvals.__doc__


class Sessions(resources.Sessions, Blocking):
    __doc__ = resources.Sessions.__doc__


class Transcripts(resources.Transcripts, Blocking):
    __doc__ = resources.Transcripts.__doc__


class Chats(resources.Chats, Blocking):
    __doc__ = resources.Chats.__doc__


class Cron(resources.Cron, Blocking):
    __doc__ = resources.Cron.__doc__


class Events(resources.Events, Blocking):
    __doc__ = resources.Events.__doc__


class Runners(resources.Runners, Blocking):
    __doc__ = resources.Runners.__doc__


class Policy(resources.Policy, Blocking):
    __doc__ = resources.Policy.__doc__


class Audit(resources.Audit, Blocking):
    __doc__ = resources.Audit.__doc__


class Webhooks(resources.Webhooks, Blocking):
    __doc__ = resources.Webhooks.__doc__


class Keys(resources.Keys, Blocking):
    __doc__ = resources.Keys.__doc__


class Browsers(resources.Browsers, Blocking):
    __doc__ = resources.Browsers.__doc__


class Tenants(resources.Tenants, Blocking):
    __doc__ = resources.Tenants.__doc__


class Interlock(resources.Gateway, Blocking):
    __doc__ = resources.Gateway.__doc__

    def __init__(self, url: str | None = None, key: str | None = None, *, manners: Manners = _PATIENT,
                 in_clear: bool = False, tls: ssl.SSLContext | bool = True,
                 transport: httpx2.BaseTransport | None = None) -> None:
        link = Link(url, key, manners, in_clear=in_clear, tls=tls, transport=transport)
        super().__init__(link)
        self.commands = Commands(link)
        self.approvals = Approvals(link)
        self.sessions = Sessions(link)
        self.transcripts = Transcripts(link)
        self.chats = Chats(link)
        self.cron = Cron(link)
        self.events = Events(link)
        self.runners = Runners(link)
        self.policy = Policy(link)
        self.audit = Audit(link)
        self.webhooks = Webhooks(link)
        self.keys = Keys(link)
        self.browsers = Browsers(link)
        self.tenants = Tenants(link)

    def watch(self) -> Watch:
        """Follow any number of streams over one connection."""
        return Watch(self.link)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close its connections."""
        self.link.close()
