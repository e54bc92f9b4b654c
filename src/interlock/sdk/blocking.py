"""`Interlock`: the API as methods that block; `rooms` says which there are, `asks` what each request is."""

from __future__ import annotations

import ssl
from types import TracebackType
from typing import Self

import httpx2

from interlock.sdk import rooms
from interlock.sdk.blocking_link import Link, Watch
from interlock.sdk.exchange import Manners
from interlock.sdk.methods import Blocking

_PATIENT = Manners()


class Commands(rooms.Commands, Blocking):
    __doc__ = rooms.Commands.__doc__


class Approvals(rooms.Approvals, Blocking):
    __doc__ = rooms.Approvals.__doc__


class Sessions(rooms.Sessions, Blocking):
    __doc__ = rooms.Sessions.__doc__


class Transcripts(rooms.Transcripts, Blocking):
    __doc__ = rooms.Transcripts.__doc__


class Chats(rooms.Chats, Blocking):
    __doc__ = rooms.Chats.__doc__


class Cron(rooms.Cron, Blocking):
    __doc__ = rooms.Cron.__doc__


class Events(rooms.Events, Blocking):
    __doc__ = rooms.Events.__doc__


class Runners(rooms.Runners, Blocking):
    __doc__ = rooms.Runners.__doc__


class Policy(rooms.Policy, Blocking):
    __doc__ = rooms.Policy.__doc__


class Audit(rooms.Audit, Blocking):
    __doc__ = rooms.Audit.__doc__


class Webhooks(rooms.Webhooks, Blocking):
    __doc__ = rooms.Webhooks.__doc__


class Keys(rooms.Keys, Blocking):
    __doc__ = rooms.Keys.__doc__


class Browsers(rooms.Browsers, Blocking):
    __doc__ = rooms.Browsers.__doc__


class Tenants(rooms.Tenants, Blocking):
    __doc__ = rooms.Tenants.__doc__


class Interlock(rooms.Gateway, Blocking):
    __doc__ = rooms.Gateway.__doc__

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
