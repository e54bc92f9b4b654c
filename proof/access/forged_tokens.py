"""S2: forged tokens of an issuer, each wrong in one way, all answered 401, with an honest one accepted after each."""

from __future__ import annotations

import asyncio
import base64
import hmac
import json
from collections.abc import Iterator
from typing import Any

from joserfc.jwk import ECKey, OKPKey, RSAKey

from interlock.backends.memory.clock import ManualClock
from interlock.backends.memory.ledger import MemoryLedger
from interlock.backends.outgoing.http import HttpOutgoing
from interlock.config import Config, OidcSection, RatesSection
from interlock.gateway.oidc.tokens import OidcIssuers
from proof.access.oidc_issuer import Issuer
from proof.processes.in_memory_gateway import NOW_MS, InMemoryGateway

AUDIENCE = "interlock"
NOW_S = NOW_MS // 1000


def honest(issuer: Issuer, **changes: Any) -> dict[str, Any]:
    """Claims as the issuer would make them; a change to None leaves a claim out."""
    claims = {"iss": issuer.url, "aud": AUDIENCE, "sub": "ann", "iat": NOW_S - 5, "nbf": NOW_S - 5, "exp": NOW_S + 300,
              "tenant": "acme", "groups": ["ops"], **changes}
    return {name: value for name, value in claims.items() if value is not None}


def section(issuer: Issuer) -> OidcSection:
    """The gateway's config of the issuer."""
    return OidcSection(issuer=issuer.url, audience=[AUDIENCE], tenant_claim="tenant", tenants=["acme", "gone"],
                       roles_claim="groups", roles={"ops": "operator"})


def _part(value: Any) -> str:
    raw = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def forged(issuer: Issuer) -> Iterator[tuple[str, str]]:
    """Give each forgery with its name."""
    good = issuer.sign(honest(issuer))
    head, body, signature = good.split(".")
    claims: dict[str, dict[str, Any]] = {
        "another issuer": {"iss": "https://evil.example"}, "issuer with a slash": {"iss": issuer.url + "/"},
        "no issuer": {"iss": None}, "issuer a list": {"iss": [issuer.url]}, "another audience": {"aud": "other"},
        "no audience": {"aud": None}, "empty audience": {"aud": []}, "audience a number": {"aud": 1},
        "audience begins alike": {"aud": AUDIENCE + "-2"}, "expired": {"exp": NOW_S - 31}, "no expiry": {"exp": None},
        "expiry as text": {"exp": str(NOW_S + 300)}, "expiry true": {"exp": True}, "expiry a list": {"exp": [NOW_S]},
        "not yet": {"nbf": NOW_S + 31}, "nbf as text": {"nbf": "0"}, "issued in the future": {"iat": NOW_S + 31},
        "no iat": {"iat": None}, "iat as text": {"iat": "now"}, "another tenant": {"tenant": "default"},
        "a tenant that is not there": {"tenant": "gone"}, "no tenant": {"tenant": None},
        "tenant a list": {"tenant": ["acme"]}, "tenant a path": {"tenant": "../acme"}, "no role": {"groups": []},
        "a role unmapped": {"groups": ["owner", "admin"]}, "roles a number": {"groups": 7}, "no subject": {"sub": None},
        "empty subject": {"sub": ""}, "subject with a line end": {"sub": "ann\r\nX: 1"}, "subject a number": {"sub": 1},
        "subject too long": {"sub": "a" * 256},
    }
    for name, changes in claims.items():
        yield name, issuer.sign(honest(issuer, **changes))
    for name, header in {
        "no typ": {"typ": None}, "another typ": {"typ": "logout+jwt"}, "unknown kid": {"kid": "nobody"},
        "kid a path": {"kid": "../../first"}, "jku of its own": {"jku": "https://evil.example/keys"},
        "x5u of its own": {"x5u": "https://evil.example/cert"}, "an algorithm not allowed": {"alg": "RS512"},
    }.items():
        yield name, issuer.sign(honest(issuer), header)
    other = RSAKey.generate_key(2048, {"kid": "first"})
    yield "another's key under our kid", issuer.sign(honest(issuer), key=other)
    yield "its own key in the header", issuer.sign(honest(issuer), {"jwk": other.as_dict(private=False)}, key=other)
    yield "an EC key under our kid", issuer.sign(honest(issuer), key=ECKey.generate_key("P-256", {"kid": "first"}))
    yield "an Ed25519 key under our kid", issuer.sign(honest(issuer), key=OKPKey.generate_key("Ed25519",
                                                                                              {"kid": "first"}))
    assert isinstance(issuer.key, RSAKey)
    for algorithm in ("HS256", "HS512"):
        signed = f"{_part({'alg': algorithm, 'typ': 'JWT', 'kid': 'first'})}.{body}"
        mac = hmac.digest(issuer.key.as_pem(private=False), signed.encode(), algorithm.replace("HS", "sha"))
        yield f"{algorithm} with the public key", f"{signed}.{_part(mac)}"
    for written in ("none", "None", "NONE", ""):
        yield f"alg {written!r}", f"{_part({'alg': written, 'typ': 'JWT', 'kid': 'first'})}.{body}."
    yield "alg none with the signature", f"{_part({'alg': 'none', 'typ': 'JWT'})}.{body}.{signature}"
    yield "no signature", f"{head}.{body}."
    yield "a signature cut", good[:-8]
    yield "a signature of another token", ".".join((*issuer.sign(honest(issuer, sub="bob")).split(".")[:2], signature))
    yield "claims changed", f"{head}.{_part(honest(issuer, sub='root'))}.{signature}"
    yield "a claim twice", issuer.sign(json.dumps(honest(issuer)).encode()[:-1] + b',"sub":"root"}')
    yield "NaN for a time", issuer.sign(json.dumps(honest(issuer, exp=float("nan"))).encode())
    yield "claims that are a list", issuer.sign(b"[]")
    yield "claims that are no JSON", issuer.sign(b"\xff")
    yield "claims nested deep", issuer.sign(b"[" * 5_000)
    yield "three dots", good + ".x"
    yield "empty parts", ".."
    yield "very long", issuer.sign(honest(issuer, more="x" * 20_000))


async def trial() -> tuple[int, list[str]]:
    """Offer every forgery, and honest tokens between them: (how many, what was answered wrongly)."""
    wrong: list[str] = []
    offered = 0
    async with Issuer() as issuer:
        clock, ledger = ManualClock(), MemoryLedger()
        issuers = OidcIssuers({"corp": section(issuer)}, HttpOutgoing(["127.0.0.1/32"]), ledger, clock)
        inside = InMemoryGateway(Config(rates=RatesSection(refused_a_minute=0)), issuers=issuers, ledger=ledger,
                                 clock=clock)
        await inside.tenant("acme", ())
        for name, token in forged(issuer):
            answer = await inside.ask(token, "GET", "/v1/whoami")
            offered += 1
            if answer.status_code != 401:
                wrong.append(f"{name}: {answer.status_code} {answer.text}")
            accepted = await inside.ask(issuer.sign(honest(issuer)), "GET", "/v1/whoami")
            if accepted.status_code != 200 or accepted.json()["principal"]["id"] != "corp:ann":
                wrong.append(f"the honest token after {name}: {accepted.status_code}")
        await inside.close()
    return offered, wrong


def run(_seed: int, _rounds: int | None) -> bool:
    """Run the trial and print what it counted."""
    offered, wrong = asyncio.run(trial())
    print(f"{offered} forged tokens, {len(wrong)} answered wrongly")
    print("\n".join(wrong))
    return not wrong and offered >= 40
