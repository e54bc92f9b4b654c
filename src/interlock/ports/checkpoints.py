"""Storage for checkpoints of the audit logs, outside the database, so that one can contradict the other (U-3)."""

from __future__ import annotations

from typing import Protocol


class CheckpointSink(Protocol):
    """Guarantees: appended lines stay, in order, and survive power loss once `append` has returned. Calls block."""

    def append(self, tenant_id: str, line: bytes) -> None:
        """Append a checkpoint. Raises OSError."""
        ...

    def lines(self, tenant_id: str) -> list[bytes]:
        """Return all checkpoints of a tenant, oldest first, as they were appended; an empty list if there is none.
        Raises OSError."""
        ...

    def newest(self, tenant_id: str, after: int) -> list[bytes]:
        """Return the last line of each copy that the sink keeps; of a copy beyond the reach of this machine only if it
        covers more than `after` records. A line that a power cut truncated is skipped. Raises OSError."""
        ...

    def set_aside(self, tenant_id: str) -> None:
        """Keep a tenant's checkpoints as evidence only: `lines` and `newest` no longer return them. Raises OSError,
        also if the storage does not support it."""
        ...

    def tenants(self) -> list[str]:
        """Return the tenants that have checkpoints."""
        ...
