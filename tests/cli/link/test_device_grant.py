"""The OAuth device grant (Y-11): which of an issuer's tokens a gateway can check, and when they end."""

from __future__ import annotations

import base64
import json

import pytest

from interlock.cli.link import trust
from interlock.cli.link.device_grant import IssuedTokens, ends_ms

pytestmark = pytest.mark.req("Y-11")


def jwt(claims: object) -> str:
    return "h." + base64.urlsafe_b64encode(json.dumps(claims).encode()).rstrip(b"=").decode() + ".s"


@pytest.mark.parametrize(("token", "end"), [
    (jwt({"exp": 1_800_000_000}), 1_800_000_000_000), (jwt({"exp": 1.5}), 1_500), (jwt({}), None), (jwt([]), None),
    (jwt(7), None),
    ("opaque", None), ("", None), ("a.b", None), ("h.?.s", None), (jwt({"exp": None}), None), (jwt({"exp": {}}), None),
    ("h.é.s", None), (jwt({"exp": "1800000000"}), None), (jwt({"exp": True}), None), (jwt({"exp": -1}), None),
    (jwt({"exp": 1e300}), None), (jwt({"exp": 10**400}), None), (jwt({"exp": [1]}), None),
    ("h." + base64.urlsafe_b64encode(b'{"a":' * 3_000).decode() + ".s", None),
])
def test_a_tokens_expiry_is_read_without_verification(token: str, end: int | None) -> None:
    assert ends_ms(token) == end


def test_an_opaque_token_is_readable_by_its_issuer_only() -> None:
    tokens = IssuedTokens(access_token="opaque", id_token="a.b.c", refresh_token="r")
    assert tokens.candidates() == [("id_token", "a.b.c")]
    assert IssuedTokens(access_token="a.b.c", id_token="d.e.f").candidates()[0] == ("access_token", "a.b.c")
    assert IssuedTokens().candidates() == []
    assert (tokens.token("access_token"), tokens.token("id_token")) == ("opaque", "a.b.c")


def test_an_untrusted_certificate_has_a_remedy() -> None:
    assert "--ca FILE" in trust.remedy("[SSL: CERTIFICATE_VERIFY_FAILED] unable to get local issuer")
    assert trust.remedy("connection refused") == ""
