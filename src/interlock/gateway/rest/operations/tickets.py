"""The operation that issues tickets for streams (K-2)."""

from __future__ import annotations

from starlette.types import ASGIApp

from interlock.gateway.rest.answers import encode, json_answer
from interlock.gateway.rest.request.authentication import CREDENTIAL
from interlock.gateway.rest.routes import ApiRequest, Handler, unversioned
from interlock.ports.ledger import PutIdempotency, WriteBatch
from interlock.protocol.api import access as api


async def give(call: ApiRequest) -> ASGIApp:
    """POST /stream-tickets."""
    memory = call.memory
    assert memory is not None
    token = call.request.scope[CREDENTIAL]
    ticket = call.front.access.tickets.give(call.principal, unversioned(call.body.path), token)
    await call.front.desk.ledger.commit(WriteBatch([PutIdempotency(memory.keep(201, encode(ticket), {}))]))
    return json_answer(ticket, 201)


HANDLERS: tuple[Handler, ...] = (
    Handler(api.GIVE_TICKET, give),
)
