"""Where checkpoints of the audit logs are kept: outside the database, so that one contradicts the other (U-3)."""

from __future__ import annotations

from typing import Protocol


class CheckpointSink(Protocol):
    """Guarantees: what was appended stays, in order, and survives power loss once `append` returned. Calls block."""

    def append(self, tenant_id: str, line: bytes) -> None:
        """Keep one checkpoint more. Raises OSError."""
        ...

    def lines(self, tenant_id: str) -> list[bytes]:
        """Return all of a tenant's, oldest first, as they were appended; nothing when there is none. Raises OSError."""
        ...

    def newest(self, tenant_id: str, after: int) -> list[bytes]:
        """Return the last line of each copy that the sink keeps, of a copy out of reach of this machine only if it
        covers more than `after` records; a line that a power cut tore is passed over. Raises OSError."""
        ...

    def set_aside(self, tenant_id: str) -> None:
        """Keep a tenant's checkpoints as evidence only: `lines` and `newest` give none of them any more. Raises
        OSError, also if they are kept where that cannot be done."""
        ...

    def tenants(self) -> list[str]:
        """Name the tenants of which there is one."""
        ...
