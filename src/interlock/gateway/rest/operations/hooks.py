"""`POST /v1/hooks/{name}`: no key of the gateway, the hook's own secret instead (R-4)."""

from __future__ import annotations

from starlette.requests import Request
from starlette.types import ASGIApp

from interlock.gateway.access.credentials import OWNER_TENANT
from interlock.gateway.rest.answers import HttpResponse, raw_answer
from interlock.gateway.rest.forwarder import Forwarding
from interlock.gateway.rest.request.auth_failures import Denials, personal_of
from interlock.gateway.rest.request.authentication import HOPS, RATE_HEADERS
from interlock.gateway.rest.routes import unversioned
from interlock.gateway.rest.service import Front
from interlock.protocol.limits import MAX_BODY_BYTES
from interlock.protocol.problems import Problem

PREFIX = "/hooks/"
BODY_BYTES = MAX_BODY_BYTES


async def deliver(front: Front, denials: Denials, request: Request, forwarding: Forwarding | None) -> ASGIApp:
    """Accept a delivery: 202, and the same response to a repeated one. Raises Problem."""
    if request.method != "POST":
        raise Problem("MethodNotAllowed", f"A hook does not take {request.method}.", headers={"Allow": "POST"})
    name = unversioned(request.url.path).removeprefix(PREFIX)
    headers = {header: values[0] for header in request.headers
               if len(values := request.headers.getlist(header)) == 1}
    body = await _body(request)
    hook = front.hooks.known(name, headers, body)
    if hook is None:
        source = str(request.client.host) if request.client is not None else ""
        await denials.note(OWNER_TENANT, "unknown", "none", "Unauthorized", personal_of(request))
        front.access.rates.refused(source)
        raise Problem("Unauthorized", "There is no such hook, or its secret is another.",
                      hint="See [hooks.NAME] in the gateway's config: `auth` sets how the secret is sent.")
    # A hook's secret is a credential of its tenant: it is refused while the tenant is suspended, or elsewhere.
    await front.access.credentials.check_tenant(hook.tenant_id)
    principal = front.hooks.principal(hook)
    if HOPS not in request.scope:
        request.scope[RATE_HEADERS] = front.access.rates.take(principal)

    async def take(guess: bool) -> HttpResponse:
        async with front.access.quotas.counted(principal):
            answer, again = await front.hooks.take(hook, headers, body, guess=guess)
        replayed = {"Idempotency-Replayed": "true"} if again else {}
        return raw_answer(answer.body, answer.status, {**answer.headers, **replayed})

    return await (take(False) if forwarding is None else forwarding.answer(request.scope, body, take))


async def _body(request: Request) -> bytes:
    """Return the raw body, of any type. Raises Problem PayloadTooLarge."""
    raw = bytearray()
    async for chunk in request.stream():
        raw += chunk
        if len(raw) > BODY_BYTES:
            raise Problem("PayloadTooLarge", f"The body is larger than {BODY_BYTES} bytes.",
                          headers={"Connection": "close"})
    return bytes(raw)
