"""Messages of chats, and cron jobs."""

from __future__ import annotations

from interlock.protocol.api.operation import OPERATORS, READERS, Operation
from interlock.protocol.inbound import CronJobs, CronRunBody, InboundBody, Received

RECEIVE_MESSAGE = Operation(
    "receiveMessage", "POST", "/inbound",
    "Turn a chat message into a command of the session that its key names (R-4). The idempotency key is derived from "
    "`message_id`: a message that the channel delivers twice gets the same response twice, and runs once.",
    roles=OPERATORS, body=InboundBody, answers=Received, status=202,
    codes=("ApprovalRequired", "Conflict", "QuotaExceeded"),
    verb="chat")
LIST_CRON_JOBS = Operation(
    "listCronJobs", "GET", "/cron",
    "List the config's cron jobs, with the times of their last and next run.",
    roles=READERS, answers=CronJobs,
    verb="cron list")
RUN_CRON_JOB = Operation(
    "runCronJob", "POST", "/cron/{job_id}/run",
    "Run a cron job now. Its next scheduled run does not change.",
    roles=OPERATORS, body=CronRunBody, body_optional=True, answers=Received, status=202,
    codes=("Conflict", "QuotaExceeded"),
    verb="cron run")
