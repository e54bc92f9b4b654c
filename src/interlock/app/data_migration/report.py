"""The result of a move, or the reason that stopped it."""

from __future__ import annotations

import msgspec

ANOTHER = "Name another cluster with --to; what is in this one stays as it is."
"""The remedy if the destination of a tenant has something under its name, or under that of one of its rows."""


class MoveRefused(Exception):
    """Raised if nothing was moved; one sentence with the remedy."""


class MigrationReport(msgspec.Struct, frozen=True, kw_only=True):
    """Rows by table, entries of transcripts, and the audit records that were verified at the destination."""

    gateway_id: str
    rows: dict[str, int]
    transcripts: int
    transcript_lines: int
    audit_records: int
    left: str
    """The old ledger's present path; nothing uses it any more."""
    already: bool = False
    """Whether an earlier call had moved everything, and this one found nothing left to do."""


class TenantReport(msgspec.Struct, frozen=True, kw_only=True):
    """The result of moving one tenant, or with `dry_run` the plan."""

    tenant_id: str
    source: str
    to: str
    gateway_id: str
    """The destination's."""
    rows: dict[str, int]
    objects: int
    """Stored files that its rows refer to: they are copied separately from the ledger."""
    audit_records: int
    audit_root: str
    """The root of the tree over those records (RFC 6962), in hex: the same on both sides."""
    dry_run: bool = False
    closed_ms: int | None = None
    """How long the tenant was closed during the move, if gateways were running meanwhile; 0 if an earlier call closed
    it."""


def compared(source: dict[str, int], target: dict[str, int]) -> None:
    """Compare the counts of both sides. Raises MoveRefused."""
    wrong = [f"{name} ({source[name]} and {target.get(name)})" for name in source if source[name] != target.get(name)]
    if wrong:
        raise MoveRefused(f"The two sides have different numbers of rows, so nothing was moved: {', '.join(wrong)}.")
