"""The location of a tenant: here, at another ledger, or being moved between them (K-1)."""

from __future__ import annotations

from interlock.ports.ledger import Ledger
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


class TenantPlaces:
    """The locations of all tenants, as of the last look at the ledger."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._closed = set[str]()
        self._known_as: dict[str, str] = {}

    async def load(self) -> list[TenantRecord]:
        """Load and return all tenants. Raises LedgerError."""
        tenants = await self._ledger.tenants()
        self._closed = {one.tenant_id for one in tenants if refusal(one) is not None}
        self._known_as = {one.tenant_id: one.known_as for one in tenants if one.known_as is not None}
        return tenants

    @property
    def closed(self) -> frozenset[str]:
        """Return the tenants that are moved, or being moved."""
        return frozenset(self._closed)

    def is_closed(self, tenant_id: str) -> bool:
        """Return whether a tenant is moved, or being moved."""
        return tenant_id in self._closed

    def gateway_id(self, tenant_id: str) -> str | None:
        """Return the id of the gateway that a tenant's runners were paired with before the tenant was moved here; None
        if it was not moved."""
        return self._known_as.get(tenant_id)

    async def check_open(self, tenant_id: str) -> None:
        """Check that a tenant is not closed: one that was may have been opened since. Raises Problem, LedgerError."""
        if tenant_id not in self._closed:
            return
        tenant = await self._ledger.tenant(tenant_id)
        if tenant is not None and (problem := refusal(tenant)) is not None:
            raise problem
        self._closed.discard(tenant_id)
