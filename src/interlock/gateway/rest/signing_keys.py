"""Operations on keys for votes by signature: each person registers and revokes their own (P-4)."""

from __future__ import annotations

from typing import Any

import msgspec
from starlette.types import ASGIApp

from interlock.command.register import bound
from interlock.command.signature import key_id_of, read_public_key
from interlock.gateway.rest.answers import encode, json_answer, raw_answer
from interlock.gateway.rest.routes import ApiRequest, Handler
from interlock.ports.ledger import AuditAppend, PutIdempotency, PutSigningKey, WriteBatch
from interlock.protocol.answers import SigningKeyList
from interlock.protocol.api import access as api
from interlock.protocol.api.operation import ADMINS
from interlock.protocol.clock import iso
from interlock.protocol.problems import Place, Problem
from interlock.protocol.records import AuditDraft, SigningKeyRecord
from interlock.protocol.resources import SigningKey, SigningKeyBody

KEYS_A_PERSON = 20
"""Signing keys of one person that are good at one time; one more is answered 429 QuotaExceeded."""


async def listing(call: ApiRequest) -> ASGIApp:
    """GET /signing-keys."""
    records = await call.front.desk.ledger.signing_keys(call.principal.tenant_id)
    return json_answer(SigningKeyList([record.key for record in records]))


async def create(call: ApiRequest) -> ASGIApp:
    """POST /signing-keys."""
    body: SigningKeyBody = call.body
    principal, ledger = call.principal, call.front.desk.ledger
    try:
        read_public_key(body.public_key)
    except ValueError as error:
        raise Problem("InvalidPayload", f"/public_key: it {error}",
                      errors=(Place("/public_key", str(error)),)) from None
    key_id = key_id_of(body.public_key)
    if await ledger.signing_key(key_id) is not None:
        raise Problem("Conflict", f"The key {key_id} is registered already.", hint="Make another key pair.")
    own = [record.key for record in await ledger.signing_keys(principal.tenant_id)
           if record.key.owner == principal.actor and record.key.revoked_at is None]
    if len(own) >= KEYS_A_PERSON:
        raise Problem("QuotaExceeded", f"{KEYS_A_PERSON} signing keys of yours are good already.",
                      hint="Revoke one that is not used.")
    key = SigningKey(key_id=key_id, tenant_id=principal.tenant_id, owner=principal.actor, public_key=body.public_key,
                     label=body.label, created_at=iso(call.front.clock.now_ms()))
    return await _keep(call, key, 201, "registered")


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
        who = {"id": f"{principal.actor.type}:{principal.actor.id}", "role": principal.role}
        meta = {"signing_key": key.key_id, "change": change, "public_key": key.public_key,
                **bound(SigningKeyRecord(key=key))}
        writes += [PutSigningKey(SigningKeyRecord(key=key)),
                   AuditAppend(AuditDraft(tenant_id=principal.tenant_id, at=iso(call.front.clock.now_ms()), who=who,
                                          action="key_rotate", meta=meta))]
    await call.front.desk.ledger.commit(WriteBatch(writes))
    return raw_answer(answer.body, answer.status, answer.headers)


HANDLERS: tuple[Handler, ...] = (
    Handler(api.LIST_SIGNING_KEYS, listing),
    Handler(api.CREATE_SIGNING_KEY, create),
    Handler(api.REVOKE_SIGNING_KEY, revoke),
)
