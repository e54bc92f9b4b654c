"""`AsyncInterlock`: the API as methods to be awaited; `asks` says what each request is."""

from __future__ import annotations

import ssl
from types import TracebackType
from typing import Self

import httpx2

from interlock.protocol.resources import Command
from interlock.sdk.asks import access, approvals, commands, gateway, sessions
from interlock.sdk.awaiting_link import Every, Link, Once, Pieces, Room, Stream, ToEnd
from interlock.sdk.exchange import Manners
from interlock.sdk.paging import wait_for

_PATIENT = Manners()


class AsyncCommands(Room):
    """Commands: given, followed, ended."""

    submit = Once(commands.submit)
    run = ToEnd(commands.submit)
    cancel = Once(commands.cancel)
    pause = Once(commands.pause)
    resume = Once(commands.resume)
    get = Once(commands.show)
    list = Once(commands.listing)
    every = Every(commands.listing)
    approval = Once(commands.approval)
    status = Once(commands.status)
    follow = Stream(commands.follow)

    async def wait(self, command_id: str, *, within_s: float | None = None) -> Command:
        """Wait until a command has ended; give it as it then is. Raises StillRunning after `within_s`."""
        return await self.link.drive(wait_for(command_id, within_s, self.link.manners))


class AsyncApprovals(Room):
    """What waits for a yes, and votes."""

    list = Once(approvals.listing)
    every = Every(approvals.listing)
    get = Once(approvals.show)
    vote = Once(approvals.vote)
    grant = Once(approvals.grant)
    deny = Once(approvals.deny)
    withdraw = Once(approvals.withdraw)
    answer = Once(approvals.answer)
    explain = Once(approvals.explain)
    rule = Once(approvals.rule)
    signing_keys = Once(approvals.signing_keys)
    add_signing_key = Once(approvals.add_signing_key)
    revoke_signing_key = Once(approvals.revoke_signing_key)


class AsyncSessions(Room):
    """Conversations, their frames and files."""

    list = Once(sessions.listing)
    every = Every(sessions.listing)
    get = Once(sessions.show)
    close = Once(sessions.close)
    compact = Once(sessions.compact)
    release = Once(sessions.release)
    frames = Once(sessions.frames)
    follow = Stream(sessions.follow)
    files = Once(sessions.files)
    every_file = Every(sessions.files)
    download = Pieces(sessions.download)


class AsyncEvents(Room):
    """The tenant's feed."""

    list = Once(sessions.events)
    follow = Stream(sessions.follow_events)
    ticket = Once(sessions.ticket)


class AsyncRunners(Room):
    """The hosts that agents run on."""

    list = Once(gateway.runners)
    nodes = Once(gateway.nodes)
    offer_pairing = Once(gateway.offer_pairing)
    pair = Once(gateway.pair)
    rotate = Once(gateway.rotate_runner)
    revoke = Once(gateway.revoke_runner)


class AsyncPolicy(Room):
    """The rules, and what they say."""

    get = Once(gateway.policy)
    decide = Once(gateway.decide)
    remembered = Once(gateway.remembered_rules)
    revoke = Once(gateway.revoke_rule)


class AsyncAudit(Room):
    """The log, its checkpoints and its proofs."""

    read = Once(gateway.audit)
    export = Pieces(gateway.export_audit)
    checkpoint = Once(gateway.checkpoint)
    prove_inclusion = Once(gateway.prove_inclusion)
    prove_consistency = Once(gateway.prove_consistency)
    erase = Once(gateway.erase)


class AsyncWebhooks(Room):
    """How approvers are asked elsewhere."""

    list = Once(gateway.webhooks)
    deliveries = Once(gateway.deliveries)
    retry = Once(gateway.retry_delivery)
    test = Once(gateway.try_webhook)


class AsyncKeys(Room):
    """Keys of people and programs."""

    list = Once(access.keys)
    make = Once(access.make_key)
    rotate = Once(access.rotate_key)
    revoke = Once(access.revoke_key)


class AsyncTenants(Room):
    """Houses of their own on one gateway."""

    list = Once(access.tenants)
    make = Once(access.make_tenant)
    suspend = Once(access.suspend_tenant)
    restore = Once(access.restore_tenant)


class AsyncInterlock(Room):
    """A gateway. `url` and `key` are those of the environment (INTERLOCK_URL, INTERLOCK_KEY) where they are left out.

    Requests that fail for want of a connection are sent again where that is safe: reads, and changes under their
    idempotency key, which stays the same. `tls` is an SSL context for a certificate of one's own; `in_clear` lets the
    key go to another machine without TLS. Raises ValueError for a URL or key that cannot be one.
    """

    status = Once(gateway.status)
    alive = Once(gateway.alive)
    ready = Once(gateway.ready)
    prune = Once(gateway.prune)
    description = Once(gateway.description)
    whoami = Once(access.whoami)
    drain = Once(gateway.drain)
    undrain = Once(gateway.undrain)
    budgets = Once(gateway.budgets)

    def __init__(self, url: str | None = None, key: str | None = None, *, manners: Manners = _PATIENT,
                 in_clear: bool = False, tls: ssl.SSLContext | bool = True,
                 transport: httpx2.AsyncBaseTransport | None = None) -> None:
        link = Link(url, key, manners, in_clear=in_clear, tls=tls, transport=transport)
        super().__init__(link)
        self.commands = AsyncCommands(link)
        self.approvals = AsyncApprovals(link)
        self.sessions = AsyncSessions(link)
        self.events = AsyncEvents(link)
        self.runners = AsyncRunners(link)
        self.policy = AsyncPolicy(link)
        self.audit = AsyncAudit(link)
        self.webhooks = AsyncWebhooks(link)
        self.keys = AsyncKeys(link)
        self.tenants = AsyncTenants(link)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close its connections."""
        await self.link.close()
