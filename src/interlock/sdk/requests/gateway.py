"""Requests on the gateway itself: health, drains, usage, retention."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from interlock.protocol.answers import DrainList, Health, Pruned, Readiness
from interlock.protocol.api.access import LIST_LOGIN_ISSUERS, WHOAMI
from interlock.protocol.api.commands import DRAIN, UNDRAIN
from interlock.protocol.api.gateway import GET_STATUS_OF_GATEWAY
from interlock.protocol.api.upkeep import GET_RETENTION, PRUNE
from interlock.protocol.api.webhooks import GET_USAGE, LIST_BUDGETS
from interlock.protocol.bodies import PruneBody
from interlock.protocol.drains import DrainBody, DrainScope
from interlock.protocol.resources import UsageDimension, UsageReport
from interlock.sdk.exchange import RequestSpec
from interlock.sdk.methods import ApiResource, LinkT, SingleRequest
from interlock.sdk.requests.base import change, document, plain, read


def alive() -> RequestSpec[Health]:
    """Check that the gateway's process answers."""
    return document("/healthz", Health)


def ready() -> RequestSpec[Readiness]:
    """Return whether the gateway can work: its ledger writes, its lanes are up, and whether it is being drained. If it
    is not ready, that is the result, and nothing is raised."""
    return replace(document("/readyz", Readiness), also=frozenset({503}))


def description() -> RequestSpec[dict[str, Any]]:
    """Return the OpenAPI document."""
    return document("/openapi.json", dict[str, Any])


def drain(scope: DrainScope, *, id: str | None = None, reason: str | None = None,  # noqa: A002 - the API's name
          idempotency_key: str | None = None) -> RequestSpec[DrainList]:
    """Drain: let what runs finish and start nothing new, in the tenant, a runner, an agent or a session (C-5)."""
    return change(DRAIN, body=DrainBody(scope=scope, id=id, reason=reason), key=idempotency_key)


def undrain(scope: DrainScope, *, id: str | None = None,  # noqa: A002 - the API's name
            idempotency_key: str | None = None) -> RequestSpec[DrainList]:
    """End a drain: start what waits."""
    return change(UNDRAIN, body=DrainBody(scope=scope, id=id), key=idempotency_key)


def usage(*, from_: str | None = None, to: str | None = None, by: Sequence[UsageDimension] = ("day",),
          agent: str | None = None, model: str | None = None, session: str | None = None, person: str | None = None,
          limit: int | None = None) -> RequestSpec[UsageReport]:
    """Return the usage that agents reported, grouped by `by`. `from_` and `to` are days of UTC, such as 2026-11-25, the
    last one included; the default is the last 30 days (J-13)."""
    return read(GET_USAGE, to=to, by=",".join(by), agent=agent, model=model, session=session, person=person,
                limit=limit, **{"from": from_})


def prune(older_than_ms: int, *, dry_run: bool | None = None,
          idempotency_key: str | None = None) -> RequestSpec[Pruned]:
    """Delete frames, events and files of sessions whose last turn is older; with `dry_run` only count them."""
    body = PruneBody(older_than_ms=older_than_ms, dry_run=bool(dry_run))
    return change(PRUNE, body=body, key=idempotency_key)


class GatewayMethods(ApiResource[LinkT]):
    """A gateway. `url` and `key` default to those of the environment (INTERLOCK_URL, INTERLOCK_KEY); `key` may also be
    a function that returns the credential of the next request, such as a token that is renewed.

    Requests that fail because the connection is lost are repeated if that is safe: reads, and changes under the same
    idempotency key. `tls` is an SSL context for a private certificate; `in_clear` allows sending the key to another
    machine without TLS. Raises ValueError for an invalid URL or key.
    """

    status = SingleRequest(plain(GET_STATUS_OF_GATEWAY, "Return the state of the gateway and the tenant."))
    alive = SingleRequest(alive)
    ready = SingleRequest(ready)
    prune = SingleRequest(prune)
    retention = SingleRequest(plain(
        GET_RETENTION,
        "Return how long frames, events, files and usage are kept, and when what was old was last forgotten."))
    description = SingleRequest(description)
    whoami = SingleRequest(plain(WHOAMI, "Return whose key this is, and its roles."))
    login_issuers = SingleRequest(plain(
        LIST_LOGIN_ISSUERS,
        "Return the issuers at which a person can log in for this gateway (RFC 8628)."))
    drain = SingleRequest(drain)
    undrain = SingleRequest(undrain)
    budgets = SingleRequest(plain(LIST_BUDGETS, "Return the budgets, and what today has used of them (P-7)."))
    usage = SingleRequest(usage)
