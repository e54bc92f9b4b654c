"""Operations on cron jobs (R-4)."""

from __future__ import annotations

from starlette.types import ASGIApp

from interlock.gateway.rest.answers import encode, json_answer, raw_answer
from interlock.gateway.rest.request_guard import OPERATORS, READERS
from interlock.gateway.rest.routes import ApiRequest, Operation
from interlock.protocol.inbound import CronJobs, CronRunBody, Received
from interlock.protocol.records import IdempotencyRecord


async def listing(call: ApiRequest) -> ASGIApp:
    """GET /cron: the tenant's jobs of the config, with when each ran and when it is due next."""
    return json_answer(CronJobs(items=await call.front.crons.listing(call.principal.tenant_id)))


async def run(call: ApiRequest) -> ASGIApp:
    """POST /cron/{job_id}/run: 202; tell the job to its agent now. When it is due next stays as it is."""
    memory = call.memory
    assert memory is not None

    def remember(told: Received) -> IdempotencyRecord:
        location = {"Location": f"/v1/commands/{told.command_id}"} if told.command_id else {}
        return memory.keep(202, encode(told), location, told.command_id)

    async with call.front.access.quotas.counted(call.principal):
        told = await call.front.crons.run(call.principal, call.path["job_id"], remember)
    answer = memory.record or remember(told)
    return raw_answer(answer.body, answer.status, answer.headers)


OPERATIONS: tuple[Operation, ...] = (
    Operation("GET", "/cron", "listCronJobs", listing, READERS, answers=CronJobs),
    Operation("POST", "/cron/{job_id}/run", "runCronJob", run, OPERATORS, body=CronRunBody, body_optional=True,
              answers=Received, status=202, codes=("Conflict", "QuotaExceeded")),
)
