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
SAID = Statement("default", "apr_1", "ab" * 32, "grant", "user:kim", KEY.key_id, iso(NOW))


def signed(statement: Statement, pair: Ed25519PrivateKey = PAIR) -> str:
    return base64.b64encode(pair.sign(statement.signed_bytes())).decode()


def refused(statement: Statement, signature: str, key: SigningKey = KEY, now_ms: int = NOW) -> str:
    with pytest.raises(Problem) as caught:
        verify(key, statement.approver, statement, signature, now_ms)
    return caught.value.detail


@pytest.mark.req("P-4")
def test_the_signed_bytes_are_the_prefix_and_canonical_json() -> None:
    assert SAID.signed_bytes() == (
        b'racp-approval-v1\n{"approver":"user:kim","at":"2027-01-15T08:00:00.000Z","decision":"grant",'
        b'"digest":"' + b"ab" * 32 + b'","key_id":"' + KEY.key_id.encode() + b'","subject_id":"apr_1",'
        b'"tenant_id":"default"}'
    )


@pytest.mark.req("P-4")
def test_a_signature_by_the_persons_key_holds() -> None:
    verify(KEY, "user:kim", SAID, signed(SAID), NOW)


@pytest.mark.req("P-4")
@pytest.mark.parametrize("change", [
    {"tenant_id": "other"}, {"subject_id": "apr_2"}, {"digest": "cd" * 32}, {"decision": "deny"},
    {"approver": "user:lee"}, {"key_id": "sgk_other"}, {"at": iso(NOW + 1)},
])
def test_a_signature_made_for_anything_else_is_refused(change: dict[str, str]) -> None:
    refused(SAID._replace(**change), signed(SAID))  # type: ignore[arg-type]


@pytest.mark.req("P-4")
def test_a_key_of_somebody_else_or_a_revoked_one_is_refused() -> None:
    lee = SAID._replace(approver="user:lee")
    assert "is not one of user:lee" in refused(lee, signed(lee))
    assert "revoked" in refused(SAID, signed(SAID), msgspec.structs.replace(KEY, revoked_at=iso(NOW)))
    assert "does not hold" in refused(SAID, signed(SAID, Ed25519PrivateKey.from_private_bytes(bytes(32))))


@pytest.mark.req("P-4")
def test_the_signed_moment_lies_within_five_minutes_of_the_gateways_time() -> None:
    for off_ms in (-CLOCK_MS, CLOCK_MS):
        verify(KEY, "user:kim", SAID, signed(SAID), NOW + off_ms)
        assert "5 minutes" in refused(SAID, signed(SAID), now_ms=NOW + off_ms + (1 if off_ms > 0 else -1))
    assert "ISO 8601" in refused(SAID._replace(at="yesterday"), signed(SAID))


@pytest.mark.req("P-4")
@pytest.mark.parametrize("signature", ["", "no base64!", base64.b64encode(b"short").decode()])
def test_what_is_no_signature_is_refused_in_the_same_words(signature: str) -> None:
    assert "does not hold" in refused(SAID, signature)


@pytest.mark.parametrize(("text", "sentence"), [("%%", "base64"), ("aGk=", "2 bytes")])
def test_a_public_key_that_is_none_is_named(text: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        read_public_key(text)
