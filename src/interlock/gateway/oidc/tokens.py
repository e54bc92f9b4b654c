"""What a token of an issuer must be, and whom it stands for (K-1)."""

from __future__ import annotations

import base64
import binascii
import math
from collections.abc import Mapping
from typing import Any, cast

from joserfc import jws
from joserfc.errors import JoseError

from interlock.config import OidcSection
from interlock.gateway.oidc.keysets import IssuerKeys
from interlock.gateway.rest.json_body import parse_json
from interlock.ports.clock import Clock
from interlock.ports.ledger import Ledger
from interlock.ports.outbound_http import Outgoing
from interlock.protocol.access import GIVEN_ROLES, TENANT_ID, written_roles
from interlock.protocol.problems import Problem
from interlock.protocol.records import Principal
from interlock.protocol.resources import Actor

KEY_KINDS = {"RS": "RSA", "PS": "RSA", "ES": "EC", "Ed": "OKP"}
"""The kind of key that the algorithms of each beginning need; there is none for `none` and none for `HS`."""
FOREIGN_KEYS = ("jwk", "jku", "x5u", "x5c", "crit", "b64", "zip", "enc")
"""Headers by which a token would bring its own key, or ask for what is not done here."""
MAX_SUBJECT_CHARS = 255


class OidcIssuers:
    """The issuers of the config. A token is of the one that its `iss` names; that one's key must have signed it."""

    def __init__(self, sections: Mapping[str, OidcSection], outgoing: Outgoing, ledger: Ledger, clock: Clock) -> None:
        self._ledger = ledger
        self._clock = clock
        self._issuers = {section.issuer: (name, section, IssuerKeys(section.issuer, outgoing, clock))
                         for name, section in sections.items()}

    async def principal(self, token: str) -> Principal:
        """Raises Problem Unauthorized, with one sentence for whatever is wrong; UpstreamError or Unavailable while the
        issuer's keys cannot be had."""
        header, claims = _unverified(token)
        found = self._issuers.get(claims["iss"]) if isinstance(claims.get("iss"), str) else None
        if found is None:
            raise _refused()
        name, section, keys = found
        await self._verify(token, header, section, keys)
        _check_claims(claims, section, self._clock.now_ms() / 1000)
        tenant_id = _tenant(claims, section)
        if await self._ledger.tenant(tenant_id) is None:
            raise _refused()
        subject = claims.get(section.person_claim)
        if not isinstance(subject, str) or not 0 < len(subject) <= MAX_SUBJECT_CHARS or not subject.isprintable():
            raise _refused()
        return Principal(tenant_id=tenant_id, actor=Actor(type="user", id=f"{name}:{subject}"),
                         role=_roles(claims, section), key_id=f"oidc:{name}")

    async def _verify(self, token: str, header: Mapping[str, Any], section: OidcSection, keys: IssuerKeys) -> None:
        algorithm, kid = header.get("alg"), header.get("kid")
        if not isinstance(algorithm, str) or algorithm not in section.algorithms:
            raise _refused()
        if any(name in header for name in FOREIGN_KEYS) or not isinstance(kid, str | None):
            raise _refused()
        typ, types = header.get("typ"), {one.lower() for one in section.types}
        if not isinstance(typ, str) or typ.lower().removeprefix("application/") not in types:
            raise _refused()
        key = await keys.find(kid, KEY_KINDS[algorithm[:2]])
        if key is None or key.get("alg") not in (None, algorithm):
            raise _refused()
        try:
            jws.deserialize_compact(token, key, algorithms=[algorithm])
        except (JoseError, ValueError, TypeError):
            raise _refused() from None


def _unverified(token: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Read header and claims, as strictly as a body: no key twice, nothing that is not I-JSON."""
    read: list[dict[str, Any]] = []
    for part in token.split(".")[:2]:
        try:
            raw = base64.b64decode(part + "=" * (-len(part) % 4), altchars=b"-_", validate=True)
            value = parse_json(raw)
        except (binascii.Error, ValueError, Problem):
            raise _refused() from None
        if not isinstance(value, dict):
            raise _refused()
        read.append(cast("dict[str, Any]", value))
    return read[0], read[1]


def _check_claims(claims: Mapping[str, Any], section: OidcSection, now_s: float) -> None:
    leeway_s = section.leeway_ms / 1000
    audience = claims.get("aud")
    named = cast("list[Any]", audience) if isinstance(audience, list) else [audience]
    exp, iat, nbf = _instant(claims, "exp"), _instant(claims, "iat"), _instant(claims, "nbf")
    if not any(isinstance(one, str) and one in section.audience for one in named):
        raise _refused()
    if exp is None or exp + leeway_s <= now_s or iat is None or iat - leeway_s > now_s:
        raise _refused()
    if nbf is not None and nbf - leeway_s > now_s:
        raise _refused()


def _instant(claims: Mapping[str, Any], name: str) -> float | None:
    """Read a time claim; one that is there and is no time refuses the token."""
    if name not in claims:
        return None
    value = claims[name]
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise _refused()
    return float(value)


def _tenant(claims: Mapping[str, Any], section: OidcSection) -> str:
    if section.tenant is not None:
        return section.tenant
    named = _claim(claims, section.tenant_claim or "")
    if not isinstance(named, str) or TENANT_ID.fullmatch(named) is None or named not in section.tenants:
        raise _refused()
    return named


def _roles(claims: Mapping[str, Any], section: OidcSection) -> str:
    """Map what the claim says; a word that is not in the table gives nothing."""
    told = _claim(claims, section.roles_claim)
    words = told.split() if isinstance(told, str) else cast("list[Any]", told) if isinstance(told, list) else []
    roles = {section.roles[word] for word in words if isinstance(word, str) and word in section.roles}
    roles |= set(section.default_roles)
    if not roles & set(GIVEN_ROLES):
        raise Problem("Unauthorized", "This token gives no role here.",
                      hint="See `roles_claim`, `roles` and `default_roles` of the issuer in the gateway's config.")
    return written_roles(roles)


def _claim(claims: Mapping[str, Any], path: str) -> Any:
    """Find a claim, `realm_access.roles` inside another; a name with dots of its own is found first."""
    if path in claims:
        return claims[path]
    value: Any = claims
    for part in path.split("."):
        value = cast("dict[str, Any]", value).get(part) if isinstance(value, dict) else None
    return value


def _refused() -> Problem:
    """One answer for whatever is wrong: who forges learns nothing of how far he came."""
    return Problem("Unauthorized", "This token is not accepted here: wrong issuer, audience, key, time, type or "
                   "tenant.",
                   hint="Ask the issuer for a fresh token; the gateway's config says which are accepted.")
