"""A2A's two HTTP bindings as an ASGI callable: JSON-RPC at `/a2a/AGENT`, HTTP+JSON below it, and the card (O-9)."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from typing import Any, NamedTuple
from urllib.parse import parse_qsl

import msgspec
import structlog
from starlette.requests import ClientDisconnect, Request
from starlette.types import ASGIApp, Receive, Scope, Send

from interlock.gateway.a2a import BASE
from interlock.gateway.a2a.card import CARD_MAX_AGE_S, card_of, etag_of
from interlock.gateway.a2a.internal_api import InternalApi
from interlock.gateway.a2a.operations import AgentOperations, Update
from interlock.gateway.a2a.task_pushes import TaskPushes
from interlock.gateway.a2a.wire import (
    VERSION_HEADER,
    A2AError,
    GatewayRefusal,
    ListRequest,
    PushConfig,
    PushListRequest,
    PushRequest,
    SendRequest,
    TaskRequest,
    check_version,
    details_of,
    read,
)
from interlock.gateway.rest.answers import HttpResponse, encode, raw_answer
from interlock.gateway.rest.app import read_body
from interlock.gateway.rest.request.request_guard import headers_of
from interlock.gateway.rest.streams import KEEP_ALIVE, SEND_STALL_S, abort, bound
from interlock.protocol.identifiers import AGENT_ID
from interlock.protocol.problems import Problem

CARD = "/.well-known/agent-card.json"
BEAT_S = 15.0
"""Interval of comments on a stream without updates, so that proxies keep it open."""
_JSON = b"application/a2a+json"

log = structlog.get_logger("interlock.gateway")


class A2AMethod(NamedTuple):
    """An operation: the type of its parameters, and its handler. Exactly one of `whole` and `stream` is set."""

    asks: Any
    whole: Callable[[AgentOperations, Any], Awaitable[Any]] | None = None
    stream: Callable[[AgentOperations, Any], AsyncGenerator[Update]] | None = None


METHODS: Mapping[str, A2AMethod] = {
    "SendMessage": A2AMethod(SendRequest, whole=AgentOperations.send),
    "SendStreamingMessage": A2AMethod(SendRequest, stream=AgentOperations.stream),
    "GetTask": A2AMethod(TaskRequest, whole=AgentOperations.get),
    "ListTasks": A2AMethod(ListRequest, whole=AgentOperations.listed),
    "CancelTask": A2AMethod(TaskRequest, whole=AgentOperations.cancel),
    "SubscribeToTask": A2AMethod(TaskRequest, stream=AgentOperations.subscribe),
    "CreateTaskPushNotificationConfig": A2AMethod(PushConfig, whole=AgentOperations.put_push),
    "GetTaskPushNotificationConfig": A2AMethod(PushRequest, whole=AgentOperations.get_push),
    "ListTaskPushNotificationConfigs": A2AMethod(PushListRequest, whole=AgentOperations.list_pushes),
    "DeleteTaskPushNotificationConfig": A2AMethod(PushRequest, whole=AgentOperations.delete_push),
}
"""By A2A's names; `GetExtendedAgentCard` is handled separately."""
EXTENDED_CARD = "GetExtendedAgentCard"

HTTP_PATHS: tuple[tuple[str, re.Pattern[str], str], ...] = tuple(
    (method, re.compile(pattern), name) for method, pattern, name in (
        ("POST", r"/message:send", "SendMessage"),
        ("POST", r"/message:stream", "SendStreamingMessage"),
        ("GET", r"/tasks/(?P<id>[^/:]+)", "GetTask"),
        ("GET", r"/tasks", "ListTasks"),
        ("POST", r"/tasks/(?P<id>[^/:]+):cancel", "CancelTask"),
        ("POST", r"/tasks/(?P<id>[^/:]+):subscribe", "SubscribeToTask"),
        ("GET", r"/tasks/(?P<id>[^/:]+):subscribe", "SubscribeToTask"),
        ("POST", r"/tasks/(?P<taskId>[^/:]+)/pushNotificationConfigs", "CreateTaskPushNotificationConfig"),
        ("GET", r"/tasks/(?P<taskId>[^/:]+)/pushNotificationConfigs", "ListTaskPushNotificationConfigs"),
        ("GET", r"/tasks/(?P<taskId>[^/:]+)/pushNotificationConfigs/(?P<id>[^/]+)", "GetTaskPushNotificationConfig"),
        ("DELETE", r"/tasks/(?P<taskId>[^/:]+)/pushNotificationConfigs/(?P<id>[^/]+)",
         "DeleteTaskPushNotificationConfig"),
        ("GET", r"/extendedAgentCard", EXTENDED_CARD),
    ))
"""The HTTP+JSON binding's paths below an agent's URL."""


class UpdateStream(NamedTuple):
    """A response that stays open, as server-sent events."""

    first: bytes
    rest: AsyncGenerator[bytes]


class _RpcRequest(msgspec.Struct, frozen=True):
    jsonrpc: str
    method: str
    id: str | int | None = None
    params: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET


class A2AFacade:
    """Serves the requests below `/a2a/`. `rest` is the REST API; `secure` returns whether a request for a host name
    came, or came to the proxy, over TLS. Without `pushes` no client is notified."""

    def __init__(self, rest: ASGIApp, secure: Callable[[str], bool], pushes: TaskPushes | None = None) -> None:
        self._rest = rest
        self._pushes = pushes
        self._secure = secure

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, whose host and origin were already checked."""
        request = Request(scope, receive, send)
        agent_id, slash, rest = scope["path"].removeprefix(BASE).partition("/")
        below = slash + rest
        try:
            if AGENT_ID.fullmatch(agent_id) is None:
                raise A2AError("METHOD_NOT_FOUND", f"{BASE} is followed by an agent's id; {agent_id!r} is not one.")
            if below == CARD:
                await self._card(request, agent_id)(scope, receive, send)
                return
            operations = AgentOperations(InternalApi(self._rest, scope), agent_id, self._origin(scope),
                                         self._pushes)
            if below in ("", "/"):
                await self._rpc(request, operations, agent_id, send)
                return
            answer = await self._http(request, operations, agent_id, below)
        except ClientDisconnect:
            return
        except Exception as error:  # noqa: BLE001 - the boundary: what was not foreseen is logged
            answer = _http_error(_as_error(error, scope))
        await _send(answer, scope, receive, send)

    def _origin(self, scope: Scope) -> str:
        host = headers_of(scope)[b"host"][0]
        return f"{'https' if self._secure(host) else 'http'}://{host}"

    def _push_key(self) -> str | None:
        return self._pushes.sender.public_key if self._pushes is not None else None

    def _card(self, request: Request, agent_id: str) -> HttpResponse:
        if request.method not in ("GET", "HEAD"):
            raise A2AError("METHOD_NOT_FOUND", f"The card is read with GET, not with {request.method}.")
        card = card_of(agent_id, self._origin(request.scope), push_key=self._push_key())
        etag = etag_of(card)
        headers = {"ETag": etag, "Cache-Control": f"public, max-age={CARD_MAX_AGE_S}"}
        known = {one.strip().removeprefix("W/") for one in request.headers.get("if-none-match", "").split(",")}
        return raw_answer(b"", 304, headers) if etag in known else raw_answer(encode(card), 200, headers)

    # --- HTTP+JSON ---
    async def _http(self, request: Request, operations: AgentOperations, agent_id: str, below: str
                    ) -> HttpResponse | UpdateStream:
        method, name, path = _found(request.method, below)
        check_version(_version(request))
        if name == EXTENDED_CARD:
            return raw_answer(encode(await self._extended(operations, agent_id)), 200, None, _JSON)
        assert method is not None
        if request.method == "GET":
            query = dict(parse_qsl(request.scope["query_string"].decode("latin-1"), keep_blank_values=True))
            call = read(method.asks, {**query, **path}, from_query=True)
        else:
            members = await _members(request) if request.method == "POST" else {}
            call = read(method.asks, {**members, **path})
        if method.stream is not None:
            return await _begun(method.stream(operations, call), encode,
                                lambda error: b"event: error\n" + _data(_http_document(error)))
        assert method.whole is not None
        return raw_answer(encode(await method.whole(operations, call)), 200, None, _JSON)

    async def _extended(self, operations: AgentOperations, agent_id: str) -> dict[str, Any]:
        return card_of(agent_id, operations.origin, await operations.known_agent(), self._push_key())

    # --- JSON-RPC ---
    async def _rpc(self, request: Request, operations: AgentOperations, agent_id: str, send: Send) -> None:
        call_id: str | int | None = None
        answer: HttpResponse | UpdateStream
        try:
            if request.method != "POST":
                raise A2AError("METHOD_NOT_FOUND", f"JSON-RPC is sent with POST, not with {request.method}.")
            call = _rpc_request(await _members(request))
            call_id = call.id
            check_version(_version(request))
            params = {} if call.params is msgspec.UNSET else call.params
            if call.method == EXTENDED_CARD:
                answer = _result(call_id, await self._extended(operations, agent_id))
            elif (method := METHODS.get(call.method)) is None:
                raise A2AError("METHOD_NOT_FOUND", f"There is no method {call.method!r} in A2A 1.0.")
            elif method.stream is not None:
                stream = method.stream(operations, read(method.asks, params))
                answer = await _begun(
                    stream, lambda update: encode({"jsonrpc": "2.0", "id": call_id, "result": update}),
                    lambda error: _data(encode({"jsonrpc": "2.0", "id": call_id, "error": _rpc_error(error)})))
            else:
                assert method.whole is not None
                answer = _result(call_id, await method.whole(operations, read(method.asks, params)))
        except ClientDisconnect:
            return
        except Exception as error:  # noqa: BLE001 - the boundary: what was not foreseen is logged
            refusal = _as_error(error, request.scope)
            answer = _with_headers(encode({"jsonrpc": "2.0", "id": call_id, "error": _rpc_error(refusal)}),
                                   refusal.kind.status if refusal.over_http else 200, refusal)
        await _send(answer, request.scope, request.receive, send)


def _found(method: str, below: str) -> tuple[A2AMethod | None, str, dict[str, str]]:
    """Find the operation of a path. Raises A2AError METHOD_NOT_FOUND."""
    for verb, pattern, name in HTTP_PATHS:
        if verb == method and (match := pattern.fullmatch(below)) is not None:
            return METHODS.get(name), name, match.groupdict()
    raise A2AError("METHOD_NOT_FOUND", f"There is no {method} {below} in A2A 1.0.")


def _version(request: Request) -> str:
    return request.headers.get(VERSION_HEADER) or request.query_params.get("A2A-Version", "")


async def _members(request: Request) -> dict[str, Any]:
    """Read the body. Raises A2AError, Problem."""
    declared = request.headers.get("content-type", "")
    if declared.partition(";")[0].strip().lower() == "application/a2a+json":
        # A separate type for JSON: the check of the body's type knows only the general one.
        headers = [(name, b"application/json" if name == b"content-type" else value)
                   for name, value in request.scope["headers"]]
        request = Request({**request.scope, "headers": headers}, request.receive)
    raw = await read_body(request, optional=True)
    try:
        return msgspec.json.decode(raw, type=dict[str, Any])
    except msgspec.ValidationError:
        raise A2AError("INVALID_REQUEST", "The body is not a JSON object.") from None
    except msgspec.DecodeError as error:
        raise A2AError("PARSE_ERROR", f"The body is not JSON: {error}.") from None


def _rpc_request(members: dict[str, Any]) -> _RpcRequest:
    try:
        call = msgspec.convert(members, _RpcRequest)
    except msgspec.ValidationError as error:
        raise A2AError("INVALID_REQUEST", f"The body is not a JSON-RPC request: {error}.") from None
    if call.jsonrpc != "2.0":
        raise A2AError("INVALID_REQUEST", "The body is not a JSON-RPC request: `jsonrpc` is not \"2.0\".")
    return call


def _as_error(error: Exception, scope: Scope) -> A2AError:
    if isinstance(error, A2AError):
        return error
    if isinstance(error, Problem):
        explained = f"{error.detail} {error.hint}".strip()
        return GatewayRefusal(error.kind.status, error.code, explained)
    log.error("a2a_failed", path=scope["path"], exc_info=error)
    return A2AError("INTERNAL_ERROR", "Something failed inside the gateway; its log has the details.")


def _result(call_id: str | int | None, value: Any) -> HttpResponse:
    return raw_answer(encode({"jsonrpc": "2.0", "id": call_id, "result": value}))


def _rpc_error(error: A2AError) -> dict[str, Any]:
    return {"code": error.kind.code, "message": str(error), "data": details_of(error)}


def _http_document(error: A2AError) -> bytes:
    return encode({"error": {"code": error.kind.status, "status": error.kind.grpc, "message": str(error),
                             "details": details_of(error)}})


def _http_error(error: A2AError) -> HttpResponse:
    return _with_headers(_http_document(error), error.kind.status, error)


def _with_headers(body: bytes, status: int, error: A2AError) -> HttpResponse:
    headers = {name.decode(): value.decode("latin-1") for name, value in error.headers}
    return raw_answer(body, status, headers, b"application/json")


async def _begun(updates: AsyncGenerator[Update], written: Callable[[Update], bytes],
                 failed: Callable[[A2AError], bytes]) -> UpdateStream:
    """Start a stream: a refusal before its first update is an ordinary response. Raises A2AError."""
    return UpdateStream(_data(written(await anext(updates))), _events(updates, written, failed))


async def _events(updates: AsyncGenerator[Update], written: Callable[[Update], bytes],
                  failed: Callable[[A2AError], bytes]) -> AsyncGenerator[bytes]:
    async with aclosing(updates):
        try:
            async for update in updates:
                yield _data(written(update))
        except A2AError as error:
            yield failed(error)


def _data(body: bytes) -> bytes:
    return b"data: %s\n\n" % body


async def _send(answer: HttpResponse | UpdateStream, scope: Scope, receive: Receive, send: Send) -> None:
    if isinstance(answer, HttpResponse):
        await answer(scope, receive, send)
        return
    bound(scope)
    sending, leaving = asyncio.create_task(_send_all(answer, send)), asyncio.create_task(_left(receive))
    try:
        await asyncio.wait((sending, leaving), return_when=asyncio.FIRST_COMPLETED)
        if sending.done():
            sending.result()
    except TimeoutError:
        log.info("viewer_stalled", path=scope["path"])
        await abort(scope)
    except Exception:  # The boundary: the response has started, so only its end can be sent.
        log.exception("a2a_failed", path=scope["path"])
    finally:
        sending.cancel()
        leaving.cancel()
        await asyncio.gather(sending, leaving, return_exceptions=True)
        await answer.rest.aclose()


async def _send_all(answer: UpdateStream, send: Send) -> None:
    headers = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"cache-control", b"no-store"),
               (b"x-accel-buffering", b"no")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await _write(send, answer.first)
    coming = asyncio.ensure_future(anext(answer.rest, None))
    try:
        while True:
            await asyncio.wait((coming,), timeout=BEAT_S)
            if not coming.done():
                await _write(send, KEEP_ALIVE)
                continue
            if (event := coming.result()) is None:
                break
            await _write(send, event)
            coming = asyncio.ensure_future(anext(answer.rest, None))
    finally:
        coming.cancel()
        await asyncio.gather(coming, return_exceptions=True)
    await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _write(send: Send, data: bytes) -> None:
    async with asyncio.timeout(SEND_STALL_S):
        await send({"type": "http.response.body", "body": data, "more_body": True})


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
