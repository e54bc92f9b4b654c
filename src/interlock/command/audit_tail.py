"""How many records a gateway may leave behind its last checkpoint, and how far apart their times may lie (U-3).

No signature covers these records, so anybody who can write the log could have added them. A gateway signs before the
tail outgrows either bound, so a longer one was not left by a gateway.
"""

from __future__ import annotations

from collections.abc import Sequence

from interlock.protocol.clock import parse_iso
from interlock.protocol.limits import UNSIGNED_RECORDS_MAX, UNSIGNED_SPAN_MS_MAX

CHECKPOINT_FACT = "audit_checkpoint/"
"""With a tenant behind it, the name of the ledger's fact that holds a copy of the tenant's last checkpoint."""


RESTORED_FACT = "ledger_restored/"
"""With a tenant behind it, the name of the ledger's fact that holds up to which record its log had been signed, when
that log was found to be an older copy and its commands were closed."""


class TailFull(Exception):
    """The log of `tenant_id` has to be signed before it can take the batch."""

    def __init__(self, tenant_id: str) -> None:
        super().__init__(f"The audit log of {tenant_id} has to be signed first: at most {UNSIGNED_RECORDS_MAX} records "
                         "may be unsigned.")
        self.tenant_id = tenant_id


def write_noted(size: int, line: bytes) -> str:
    """Write the value of a checkpoint's fact: its size, a blank, and its line."""
    return f"{size} {line.decode()}"


def noted_size(noted: str | None) -> int | None:
    """Read the size out of a fact; None if there is none in it."""
    size = noted.partition(" ")[0] if noted is not None else ""
    return int(size) if size.isascii() and size.isdigit() else None


def noted_line(noted: str) -> bytes:
    """Read the checkpoint's line out of a fact."""
    return noted.partition(" ")[2].encode()


class TailBound:
    """Checks in a ledger's transactions that no tenant's tail outgrows UNSIGNED_RECORDS_MAX.

    It is off until a signer works on the ledger. No log begins without a signed checkpoint of size 0, so a log without
    one was deprived of it. A log that breaks the bound already, as one that was tampered with does, may grow by
    UNSIGNED_RECORDS_MAX more while this process lives: turns that are under way go on until a person has resolved it.
    """

    def __init__(self) -> None:
        self.on = False
        self._found: dict[str, int] = {}
        """How far the logs went that broke the bound when this process first wrote to them."""

    def check(self, tenant_id: str, size: int, noted: str | None, more: int = 1) -> None:
        """Return if `more` records may follow the `size` there are; `noted` is the log's fact. Raises TailFull."""
        if not self.on:
            return
        signed = noted_size(noted)
        if signed is None and size == 0:
            raise TailFull(tenant_id)
        floor = -1 if signed is None else signed
        if signed is None or size - signed > UNSIGNED_RECORDS_MAX:
            floor = max(floor, self._found.setdefault(tenant_id, size))
        if size + more > floor + UNSIGNED_RECORDS_MAX:
            raise TailFull(tenant_id)


def overrun(signed: int, count: int, times: Sequence[str]) -> tuple[int, str] | None:
    """Find the first record that a gateway would not have left unsigned: (its number, a sentence), None if all may be.

    `signed` records are covered by the checkpoint, `count` there are; `times` are the `at` of the records behind it.
    """
    if count - signed > UNSIGNED_RECORDS_MAX:
        return signed + UNSIGNED_RECORDS_MAX + 1, (
            f"{count - signed} records follow record {signed}, the last one that was signed, and a gateway leaves at "
            f"most {UNSIGNED_RECORDS_MAX} unsigned: they were added, or the checkpoints since were removed.")
    span = _too_far_apart(times)
    return None if span is None else (signed + 1 + span[0], span[1])


def _too_far_apart(times: Sequence[str]) -> tuple[int, str] | None:
    """Find the first time that is too far from one before it, or unreadable: (its index, a sentence)."""
    earliest = latest = None
    for index, text in enumerate(times):
        try:
            at_ms = parse_iso(text)
        except (ValueError, OverflowError):
            return index, f"An unsigned record has no readable time ({text[:40]!r}): a gateway did not write it."
        earliest = at_ms if earliest is None else min(earliest, at_ms)
        latest = at_ms if latest is None else max(latest, at_ms)
        if latest - earliest > UNSIGNED_SPAN_MS_MAX:
            return index, (f"The unsigned records up to this one span {(latest - earliest) // 1000} s, and a gateway "
                           f"signs what is older than {UNSIGNED_SPAN_MS_MAX // 1000} s: it could not sign, or they "
                           "were added.")
    return None
