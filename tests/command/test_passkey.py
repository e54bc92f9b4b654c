"""A passkey's confirmation is valid for one statement, on one page, with its person present (J-17)."""

from __future__ import annotations

import base64
from typing import Any

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from authenticator import ALGORITHMS, ORIGIN, SoftAuthenticator, base64url
from interlock.command.passkey import check_assertion, host_of, origin_of, read_passkey
from interlock.command.signature import Statement, key_id_of, stricter, verify
from interlock.protocol.clock import iso
from interlock.protocol.problems import Problem
from interlock.protocol.resources import Actor, Passkey, PasskeyAssertion, SigningKey

pytestmark = pytest.mark.req("J-17")
NOW = 1_800_000_000_000
STATEMENT = b"racp-approval-v1\n{}"


def refused(
    soft: SoftAuthenticator, assertion: PasskeyAssertion, origin: str = ORIGIN, signed: bytes = STATEMENT
) -> str:
    with pytest.raises(ValueError, match=r"^\S") as caught:
        check_assertion(read_passkey(soft.public_key), origin, assertion, signed)
    return str(caught.value)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_an_assertion_by_the_persons_passkey_is_valid(algorithm: str) -> None:
    soft = SoftAuthenticator(algorithm)
    check_assertion(read_passkey(soft.public_key), ORIGIN, soft.confirms(STATEMENT), STATEMENT)


@pytest.mark.parametrize(("how", "why"), [
    ({"flags": 0x01}, "without the authenticator knowing the person"),
    ({"flags": 0x04}, "without the authenticator knowing the person"),
    ({"host": "evil.example"}, "another host"),
    ({"type": "webauthn.create"}, "not an assertion"),
    ({"crossOrigin": True}, "not an assertion"),
    ({"challenge": base64url(b"another")}, "this statement"),
    ({"origin": "http://localhost:3000"}, "made on a page of 'http://localhost:3000'"),
    ({"origin": 7}, "cannot be read"),
])
def test_an_assertion_made_for_anything_else_is_refused(how: dict[str, Any], why: str) -> None:
    soft = SoftAuthenticator()
    assert why in refused(soft, soft.confirms(STATEMENT, **how))


def test_a_signature_of_another_key_or_of_other_bytes_is_refused() -> None:
    soft, other = SoftAuthenticator(), SoftAuthenticator()
    assert refused(soft, other.confirms(STATEMENT)) == "does not hold for this passkey"
    good = soft.confirms(STATEMENT)
    assert "this statement" in refused(soft, good, signed=STATEMENT + b" ")
    flipped = bytes([*base64.urlsafe_b64decode(good.authenticator_data + "=="), 0])
    assert refused(soft, msgspec.structs.replace(good, authenticator_data=base64url(flipped))) == (
        "does not hold for this passkey")
    for field in ("authenticator_data", "client_data_json", "signature"):
        assert refused(soft, msgspec.structs.replace(good, **{field: "a b"})) == "is not base64url"
    assert "another host" in refused(soft, msgspec.structs.replace(good, authenticator_data="AA"))


@pytest.mark.parametrize(("origin", "host"), [
    ("http://localhost:8765", "localhost"), ("http://localhost", "localhost"), ("https://box.example", "box.example"),
    ("https://box.example:8443", "box.example")])
def test_a_passkey_is_bound_to_a_host_name(origin: str, host: str) -> None:
    assert host_of(origin) == host


@pytest.mark.parametrize("origin", ["http://127.0.0.1:8765", "https://[::1]:8765", "http://box.example", "null", "",
                                    "file://localhost"])
def test_an_ip_address_or_an_unencrypted_page_cannot_have_passkeys(origin: str) -> None:
    with pytest.raises(ValueError, match="can have no passkeys"):
        host_of(origin)


def spki(key: Any) -> str:
    return base64.b64encode(key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)).decode()


@pytest.mark.parametrize("text", ["", "not base64", base64.b64encode(b"no key").decode(),
                                  spki(ec.generate_private_key(ec.SECP384R1())),
                                  spki(rsa.generate_private_key(65_537, 1_024))])
def test_a_key_of_an_unsupported_type_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"^is "):
        read_passkey(text)


def test_the_origin_of_a_page_is_read_from_the_browsers_data() -> None:
    assert origin_of(SoftAuthenticator().confirms(STATEMENT)) == ORIGIN


def test_a_vote_names_the_method_that_its_key_is_for() -> None:
    soft = SoftAuthenticator()
    key = SigningKey(key_id=key_id_of(soft.public_key, "default"), tenant_id="default",
                     owner=Actor(type="user", id="kim"), public_key=soft.public_key, created_at=iso(NOW),
                     passkey=Passkey(credential_id=soft.credential_id, origin=ORIGIN))
    statement = Statement("default", "apr_1", "ab" * 32, "grant", "user:kim", key.key_id, iso(NOW))
    assertion = soft.confirms(statement.signed_bytes())
    verify(key, "user:kim", statement, assertion, NOW)
    for given, wrong, why in (("aGk=", key, "is a passkey"),
                              (assertion, msgspec.structs.replace(key, passkey=None), "is not a passkey"),
                              (soft.confirms(STATEMENT), key, "does not hold for this statement")):
        with pytest.raises(Problem) as caught:
            verify(wrong, "user:kim", statement, given, NOW)
        assert why in (caught.value.detail or "")


def test_of_two_rules_the_stricter_one_applies() -> None:
    assert [stricter(one, other) for one, other in ((False, False), (False, True), (True, "passkey"),
                                                    ("passkey", False))] == [False, True, "passkey", "passkey"]
