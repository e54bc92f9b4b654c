"""Responses of a runner's endpoint instead of a WebSocket (L-2)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import msgspec

from interlock.engine.lanes.tenant_place import WEB
from interlock.protocol.codes import Code
from interlock.protocol.problems import Problem
from interlock.protocol.records import TenantRecord
from interlock.protocol.refusals import STATUS, LinkRefusal, moved_problem, problem

Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


async def refuse_upgrade(send: Send, refusal: LinkRefusal) -> None:
    """Answer an upgrade with a refusal that names its code: 401 for the token, 406 for the version (W-2)."""
    status, _ = STATUS[refusal.code]
    body = problem(refusal)
    headers = [(b"content-type", b"application/problem+json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "websocket.http.response.start", "status": status, "headers": headers})
    await send({"type": "websocket.http.response.body", "body": body})


async def refuse_tenant(send: Send, tenant: TenantRecord, closed: Problem) -> None:
    """Refuse a runner whose tenant is not here: 503 while it is being moved, then 421 with its new address. If that is
    not the address of a gateway, the refusal is permanent."""
    if tenant.moving is None and not (tenant.moved_to or "").startswith(WEB):
        await refuse_upgrade(send, LinkRefusal(Code.UNAUTHORIZED, tenant.moved))
        return
    body = moved_problem(closed, tenant.moved_to or "")
    headers = [(b"content-type", b"application/problem+json"), (b"content-length", str(len(body)).encode()),
               *((name.lower().encode(), value.encode()) for name, value in closed.headers.items())]
    await send({"type": "websocket.http.response.start", "status": closed.kind.status, "headers": headers})
    await send({"type": "websocket.http.response.body", "body": body})


async def not_a_websocket(send: Send) -> None:
    """Answer a plain request: this path is a WebSocket."""
    body = msgspec.json.encode({"type": "about:blank", "title": "Upgrade Required", "status": 426,
                                "code": "UpgradeRequired", "detail": "/rawp is a WebSocket for runners"})
    await send({"type": "http.response.start", "status": 426,
                "headers": [(b"content-type", b"application/problem+json"), (b"upgrade", b"websocket")]})
    await send({"type": "http.response.body", "body": body})
