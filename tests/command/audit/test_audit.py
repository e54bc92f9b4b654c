"""Sealing a record of the audit log (U-1, U-2), and the personal data in it (U-4)."""

from __future__ import annotations

import hashlib
import hmac
from typing import Any

import msgspec
import pytest
import rfc8785

from command.audit_logs import SALT, check, draft, head_of, personal_log
from interlock.command.audit.audit import ACTIONS, FIRST_PREV, AuditRefused, record_line, seal
from interlock.protocol.clock import iso


@pytest.mark.req("U-2")
def test_a_record_is_canonical_json_under_its_rfc_6962_leaf_hash() -> None:
    record = seal(draft(7, session_id="S"), 7, "ab" * 32)
    body = msgspec.json.decode(record.body)
    assert body == {
        "id": "aud_0000000000000007", "tenant_id": "t1", "seq": 7, "prev": "ab" * 32, "at": iso(7_000),
        "who": {"id": "user:é", "role": "owner"}, "action": "vote", "command_id": "cmd_7", "session_id": "S",
        "meta": {"decision": "grant", "n": 7, "list": [True, {"b": "\n", "a": "😀"}]},
    }  # fmt: skip
    assert record.body == rfc8785.dumps(body)
    assert record.hash == hashlib.sha256(b"\0" + record.body).hexdigest()
    assert (record.tenant_id, record.seq) == ("t1", 7)


@pytest.mark.req("U-1")
@pytest.mark.parametrize("action", sorted(ACTIONS))
def test_every_action_of_the_specification_can_be_sealed(action: str) -> None:
    assert check([seal(draft(1, action=action), 1, FIRST_PREV)], None).records == 1


@pytest.mark.req("U-1", "U-2")
@pytest.mark.parametrize(("changes", "sentence"), [
    ({"action": "approved"}, "knows no action 'approved'"),
    ({"who": {"id": "u"}}, "exactly an id and a role"),
    ({"who": {"id": "u", "role": "owner", "ip": "::1"}}, "exactly an id and a role"),
    ({"meta": {"cost": 0.1}}, "float"),
    ({"meta": {"ids": [None]}}, "NoneType"),
])  # fmt: skip
def test_an_unknown_action_or_field_is_refused(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(AuditRefused, match=sentence):
        seal(draft(1, **changes), 1, FIRST_PREV)


@pytest.mark.req("U-4")
def test_personal_data_is_in_a_record_only_as_a_salted_commitment() -> None:
    record = personal_log(erased=False, recorded=False)[1]
    body = msgspec.json.decode(record.body)
    assert body["personal"] == {
        name: hmac.digest(SALT, name.encode() + b"\0" + value.encode(), "sha256").hex()
        for name, value in (("comment", 'Ann said: "go"'), ("ip", "::1"))
    }
    assert b"Ann" not in record.body
    assert check([record], None).records == 0
    assert record.personal["ip"] == (SALT.hex(), "::1")
    with pytest.raises(AuditRefused, match="no such personal values: \\['name'\\]"):
        seal(draft(1, personal={"name": "Ann"}), 1, FIRST_PREV, [SALT])
    with pytest.raises(AuditRefused):
        seal(draft(1, personal={"comment": "\ud800"}), 1, FIRST_PREV, [SALT])


@pytest.mark.req("K-4", "U-4")
@pytest.mark.parametrize("secret", ["ilk_" + "a" * 43, "ilr_" + "b" * 43, "Bearer abcdefgh12345678",
                                    "eyJhbGciOiJub25l.eyJzdWIi.sig_1"])
def test_a_credential_in_a_persons_comment_does_not_reach_the_log(secret: str) -> None:
    record = seal(draft(1, personal={"comment": f"use {secret} for it"}), 1, FIRST_PREV, [SALT])
    assert secret.encode() not in record_line(record)
    assert check([record], head_of([record])).ok
