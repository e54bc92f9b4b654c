"""Operations on browser sessions: codes, login in two halves, the list, and the end (J-10, J-15)."""

from __future__ import annotations

from starlette.types import ASGIApp

from interlock.gateway.access.browsers import id_of
from interlock.gateway.rest.answers import encode, json_answer, raw_answer
from interlock.gateway.rest.operations.keys import whoami_of
from interlock.gateway.rest.request.auth_failures import personal_of
from interlock.gateway.rest.request.authentication import CREDENTIAL
from interlock.gateway.rest.request.browser_halves import check_same_origin, cookie_name, cookie_of, set_cookie
from interlock.gateway.rest.request.request_guard import headers_of
from interlock.gateway.rest.routes import ApiRequest, Handler
from interlock.protocol.access import (
    BROWSER_IDLE_MS,
    BrowserCode,
    BrowserSession,
    BrowserSessionBody,
    OpenedBrowserSession,
    named_roles,
)
from interlock.protocol.answers import BrowserSessionList
from interlock.protocol.api import access as api
from interlock.protocol.clock import iso
from interlock.protocol.problems import Place, Problem
from interlock.protocol.records import BrowserLoginRecord, IdempotencyRecord

OWN = "me"


async def offer(call: ApiRequest) -> ASGIApp:
    """POST /browser-codes."""
    memory = call.memory
    assert memory is not None

    def remember(shown: BrowserCode) -> IdempotencyRecord:
        return memory.keep(201, encode(shown), {})

    code = await call.front.access.browsers.offer(call.principal, _token(call), call.body.roles, remember)
    return json_answer(code, 201)


async def log_in(call: ApiRequest) -> ASGIApp:
    """POST /browser-sessions."""
    body: BrowserSessionBody = call.body
    headers = headers_of(call.request.scope)
    if (body.code is None) == (body.key is None):
        raise Problem("InvalidPayload", "A browser session is opened with a code or a key, one of the two.",
                      errors=(Place("/code", "or /key"),))
    check_same_origin(headers, required=False)
    name = cookie_name(call.front.facts.gateway_id)
    personal = personal_of(call.request)
    client = call.request.client
    browsers = call.front.access.browsers
    about = (client.host if client is not None else "", cookie_of(headers, name), personal.get("user_agent", ""),
             personal)
    opened = (await browsers.open_with_code(body.code, *about) if body.code is not None
              else await browsers.open_with_key(body.key or "", *about))
    record = opened.record
    shown = OpenedBrowserSession(
        id=record.id, half=opened.half, created_at=iso(record.created_ms), expires_at=iso(record.expires_ms),
        idle_ms=BROWSER_IDLE_MS, principal=whoami_of(opened.principal))
    return json_answer(shown, 201, {"Set-Cookie": set_cookie(headers, name, opened.cookie)})


async def listing(call: ApiRequest) -> ASGIApp:
    """GET /browser-sessions."""
    records = await call.front.access.browsers.list(call.principal)
    return json_answer(BrowserSessionList([_shown(record, call) for record in records]))


async def end(call: ApiRequest) -> ASGIApp:
    """DELETE /browser-sessions/{browser_session_id}."""
    memory, current = call.memory, id_of(_token(call))
    assert memory is not None
    session_id = call.path["browser_session_id"]
    if session_id == OWN and not current:
        raise Problem("NotFound", "This request carries a key: it is in no browser session.",
                      hint="Name a session of `GET /v1/browser-sessions`.")
    ended = current if session_id == OWN else session_id
    name = cookie_name(call.front.facts.gateway_id)

    def remember(record: BrowserLoginRecord) -> IdempotencyRecord:
        return memory.keep(200, encode(_shown(record, call)), {})

    record = await call.front.access.browsers.end(call.principal, ended, remember)
    others = any(one.cookie_sha256 == record.cookie_sha256
                 for one in await call.front.access.browsers.list(call.principal))
    forget = ended == current and not others
    headers = {"Set-Cookie": set_cookie(headers_of(call.request.scope), name, "")} if forget else {}
    return raw_answer(encode(_shown(record, call)), 200, headers)


def _token(call: ApiRequest) -> str:
    return call.request.scope[CREDENTIAL]


def _shown(record: BrowserLoginRecord, call: ApiRequest) -> BrowserSession:
    return BrowserSession(
        id=record.id, principal=record.principal, roles=sorted(named_roles(record.role)), key_id=record.key_id,
        created_at=iso(record.created_ms), last_used_at=iso(record.last_used_ms), expires_at=iso(record.expires_ms),
        label=record.label, current=record.id == id_of(_token(call)))


HANDLERS: tuple[Handler, ...] = (
    Handler(api.MAKE_BROWSER_CODE, offer),
    Handler(api.OPEN_BROWSER_SESSION, log_in),
    Handler(api.LIST_BROWSER_SESSIONS, listing),
    Handler(api.END_BROWSER_SESSION, end),
)
