"""Renewal of a login at an issuer before it ends, by the first process that needs it (Y-11)."""

from __future__ import annotations

import time
from pathlib import Path

import msgspec

from interlock.cli.link import contexts, trust
from interlock.cli.link.contexts import Context
from interlock.cli.verb_error import Trouble

MARGIN_MS = 60_000
"""Time before its end at which a login is renewed; a fifth of its lifetime if that is shorter."""


def is_due(context: Context) -> bool:
    """Return whether a login ends soon, or has ended."""
    return context.renew_ms is not None and time.time() * 1000 >= context.renew_ms


def renewed_from(end_ms: int | None) -> int | None:
    """Return when a login that was just made is to be renewed, by its end."""
    if end_ms is None:
        return None
    return end_ms - min(MARGIN_MS, max(0, int(end_ms - time.time() * 1000)) // 5)


def fresh(context: Context, state: Path) -> Context:
    """Return a context whose credential is not about to end, renewed if necessary. Raises Trouble."""
    again = f"Log in again with: interlock login --on {context.name}"
    if not context.credential:
        raise Trouble("Unauthorized", f"You are logged out of {context.name} ({context.url}).", again)
    if not is_due(context):
        return context
    if context.renewal is None:
        if context.ends_ms is not None and time.time() * 1000 >= context.ends_ms:
            raise Trouble("Unauthorized", f"The login to {context.name} ({context.url}) has ended.", again)
        return context
    with contexts.changing(state):
        found = contexts.read(state)
        now = found.find(context.name)
        if now is None or now.renewal is None or not is_due(now):
            return now or context  # Another process has renewed it already.
        try:
            renewed = _renew(now, state)
        except Trouble as trouble:
            if trouble.code != "Unauthorized" and now.ends_ms is not None and time.time() * 1000 < now.ends_ms:
                return now  # It is valid for a moment longer, and the issuer may be back by then.
            raise Trouble(trouble.code, trouble.sentence, again) from None
        contexts.write(state, found.with_(renewed))
        return renewed


def _renew(context: Context, state: Path) -> Context:
    from interlock.cli.link.device_grant import IssuerClient, ends_ms

    renewal = context.renewal
    assert renewal is not None
    ca = Path(context.ca) if context.ca else None
    client = IssuerClient(context.issuer, trust.tls(context.issuer, state, ca), time.sleep, time.monotonic)
    try:
        tokens = client.renew(renewal.token_endpoint, renewal.client_id, renewal.refresh_token)
    finally:
        client.close()
    token = tokens.token(renewal.form)
    if not token:
        raise Trouble("Unauthorized", f"The issuer {context.issuer} renewed the login without an {renewal.form}.")
    end = ends_ms(token)
    if end is None and tokens.expires_in is not None:
        end = int((time.time() + tokens.expires_in) * 1000)
    # Issuers that rotate refresh tokens send another one; with others the first one is used again.
    kept = msgspec.structs.replace(renewal, refresh_token=tokens.refresh_token or renewal.refresh_token)
    return msgspec.structs.replace(context, credential=token, ends_ms=end, renew_ms=renewed_from(end),
                                   renewal=kept)
