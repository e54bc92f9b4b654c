"""The location of a tenant: here, at another ledger, or being moved between them (K-1)."""

from __future__ import annotations

from interlock.protocol.problems import Problem
from interlock.protocol.records import TenantRecord

RETRY_AFTER_S = 1
"""`Retry-After` of a request for a tenant that is being handed over."""
WEB = ("https://", "http://")


def refusal(tenant: TenantRecord) -> Problem | None:
    """Return the problem for requests for a tenant that is not here; None if it is."""
    if tenant.moving is not None:
        return Problem("Unavailable", f"The tenant {tenant.tenant_id} is being moved.",
                       hint="Send the same again after `Retry-After`.", headers={"Retry-After": str(RETRY_AFTER_S)})
    if tenant.moved_to is not None:
        there = {"Location": tenant.moved_to} if tenant.moved_to.startswith(WEB) else {}
        return Problem("MisdirectedRequest", tenant.moved, hint="Send it there.", headers=there)
    return None
