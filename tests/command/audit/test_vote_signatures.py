"""Signed votes of an audit log are verified with the keys whose registration the log records (P-4, J-17)."""

from __future__ import annotations

import base64
from typing import Any

import msgspec
import pytest

from authenticator import SoftAuthenticator
from command.audit_logs import chained, check, checkpoint_of, draft, head_of
from command.test_signature import PAIR, PUBLIC
from interlock.command.audit.audit import record_line
from interlock.command.audit.audit_check import compare, verify
from interlock.command.audit.audit_report import AuditReport, Tampering
from interlock.command.signature import Statement, key_id_of
from interlock.protocol.records import AuditDraft

pytestmark = pytest.mark.req("P-4", "J-17", "U-5")
AT = "2027-01-15T08:00:00.000Z"
SOFT = SoftAuthenticator()
KIM = {"id": "user:kim", "role": "approver"}


def registered(public_key: str, **more: str) -> AuditDraft:
    return draft(1, who=KIM, action="key_rotate", command_id=None, meta={
        "signing_key": key_id_of(public_key, "t1"), "change": "registered", "public_key": public_key, **more})


def statement_of(public_key: str, **changes: Any) -> Statement:
    return Statement("t1", "apr_1", "ab" * 32, "grant", "user:kim", key_id_of(public_key, "t1"), AT)._replace(**changes)


def vote(statement: Statement, **how: Any) -> AuditDraft:
    return draft(2, who={**KIM, "id": statement.approver}, approval_id=statement.subject_id, meta={
        "decision": statement.decision, "digest": statement.digest, "key_id": statement.key_id, "at": statement.at,
        **how})


def signed(**changes: Any) -> AuditDraft:
    signature = base64.b64encode(PAIR.sign(statement_of(PUBLIC).signed_bytes())).decode()
    return vote(statement_of(PUBLIC, **changes), signature=signature)


def tapped(**changes: Any) -> AuditDraft:
    assertion = SOFT.confirms(statement_of(SOFT.public_key).signed_bytes())
    return vote(statement_of(SOFT.public_key, **changes), assertion=msgspec.to_builtins(assertion))


KEYS = [registered(PUBLIC), registered(SOFT.public_key, origin=SOFT.origin)]


def judged(*drafts: AuditDraft) -> AuditReport:
    records = chained([*KEYS, *drafts, draft(9)])
    return check(records, head_of(records))


def test_votes_signed_by_their_people_are_valid() -> None:
    assert judged(signed(), tapped()).ok


@pytest.mark.parametrize("changes", [{"decision": "deny"}, {"digest": "cd" * 32}, {"subject_id": "apr_2"},
                                     {"at": "2027-01-15T08:00:01.000Z"}, {"approver": "user:lee"}])
@pytest.mark.parametrize("cast", [signed, tapped])
def test_a_falsely_signed_vote_is_named_even_in_a_log_signed_by_the_gateway(
    cast: Any, changes: dict[str, str]
) -> None:
    report = judged(tapped(), cast(**changes))
    assert (report.ok, report.seq, report.kind) == (False, 4, Tampering.BAD_SIGNATURE)
    assert report.message.startswith("Record 4 is a vote that its person did not sign so: ")


def test_an_export_is_checked_alike_and_an_unknown_key_is_not_checked() -> None:
    records = chained([*KEYS, signed(decision="deny")])
    lines = [*map(record_line, records), head_of(records)]
    assert (verify(lines).ok, compare(lines, checkpoint_of(records)).ok) == (False, False)
    assert judged(vote(statement_of(PUBLIC, key_id="sgk_of_before"), signature="aGk=")).ok
    assert judged(draft(3, action="key_rotate", meta={"signing_key": 7})).ok, "of another form: it says nothing of keys"


def revoked(public_key: str, at: str) -> AuditDraft:
    return msgspec.structs.replace(draft(3, who=KIM, action="key_rotate", command_id=None, meta={
        "signing_key": key_id_of(public_key, "t1"), "change": "revoked", "public_key": public_key}), at=at)


def test_a_vote_by_a_key_that_was_revoked_before_is_named_though_its_signature_holds() -> None:
    late = msgspec.structs.replace(signed(), at="2027-01-15T08:02:00.001Z")
    report = judged(signed(), revoked(PUBLIC, "2027-01-15T08:01:00.000Z"), late, tapped())
    assert (report.ok, report.seq, report.kind) == (False, 5, Tampering.BAD_SIGNATURE)
    assert "was revoked before, at 2027-01-15T08:01:00.000Z" in report.message

    under_way = msgspec.structs.replace(late, at="2027-01-15T08:02:00.000Z")
    assert judged(signed(), revoked(PUBLIC, "2027-01-15T08:01:00.000Z"), under_way, tapped()).ok
