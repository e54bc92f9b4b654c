"""Operations on keys for votes by signature: each person registers and revokes their own (P-4)."""

from __future__ import annotations

from typing import Any

import msgspec
from starlette.types import ASGIApp

from interlock.command.approval import named
from interlock.command.audit.register import bound
from interlock.command.passkey import PasskeyStatement, check_assertion, host_of, origin_of, read_passkey
from interlock.command.signature import check_moment, key_id_of, read_public_key
from interlock.gateway.rest.answers import encode, json_answer, raw_answer
from interlock.gateway.rest.request.request_guard import headers_of
from interlock.gateway.rest.routes import ApiRequest, Handler
from interlock.ports.ledger import AuditAppend, Put, PutIdempotency, WriteBatch
from interlock.protocol.answers import SigningKeyList
from interlock.protocol.api import access as api
from interlock.protocol.api.operation import ADMINS
from interlock.protocol.clock import iso
from interlock.protocol.problems import Place, Problem
from interlock.protocol.records import AuditDraft, SigningKeyRecord
from interlock.protocol.resources import Passkey, PasskeyBody, SigningKey, SigningKeyBody

KEYS_A_PERSON = 20
"""Valid signing keys of one person at one time; a further one is answered 429 QuotaExceeded."""


async def listing(call: ApiRequest) -> ASGIApp:
    """GET /signing-keys."""
    records = await call.front.desk.ledger.signing_keys(call.principal.tenant_id)
    return json_answer(SigningKeyList([record.key for record in records]))


async def create(call: ApiRequest) -> ASGIApp:
    """POST /signing-keys."""
    body: SigningKeyBody = call.body
    principal = call.principal
    try:
        read_public_key(body.public_key)
    except ValueError as error:
        raise Problem("InvalidPayload", f"/public_key: it {error}",
                      errors=(Place("/public_key", str(error)),)) from None
    key = SigningKey(key_id=key_id_of(body.public_key, principal.tenant_id), tenant_id=principal.tenant_id,
                     owner=principal.actor, public_key=body.public_key, label=body.label,
                     created_at=iso(call.front.clock.now_ms()))
    await _check_new(call, key)
    return await _keep(call, key, 201, "registered")


async def register_passkey(call: ApiRequest) -> ASGIApp:
    """POST /passkeys."""
    body: PasskeyBody = call.body
    principal, now_ms = call.principal, call.front.clock.now_ms()
    origins = headers_of(call.request.scope).get(b"origin", ())
    statement = PasskeyStatement(principal.tenant_id, named(principal.actor), body.public_key, body.credential_id,
                                 body.at)
    check_moment(body.at, now_ms)
    try:
        public_key, origin = read_passkey(body.public_key), origin_of(body.assertion)
    except ValueError as error:
        raise Problem("InvalidPayload", f"The passkey {error}.",
                      errors=(Place("/public_key", "or /assertion"),)) from None
    if [origin] != [one.lower() for one in origins]:
        raise Problem("Forbidden", f"The passkey is for {origin[:200]!r}, and this request is not from a page of it.",
                      hint="Register a passkey in the console.")
    try:
        host_of(origin)
        check_assertion(public_key, origin, body.assertion, statement.signed_bytes())
    except ValueError as error:
        raise Problem("Forbidden", f"The assertion {error}.") from None
    key = SigningKey(key_id=key_id_of(body.public_key, principal.tenant_id), tenant_id=principal.tenant_id,
                     owner=principal.actor, public_key=body.public_key, label=body.label, created_at=iso(now_ms),
                     passkey=Passkey(credential_id=body.credential_id, origin=origin))
    await _check_new(call, key)
    return await _keep(call, key, 201, "registered")


async def _check_new(call: ApiRequest, key: SigningKey) -> None:
    """Raise Problem for a key that the tenant has registered already, and for one beyond the limit of a person."""
    principal = call.principal
    known = [record.key for record in await call.front.desk.ledger.signing_keys(principal.tenant_id)]
    same = next((one for one in known if key.key_id == one.key_id or key.public_key == one.public_key), None)
    if same is not None:
        raise Problem("Conflict", f"The key {same.key_id} is registered already.", hint="Make another key pair.")
    own = [one for one in known if one.owner == principal.actor and one.revoked_at is None]
    if len(own) >= KEYS_A_PERSON:
        raise Problem("QuotaExceeded", f"{KEYS_A_PERSON} signing keys of yours are good already.",
                      hint="Revoke one that is not used.")


async def revoke(call: ApiRequest) -> ASGIApp:
    """POST /signing-keys/{key_id}/revoke."""
    principal = call.principal
    record = await call.front.desk.ledger.signing_key(call.path["key_id"], principal.tenant_id)
    if record is None:
        raise Problem("NotFound", f"There is no signing key {call.path['key_id']}.",
                      hint="List them with `GET /v1/signing-keys`.")
    if record.key.owner != principal.actor and principal.roles.isdisjoint(ADMINS):
        raise Problem("Forbidden", "A signing key is revoked by its owner or by an admin.")
    if record.key.revoked_at is not None:
        return await _keep(call, record.key, 200, None)
    revoked = msgspec.structs.replace(record.key, revoked_at=iso(call.front.clock.now_ms()))
    return await _keep(call, revoked, 200, "revoked")


async def _keep(call: ApiRequest, key: SigningKey, status: int, change: str | None) -> ASGIApp:
    memory, principal = call.memory, call.principal
    assert memory is not None
    answer = memory.keep(status, encode(key), {})
    writes: list[Any] = [PutIdempotency(answer)]
    if change is not None:
        meta = {"signing_key": key.key_id, "change": change, "public_key": key.public_key,
                **({"origin": key.passkey.origin} if key.passkey is not None else {}),
                **bound(SigningKeyRecord(key=key))}
        writes += [Put(SigningKeyRecord(key=key)),
                   AuditAppend(AuditDraft(tenant_id=principal.tenant_id, at=iso(call.front.clock.now_ms()),
                                          who=principal.who, action="key_rotate", meta=meta))]
    await call.front.desk.ledger.commit(WriteBatch(writes))
    return raw_answer(answer.body, answer.status, answer.headers)


HANDLERS: tuple[Handler, ...] = (
    Handler(api.LIST_SIGNING_KEYS, listing),
    Handler(api.CREATE_SIGNING_KEY, create),
    Handler(api.REGISTER_PASSKEY, register_passkey),
    Handler(api.REVOKE_SIGNING_KEY, revoke),
)
