"""Operations that let running work finish and start nothing new (C-5)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from starlette.types import ASGIApp

from interlock.engine.drains import Drains
from interlock.gateway.rest.answers import encode, raw_answer
from interlock.gateway.rest.request.request_guard import allow
from interlock.gateway.rest.routes import ApiRequest, Handler
from interlock.protocol.answers import DrainList
from interlock.protocol.api import commands as api
from interlock.protocol.api.operation import ADMINS
from interlock.protocol.drains import Drain, DrainBody
from interlock.protocol.records import IdempotencyRecord


async def drain(call: ApiRequest) -> ASGIApp:
    """POST /drain."""
    return await _change(call, Drains.drain)


async def undrain(call: ApiRequest) -> ASGIApp:
    """POST /undrain."""
    return await _change(call, Drains.undrain)


async def _change(call: ApiRequest, change: Callable[..., Awaitable[None]]) -> ASGIApp:
    memory, body = call.memory, call.body
    assert memory is not None
    assert isinstance(body, DrainBody)
    if body.scope != "session":
        allow(call.principal, ADMINS)

    def keep(drains: list[Drain]) -> IdempotencyRecord:
        return memory.keep(200, encode(DrainList(drains)), {})

    await change(call.front.desk.drains, call.principal, body, keep)
    answer = memory.record
    assert answer is not None
    return raw_answer(answer.body, answer.status, answer.headers)


HANDLERS: tuple[Handler, ...] = (
    Handler(api.DRAIN, drain),
    Handler(api.UNDRAIN, undrain),
)
