"""Operations on runners: pairing codes, listing, rotation, and revocation (L-3, L-6)."""

from __future__ import annotations

import re

from starlette.types import ASGIApp

from interlock.gateway.rest.answers import encode, json_answer, raw_answer
from interlock.gateway.rest.routes import ApiRequest, Handler
from interlock.protocol.answers import RunnerList
from interlock.protocol.api import runners as api
from interlock.protocol.bodies import PairBody
from interlock.protocol.clock import iso
from interlock.protocol.problems import Place, Problem
from interlock.protocol.records import IdempotencyRecord, RunnerRecord
from interlock.protocol.resources import Node, PairingCode, Runner, RunnerToken

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


async def listing(call: ApiRequest) -> ASGIApp:
    """GET /runners."""
    tenant = call.principal.tenant_id
    nodes = {node.node_id: node for node in await call.front.desk.nodes(tenant)}
    records = await call.front.desk.ledger.runners(tenant)
    return json_answer(RunnerList([_shown(record, nodes.get(record.runner_id)) for record in records]))


async def offer(call: ApiRequest) -> ASGIApp:
    """POST /runners/pairings."""
    memory, body = call.memory, call.body
    assert memory is not None

    def remember(shown: PairingCode) -> IdempotencyRecord:
        return memory.keep(201, encode(shown), {})

    code = await call.front.pairings.offer(call.principal, _name(body.device_name), remember)
    return json_answer(code, 201)


async def pair(call: ApiRequest) -> ASGIApp:
    """POST /runners/pair."""
    body: PairBody = call.body
    client = call.request.client
    token = await call.front.pairings.pair(body.code, _name(body.device_name), client.host if client else "")
    return json_answer(token, 201)


async def rotate(call: ApiRequest) -> ASGIApp:
    """POST /runners/{runner_id}/rotate."""
    memory = call.memory
    assert memory is not None

    def remember(rotated: RunnerToken) -> IdempotencyRecord:
        return memory.keep(200, encode(rotated), {})

    return json_answer(await call.front.pairings.rotate(call.principal, call.path["runner_id"], remember))


async def revoke(call: ApiRequest) -> ASGIApp:
    """POST /runners/{runner_id}/revoke."""
    memory = call.memory
    assert memory is not None

    def remember(record: RunnerRecord) -> IdempotencyRecord:
        return memory.keep(200, encode(_shown(record, None)), {})

    record = await call.front.pairings.revoke(call.principal, call.path["runner_id"], remember)
    answer = memory.record or remember(record)
    return raw_answer(answer.body, answer.status)


def _shown(record: RunnerRecord, node: Node | None) -> Runner:
    """Return a runner as it is listed; a node is its live side."""
    return Runner(
        runner_id=record.runner_id, device_name=node.device_name if node else record.device_name,
        status=node.status if node and not record.revoked else "offline", created_at=iso(record.created_ms),
        last_seen=node.last_seen if node else iso(record.last_seen_ms), revoked=record.revoked,
    )


def _name(text: str) -> str:
    if _CONTROL.search(text):
        raise Problem("InvalidPayload", "The device's name holds control characters.",
                      errors=(Place("/device_name", "control characters"),))
    return text.strip()


HANDLERS: tuple[Handler, ...] = (
    Handler(api.LIST_RUNNERS, listing),
    Handler(api.OFFER_PAIRING, offer),
    Handler(api.PAIR_RUNNER, pair),
    Handler(api.ROTATE_RUNNER, rotate),
    Handler(api.REVOKE_RUNNER, revoke),
)
