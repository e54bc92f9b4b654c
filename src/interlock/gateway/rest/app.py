"""The API as an ASGI callable: guard, table, body, key, operation; every failure becomes problem+json (F-1)."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import cache, lru_cache, partial
from typing import Any

import msgspec
import structlog
from starlette.requests import ClientDisconnect, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from interlock.engine.membership import Elsewhere
from interlock.gateway.access.credentials import OWNER_TENANT
from interlock.gateway.access.open_streams import Kind, OpenStream
from interlock.gateway.rest import health
from interlock.gateway.rest.answers import HttpResponse, problem_answer, raw_answer
from interlock.gateway.rest.console_pages import ASSETS, ConsolePages
from interlock.gateway.rest.forwarder import Forwarding
from interlock.gateway.rest.operations import (
    approvals,
    audit,
    browsers,
    budgets,
    commands,
    cron,
    drains,
    files,
    hooks,
    inbound,
    keys,
    policy,
    policy_replay,
    prune,
    push,
    runners,
    session_entries,
    sessions,
    signing_keys,
    staged_changes,
    status,
    tickets,
    transcripts,
    usage,
    webhooks,
)
from interlock.gateway.rest.request.auth_failures import Denials, personal_of
from interlock.gateway.rest.request.authentication import CREDENTIAL, HOPS, RECEIVED_MS, Authentication, rates_beside
from interlock.gateway.rest.request.idempotency import IdempotentAnswers, Memory, RequestClaim, claim_of, key_of
from interlock.gateway.rest.request.json_body import THREAD_BYTES, read, read_json, typed
from interlock.gateway.rest.request.request_guard import allow, headers_of
from interlock.gateway.rest.request.uploads import ReceivedUpload, receive
from interlock.gateway.rest.routes import (
    ApiRequest,
    Handler,
    RouteMatch,
    RouteTable,
    check_acceptable,
    media_ranges,
    reader_of,
    unversioned,
)
from interlock.gateway.rest.service import Front
from interlock.gateway.rest.socket import Socket
from interlock.gateway.rest.streams import EventStream
from interlock.ports import trips
from interlock.ports.ledger import Full, LedgerError, OutcomeUnknown, TenantMoving
from interlock.protocol.api.operation import READERS, SSE, Operation
from interlock.protocol.api.table import OPERATIONS
from interlock.protocol.limits import MAX_BODY_BYTES
from interlock.protocol.problems import Place, Problem
from interlock.protocol.records import Principal
from interlock.protocol.resources import Actor, CommandBody

HANDLERS: Mapping[str, Handler] = {handler.operation.name: handler for module in (
    commands, drains, approvals, sessions, files, status, audit, runners, policy,
    policy_replay, signing_keys, keys, tickets, browsers, push, inbound, cron, staged_changes,
    session_entries, webhooks, budgets, usage, transcripts, prune,
) for handler in module.HANDLERS}
"""The handler of each operation, by its name."""

DOCUMENT_PATHS = frozenset({"/openapi.json", "/v1/openapi.json"})
"""Paths of the API's own description, open to anyone (F-2)."""
OPEN_PATHS = DOCUMENT_PATHS | health.PATHS

NOBODY = Principal(tenant_id="", actor=Actor(type="user", id="unknown"), role="viewer", key_id="")
"""The principal of operations that require no key."""

LOGGED = ("command_id", "session_id", "approval_id", "runner_id", "key_id", "transfer_id")
"""Path parameters that every log line of a request includes."""
DRAIN_BYTES = 4 * MAX_BODY_BYTES
"""A body larger than this is not read to its end: the connection is closed."""

READER = "interlock.reader"
"""Key of a request's scope: the reader that its stream is counted for."""

MEDIA_KEPT = 64
"""Cached media types of bodies: nearly all requests have one of a few."""

log = structlog.get_logger("interlock.gateway")


@cache
def api_routes() -> RouteTable:
    """Return the routes of all operations; to compile them takes some 30 ms, once in a process."""
    return RouteTable(OPERATIONS)


@cache
def body_decoders() -> dict[type, msgspec.json.Decoder[Any]]:
    """Return a decoder of each operation's body; to make them takes some 30 ms, once in a process."""
    return {operation.body: msgspec.json.Decoder(operation.body, strict=True)
            for operation in OPERATIONS if operation.body is not None}


class RestApp:
    """The application for every HTTP request. The host and origin were already checked (K-2)."""

    def __init__(self, front: Front) -> None:
        self._front = front
        self._table = api_routes()
        self._open_ones = {(one.method, one.path): one for one in OPERATIONS if one.public}
        self._once = IdempotentAnswers(front.desk.ledger)
        self._denials = Denials(front.desk.ledger, front.clock)
        self._gate = Authentication(front, self._denials)
        self._forwarding = Forwarding(front.ask) if front.ask is not None else None
        self._watching = health.Watching(front, self._gate)
        self._pages = ConsolePages(front.console or ASSETS)
        self._decoders = body_decoders()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        structlog.contextvars.clear_contextvars()
        try:
            answer = await self._answer(Request(scope, receive))
        except ClientDisconnect:
            return
        except Exception as error:  # noqa: BLE001 - the boundary: what comes through is logged and answered
            answer = self._refusal(error, scope)
        if not isinstance(answer, HttpResponse):
            refused = await self._send_in_parts(answer, scope, receive, send)
            if refused is None:
                return
            answer = refused
        await send(self._begun(scope, answer.status, answer.headers))
        await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else answer.body})

    async def _send_in_parts(self, answer: ASGIApp, scope: Scope, receive: Receive, send: Send) -> HttpResponse | None:
        """Send a response that writes itself; returns a refusal if it failed before it started."""
        started = False

        def begun(status: int, headers: Sequence[tuple[bytes, bytes]]) -> Message:
            nonlocal started
            started = True
            return self._begun(scope, status, headers)

        async def noting(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = begun(message["status"], message.get("headers", ()))
            await send(message)

        try:
            if isinstance(answer, EventStream):
                openings = self._front.access.openings
                with openings.counted(scope[READER]), openings.hold("sse", scope[CREDENTIAL]) as opening:
                    answer.end_with(opening.lost)
                    answer.begin_with(begun)
                    await answer(scope, receive, send)
            else:
                await answer(scope, receive, _without_body(noting) if scope["method"] == "HEAD" else noting)
        except ClientDisconnect:
            return None
        except Exception as error:  # noqa: BLE001 - as above
            refusal = self._refusal(error, scope)
            return None if started else refusal  # A response that has started can only be cut off.
        return None

    def _refusal(self, error: Exception, scope: Scope) -> HttpResponse:
        """Count a failure; returns its problem."""
        problem = _as_problem(error, scope)
        self._front.metrics.refused(problem.code)
        return problem_answer(problem, scope["path"])

    def _begun(self, scope: Scope, status: int, headers: Sequence[tuple[bytes, bytes]]) -> Message:
        """Count a response, and start it with the headers of its rate in addition to its own (K-3)."""
        if HOPS not in scope:
            self._front.metrics.answered(scope["method"], status)
        return {"type": "http.response.start", "status": status, "headers": [*headers, *rates_beside(scope, headers)]}

    async def socket(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve `/v1/stream` (section 4). Raises Problem before it is accepted."""
        principal = await self._gate.known(scope)
        openings, reader = self._front.access.openings, reader_of(principal)
        openings.check(reader)
        with openings.counted_socket(reader), openings.hold("websocket", scope[CREDENTIAL]) as opening:
            await Socket(self._operate, partial(openings.counted, reader), principal, scope, receive, send
                         ).serve(opening.lost)

    @asynccontextmanager
    async def connection(self, scope: Scope, kind: Kind = "websocket") -> AsyncGenerator[OpenStream]:
        """Authenticate a connection of a door, and count and watch it while it is open: `lost` is set once its
        credential is refused. Raises Problem before anything is sent."""
        principal = await self._gate.known(scope)
        allow(principal, READERS)
        openings = self._front.access.openings
        with openings.counted(reader_of(principal)), openings.hold(kind, scope[CREDENTIAL]) as opening:
            yield opening

    async def _answer(self, request: Request) -> ASGIApp:
        scope = request.scope
        path = scope["path"]
        if path in OPEN_PATHS:
            return await self._open_path(request)
        if not path.startswith("/v1/") and self._pages.serves(request):
            return self._pages.answer(request)
        plain = unversioned(path)
        if plain.startswith(hooks.PREFIX):
            return await hooks.deliver(self._front, self._denials, request, self._forwarding)
        if (public := self._open_ones.get((scope["method"], plain))) is not None:
            return await self._open(request, public)
        counted = trips.CURRENT.set(trips.Trips())
        try:
            if plain == status.PATH and scope["method"] in ("GET", "HEAD"):
                return await status.in_time(self._front, self._known(request))
            return await self._known(request)
        finally:
            trips.CURRENT.reset(counted)

    async def _known(self, request: Request) -> ASGIApp:
        """Serve an authenticated request. Raises Problem."""
        scope = request.scope
        known = self._gate.known(scope)
        principal = await (known if self._forwarding is None else self._forwarding.read_ahead(scope, known))
        scope[READER] = reader_of(principal)
        if scope["method"] == "GET" and SSE in media_ranges(headers_of(scope).get(b"accept", ())):
            self._front.access.openings.check(scope[READER])  # Before anything is read for it.
            turn = await self._front.desk.viewers.replays.turn(scope[READER])
            try:
                return await self._operate(request, principal)
            finally:
                turn.end()
        return await self._operate(request, principal)

    async def _open(self, request: Request, operation: Operation[Any]) -> ASGIApp:
        """Serve an operation without a key: its body is the credential, so a wrong one is a refused credential (L-3,
        U-1)."""
        if request.scope["query_string"]:
            _check_query(request, operation)
        if operation.body is None:
            return await HANDLERS[operation.name].answer(ApiRequest(self._front, operation, NOBODY, {}, request))
        raw = await read_body(request, operation.body_optional)
        await read_json(raw)
        body = typed(self._decoders[operation.body], raw)
        try:
            return await HANDLERS[operation.name].answer(ApiRequest(self._front, operation, NOBODY, {}, request, body))
        except Problem as problem:
            if problem.kind.status in (401, 429):
                await self._denials.note(OWNER_TENANT, "unknown", "none", problem.code, personal_of(request))
            raise

    async def _operate(self, request: Request, principal: Principal) -> ASGIApp:
        """Perform the operation; a refused role is counted (U-1). Raises Problem."""
        try:
            scope = request.scope
            path = unversioned(scope["path"])
            found = self._table.find(scope["method"], path)
            structlog.contextvars.bind_contextvars(
                tenant_id=principal.tenant_id, **{word: name for word, name in found.path.items() if word in LOGGED})
            operation = found.operation
            allow(principal, operation.roles)
            if accept := headers_of(scope).get(b"accept"):
                check_acceptable(media_ranges(accept), operation.media)
            if scope["query_string"]:
                _check_query(request, operation)
            if operation.body is not None:
                return await self._changing(request, principal, path, found)
            call = ApiRequest(self._front, operation, principal, found.path, request)
            handler = HANDLERS[operation.name]
            if operation.at_runner and self._forwarding is not None:
                return await self._forwarding.answer(scope, b"", lambda _guess: handler.answer(call))
            return await handler.answer(call)
        except Problem as problem:
            if problem.code == "Forbidden":
                await self._denials.note(principal.tenant_id, principal.who["id"], principal.role, problem.code,
                                         personal_of(request))
            raise

    async def _changing(self, request: Request, principal: Principal, path: str, found: RouteMatch) -> ASGIApp:
        """Read the body once and answer once: syntax, key, fingerprint, in flight, done (M-1)."""
        operation, scope = found.operation, request.scope
        assert operation.body is not None
        if operation.upload and _media(request) == operation.upload:
            return await self._uploading(request, principal, path, found)
        if operation.upload and scope["query_string"]:
            raise Problem("InvalidPayload", "With a JSON body, its members say what the query would.")
        raw = await read_body(request, operation.body_optional)
        json_body = read(raw) if len(raw) <= THREAD_BYTES else await read_json(raw)
        body = typed(self._decoders[operation.body], raw)
        # Ignored fields do not make it another request.
        ignored = commands.ignored(body) if isinstance(body, CommandBody) else ()
        form = json_body.without(ignored) if ignored else json_body.form
        key = key_of(headers_of(scope).get(b"idempotency-key", ()), body)
        claim = claim_of(principal, scope["method"], path, key, form, secret=operation.secret)
        if "idempotency_key" in body.__struct_fields__ and body.idempotency_key is None:
            body = msgspec.structs.replace(body, idempotency_key=key)
        call = ApiRequest(self._front, operation, principal, found.path, request, body,
                          Memory(claim, scope[RECEIVED_MS]), ignored=ignored)
        if self._forwarding is None:
            answer = await self._answered_once(claim, operation, call)
        else:
            answer = await self._forwarding.answer(
                scope, raw, lambda guess: self._answered_once(claim, operation, call._replace(guess=guess)))
        if (spent := trips.CURRENT.get()) is not None and spent.statements:
            self._front.metrics.waited(operation.name, spent)
        then = HANDLERS[operation.name].then
        return answer if then is None else await then(call, answer)

    def _answered_once(self, claim: RequestClaim, operation: Operation[Any], call: ApiRequest) -> Awaitable[ASGIApp]:
        """Answer once, with what the operation reads in advance."""
        handler = HANDLERS[operation.name]
        return self._once.answer(
            claim, lambda found: handler.answer(call if found is None else call._replace(ahead=found)),
            handler.ahead and partial(handler.ahead, call))

    async def _uploading(self, request: Request, principal: Principal, path: str, found: RouteMatch) -> ASGIApp:
        """Process a long body, and answer once like any change (M-1). It is not forwarded to another gateway: a request
        that belongs there is refused, with the address to send it to."""
        key = key_of(headers_of(request.scope).get(b"idempotency-key", ()), None)
        with ReceivedUpload() as upload:
            await receive(request, upload)
            form = msgspec.json.encode([upload.sha256, sorted(request.query_params.items())])
            claim = claim_of(principal, request.scope["method"], path, key, form)
            call = ApiRequest(self._front, found.operation, principal, found.path, request, upload,
                              Memory(claim, request.scope[RECEIVED_MS]))
            try:
                return await self._answered_once(claim, found.operation, call)
            except Elsewhere as there:
                raise Problem("Unavailable", f"The runner is at the gateway {there.instance_id}, and an upload is not "
                              "passed on. Send it there.") from None

    async def _open_path(self, request: Request) -> ASGIApp:
        """Serve the paths outside the table. Raises Problem, MethodNotAllowed for read-only paths."""
        path, method = request.scope["path"], request.method
        if method not in ("GET", "HEAD"):
            raise Problem("MethodNotAllowed", f"{path} does not take {method}.", headers={"Allow": "GET, HEAD"})
        return raw_answer(_document()) if path in DOCUMENT_PATHS else await self._watching.answer(request)


def _document() -> bytes:
    """Return the OpenAPI document; it is built from this module's table, on first use."""
    from interlock.gateway.rest import openapi

    return openapi.document()


async def read_body(request: Request, optional: bool) -> bytes:
    """Read the whole body. Raises Problem UnsupportedMediaType or PayloadTooLarge."""
    taken, more = 0, True
    chunks = list[bytes]()
    # An oversized body is read for a while and dropped: a sender that is cut off does not see the response.
    while more and taken <= DRAIN_BYTES:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        chunk: bytes = message.get("body", b"")
        more = message.get("more_body", False)
        taken += len(chunk)
        if taken <= MAX_BODY_BYTES:
            chunks.append(chunk)
    raw = chunks[0] if len(chunks) == 1 else b"".join(chunks)
    if taken > MAX_BODY_BYTES:
        raise Problem("PayloadTooLarge", f"The body is larger than {MAX_BODY_BYTES} bytes.",
                      headers={"Connection": "close"})
    if not raw and optional:
        return b"{}"
    headers = headers_of(request.scope)
    declared, encoded = headers.get(b"content-type"), headers.get(b"content-encoding")
    if not _is_json(declared[0] if declared else ""):
        raise Problem("UnsupportedMediaType", "The body is not declared as application/json in UTF-8.")
    if encoded and encoded[0].lower() != "identity":
        raise Problem("UnsupportedMediaType", "The body is compressed, which is not taken here.",
                      hint="Send it without Content-Encoding.")
    return raw


def _media(request: Request) -> str:
    declared = headers_of(request.scope).get(b"content-type")
    return declared[0].partition(";")[0].strip().lower() if declared else ""


@lru_cache(MEDIA_KEPT)
def _is_json(declared: str) -> bool:
    media, _, parameters = declared.partition(";")
    charset = parameters.strip().lower().removeprefix("charset=").strip('"')
    return media.strip().lower() == "application/json" and charset in ("", "utf-8")


def _check_query(request: Request, operation: Operation[Any]) -> None:
    names = [name for name, _ in request.query_params.multi_items()]
    for name in names:
        if name not in operation.query:
            known = ", ".join(operation.query) or "none"
            raise Problem("InvalidPayload", f"There is no query parameter `{name}` here; known: {known}.",
                          errors=(Place(name, "not a known parameter"),))
        if names.count(name) > 1:
            raise Problem("InvalidPayload", f"The query parameter `{name}` appears twice.",
                          errors=(Place(name, "appears twice"),))


def _as_problem(error: Exception, scope: Scope) -> Problem:
    """Convert any failure to a refusal; an unexpected one is logged, and answered without its details (F-1)."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, OutcomeUnknown):
        log.error("ledger_in_doubt", path=scope["path"], error=str(error))
        return Problem("Unavailable", f"{error} Send it again with the same Idempotency-Key, or look.",
                       headers={"Retry-After": "1"})
    if isinstance(error, TenantMoving):
        return Problem("Unavailable", str(error), headers={"Retry-After": "1"})
    if isinstance(error, LedgerError):
        log.error("ledger_refused", path=scope["path"], error=str(error))
        if isinstance(error, Full):
            return Problem("Unavailable", "The disk of the gateway's ledger is full; nothing was changed.",
                           hint="Free some space on it, and send it again.")
        return Problem("Unavailable", "The write was rejected; nothing was changed.")
    log.error("request_failed", path=scope["path"], method=scope["method"], exc_info=error)
    return Problem("InternalError", "Something failed inside the gateway; its log has the details.")


def _without_body(send: Send) -> Send:
    async def head_only(message: Message) -> None:
        if message["type"] == "http.response.body":
            message = {"type": "http.response.body", "body": b"", "more_body": message.get("more_body", False)}
        await send(message)

    return head_only
