"""Whether the audit log of each tenant can be signed: what cannot be proved afterwards is not begun (U-3)."""

from __future__ import annotations

from collections.abc import Callable


class Signing:
    """What the signer has found, for those who start new work. Nothing is stalled until it says so."""

    def __init__(self) -> None:
        self.stalled: dict[str, str] = {}
        """Tenant → the sentence why its log cannot be signed, for all whose log cannot."""
        self._resumed: list[Callable[[], None]] = []

    def on_resumed(self, resumed: Callable[[], None]) -> None:
        """Call `resumed` whenever a tenant's log can be signed again."""
        self._resumed.append(resumed)

    def reason(self, tenant_id: str) -> str | None:
        """Return the sentence why a tenant's log cannot be signed; None if it can."""
        return self.stalled.get(tenant_id)

    def failed(self, tenant_id: str, reason: str) -> bool:
        """Note that a log cannot be signed; returns whether that is news."""
        is_news = self.stalled.get(tenant_id) != reason
        self.stalled[tenant_id] = reason
        return is_news

    def signed(self, tenant_id: str) -> None:
        """Note that a log was signed."""
        if self.stalled.pop(tenant_id, None) is not None:
            for resumed in self._resumed:
                resumed()
