"""Operations on keys and tenants, and who a credential stands for (K-1)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from starlette.types import ASGIApp

from interlock.gateway.rest.answers import encode, json_answer, raw_answer
from interlock.gateway.rest.request_guard import ADMINS, EVERYBODY, OWNERS
from interlock.gateway.rest.routes import ApiRequest, Operation
from interlock.protocol.access import EmptyBody, Key, KeyBody, MadeKey, Tenant, TenantBody, Whoami, named_roles
from interlock.protocol.answers import KeyList, LoginIssuerList, TenantList
from interlock.protocol.clock import iso
from interlock.protocol.records import IdempotencyRecord, KeyRecord, Principal, TenantRecord


async def whoami(call: ApiRequest) -> ASGIApp:
    """GET /whoami."""
    return json_answer(whoami_of(call.principal))


async def logins(call: ApiRequest) -> ASGIApp:
    """GET /login-issuers: where a person without a credential can get one."""
    return json_answer(LoginIssuerList(call.front.access.credentials.logins()))


def whoami_of(principal: Principal) -> Whoami:
    """Show whom a credential stands for."""
    return Whoami(tenant_id=principal.tenant_id, principal=principal.actor, roles=sorted(principal.roles),
                  key_id=principal.key_id, driver=principal.driver)


async def listing(call: ApiRequest) -> ASGIApp:
    """GET /keys: of one's own tenant; an owner may name another."""
    records = await call.front.access.keys.list(call.principal, call.query("tenant"))
    return json_answer(KeyList([_key(record) for record in records]))


async def make(call: ApiRequest) -> ASGIApp:
    """POST /keys: 201 and the key, shown once."""
    return json_answer(await call.front.access.keys.make(call.principal, call.body, _keeping(call, 201)), 201)


async def rotate(call: ApiRequest) -> ASGIApp:
    """POST /keys/{key_id}/rotate: 200 and the new secret, shown once."""
    rotated = await call.front.access.keys.rotate(call.principal, call.path["key_id"], _keeping(call, 200))
    return json_answer(rotated)


async def revoke(call: ApiRequest) -> ASGIApp:
    """POST /keys/{key_id}/revoke: 200 and the key."""

    def remember(record: KeyRecord) -> IdempotencyRecord:
        return _keeping(call, 200)(_key(record))

    record = await call.front.access.keys.revoke(call.principal, call.path["key_id"], remember)
    return json_answer(_key(record))


async def tenants(call: ApiRequest) -> ASGIApp:
    """GET /tenants."""
    return json_answer(TenantList([_tenant(record) for record in await call.front.access.tenants.list(call.principal)]))


async def make_tenant(call: ApiRequest) -> ASGIApp:
    """POST /tenants: 201 and the tenant."""
    keeping = _keeping(call, 201)
    record = await call.front.access.tenants.make(call.principal, call.body, lambda made: keeping(_tenant(made)))
    return json_answer(_tenant(record), 201)


async def suspend(call: ApiRequest) -> ASGIApp:
    """POST /tenants/{tenant_id}/suspend: 200 and the tenant."""
    return await _suspend(call, suspended=True)


async def restore(call: ApiRequest) -> ASGIApp:
    """POST /tenants/{tenant_id}/restore: 200 and the tenant."""
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


OPERATIONS: tuple[Operation, ...] = (
    Operation("GET", "/whoami", "whoami", whoami, EVERYBODY, answers=Whoami),
    Operation("GET", "/login-issuers", "listLoginIssuers", logins, frozenset(), public=True, answers=LoginIssuerList),
    Operation("GET", "/keys", "listKeys", listing, ADMINS, ("tenant",), answers=KeyList, codes=("NotFound",)),
    Operation("POST", "/keys", "makeKey", make, ADMINS, body=KeyBody, secret=True,
              answers=MadeKey, status=201, codes=("Conflict", "NotFound", "QuotaExceeded")),
    Operation("POST", "/keys/{key_id}/rotate", "rotateKey", rotate, ADMINS, body=EmptyBody, body_optional=True,
              secret=True, answers=MadeKey, codes=("Conflict",)),
    Operation("POST", "/keys/{key_id}/revoke", "revokeKey", revoke, ADMINS, body=EmptyBody, body_optional=True,
              answers=Key, codes=("Conflict",)),
    Operation("GET", "/tenants", "listTenants", tenants, OWNERS, answers=TenantList),
    Operation("POST", "/tenants", "makeTenant", make_tenant, OWNERS, body=TenantBody,
              answers=Tenant, status=201, codes=("Conflict", "QuotaExceeded")),
    Operation("POST", "/tenants/{tenant_id}/suspend", "suspendTenant", suspend, OWNERS, body=EmptyBody,
              body_optional=True, answers=Tenant, codes=("Conflict",)),
    Operation("POST", "/tenants/{tenant_id}/restore", "restoreTenant", restore, OWNERS, body=EmptyBody,
              body_optional=True, answers=Tenant, codes=("Conflict",)),
)
