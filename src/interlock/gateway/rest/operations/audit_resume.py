"""Resumption of signing for an audit log that continues no stored checkpoint: a person accepts it as it is (U-3)."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.types import ASGIApp

from interlock.gateway.audit.checkpoints import CheckpointRefused, CheckpointSigner, NotStalled
from interlock.gateway.rest.answers import encode, json_answer, raw_answer
from interlock.gateway.rest.routes import ApiRequest, Handler
from interlock.ports.ledger import AuditAppend, LedgerWrite, PutIdempotency
from interlock.protocol.answers import KeptCheckpoint, Resumed, SigningState
from interlock.protocol.api import audit as api
from interlock.protocol.clock import iso
from interlock.protocol.problems import Problem
from interlock.protocol.records import AuditDraft
from interlock.protocol.resources import AuditResumeBody


async def show(call: ApiRequest) -> ASGIApp:
    """GET /audit/signing."""
    tenant = call.principal.tenant_id
    try:
        kept = await _signer(call).kept(tenant)
    except OSError as error:
        raise Problem("Unavailable", str(error), headers={"Retry-After": "5"}) from None
    size, root = await call.front.desk.ledger.audit_tree(tenant)
    return json_answer(SigningState(
        unsigned=call.front.signing.reason(tenant), size=size, root=root.hex(),
        kept=[KeptCheckpoint("file" if where == "file" else "ledger", one.size, one.root.hex())
              for where, one in kept]))


async def resume(call: ApiRequest) -> ASGIApp:
    """POST /audit/resume."""
    memory, principal = call.memory, call.principal
    body: AuditResumeBody = call.body
    assert memory is not None
    answer = memory.keep(200, encode(Resumed(body.size)), {})

    def sealed(reason: str) -> Sequence[LedgerWrite]:
        draft = AuditDraft(
            tenant_id=principal.tenant_id, at=iso(call.front.clock.now_ms()), action="audit_resume",
            who=principal.who,
            meta={"accepted": body.size, "root": body.root, "unsigned": reason},
            personal={"reason": body.reason} if body.reason else {})
        return [AuditAppend(draft), PutIdempotency(answer)]

    try:
        await _signer(call).resume(principal.tenant_id, body.size, bytes.fromhex(body.root), sealed)
    except (NotStalled, CheckpointRefused) as refused:
        raise Problem("Conflict", str(refused), hint="Look at `GET /v1/audit/signing`.") from None
    except OSError as error:
        raise Problem("Unavailable", str(error), headers={"Retry-After": "5"}) from None
    return raw_answer(answer.body, answer.status, answer.headers)


def _signer(call: ApiRequest) -> CheckpointSigner:
    if call.front.signer is None:
        raise Problem("NotFound", "This gateway signs no audit log.")
    return call.front.signer


HANDLERS: tuple[Handler, ...] = (
    Handler(api.SHOW_SIGNING, show),
    Handler(api.RESUME_SIGNING, resume),
)
