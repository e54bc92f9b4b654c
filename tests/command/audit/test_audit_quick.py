"""The quick check of an audit log (U-5): it accepts a log, or reports nothing; `audit_check` finds the error."""

from __future__ import annotations

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from command.audit_logs import PUBLIC, chained, checkpoint_of, draft, head_of, log, personal_log
from interlock.command.audit.audit import checkpoint_line, record_line
from interlock.command.audit.audit_quick import is_whole
from interlock.command.audit.note import Checkpoint
from interlock.protocol.records import AuditRecord

pytestmark = pytest.mark.req("U-5")
OTHER = Ed25519PrivateKey.from_private_bytes(bytes(32))


def lines(records: list[AuditRecord], head: bytes) -> list[bytes]:
    return [*map(record_line, records), head]


def quick(records: list[AuditRecord], head: bytes, *earlier: Checkpoint, rows: bool = False) -> bool:
    return is_whole(lines(records, head), head, PUBLIC, earlier, rows=rows) is not None


def test_a_complete_log_is_reported_with_its_figures() -> None:
    records = log(9)
    head = head_of(records, 7)
    report = is_whole(lines(records, head), head, PUBLIC)
    assert report is not None
    assert (report.ok, report.records, report.not_yet_signed, report.last_hash) == (True, 9, 2, records[-1].hash)
    assert report.signature_checked


def test_an_empty_log_with_its_checkpoint_is_valid() -> None:
    assert quick([], head_of([]))


def test_earlier_checkpoints_of_the_same_log_agree_with_it() -> None:
    records = log(9)
    assert quick(records, head_of(records), checkpoint_of(records[:3]), checkpoint_of(records[:9]), checkpoint_of([]))


def test_a_mismatching_checkpoint_kept_elsewhere_is_noticed() -> None:
    records, forked = log(6), log(6, action="approve")
    assert not quick(records, head_of(records), checkpoint_of(forked[:3]))
    assert not quick(records, head_of(records), checkpoint_of(forked))
    assert not quick(records, head_of(records), checkpoint_of(log(8))), "an older state of the log"
    assert not quick(records, head_of(records), checkpoint_of(records[:3], tenant_id="other"))


@pytest.mark.parametrize("damage", ["key", "missing", "twice", "behind", "order", "byte", "cut"])
def test_every_irregularity_is_left_to_the_full_check(damage: str) -> None:
    records = log(5)
    head = head_of(records)
    whole = lines(records, head)
    match damage:
        case "key":
            whole[-1] = head = checkpoint_line(checkpoint_of(records, OTHER))
        case "missing":
            del whole[2]
        case "twice":
            whole.insert(2, whole[2])
        case "behind":
            whole.append(whole[0])
        case "order":
            whole[1], whole[2] = whole[2], whole[1]
        case "byte":
            whole[1] = whole[1].replace(b'"n":2', b'"n":3')
        case _:
            whole.pop()
    assert is_whole(whole, head, PUBLIC) is None


@pytest.mark.req("U-4")
def test_erased_values_are_counted_if_a_signed_record_has_the_erasure() -> None:
    gone, silent = personal_log(erased=True, recorded=True), personal_log(erased=True, recorded=False)
    assert quick(gone, head_of(gone))
    assert not quick(silent, head_of(silent))
    assert quick(gone, head_of(gone[:3]), rows=True)
    assert not quick(gone, head_of(gone[:3])), "nothing vouches for the last record of an export"


@pytest.mark.req("U-3")
def test_an_unsigned_record_of_another_tenant_is_irregular() -> None:
    records = chained([draft(1), draft(2), draft(3, tenant_id="t2")])
    assert not quick(records, head_of(records, 2))
