"""Where a tenant is: here, at another ledger, or on its way from the one to the other (K-1)."""

from __future__ import annotations

from interlock.protocol.problems import Problem
from interlock.protocol.records import TenantRecord

RETRY_AFTER_S = 1
"""A request for a tenant that is being handed over is to be sent again after this."""
WEB = ("https://", "http://")


def refusal(tenant: TenantRecord) -> Problem | None:
    """Return what refuses a request for a tenant that is not here; None for one that is."""
    if tenant.moving is not None:
        return Problem("Unavailable", f"The tenant {tenant.tenant_id} is being moved.",
                       hint="Send the same again after `Retry-After`.", headers={"Retry-After": str(RETRY_AFTER_S)})
    if tenant.moved_to is not None:
        there = {"Location": tenant.moved_to} if tenant.moved_to.startswith(WEB) else {}
        return Problem("MisdirectedRequest", tenant.moved, hint="Send it there.", headers=there)
    return None
