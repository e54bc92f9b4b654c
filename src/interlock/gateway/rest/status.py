"""Operations that tell of the gateway itself and of its runners (N-3, L-6)."""

from __future__ import annotations

from starlette.types import ASGIApp

from interlock.gateway.credentials import OWNER_TENANT
from interlock.gateway.rest.answers import json_answer
from interlock.gateway.rest.guard import AUDITORS, OPERATORS, READERS
from interlock.gateway.rest.routes import Call, Operation
from interlock.ports.ledger import CommandQuery
from interlock.protocol.answers import NodeList, Status
from interlock.protocol.limits import PAGE_MAX

COUNTED = ("pending_approval", "queued", "dispatched", "running", "pausing", "paused", "resuming", "canceling")
"""The states of commands that are not at their end."""


CLUSTER_READERS = OPERATORS | AUDITORS
"""Of the tenant whose machines the gateways are."""


async def show(call: Call) -> ASGIApp:
    """GET /status."""
    desk, facts, tenant = call.front.desk, call.front.facts, call.principal.tenant_id
    counts: dict[str, int] = {}
    for state in COUNTED:
        if found := len(await desk.ledger.commands(CommandQuery(tenant, state=state, limit=PAGE_MAX))):
            counts[state] = found
    # The gateway's own paths are of the tenant whose machine it is.
    shown = ("", "") if tenant != OWNER_TENANT else (facts.state_dir, facts.store_path)
    sees_cluster = tenant == OWNER_TENANT and call.principal.role in CLUSTER_READERS
    cluster = await call.front.cluster.look() if call.front.cluster is not None and sees_cluster else None
    return json_answer(Status(
        gateway_id=facts.gateway_id, version=facts.version, state_dir=shown[0], store_path=shown[1],
        tenant_id=tenant, role=call.principal.role, commands=counts,
        approvals_pending=len(await desk.ledger.approvals(tenant, "pending", None, PAGE_MAX)),
        sessions=len(await desk.ledger.sessions(tenant, PAGE_MAX)),
        viewers=desk.viewers.count(), runners=await desk.nodes(tenant),
        drains=desk.drains.of(tenant), unsigned=call.front.signing.reason(tenant), cluster=cluster,
        restored=desk.setbacks.of(tenant),
    ))


async def nodes(call: Call) -> ASGIApp:
    """GET /edge/nodes."""
    return json_answer(NodeList(await call.front.desk.nodes(call.principal.tenant_id)))


OPERATIONS: tuple[Operation, ...] = (
    Operation("GET", "/status", "getStatusOfGateway", show, READERS, answers=Status),
    Operation("GET", "/edge/nodes", "listNodes", nodes, READERS, answers=NodeList),
)
