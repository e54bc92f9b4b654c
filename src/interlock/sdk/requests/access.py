"""Requests on keys and tenants, and on the caller's own key (K-1)."""

from __future__ import annotations

from collections.abc import Sequence

from interlock.protocol.access import (
    BrowserCode,
    BrowserCodeBody,
    BrowserSession,
    EmptyBody,
    Key,
    KeyBody,
    MadeKey,
    PushKeys,
    PushSubscription,
    PushSubscriptionBody,
    Tenant,
    TenantBody,
)
from interlock.protocol.answers import (
    Arrived,
    KeyList,
)
from interlock.protocol.api.access import (
    END_BROWSER_SESSION,
    END_PUSH_SUBSCRIPTION,
    LIST_BROWSER_SESSIONS,
    LIST_KEYS,
    LIST_PUSH_SUBSCRIPTIONS,
    LIST_TENANTS,
    MAKE_BROWSER_CODE,
    MAKE_KEY,
    MAKE_TENANT,
    RESTORE_TENANT,
    REVOKE_KEY,
    ROTATE_KEY,
    SUBSCRIBE_TO_PUSH,
    SUSPEND_TENANT,
    TEST_PUSH_SUBSCRIPTION,
)
from interlock.protocol.resources import Actor
from interlock.sdk.exchange import RequestSpec
from interlock.sdk.methods import ApiResource, LinkT, SingleRequest
from interlock.sdk.requests.base import change, plain, read


def keys(*, tenant: str | None = None) -> RequestSpec[KeyList]:
    """Return all keys that were created in the tenant, revoked ones too."""
    return read(LIST_KEYS, tenant=tenant)


def make_key(principal: Actor, roles: Sequence[str], *, label: str = "", ttl_ms: int | None = None,
             tenant_id: str | None = None, driver: str | None = None, idempotency_key: str | None = None
             ) -> RequestSpec[MadeKey]:
    """Create a key; its secret is returned only once. `driver` is the person who drives the agent that the
    key is for."""
    body = KeyBody(principal=principal, driver=driver, roles=list(roles), label=label, ttl_ms=ttl_ms,
                   tenant_id=tenant_id)
    return change(MAKE_KEY, body=body, key=idempotency_key)


def rotate_key(key_id: str, *, idempotency_key: str | None = None) -> RequestSpec[MadeKey]:
    """Replace a key's secret."""
    return change(ROTATE_KEY, key_id, body=EmptyBody(), key=idempotency_key)


def revoke_key(key_id: str, *, idempotency_key: str | None = None) -> RequestSpec[Key]:
    """Revoke a key."""
    return change(REVOKE_KEY, key_id, body=EmptyBody(), key=idempotency_key)


def make_browser_code(*, roles: Sequence[str] | None = None,
                      idempotency_key: str | None = None) -> RequestSpec[BrowserCode]:
    """Create a one-time code that opens a browser session of the console, with the caller's principal and at most
    `roles`. It is returned only once, and is valid for five minutes."""
    body = BrowserCodeBody(roles=list(roles) if roles is not None else None)
    return change(MAKE_BROWSER_CODE, body=body, key=idempotency_key)


def end_browser_session(browser_session_id: str, *, idempotency_key: str | None = None) -> RequestSpec[BrowserSession]:
    """End a browser session; its streams end with it."""
    return change(END_BROWSER_SESSION, browser_session_id, body=EmptyBody(), key=idempotency_key)


def subscribe_to_push(endpoint: str, p256dh: str, auth: str, *,
                      idempotency_key: str | None = None) -> RequestSpec[PushSubscription]:
    """Subscribe the browser of this browser session to notices. A key is refused, since it has no browser."""
    body = PushSubscriptionBody(endpoint=endpoint, keys=PushKeys(p256dh=p256dh, auth=auth))
    return change(SUBSCRIBE_TO_PUSH, body=body, key=idempotency_key)


def try_push_subscription(push_subscription_id: str, *, idempotency_key: str | None = None) -> RequestSpec[Arrived]:
    """Send a notice that names no approval. Raises UpstreamError if the push service did not accept it."""
    return change(TEST_PUSH_SUBSCRIPTION, push_subscription_id, body=EmptyBody(), key=idempotency_key)


def end_push_subscription(push_subscription_id: str, *,
                          idempotency_key: str | None = None) -> RequestSpec[PushSubscription]:
    """End a subscription: its browser is not notified any more."""
    return change(END_PUSH_SUBSCRIPTION, push_subscription_id, body=EmptyBody(), key=idempotency_key)


def make_tenant(tenant_id: str, *, name: str = "", idempotency_key: str | None = None) -> RequestSpec[Tenant]:
    """Create a tenant."""
    return change(MAKE_TENANT, body=TenantBody(tenant_id=tenant_id, name=name), key=idempotency_key)


def suspend_tenant(tenant_id: str, *, idempotency_key: str | None = None) -> RequestSpec[Tenant]:
    """Suspend a tenant: none of its credentials is accepted."""
    return change(SUSPEND_TENANT, tenant_id, body=EmptyBody(), key=idempotency_key)


def restore_tenant(tenant_id: str, *, idempotency_key: str | None = None) -> RequestSpec[Tenant]:
    """Restore a suspended tenant: its credentials are accepted again."""
    return change(RESTORE_TENANT, tenant_id, body=EmptyBody(), key=idempotency_key)


class KeyMethods(ApiResource[LinkT]):
    """Keys of people and programs."""

    list = SingleRequest(keys)
    make = SingleRequest(make_key)
    rotate = SingleRequest(rotate_key)
    revoke = SingleRequest(revoke_key)


class BrowserMethods(ApiResource[LinkT]):
    """Browser sessions of the console."""

    make_code = SingleRequest(make_browser_code)
    list = SingleRequest(plain(
        LIST_BROWSER_SESSIONS,
        "Return the browser sessions that are open: one's own; those of the tenant for an admin."))
    end = SingleRequest(end_browser_session)


class PushMethods(ApiResource[LinkT]):
    """Browsers that are notified of approvals."""

    list = SingleRequest(plain(
        LIST_PUSH_SUBSCRIPTIONS,
        "Return the browsers that are notified of approvals: one's own; those of the tenant for an admin. "
        "With the key that browsers subscribe with."))
    subscribe = SingleRequest(subscribe_to_push)
    test = SingleRequest(try_push_subscription)
    end = SingleRequest(end_push_subscription)


class TenantMethods(ApiResource[LinkT]):
    """Tenants: isolated groups on one gateway."""

    list = SingleRequest(plain(LIST_TENANTS, "Return the tenants of the gateway."))
    make = SingleRequest(make_tenant)
    suspend = SingleRequest(suspend_tenant)
    restore = SingleRequest(restore_tenant)
