"""Requests on cron jobs of the gateway's config (R-4)."""

from __future__ import annotations

from interlock.protocol.api.messages import LIST_CRON_JOBS, RUN_CRON_JOB
from interlock.protocol.inbound import CronRunBody, Received
from interlock.sdk.exchange import RequestSpec
from interlock.sdk.methods import ApiResource, LinkT, SingleRequest
from interlock.sdk.requests.base import change, plain


def run(job_id: str, *, idempotency_key: str | None = None) -> RequestSpec[Received]:
    """Run a job now; its next due time is unchanged."""
    return change(RUN_CRON_JOB, job_id, body=CronRunBody(), key=idempotency_key)


class CronMethods(ApiResource[LinkT]):
    """Jobs of the config, run on a schedule."""

    list = SingleRequest(plain(LIST_CRON_JOBS,
        "Return the tenant's cron jobs: when each ran, and when it is due next."))
    run = SingleRequest(run)
