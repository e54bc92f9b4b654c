"""Monitoring of a gateway: `/healthz`, `/readyz` and `/metrics`, outside the table of operations."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp

from interlock.gateway.access.credentials import OWNER_TENANT
from interlock.gateway.rest.answers import json_answer
from interlock.gateway.rest.readiness import Ready
from interlock.gateway.rest.request.authentication import Authentication
from interlock.gateway.rest.request.request_guard import allow
from interlock.gateway.rest.service import Front
from interlock.ports.ledger import LedgerError
from interlock.protocol.answers import Health
from interlock.protocol.api.operation import AUDITORS, OPERATORS
from interlock.protocol.problems import Problem

PATHS = frozenset({"/healthz", "/readyz", "/metrics"})
METRICS_READERS = OPERATORS | AUDITORS


class Watching:
    """Serves those three paths."""

    def __init__(self, front: Front, gate: Authentication) -> None:
        self._front = front
        self._gate = gate
        self._ready = Ready(front)

    async def answer(self, request: Request) -> ASGIApp:
        """Return the response; health and readiness require no credential. Raises Problem."""
        match request.scope["path"]:
            case "/healthz":
                return json_answer(Health(ok=True))
            case "/readyz":
                ready = await self._ready.look()
                return json_answer(ready, 200 if ready.ok else 503, {} if ready.ok else {"Retry-After": "1"})
            case _:
                return await self._metrics(request)

    async def _metrics(self, request: Request) -> Response:
        """Return the metrics. They are of the whole gateway, so they are readable for its owner tenant, or an open
        network."""
        metrics = self._front.metrics
        if not metrics.is_open_to(request.client.host if request.client is not None else ""):
            principal = await self._gate.known(request.scope)
            allow(principal, METRICS_READERS)
            if principal.tenant_id != OWNER_TENANT:
                raise Problem("Forbidden", f"These figures are of the whole gateway; the tenant {OWNER_TENANT} reads "
                                           "them.")
        desk = self._front.desk
        engine_status = desk.engine_status()
        metrics.set_lanes(engine_status.inboxes)
        metrics.set_readers(desk.viewers.count(), self._front.access.openings.counts(), engine_status.runners)
        try:
            metrics.set_counts(await desk.ledger.counts())
        except LedgerError:
            metrics.forget_counts()
        if self._front.cluster is not None:
            metrics.set_cluster(await self._front.cluster.look())
        await self._ready.look()
        body, content_type = metrics.exposed(request.headers.get("accept", ""))
        return Response(body, headers={"Cache-Control": "no-store", "Content-Type": content_type})
