"""Cron jobs of the gateway's config (R-4)."""

from __future__ import annotations

from interlock.protocol.api.messages import LIST_CRON_JOBS, RUN_CRON_JOB
from interlock.protocol.inbound import CronRunBody, Received
from interlock.sdk.exchange import RequestSpec
from interlock.sdk.methods import SingleRequest
from interlock.sdk.requests.base import change, plain


def run(job_id: str, *, idempotency_key: str | None = None) -> RequestSpec[Received]:
    """Tell a job to its agent now; when it is due next stays as it is."""
    return change(RUN_CRON_JOB, job_id, body=CronRunBody(), key=idempotency_key)


class CronMethods:
    """Jobs of the config, told again and again."""

    list = SingleRequest(plain(LIST_CRON_JOBS, "The tenant's cron jobs: when each ran, and when it is due next."))
    run = SingleRequest(run)
