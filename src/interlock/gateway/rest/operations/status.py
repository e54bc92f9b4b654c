"""Operations on the gateway itself and its runners (N-3, L-6)."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from starlette.types import ASGIApp

from interlock.gateway.access.credentials import OWNER_TENANT
from interlock.gateway.rest.answers import json_answer
from interlock.gateway.rest.routes import ApiRequest, Handler
from interlock.gateway.rest.service import Front
from interlock.ports.ledger import CommandQuery, LedgerError
from interlock.protocol.answers import NodeList, Status
from interlock.protocol.api import gateway as api
from interlock.protocol.api.operation import AUDITORS, OPERATORS
from interlock.protocol.limits import PAGE_MAX
from interlock.protocol.problems import Problem

COUNTED = ("pending_approval", "queued", "dispatched", "running", "pausing", "paused", "resuming", "canceling")
"""The states of commands that are not at their end."""


PATH = "/status"
IN_TIME_S = 1.8
"""In a cluster the status is answered within this, including the credential: its readers want to know what is
unavailable."""
RETRY_AFTER_S = 2

CLUSTER_READERS = OPERATORS | AUDITORS
"""The roles of the tenant whose machines the gateways are."""


async def in_time(front: Front, answering: Coroutine[Any, Any, ASGIApp]) -> ASGIApp:
    """Wait for the response, for at most IN_TIME_S if the ledger is a server. Raises Problem Unavailable with what is
    unavailable."""
    if front.cluster is None:
        return await answering
    task = asyncio.ensure_future(answering)
    try:
        await asyncio.wait((task,), timeout=IN_TIME_S)
        if task.done():
            return task.result()
    except LedgerError:
        pass
    finally:
        # Not awaited: what it waits for does not answer.
        task.cancel()
        task.add_done_callback(_seen)
    bus = "" if front.cluster.connected else " The gateways cannot reach one another either: the bus does not answer."
    raise Problem("Unavailable", f"The ledger's PostgreSQL does not answer: nothing is taken until it does.{bus}",
                  hint="Look at PostgreSQL, and at what `store` of `[cluster]` names.",
                  headers={"Retry-After": str(RETRY_AFTER_S)})


def _seen(task: asyncio.Task[ASGIApp]) -> None:
    if not task.cancelled():
        task.exception()


async def show(call: ApiRequest) -> ASGIApp:
    """GET /status."""
    desk, facts, tenant = call.front.desk, call.front.facts, call.principal.tenant_id
    counts: dict[str, int] = {}
    for state in COUNTED:
        if found := len(await desk.ledger.commands(CommandQuery(tenant, state=state, limit=PAGE_MAX))):
            counts[state] = found
    # The gateway's own paths are shown to the tenant whose machine it is.
    shown = ("", "") if tenant != OWNER_TENANT else (facts.state_dir, facts.store_path)
    sees_cluster = tenant == OWNER_TENANT and call.principal.role in CLUSTER_READERS
    cluster = await call.front.cluster.look() if call.front.cluster is not None and sees_cluster else None
    return json_answer(Status(
        gateway_id=facts.gateway_id, version=facts.version, state_dir=shown[0], store_path=shown[1],
        tenant_id=tenant, role=call.principal.role, commands=counts,
        approvals_pending=len(await desk.ledger.approvals(tenant, "pending", None, PAGE_MAX)),
        sessions=len(await desk.ledger.sessions(tenant, PAGE_MAX)),
        viewers=desk.viewers.count(tenant), runners=await desk.nodes(tenant),
        drains=desk.drains.of(tenant), unsigned=call.front.signing.reason(tenant), cluster=cluster,
        restored=await desk.setbacks.anywhere(tenant),
    ))


async def nodes(call: ApiRequest) -> ASGIApp:
    """GET /edge/nodes."""
    return json_answer(NodeList(await call.front.desk.nodes(call.principal.tenant_id)))


HANDLERS: tuple[Handler, ...] = (
    Handler(api.GET_STATUS_OF_GATEWAY, show),
    Handler(api.LIST_NODES, nodes),
)
