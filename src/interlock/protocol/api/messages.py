"""Messages of chats, and cron jobs."""

from __future__ import annotations

from interlock.protocol.api.operation import OPERATORS, READERS, Operation
from interlock.protocol.inbound import CronJobs, CronRunBody, InboundBody, Received

RECEIVE_MESSAGE = Operation(
    "receiveMessage", "POST", "/inbound",
    "A message of a chat becomes a command of the session that its key names (R-4). The key of the message is made "
    "from `message_id`: what a channel delivers twice is answered twice, and done once.",
    roles=OPERATORS, body=InboundBody, answers=Received, status=202,
    codes=("ApprovalRequired", "Conflict", "QuotaExceeded"),
    verb="chat")
LIST_CRON_JOBS = Operation(
    "listCronJobs", "GET", "/cron",
    "The tenant's jobs of the config, with when each ran and when it is due next.",
    roles=READERS, answers=CronJobs,
    verb="cron list")
RUN_CRON_JOB = Operation(
    "runCronJob", "POST", "/cron/{job_id}/run",
    "Tell the job to its agent now. When it is due next stays as it is.",
    roles=OPERATORS, body=CronRunBody, body_optional=True, answers=Received, status=202,
    codes=("Conflict", "QuotaExceeded"),
    verb="cron run")
