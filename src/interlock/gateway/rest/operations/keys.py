"""Operations on keys and tenants, and on the caller's own principal (K-1)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from starlette.types import ASGIApp

from interlock.gateway.rest.answers import encode, json_answer, raw_answer
from interlock.gateway.rest.routes import ApiRequest, Handler
from interlock.protocol.access import Key, Tenant, Whoami, named_roles
from interlock.protocol.answers import KeyList, LoginIssuerList, TenantList
from interlock.protocol.api import access as api
from interlock.protocol.clock import iso
from interlock.protocol.records import IdempotencyRecord, KeyRecord, Principal, TenantRecord


async def whoami(call: ApiRequest) -> ASGIApp:
    """GET /whoami."""
    return json_answer(whoami_of(call.principal))


async def logins(call: ApiRequest) -> ASGIApp:
    """GET /login-issuers."""
    return json_answer(LoginIssuerList(call.front.access.credentials.logins()))


def whoami_of(principal: Principal) -> Whoami:
    """Return a principal as the resource that is shown."""
    return Whoami(tenant_id=principal.tenant_id, principal=principal.actor, roles=sorted(principal.roles),
                  key_id=principal.key_id, driver=principal.driver)


async def listing(call: ApiRequest) -> ASGIApp:
    """GET /keys."""
    records = await call.front.access.keys.list(call.principal, call.query("tenant"))
    return json_answer(KeyList([_key(record) for record in records]))


async def make(call: ApiRequest) -> ASGIApp:
    """POST /keys."""
    return json_answer(await call.front.access.keys.make(call.principal, call.body, _keeping(call, 201)), 201)


async def rotate(call: ApiRequest) -> ASGIApp:
    """POST /keys/{key_id}/rotate."""
    rotated = await call.front.access.keys.rotate(call.principal, call.path["key_id"], _keeping(call, 200))
    return json_answer(rotated)


async def revoke(call: ApiRequest) -> ASGIApp:
    """POST /keys/{key_id}/revoke."""

    def remember(record: KeyRecord) -> IdempotencyRecord:
        return _keeping(call, 200)(_key(record))

    record = await call.front.access.keys.revoke(call.principal, call.path["key_id"], remember)
    return json_answer(_key(record))


async def tenants(call: ApiRequest) -> ASGIApp:
    """GET /tenants."""
    return json_answer(TenantList([_tenant(record) for record in await call.front.access.tenants.list(call.principal)]))


async def make_tenant(call: ApiRequest) -> ASGIApp:
    """POST /tenants."""
    keeping = _keeping(call, 201)
    record = await call.front.access.tenants.make(call.principal, call.body, lambda made: keeping(_tenant(made)))
    return json_answer(_tenant(record), 201)


async def suspend(call: ApiRequest) -> ASGIApp:
    """POST /tenants/{tenant_id}/suspend."""
    return await _suspend(call, suspended=True)


async def restore(call: ApiRequest) -> ASGIApp:
    """POST /tenants/{tenant_id}/restore."""
    return await _suspend(call, suspended=False)


async def _suspend(call: ApiRequest, *, suspended: bool) -> ASGIApp:
    keeping = _keeping(call, 200)
    record = await call.front.access.tenants.suspend(
        call.principal, call.path["tenant_id"], lambda changed: keeping(_tenant(changed)), suspended=suspended)
    return raw_answer(encode(_tenant(record)))


def _keeping(call: ApiRequest, status: int) -> Callable[[Any], IdempotencyRecord]:
    memory = call.memory
    assert memory is not None

    def keep(shown: Any) -> IdempotencyRecord:
        return memory.keep(status, encode(shown), {})

    return keep


def _key(record: KeyRecord) -> Key:
    return Key(
        key_id=record.key_id, tenant_id=record.tenant_id, label=record.label, principal=record.principal,
        driver=record.driver, roles=sorted(named_roles(record.role)), created_at=iso(record.created_ms),
        revoked=record.revoked,
        last_used_at=iso(record.last_used_ms) if record.last_used_ms is not None else None,
        expires_at=iso(record.expires_ms) if record.expires_ms is not None else None,
        created_by=record.makers[0] if record.makers else None,
    )


def _tenant(record: TenantRecord) -> Tenant:
    return Tenant(tenant_id=record.tenant_id, name=record.name, created_at=iso(record.created_ms),
                  suspended=record.suspended, moved_to=record.moved_to)


HANDLERS: tuple[Handler, ...] = (
    Handler(api.WHOAMI, whoami),
    Handler(api.LIST_LOGIN_ISSUERS, logins),
    Handler(api.LIST_KEYS, listing),
    Handler(api.MAKE_KEY, make),
    Handler(api.ROTATE_KEY, rotate),
    Handler(api.REVOKE_KEY, revoke),
    Handler(api.LIST_TENANTS, tenants),
    Handler(api.MAKE_TENANT, make_tenant),
    Handler(api.SUSPEND_TENANT, suspend),
    Handler(api.RESTORE_TENANT, restore),
)
