"""A vote by signature holds for one decision, on one digest, by one person, now (P-4)."""

from __future__ import annotations

import base64

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from interlock.command.signature import CLOCK_MS, Statement, key_id_of, read_public_key, verify
from interlock.protocol.clock import iso
from interlock.protocol.problems import Problem
from interlock.protocol.resources import Actor, SigningKey

NOW = 1_800_000_000_000
PAIR = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
PUBLIC = base64.b64encode(PAIR.public_key().public_bytes_raw()).decode()
KEY = SigningKey(key_id=key_id_of(PUBLIC, "default"), tenant_id="default", owner=Actor(type="user", id="kim"),
                 public_key=PUBLIC, created_at=iso(NOW))
STATEMENT = Statement("default", "apr_1", "ab" * 32, "grant", "user:kim", KEY.key_id, iso(NOW))


def signed(statement: Statement, pair: Ed25519PrivateKey = PAIR) -> str:
    return base64.b64encode(pair.sign(statement.signed_bytes())).decode()


def refused(statement: Statement, signature: str, key: SigningKey = KEY, now_ms: int = NOW) -> str:
    with pytest.raises(Problem) as caught:
        verify(key, statement.approver, statement, signature, now_ms)
    return caught.value.detail


@pytest.mark.req("P-4")
def test_the_signed_bytes_are_the_prefix_and_canonical_json() -> None:
    assert STATEMENT.signed_bytes() == (
        b'racp-approval-v1\n{"approver":"user:kim","at":"2027-01-15T08:00:00.000Z","decision":"grant",'
        b'"digest":"' + b"ab" * 32 + b'","key_id":"' + KEY.key_id.encode() + b'","subject_id":"apr_1",'
        b'"tenant_id":"default"}'
    )


@pytest.mark.req("P-4")
def test_a_signature_by_the_persons_key_is_valid() -> None:
    verify(KEY, "user:kim", STATEMENT, signed(STATEMENT), NOW)


@pytest.mark.req("P-4")
@pytest.mark.parametrize("change", [
    {"tenant_id": "other"}, {"subject_id": "apr_2"}, {"digest": "cd" * 32}, {"decision": "deny"},
    {"approver": "user:lee"}, {"key_id": "sgk_other"}, {"at": iso(NOW + 1)},
])
def test_a_signature_made_for_anything_else_is_refused(change: dict[str, str]) -> None:
    refused(STATEMENT._replace(**change), signed(STATEMENT))  # type: ignore[arg-type]


@pytest.mark.req("P-4")
def test_another_persons_key_and_a_revoked_one_are_refused() -> None:
    lee = STATEMENT._replace(approver="user:lee")
    assert "is not one of user:lee" in refused(lee, signed(lee))
    assert "revoked" in refused(STATEMENT, signed(STATEMENT), msgspec.structs.replace(KEY, revoked_at=iso(NOW)))
    assert "does not hold" in refused(STATEMENT, signed(STATEMENT, Ed25519PrivateKey.from_private_bytes(bytes(32))))


@pytest.mark.req("P-4")
def test_the_signed_moment_lies_within_five_minutes_of_the_gateways_time() -> None:
    for off_ms in (-CLOCK_MS, CLOCK_MS):
        verify(KEY, "user:kim", STATEMENT, signed(STATEMENT), NOW + off_ms)
        assert "5 minutes" in refused(STATEMENT, signed(STATEMENT), now_ms=NOW + off_ms + (1 if off_ms > 0 else -1))
    assert "ISO 8601" in refused(STATEMENT._replace(at="yesterday"), signed(STATEMENT))


@pytest.mark.req("P-4")
@pytest.mark.parametrize("signature", ["", "no base64!", base64.b64encode(b"short").decode()])
def test_an_invalid_signature_is_refused_with_the_same_message(signature: str) -> None:
    assert "does not hold" in refused(STATEMENT, signature)


@pytest.mark.parametrize(("text", "sentence"), [("%%", "base64"), ("aGk=", "2 bytes")])
def test_an_invalid_public_key_is_named(text: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        read_public_key(text)
