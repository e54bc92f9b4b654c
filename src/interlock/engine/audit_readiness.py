"""Whether each tenant's audit log can be signed: no work starts that could not be proved afterwards (U-3)."""

from __future__ import annotations

from collections.abc import Callable


class Signing:
    """The signer's findings, for code that starts new work. No tenant is stalled until the signer reports it."""

    def __init__(self) -> None:
        self.stalled: dict[str, str] = {}
        """Tenant → the sentence why its log cannot be signed, for the tenants that are stalled."""
        self._resumed: list[Callable[[], None]] = []

    def on_resumed(self, resumed: Callable[[], None]) -> None:
        """Call `resumed` whenever a tenant's log can be signed again."""
        self._resumed.append(resumed)

    def reason(self, tenant_id: str) -> str | None:
        """Return the sentence why a tenant's log cannot be signed; None if it can."""
        return self.stalled.get(tenant_id)

    def failed(self, tenant_id: str, reason: str) -> bool:
        """Record that a log cannot be signed; returns whether that is new."""
        is_news = self.stalled.get(tenant_id) != reason
        self.stalled[tenant_id] = reason
        return is_news

    def signed(self, tenant_id: str) -> None:
        """Record that a log was signed."""
        if self.stalled.pop(tenant_id, None) is not None:
            for resumed in self._resumed:
                resumed()
