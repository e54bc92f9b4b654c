"""Verification of an issuer's token, and its principal (K-1)."""

from __future__ import annotations

import base64
import binascii
import math
from collections.abc import Mapping
from typing import Any, NamedTuple, cast

import structlog
from joserfc import jws
from joserfc.errors import JoseError

from interlock.config import OidcSection
from interlock.gateway.access.credentials import ISSUED_PREFIX
from interlock.gateway.oidc.keysets import IssuerKeys
from interlock.gateway.rest.request.json_body import parse_json
from interlock.ports.clock import Clock
from interlock.ports.ledger import Ledger
from interlock.ports.outbound_http import Outgoing
from interlock.protocol.access import GIVEN_ROLES, TENANT_ID, LoginIssuer, written_roles
from interlock.protocol.problems import Problem
from interlock.protocol.records import Principal
from interlock.protocol.resources import Actor

KEY_KINDS = {"RS": "RSA", "PS": "RSA", "ES": "EC", "Ed": "OKP"}
"""The kind of key for algorithms by prefix; there is none for `none` and none for `HS`."""
FOREIGN_KEYS = ("jwk", "jku", "x5u", "x5c", "crit", "b64", "zip", "enc")
"""Headers by which a token would supply its own key, or require an unsupported feature."""
MAX_SUBJECT_CHARS = 255
MAX_NOTED_CHARS = 200
"""Maximum length of a claim that failed its check in the log."""
NOTE_INTERVAL_MS = 1_000
"""A failed check is logged at most once in this time for each issuer, with its count."""

log = structlog.get_logger("interlock.gateway")


class _Noted(NamedTuple):
    at_ms: int
    missed: int


class TokenCheckFailed(Exception):
    """The check that a token failed: for the gateway's log only."""

    def __init__(self, check: str, found: Any = None, *, problem: Problem | None = None) -> None:
        super().__init__(check)
        self.check = check
        self.found = None if found is None else repr(found)[:MAX_NOTED_CHARS]
        """The token's value; logged only if the issuer's signature is valid."""
        self.problem = problem or _refused()


class OidcIssuers:
    """The issuers of the config. A token belongs to the one that its `iss` names; that one's key must have signed
    it."""

    def __init__(self, sections: Mapping[str, OidcSection], outgoing: Outgoing, ledger: Ledger, clock: Clock) -> None:
        self._ledger = ledger
        self._clock = clock
        self._noted: dict[tuple[str, str], _Noted] = {}
        self._sections = dict(sections)
        self._issuers = {section.issuer: (name, section, IssuerKeys(section.issuer, outgoing, clock))
                         for name, section in sections.items()}

    def logins(self) -> list[LoginIssuer]:
        """List the issuers that have a client for `interlock login`."""
        return [LoginIssuer(name=name, issuer=one.issuer, client_id=one.login_client, scopes=list(one.login_scopes))
                for name, one in self._sections.items() if one.login_client is not None]

    async def principal(self, token: str) -> Principal:
        """Return a token's principal. Raises Problem Unauthorized, with the same sentence for every fault;
        UpstreamError or Unavailable while the issuer's keys are unavailable. The log has the check that failed."""
        name = ""
        try:
            header, claims = _unverified(token)
            found = self._issuers.get(claims["iss"]) if isinstance(claims.get("iss"), str) else None
            if found is None:
                raise TokenCheckFailed("iss")
            name, section, keys = found
            await self._verify(token, header, section, keys)
            return await self._principal(claims, name, section)
        except TokenCheckFailed as refused:
            self._note(name, refused)
            raise refused.problem from None

    async def _principal(self, claims: Mapping[str, Any], name: str, section: OidcSection) -> Principal:
        """Return the principal of verified claims. Raises TokenCheckFailed."""
        _check_claims(claims, section, self._clock.now_ms() / 1000)
        tenant_id = _tenant(claims, section)
        if await self._ledger.tenant(tenant_id) is None:
            raise TokenCheckFailed("tenant_exists", tenant_id)
        subject = claims.get(section.person_claim)
        if not isinstance(subject, str) or not 0 < len(subject) <= MAX_SUBJECT_CHARS or not subject.isprintable():
            raise TokenCheckFailed("person_claim", subject)
        return Principal(tenant_id=tenant_id, actor=Actor(type="user", id=f"{name}:{subject}"),
                         role=_roles(claims, section), key_id=ISSUED_PREFIX + name)

    def _note(self, name: str, refused: TokenCheckFailed) -> None:
        """Log which check failed: at most a line a second for each issuer and check."""
        now, place = self._clock.monotonic_ms(), (name, refused.check)
        before = self._noted.get(place)
        if before is not None and now - before.at_ms < NOTE_INTERVAL_MS:
            self._noted[place] = before._replace(missed=before.missed + 1)
            return
        self._noted[place] = _Noted(now, 0)
        log.warning("token_refused", issuer=name or None, check=refused.check,
                    found=refused.found, unwritten_before=before.missed if before else 0)

    async def _verify(self, token: str, header: Mapping[str, Any], section: OidcSection, keys: IssuerKeys) -> None:
        algorithm, kid = header.get("alg"), header.get("kid")
        if not isinstance(algorithm, str) or algorithm not in section.algorithms:
            raise TokenCheckFailed("alg")
        if any(name in header for name in FOREIGN_KEYS) or not isinstance(kid, str | None):
            raise TokenCheckFailed("header")
        typ, types = header.get("typ"), {one.lower() for one in section.types}
        if not isinstance(typ, str) or typ.lower().removeprefix("application/") not in types:
            raise TokenCheckFailed("typ")
        key = await keys.find(kid, KEY_KINDS[algorithm[:2]])
        if key is None or key.get("alg") not in (None, algorithm):
            raise TokenCheckFailed("kid")
        try:
            jws.deserialize_compact(token, key, algorithms=[algorithm])
        except (JoseError, ValueError, TypeError):
            raise TokenCheckFailed("signature") from None


def _unverified(token: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Parse header and claims, as strictly as a body: no duplicate key, nothing that is not I-JSON."""
    read: list[dict[str, Any]] = []
    for part in token.split(".")[:2]:
        try:
            raw = base64.b64decode(part + "=" * (-len(part) % 4), altchars=b"-_", validate=True)
            value = parse_json(raw)
        except (binascii.Error, ValueError, Problem):
            raise TokenCheckFailed("form") from None
        if not isinstance(value, dict):
            raise TokenCheckFailed("form")
        read.append(cast("dict[str, Any]", value))
    return read[0], read[1]


def _check_claims(claims: Mapping[str, Any], section: OidcSection, now_s: float) -> None:
    leeway_s = section.leeway_ms / 1000
    audience: Any = claims.get("aud")
    named = cast("list[Any]", audience) if isinstance(audience, list) else [audience]
    exp, iat, nbf = _instant(claims, "exp"), _instant(claims, "iat"), _instant(claims, "nbf")
    if not any(isinstance(one, str) and one in section.audience for one in named):
        raise TokenCheckFailed("aud", claims.get("aud"))
    if exp is None or exp + leeway_s <= now_s:
        raise TokenCheckFailed("exp", exp)
    if iat is None or iat - leeway_s > now_s:
        raise TokenCheckFailed("iat", iat)
    if nbf is not None and nbf - leeway_s > now_s:
        raise TokenCheckFailed("nbf", nbf)


def _instant(claims: Mapping[str, Any], name: str) -> float | None:
    """Parse a time claim; one that is not a time refuses the token."""
    if name not in claims:
        return None
    value = claims[name]
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise TokenCheckFailed(name, value)
    return float(value)


def _tenant(claims: Mapping[str, Any], section: OidcSection) -> str:
    if section.tenant is not None:
        return section.tenant
    named = _claim(claims, section.tenant_claim or "")
    if not isinstance(named, str) or TENANT_ID.fullmatch(named) is None or named not in section.tenants:
        raise TokenCheckFailed("tenant_claim", named)
    return named


def _roles(claims: Mapping[str, Any], section: OidcSection) -> str:
    """Map the claim to roles; a word that is not in the table yields none."""
    claimed: Any = _claim(claims, section.roles_claim)
    words = (claimed.split() if isinstance(claimed, str)
             else cast("list[Any]", claimed) if isinstance(claimed, list) else [])
    roles = {section.roles[word] for word in words if isinstance(word, str) and word in section.roles}
    roles |= set(section.default_roles)
    if not roles & set(GIVEN_ROLES):
        raise TokenCheckFailed("roles_claim", _claim(claims, section.roles_claim), problem=Problem(
            "Unauthorized", "This token gives no role here.",
            hint="See `roles_claim`, `roles` and `default_roles` of the issuer in the gateway's config."))
    return written_roles(roles)


def _claim(claims: Mapping[str, Any], path: str) -> Any:
    """Return a claim, `realm_access.roles` within another; a name that itself contains dots takes precedence."""
    if path in claims:
        return claims[path]
    value: Any = claims
    for part in path.split("."):
        value = cast("dict[str, Any]", value).get(part) if isinstance(value, dict) else None
    return value


def _refused() -> Problem:
    """Return the same error for every fault, so that a forger learns nothing."""
    return Problem("Unauthorized", "This token is not accepted here: wrong issuer, audience, key, time, type or "
                   "tenant.",
                   hint="Ask the issuer for a fresh token; the gateway's config lists those that are accepted.")
