"""Tokens of an issuer of our own on loopback: forged ones, keys that rotate, and an issuer that fails."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
from structlog.testing import capture_logs

from interlock.backends.memory.clock import ManualClock
from interlock.backends.memory.ledger import MemoryLedger
from interlock.backends.outgoing.http import HttpOutgoing
from interlock.gateway.oidc.keysets import FAILURE_PAUSE_MS, KEYS_LIFE_MS, REFRESH_INTERVAL_MS
from interlock.gateway.oidc.tokens import OidcIssuers
from interlock.ports.ledger import Put, WriteBatch
from interlock.protocol.problems import Problem
from interlock.protocol.records import TenantRecord
from proof.access import forged_tokens
from proof.access.forged_tokens import NOW_S, honest, section
from proof.access.oidc_issuer import Issuer
from proof.processes.in_memory_gateway import NOW_MS

pytestmark = pytest.mark.anyio

DISCOVERY = "/.well-known/openid-configuration"


class Corp:
    """An issuer, and a gateway's reading of its tokens."""

    def __init__(self, issuer: Issuer, **changes: Any) -> None:
        self.issuer = issuer
        self.clock, self.ledger = ManualClock(), MemoryLedger()
        settings = msgspec.structs.replace(section(issuer), **changes)
        self.issuers = OidcIssuers({"corp": settings}, HttpOutgoing(["127.0.0.1/32"]), self.ledger, self.clock)

    async def open(self) -> Corp:
        await self.ledger.commit(WriteBatch([Put(TenantRecord(tenant_id="acme", name="", created_ms=1))]))
        return self

    async def who(self, token: str) -> str:
        principal = await self.issuers.principal(token)
        return f"{principal.actor.id} {principal.tenant_id} {principal.role} {principal.key_id}"

    async def refused(self, token: str, code: str = "Unauthorized") -> Problem:
        with pytest.raises(Problem) as caught:
            await self.issuers.principal(token)
        assert caught.value.code == code, caught.value
        return caught.value


@pytest.fixture
async def corp() -> AsyncIterator[Corp]:
    async with Issuer() as issuer:
        yield await Corp(issuer).open()


@pytest.mark.req("K-1", "F-1")
async def test_every_forged_token_is_401_and_the_genuine_one_is_accepted() -> None:
    offered, wrong = await forged_tokens.trial()
    assert wrong == []
    assert offered >= 40


@pytest.mark.req("K-1")
async def test_claims_set_the_principal_tenant_and_roles() -> None:
    async with Issuer() as issuer:
        mapped = await Corp(issuer, roles_claim="realm_access.roles", person_claim="email", tenant="acme",
                            tenant_claim=None, roles={"a": "approver", "b": "operator"}).open()
        claims = honest(issuer, email="ann@example.org", realm_access={"roles": ["b", "a", "c"]},
                        aud=["x", "interlock"])
        assert await mapped.who(issuer.sign(claims)) == "corp:ann@example.org acme approver+operator oidc:corp"
        spaced = await Corp(issuer, roles_claim="scope", roles={"run": "operator"}, default_roles=["viewer"]).open()
        assert await spaced.who(issuer.sign(honest(issuer, scope="openid run"))) == (
            "corp:ann acme operator+viewer oidc:corp")
        assert await spaced.who(issuer.sign(honest(issuer), {"typ": "application/at+jwt"})) == (
            "corp:ann acme viewer oidc:corp")


@pytest.mark.req("Y-11", "K-1")
@pytest.mark.parametrize(("changes", "check", "found"), [
    ({"aud": "other"}, "aud", "'other'"), ({"exp": NOW_S - 31}, "exp", str(float(NOW_S - 31))),
    ({"iat": NOW_S + 99}, "iat", str(float(NOW_S + 99))), ({"nbf": NOW_S + 99}, "nbf", str(float(NOW_S + 99))),
    ({"tenant": "default"}, "tenant_claim", "'default'"), ({"tenant": "gone"}, "tenant_exists", "'gone'"),
    ({"sub": None}, "person_claim", None), ({"groups": ["nobody"]}, "roles_claim", "['nobody']"),
    ({"iss": "https://evil.example"}, "iss", None), ({"aud": "x" * 5_000}, "aud", "'" + "x" * 199),
])
async def test_the_failed_check_is_logged_and_not_sent_to_the_client(
    corp: Corp, changes: dict[str, Any], check: str, found: str | None
) -> None:
    with capture_logs() as lines:
        problem = await corp.refused(corp.issuer.sign(honest(corp.issuer, **changes)))
    [line] = lines
    assert line["event"] == "token_refused"
    assert (line["check"], line["found"]) == (check, found)
    assert line["issuer"] == (None if check == "iss" else "corp")
    if check != "roles_claim":
        assert problem.detail == (await corp.refused("a.b.c")).detail


@pytest.mark.req("Y-11")
async def test_unsigned_claims_are_not_logged_and_a_flood_is_one_line_a_second(corp: Corp) -> None:
    signed = corp.issuer.sign(honest(corp.issuer, sub="secret"))
    with capture_logs() as lines:
        for _ in range(50):
            await corp.refused(signed[:-8] + "AAAAAAAA")
        corp.clock.at_ms += 1_000
        await corp.refused(signed[:-8] + "AAAAAAAA")
    assert [(line["check"], line["found"], line["unwritten_before"]) for line in lines] == [
        ("signature", None, 0), ("signature", None, 49)]


@pytest.mark.req("Y-11")
async def test_only_issuers_with_a_client_are_listed_for_logging_in() -> None:
    async with Issuer() as issuer:
        assert Corp(issuer).issuers.logins() == []
        [listed] = Corp(issuer, login_client="interlock-cli", login_scopes=("openid",)).issuers.logins()
        assert (listed.name, listed.issuer, listed.client_id, listed.scopes) == (
            "corp", issuer.url, "interlock-cli", ["openid"])


@pytest.mark.req("K-1")
async def test_new_issuer_keys_are_found_and_removed_ones_refused(corp: Corp) -> None:
    issuer = corp.issuer
    old = issuer.sign(honest(issuer))
    assert await corp.who(old)
    assert await corp.who(old)
    assert issuer.asked == {DISCOVERY: 1, "/keys": 1}
    issuer.rotate("second")
    fresh = issuer.sign(honest(issuer))
    await corp.refused(fresh)
    corp.clock.at_ms += REFRESH_INTERVAL_MS
    assert await corp.who(fresh)
    assert issuer.asked["/keys"] == 2
    await corp.refused(old)


@pytest.mark.req("K-1")
async def test_unknown_keys_cause_rate_limited_requests_to_the_issuer(corp: Corp) -> None:
    issuer = corp.issuer
    await corp.who(issuer.sign(honest(issuer)))
    corp.clock.at_ms += REFRESH_INTERVAL_MS
    for number in range(20):
        await corp.refused(issuer.sign(honest(issuer), {"kid": f"made-up-{number}"}))
    assert issuer.asked["/keys"] == 2


@pytest.mark.req("K-1", "F-1")
@pytest.mark.parametrize(("path", "answer", "code"), [
    (DISCOVERY, (500, b""), "UpstreamError"), (DISCOVERY, (200, b"no json"), "UpstreamError"),
    (DISCOVERY, (302, b""), "UpstreamError"), (DISCOVERY, (200, b"[" * 100_000), "UpstreamError"),
    (DISCOVERY, (200, b'{"issuer":"https://evil.example","jwks_uri":"https://evil.example"}'), "UpstreamError"),
    ("/keys", (200, b'{"keys":[]}'), "UpstreamError"), ("/keys", (200, b'{"keys":[{"kty":"oct","k":"AAAA"}]}'),
                                                        "UpstreamError"),
    ("/keys", (200, b'{"keys":[' + b" " * 300_000), "Unavailable"),
])
async def test_a_failing_issuer_is_reported_and_not_requested_for_a_while(
    corp: Corp, path: str, answer: tuple[int, bytes], code: str
) -> None:
    issuer = corp.issuer
    issuer.answers[path] = answer
    token = issuer.sign(honest(issuer))
    problem = await corp.refused(token, code)
    assert problem.headers["Retry-After"] == "5"
    asked = dict(issuer.asked)
    await corp.refused(token, code)
    assert issuer.asked == asked
    issuer.answers.clear()
    corp.clock.at_ms += FAILURE_PAUSE_MS
    assert await corp.who(token)


@pytest.mark.req("K-1")
async def test_a_discovery_that_points_to_an_internal_address_is_not_followed(corp: Corp) -> None:
    issuer = corp.issuer
    issuer.answers[DISCOVERY] = (200, b'{"issuer":"%s","jwks_uri":"http://169.254.169.254/"}' % issuer.url.encode())
    problem = await corp.refused(issuer.sign(honest(issuer)), "UpstreamError")
    assert "over https only" in problem.detail


@pytest.mark.req("K-1")
async def test_known_keys_stay_valid_while_the_issuer_is_down(corp: Corp) -> None:
    issuer = corp.issuer
    assert await corp.who(issuer.sign(honest(issuer)))
    issuer.answers[DISCOVERY] = (503, b"")
    corp.clock.at_ms += KEYS_LIFE_MS
    later = honest(issuer, iat=NOW_MS // 1000, exp=NOW_MS // 1000 + 100_000)
    assert await corp.who(issuer.sign(later))
    corp.clock.at_ms += 24 * 60 * 60 * 1000
    await corp.refused(issuer.sign(later), "UpstreamError")
