"""Operations on cron jobs (R-4)."""

from __future__ import annotations

from starlette.types import ASGIApp

from interlock.gateway.rest.answers import encode, json_answer, raw_answer
from interlock.gateway.rest.routes import ApiRequest, Handler
from interlock.protocol.api import messages as api
from interlock.protocol.inbound import CronJobs, Received
from interlock.protocol.records import IdempotencyRecord


async def listing(call: ApiRequest) -> ASGIApp:
    """GET /cron."""
    return json_answer(CronJobs(items=await call.front.crons.listing(call.principal.tenant_id)))


async def run(call: ApiRequest) -> ASGIApp:
    """POST /cron/{job_id}/run."""
    memory = call.memory
    assert memory is not None

    def remember(received: Received) -> IdempotencyRecord:
        location = {"Location": f"/v1/commands/{received.command_id}"} if received.command_id else {}
        return memory.keep(202, encode(received), location, received.command_id)

    async with call.front.access.quotas.counted(call.principal):
        received = await call.front.crons.run(call.principal, call.path["job_id"], remember)
    answer = memory.record or remember(received)
    return raw_answer(answer.body, answer.status, answer.headers)


HANDLERS: tuple[Handler, ...] = (
    Handler(api.LIST_CRON_JOBS, listing),
    Handler(api.RUN_CRON_JOB, run),
)
