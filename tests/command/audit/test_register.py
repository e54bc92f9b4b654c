"""Rows bound to the audit log (H-5): a row that no gateway wrote, or that was edited or removed, is named."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from command.audit_logs import draft
from interlock.command.audit.audit import FIRST_PREV, seal
from interlock.command.audit.register import (
    ADOPTED_AT_ONCE,
    Register,
    RegisterRow,
    adopted,
    bound,
    denies,
    differs,
    drain_row,
    drains_on_record,
    ended,
    log_of,
    missing,
    row_of,
    sentence,
)
from interlock.protocol.drains import Drain
from interlock.protocol.records import AuditRecord, DrainRecord, KeyRecord, RuleRecord, SigningKeyRecord, TenantRecord
from interlock.protocol.resources import Actor, RememberedRule, SigningKey

pytestmark = pytest.mark.req("H-5")
ANN = Actor(type="user", id="ann")
KEY = KeyRecord(key_id="key_1", tenant_id="t1", key_sha256="ab", principal=ANN, role="operator", created_ms=1)
TENANT = TenantRecord(tenant_id="t1", name="House", created_ms=1)


def remembered(effect: str = "deny", revoked_at: str | None = None) -> RuleRecord:
    return RuleRecord(rule=RememberedRule(id="rule_1", tenant_id="t1", rule={"name": "n", "effect": effect},
                                          created_at="t", created_by="user:ann", approval_id="apr_1",
                                          revoked_at=revoked_at))


def record(seq: int, action: str = "policy_change", **meta: Any) -> AuditRecord:
    return seal(draft(seq, action=action, meta=meta), seq, FIRST_PREV)


def read(*records: AuditRecord) -> Register:
    register = Register()
    register.read(records)
    return register


def begun(*records: Any, others: dict[str, str] | None = None) -> Register:
    return read(*(record(n, "adopted", **meta) for n, meta in enumerate(adopted(records, others or {}), 1)))


def test_a_digest_covers_deciding_fields_and_not_labels_or_times_of_use() -> None:
    row = row_of(KEY)
    assert row.name == "key/key_1"
    assert row_of(msgspec.structs.replace(KEY, label="laptop", last_used_ms=9)) == row
    for change in ({"role": "owner"}, {"key_sha256": "cd"}, {"revoked": True}, {"tenant_id": "t2"}, {"expires_ms": 7}):
        assert row_of(msgspec.structs.replace(KEY, **change)) != row, change
    assert row_of(msgspec.structs.replace(TENANT, name="Other")) == row_of(TENANT)
    assert row_of(msgspec.structs.replace(TENANT, suspended=True)) != row_of(TENANT)


def test_a_remembered_rule_is_sealed_with_all_its_fields() -> None:
    assert row_of(remembered()).name == "rule/rule_1"
    assert len({row_of(one).sha256 for one in (remembered(), remembered("allow"), remembered(revoked_at="t"))}) == 3


def test_a_drain_is_sealed_by_its_name() -> None:
    drain = DrainRecord(tenant_id="t1", drain=Drain(scope="runner", id="r", at="t", by="user:ann"))
    assert row_of(drain) == drain_row("t1", "runner", "r")
    whole = msgspec.structs.replace(drain, drain=Drain(scope="gateway", at="t", by="b"))
    assert row_of(whole).name == "drain/t1/gateway/"


def test_each_row_is_assigned_to_the_log_of_its_changes() -> None:
    signing = SigningKeyRecord(key=SigningKey(key_id="k", tenant_id="t3", owner=ANN, public_key="p", created_at="t"))
    assert [log_of(one) for one in (KEY, TENANT, remembered(), signing)] == ["t1", "default", "t1", "t3"]


def test_before_rows_are_sealed_nothing_is_reported_about_them() -> None:
    assert differs(row_of(KEY), Register(), Register()) is None


def test_a_row_is_compared_with_the_record_of_its_last_change() -> None:
    owners = begun()
    promoted = msgspec.structs.replace(KEY, role="owner")
    own = read(record(1, **bound(KEY)))
    assert differs(row_of(KEY), own, owners) is None
    assert differs(row_of(promoted), own, owners) == "is not the one in the audit record of its last change"
    own.read([record(2, **bound(promoted))])
    assert differs(row_of(promoted), own, owners) is None
    assert differs(row_of(KEY), own, owners) is not None, "an older copy of the row"


def test_a_row_that_no_record_names_was_not_written_by_a_gateway() -> None:
    assert "not written by a gateway" in (differs(row_of(KEY), Register(), begun()) or "")
    assert differs(row_of(KEY), Register(), begun(KEY)) is None, "adopted as it was found"


def test_adopted_rows_are_recorded_in_pages_and_an_empty_ledger_too() -> None:
    keys = [msgspec.structs.replace(KEY, key_id=f"key_{n}") for n in range(ADOPTED_AT_ONCE + 1)]
    metas = adopted([*keys, remembered()], {"session/s": "00"})
    assert [len(meta["rows"]) for meta in metas] == [ADOPTED_AT_ONCE, 3]
    assert [meta["denials"] for meta in metas] == [[], ["rule/rule_1"]]
    assert begun().begun
    assert not read(record(1, **bound(KEY))).begun


def test_a_record_that_does_not_match_its_hash_seals_nothing() -> None:
    forged = record(1, **bound(KEY))
    assert read(msgspec.structs.replace(forged, hash="00" * 32)).rows == {}
    assert read(msgspec.structs.replace(forged, body=forged.body.replace(b'"row":"key/', b'"row":"kez/'))).rows == {}


def test_a_record_counts_once_and_look_alike_text_seals_nothing() -> None:
    register = read(record(2, **bound(KEY)), record(1, **bound(msgspec.structs.replace(KEY, role="owner"))))
    assert register.rows == {"key/key_1": row_of(KEY).sha256}
    assert read(record(1, note='"row_sha256":"ab"')).rows == {}


def test_remembered_denials_are_known_until_they_are_revoked() -> None:
    register = read(record(1, change="remembered", effect="deny", **bound(remembered())))
    assert register.denials == {"rule/rule_1"}
    register.read([record(2, change="revoked", effect="deny", **bound(remembered(revoked_at="t")))])
    assert register.denials == set()
    assert read(record(1, change="remembered", effect="allow", **bound(remembered("allow")))).denials == set()
    assert [denies(one) for one in (remembered(), remembered("ask"), remembered("allow"), remembered(revoked_at="t"))] \
        == [True, True, False, False]
    assert not denies(KEY)


def test_a_missing_row_on_record_is_reported_as_removed() -> None:
    own = read(record(1, **bound(KEY)), record(2, **bound(remembered())), record(3, row="session/s", row_sha256="00"),
               record(4, **bound(msgspec.structs.replace(KEY, key_id="key_2"))),
               record(5, **ended(RegisterRow("key/key_2", ""))))
    assert list(missing([row_of(KEY)], [own])) == ["rule/rule_1"]
    assert list(missing([row_of(KEY), row_of(remembered())], [own])) == []


def test_drains_in_force_are_those_on_record_that_have_not_ended() -> None:
    row, gone = drain_row("t1", "runner", "a/b"), drain_row("t1", "agent", "shell")
    own = read(record(1, row=row.name, row_sha256=row.sha256), record(2, row=gone.name, row_sha256=gone.sha256),
               record(3, **ended(gone)))
    assert drains_on_record("t1", own, begun(others={"drain/t1/gateway/": "00", "drain/t2/gateway/": "00"})) == [
        ("gateway", ""), ("runner", "a/b")]


@pytest.mark.parametrize(("name", "text"), [
    ("key/key_1", "the stored row of the API key key_1 is odd"), ("new/x", "the stored row of the new x is odd")])
def test_a_row_has_a_readable_name(name: str, text: str) -> None:
    assert sentence(name, "is odd") == text
