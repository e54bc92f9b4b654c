"""The operation that gives tickets for streams (K-2)."""

from __future__ import annotations

from starlette.types import ASGIApp

from interlock.gateway.rest.answers import encode, json_answer
from interlock.gateway.rest.authentication import CREDENTIAL
from interlock.gateway.rest.request_guard import READERS
from interlock.gateway.rest.routes import ApiRequest, Operation, unversioned
from interlock.ports.ledger import PutIdempotency, WriteBatch
from interlock.protocol.access import StreamTicket, TicketBody


async def give(call: ApiRequest) -> ASGIApp:
    """POST /stream-tickets: 201 and a ticket for one path, good once and for 30 seconds."""
    memory = call.memory
    assert memory is not None
    token = call.request.scope[CREDENTIAL]
    ticket = call.front.access.tickets.give(call.principal, unversioned(call.body.path), token)
    await call.front.desk.ledger.commit(WriteBatch([PutIdempotency(memory.keep(201, encode(ticket), {}))]))
    return json_answer(ticket, 201)


OPERATIONS: tuple[Operation, ...] = (
    Operation("POST", "/stream-tickets", "giveTicket", give, READERS, body=TicketBody, secret=True,
              answers=StreamTicket, status=201, codes=("QuotaExceeded",)),
)
