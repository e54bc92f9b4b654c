"""Browser notifications of approvals: their subscriptions, and the channel to them (J-18).

A subscription is a part of its browser session's row, so it is bound to that session's person, is on record in the
audit log, and ends with the session. An idle session still gets notifications: opening one requires a login.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

import msgspec

from interlock.channels.notice import TEST_TEXT, TEST_TITLE, TITLE, details_of
from interlock.channels.web_push import PushMessage, SubscriptionEnded, WebPush, check_keys, host_of
from interlock.command.audit.register import bound
from interlock.gateway.access.credentials import Credentials
from interlock.ports.channel import ApprovalNotice, Channel, NoReceiver, NotAsked
from interlock.ports.clock import Clock, Entropy
from interlock.ports.ledger import AuditAppend, Change, Ledger, LedgerWrite, PutIdempotency, Spent, WriteBatch
from interlock.ports.outbound_http import UrlRefused
from interlock.protocol.access import MAX_PUSH_SUBSCRIPTIONS, PushSubscription, PushSubscriptionBody, named_roles
from interlock.protocol.clock import iso, parse_iso
from interlock.protocol.identifiers import ulid
from interlock.protocol.problems import Place, Problem
from interlock.protocol.records import AuditDraft, BrowserLoginRecord, IdempotencyRecord, Principal, PushTarget

VOTERS = frozenset({"approver", "admin", "owner"})
SYSTEM = {"id": "gateway", "role": "system"}
DETAILS_BYTES_MAX = 1_500
"""In JSON at most twice as many, which fits one message."""
TEST_TTL_S = 300
TTL_S_MAX = 2_419_200
"""28 days: push services store nothing longer."""
AT_ONCE = 8
"""Maximum number of parallel messages of one approval."""
UNFINISHED_MAX = 1_000
"""Deliveries for which the browsers already reached are remembered."""

Remember = Callable[[PushSubscription], IdempotencyRecord]


class _Content(msgspec.Struct, frozen=True, omit_defaults=True):
    """The service worker's message: what to show, and which approval opens."""

    title: str
    body: str
    approval_id: str = ""


class PushSettings(NamedTuple):
    """How messages are sent, and whether they include the request."""

    sender: WebPush
    details: bool


class PushService:
    """The push subscriptions of all tenants."""

    def __init__(self, ledger: Ledger, clock: Clock, entropy: Entropy, credentials: Credentials) -> None:
        self._ledger = ledger
        self._clock = clock
        self._entropy = entropy
        self._credentials = credentials
        self._settings: PushSettings | None = None
        self._unfinished = OrderedDict[str, set[str]]()

    def configure(self, settings: PushSettings | None) -> None:
        """Apply other settings; with None browsers are not notified."""
        self._settings = settings

    @property
    def key(self) -> str | None:
        """Return the key for browsers' subscriptions; None if they are not notified."""
        return None if self._settings is None else self._settings.sender.public_key

    def channel(self, tenant_id: str) -> Channel | None:
        """Return the channel to a tenant's browsers; None if they are not notified."""
        return None if self._settings is None else BrowserChannel(
            self, tenant_id, self._settings, self._unfinished)

    async def list(self, principal: Principal, session_id: str) -> list[PushSubscription]:
        """Return the caller's own subscriptions, newest first; those of the tenant for an admin."""
        found = [one for one in await self._subscribed(principal.tenant_id)
                 if one.principal == principal.actor or not principal.roles.isdisjoint({"admin", "owner"})]
        return sorted((shown(one, session_id) for one in found), key=lambda one: (one.created_at, one.id), reverse=True)

    async def subscribe(self, principal: Principal, session_id: str, body: PushSubscriptionBody, remember: Remember
                        ) -> PushSubscription:
        """Subscribe the browser of a session to notices, replacing an earlier subscription. Raises Problem Conflict,
        Forbidden, InvalidPayload or QuotaExceeded."""
        sender = self._sender()
        if not session_id:
            raise Problem("Forbidden", "Only a browser session can be notified: a key has no browser.",
                          hint="Log in to the console, and choose Notify me on this device.")
        try:
            check_keys(body.keys.p256dh, body.keys.auth)
            sender.check(body.endpoint)
        except UrlRefused as refused:
            raise Problem("InvalidPayload", f"The endpoint is not one that this gateway sends to: {refused}",
                          errors=(Place("/endpoint", "a push service"),)) from None
        except ValueError as error:
            raise Problem("InvalidPayload", f"The keys are not those of a browser: {error}.",
                          errors=(Place("/keys", "as PushSubscription.toJSON() gives them"),)) from None
        now = self._clock.now_ms()
        target = PushTarget(id="psh_" + ulid(now, self._entropy(10)), endpoint=body.endpoint, p256dh=body.keys.p256dh,
                            auth=body.keys.auth, created_ms=now)
        login = await self._ledger.browser_login(session_id)
        if login is None or login.tenant_id != principal.tenant_id:
            raise Problem("Unauthorized", "This browser session has ended.")
        own = [one for one in await self._subscribed(principal.tenant_id)
               if one.principal == principal.actor and one.id != session_id]
        # A browser that logged in again has the endpoint of its earlier session: it would be notified twice.
        same = [one for one in own if one.push is not None and one.push.endpoint == body.endpoint]
        if len(own) - len(same) >= MAX_PUSH_SUBSCRIPTIONS:
            raise Problem("QuotaExceeded", f"You are notified in {MAX_PUSH_SUBSCRIPTIONS} browsers already.",
                          hint="End one: `GET /v1/push-subscriptions` lists them.")
        for one in same:
            with suppress(Spent):
                await self._ledger.commit(WriteBatch(self._changing(one, None, principal.who)))
        changed = shown(msgspec.structs.replace(login, push=target), session_id)
        try:
            await self._ledger.commit(WriteBatch([*self._changing(login, target, principal.who),
                                                  PutIdempotency(remember(changed))]))
        except Spent:
            raise Problem("Unauthorized", "This browser session has ended.") from None
        return changed

    async def end(self, principal: Principal, session_id: str, push_id: str, remember: Remember) -> PushSubscription:
        """End a subscription: the caller's own, or for an admin one of the tenant. Raises Problem NotFound."""
        login = await self._find(principal, push_id)
        ended = shown(login, session_id)
        with suppress(Spent):  # Its session ended meanwhile.
            await self._ledger.commit(WriteBatch([*self._changing(login, None, principal.who),
                                                  PutIdempotency(remember(ended))]))
        return ended

    async def test(self, principal: Principal, push_id: str) -> None:
        """Send a notice that names no approval. Raises Problem NotFound, Conflict or UpstreamError."""
        login = await self._find(principal, push_id)
        assert login.push is not None
        message = PushMessage(msgspec.json.encode(_Content(TEST_TITLE, TEST_TEXT)), TEST_TTL_S)
        try:
            await self._sender().send(login.push, message, self._clock.now_ms())
        except SubscriptionEnded:
            await self.forget(login)
            raise Problem("UpstreamError", f"{host_of(login.push.endpoint)} has no such subscription any more; it was "
                          "removed. Turn notices on again in that browser.") from None
        except NotAsked as error:
            raise Problem("UpstreamError", f"The test notice was not sent: {str(error).rstrip('.')}.") from None

    async def receivers(self, tenant_id: str) -> list[BrowserLoginRecord]:
        """Return the sessions of a tenant to notify: their key is valid and still allows a vote, and the row matches
        its record."""
        return [one for one in await self._subscribed(tenant_id) if await self._may_vote(one)]

    async def forget(self, login: BrowserLoginRecord) -> None:
        """Remove a subscription that the push service has ended."""
        with suppress(Spent):
            await self._ledger.commit(WriteBatch(self._changing(login, None, SYSTEM)))

    async def _may_vote(self, login: BrowserLoginRecord) -> bool:
        genuine = await self._credentials.rows.genuine(login.tenant_id, login,
                                                       lambda: self._ledger.browser_login(login.id))
        key = await self._credentials.good_key(login.key_sha256) if genuine is not None else None
        if genuine is None or genuine.push is None or key is None or key.key_id != login.key_id:
            return False
        principal = await self._credentials.principal_of(key, login.role)
        return principal is not None and not named_roles(principal.role).isdisjoint(VOTERS)

    async def _subscribed(self, tenant_id: str) -> list[BrowserLoginRecord]:
        now = self._clock.now_ms()
        return [one for one in await self._ledger.browser_logins(tenant_id)
                if one.form == "session" and one.push is not None and one.expires_ms > now]

    async def _find(self, principal: Principal, push_id: str) -> BrowserLoginRecord:
        found = next((one for one in await self._subscribed(principal.tenant_id)
                      if one.push is not None and one.push.id == push_id), None)
        if found is None or (found.principal != principal.actor and principal.roles.isdisjoint({"admin", "owner"})):
            raise Problem("NotFound", f"There is no push subscription {push_id}.",
                          hint="List them with `GET /v1/push-subscriptions`.")
        return found

    def _sender(self) -> WebPush:
        if self._settings is None:
            raise Problem("Conflict", "This gateway does not notify browsers.",
                          hint="Name an address of yours in its config: `contact` under `[push]`.")
        return self._settings.sender

    def _changing(self, login: BrowserLoginRecord, target: PushTarget | None, who: dict[str, str]) -> list[LedgerWrite]:
        changed = msgspec.structs.replace(login, push=target)
        meta = {"step": "unsubscribed" if target is None else "subscribed", "browser_session": login.id,
                "key_id": login.key_id, **bound(changed)}
        draft = AuditDraft(tenant_id=login.tenant_id, at=iso(self._clock.now_ms()), who=who, action="login", meta=meta)
        return [Change(changed), AuditAppend(draft)]


class BrowserChannel(Channel):
    """The channel to all browsers of one tenant. An attempt after a failure goes to those not reached yet; after a
    restart to all of them, replacing the first notice if it arrived."""

    def __init__(self, service: PushService, tenant_id: str, settings: PushSettings,
                 unfinished: OrderedDict[str, set[str]]) -> None:
        """Create the channel; `unfinished` has, for each delivery that failed somewhere, the ids of the subscriptions
        that were reached."""
        self._service = service
        self._tenant_id = tenant_id
        self._settings = settings
        self._unfinished = unfinished

    async def ask(self, delivery_id: str, at_ms: int, asking: ApprovalNotice) -> None:
        """Send a notice to each browser. Raises NotAsked or NoReceiver."""
        receivers = await self._service.receivers(self._tenant_id)
        if not receivers:
            raise NoReceiver("no browser of an approver is subscribed")
        body = details_of(asking, DETAILS_BYTES_MAX) if self._settings.details else "Open it to read and decide."
        ttl_s = min(max(0, (parse_iso(asking.expires_at) - at_ms) // 1000), TTL_S_MAX)
        message = PushMessage(msgspec.json.encode(_Content(TITLE, body, asking.approval_id)), ttl_s,
                              asking.approval_id)
        reached = self._unfinished.setdefault(delivery_id, set())
        limit = asyncio.Semaphore(AT_ONCE)

        async def send(login: BrowserLoginRecord) -> NotAsked | None:
            assert login.push is not None
            if login.push.id in reached:
                return None
            async with limit:
                try:
                    await self._settings.sender.send(login.push, message, at_ms)
                except SubscriptionEnded:
                    await self._service.forget(login)
                except NotAsked as error:
                    return error
            reached.add(login.push.id)
            return None

        failures = [one for one in await asyncio.gather(*map(send, receivers)) if one is not None]
        again = [one for one in failures if not one.final]
        if again or len(failures) == len(receivers):
            while len(self._unfinished) > UNFINISHED_MAX:
                self._unfinished.popitem(last=False)
            raise NotAsked(str(failures[0]), final=not again, retry_after_ms=max(
                (one.retry_after_ms for one in again), default=0))
        self._unfinished.pop(delivery_id, None)

    async def test(self, delivery_id: str, at_ms: int) -> None:
        """Not used: each subscription is tested separately."""
        raise NotAsked("a browser is tested by its subscription", final=True)


def shown(login: BrowserLoginRecord, session_id: str) -> PushSubscription:
    """Return a session's subscription as it is listed. `session_id` is the calling session, if any."""
    assert login.push is not None
    return PushSubscription(id=login.push.id, browser_session_id=login.id, principal=login.principal,
                            host=host_of(login.push.endpoint), label=login.label,
                            created_at=iso(login.push.created_ms), current=login.id == session_id)
