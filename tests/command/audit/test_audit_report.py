"""The report of an audit log's check: one sentence, with correct numbers (U-5)."""

from __future__ import annotations

from typing import Any

import pytest

from interlock.command.audit.audit_report import AuditReport, Tampering, plural, unbroken

pytestmark = pytest.mark.req("U-5")


@pytest.mark.parametrize(("counts", "sentence"), [
    ((1, 0, 0, 1), "1 record of 1 tenant, all in order and unchanged."),
    ((3, 1, 1, 2), "3 records of 2 tenants, all in order and unchanged; 1 not yet signed; personal data of 1 record "
                   "was erased."),
    ((1, 1, 0, None), "1 record, all in order and unchanged; the last 1 not yet signed."),
    ((0, 0, 2, None), "0 records, all in order and unchanged; personal data of 2 records was erased."),
])  # fmt: skip
def test_the_report_of_a_valid_log_is_a_sentence_with_correct_numbers(counts: Any, sentence: str) -> None:
    assert unbroken(*counts) == sentence


@pytest.mark.parametrize(("number", "text"), [(0, "0 records"), (1, "1 record"), (2, "2 records")])
def test_one_record_is_reported_in_the_singular(number: int, text: str) -> None:
    assert plural(number, "record") == text


def test_each_kind_of_tampering_has_its_own_text() -> None:
    assert len({str(kind) for kind in Tampering}) == len(Tampering)
    assert all(str(kind).islower() for kind in Tampering)


def test_a_report_without_a_key_notes_that_no_signature_was_checked() -> None:
    report = AuditReport(ok=True, tenant_id="t", records=3)
    assert not report.signature_checked
    assert (report.seq, report.kind, report.rows) == (None, None, [])
