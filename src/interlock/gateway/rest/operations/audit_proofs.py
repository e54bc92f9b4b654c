"""Checkpoints of the audit log and proofs from its Merkle tree, as operations (U-3, U-5)."""

from __future__ import annotations

from starlette.responses import Response
from starlette.types import ASGIApp

from interlock.command.audit.audit_lines import parse_checkpoint_line
from interlock.command.audit.audit_tree import consistency, inclusion, subtree
from interlock.command.audit.note import Checkpoint
from interlock.gateway.audit.checkpoints import compute
from interlock.gateway.rest.answers import json_answer
from interlock.gateway.rest.routes import ApiRequest
from interlock.protocol.answers import ConsistencyProof, InclusionProof
from interlock.protocol.problems import Place, Problem


async def checkpoint(call: ApiRequest) -> ASGIApp:
    """GET /audit/checkpoint: how far the log goes, signed now, as a C2SP note."""
    return Response((await _newest(call)).note, media_type="text/plain", headers={"Cache-Control": "no-store"})


async def inclusion_proof(call: ApiRequest) -> ASGIApp:
    """GET /audit/proof/inclusion: `size` is that of the newest checkpoint if it is absent."""
    if call.query("seq") is None:
        raise Problem("InvalidPayload", "`seq` names the record.", errors=(Place("seq", "missing"),))
    size = await _size(call, "size")
    seq = call.number("seq")
    if seq > size:
        raise Problem("NotFound", f"The tree of {size} records has no record {seq}.")
    ledger, tenant = call.front.desk.ledger, call.principal.tenant_id
    proof = await compute(inclusion(seq - 1, size), ledger, tenant)
    record = (await ledger.audit(tenant, seq - 1, 1))[0]
    root = await compute(subtree(0, size), ledger, tenant)
    return json_answer(InclusionProof(seq, size, record.hash, root.hex(), [one.hex() for one in proof]))


async def consistency_proof(call: ApiRequest) -> ASGIApp:
    """GET /audit/proof/consistency: `second` is the size of the newest checkpoint if it is absent."""
    if call.query("first") is None:
        raise Problem("InvalidPayload", "`first` is the size of the earlier checkpoint.",
                      errors=(Place("first", "missing"),))
    second = await _size(call, "second")
    first = call.number("first")
    if first > second:
        raise Problem("InvalidPayload", f"`first` is at most `second`, which is {second}.",
                      errors=(Place("first", "larger than second"),))
    ledger, tenant = call.front.desk.ledger, call.principal.tenant_id
    proof = await compute(consistency(first, second), ledger, tenant)
    roots = [await compute(subtree(0, size), ledger, tenant) for size in (first, second)]
    return json_answer(ConsistencyProof(first, second, roots[0].hex(), roots[1].hex(), [one.hex() for one in proof]))


async def _size(call: ApiRequest, name: str) -> int:
    """Return the requested size, otherwise the newest checkpoint's. Raises Problem."""
    if call.query(name) is None:
        return (await _newest(call)).size
    size = call.number(name)
    count, _ = await call.front.desk.ledger.audit_head(call.principal.tenant_id)
    if size > count:
        raise Problem("NotFound", f"The log has {count} records, not {size}.")
    return size


async def _newest(call: ApiRequest) -> Checkpoint:
    line = await call.front.checkpoint(call.principal.tenant_id)
    found = parse_checkpoint_line(line) if line is not None else None
    if found is None:
        raise Problem("Unavailable", "Nothing of this log has been signed yet.", headers={"Retry-After": "5"})
    return found
