"""Cron jobs of the gateway's config (R-4)."""

from __future__ import annotations

from interlock.protocol.inbound import CronJobs, CronRunBody, Received
from interlock.sdk.exchange import RequestSpec
from interlock.sdk.requests.base import get, post, segment


def listing() -> RequestSpec[CronJobs]:
    """The tenant's cron jobs: when each ran, and when it is due next."""
    return get("/v1/cron", CronJobs)


def run(job_id: str, *, idempotency_key: str | None = None) -> RequestSpec[Received]:
    """Tell a job to its agent now; when it is due next stays as it is."""
    return post(f"/v1/cron/{segment(job_id)}/run", Received, CronRunBody(), idempotency_key)
