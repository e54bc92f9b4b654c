"""Paths outside the table of operations: health, this document, and the two WebSockets, for OpenAPI (F-2)."""

from __future__ import annotations

from typing import Any

from interlock.protocol.answers import COMPONENTS
from interlock.protocol.api.operation import STREAM_SOCKET
from interlock.protocol.envelope import DPS_VERSION

_STREAM = """A WebSocket for any number of the API's streams, each from its own cursor. The reader sends
`{"op": "subscribe", "ref": "a", "path": "/v1/commands/ID/status", "since": CURSOR}` for any path that answers with
server-sent events, and `{"op": "unsubscribe", "ref": "a"}`. It is sent
`{"ref": "a", "events": [{"event", "id", "data"}]}`, and at the end of a stream
`{"ref": "a", "end": "over" | "behind" | "stopping" | "unsubscribed"}`, or `{"ref": "a", "problem": {…}}` where it
cannot begin."""


_ACP = """A WebSocket of the Agent Client Protocol, wire version 1, with one JSON-RPC message in each text frame. The
query names the agent and the runner of new sessions: `/acp?agent=ID&runner=ID`. A page opens it with a ticket for
`/acp`. It may do what its credential may do by the operations of this document."""

_MCP = """Not operations of this document: the Model Context Protocol over streamable HTTP, one JSON-RPC message in each
POST, with the credential of any request here. Its tools do what that credential may do by these operations, and none of
them votes."""


def _refused(*codes: str) -> dict[str, Any]:
    return {"description": " or ".join(f"`{code}`" for code in codes) + ". Refused before the request is processed.",
            "content": {"application/problem+json": {"schema": {"$ref": COMPONENTS + "Problem"}}}}


def _response(description: str, form: str) -> dict[str, Any]:
    return {"description": description, "content": {"application/json": {"schema": {"$ref": COMPONENTS + form}}}}


def _health(name: str, summary: str, form: str = "Health") -> dict[str, Any]:
    return {"get": {
        "operationId": name, "tags": ["gateway"], "summary": summary, "security": [],
        "responses": {
            "200": _response("Yes.", form), "421": _refused("MisdirectedRequest"), "403": _refused("Forbidden"),
            **({"503": _response("No.", form)} if form != "Health" else {}),
        },
    }}


RAW_PATHS: dict[str, Any] = {
    "/healthz": _health("isAlive", "Whether the gateway's process responds"),
    "/readyz": _health("isReady", "Whether the ledger accepts writes and the lanes are up", "Readiness"),
    "/metrics": {"get": {
        "operationId": "readMetrics", "tags": ["gateway"], "summary": "Metrics for Prometheus",
        "description": "For a credential of the gateway's own tenant, or a client in a network of `[metrics] open_to`.",
        "responses": {
            "200": {"description": "The text format, or OpenMetrics if the client accepts it.", "content": {
                "text/plain": {"schema": {"type": "string"}}}},
            "401": _refused("Unauthorized"), "403": _refused("Forbidden"), "421": _refused("MisdirectedRequest"),
            "429": _refused("RateLimited"),
        },
    }},
    "/v1/hooks/{name}": {"post": {
        "operationId": "callHook", "tags": ["messages"], "summary": "Receive a message of another program (R-4)",
        "description": "The credential is the hook's own: an HMAC of the raw body, a Standard Webhooks signature, or "
                       "a token, as configured in `[hooks.NAME]`. A repeated delivery is recognized by the configured "
                       "delivery header, otherwise by its body within ten minutes.",
        "security": [],
        "parameters": [{"name": "name", "in": "path", "required": True, "schema": {"type": "string"},
                        "description": "The hook's name in the config."}],
        "requestBody": {"required": True, "description": "The sender's own format.", "content": {
            "*/*": {"schema": {"type": "string", "format": "binary"}}}},
        "responses": {
            "202": _response("The message is a command of the hook's session now.", "Received"),
            "400": _refused("InvalidPayload"), "401": _refused("Unauthorized"), "403": _refused("Forbidden"),
            "413": _refused("PayloadTooLarge"), "421": _refused("MisdirectedRequest"),
            "422": _refused("IdempotencyKeyReused"), "429": _refused("RateLimited", "QuotaExceeded"),
            "503": _refused("Unavailable"),
        },
    }},
    "/openapi.json": {"get": {
        "operationId": "describeApi", "tags": ["gateway"], "summary": "This document", "security": [],
        "responses": {
            "200": {"description": "OpenAPI 3.1.", "content": {"application/json": {"schema": {"type": "object"}}}},
            "421": _refused("MisdirectedRequest"), "403": _refused("Forbidden"),
        },
    }},
    STREAM_SOCKET: {
        "description": "Not an HTTP operation: the path is opened as a WebSocket.",
        "x-websocket": {"summary": "Many streams over one connection", "description": " ".join(_STREAM.split()),
                        "security": [{"bearer": []}], "refusals": ["Unauthorized", "RateLimited", "Forbidden"]},
    },
    "/acp": {
        "description": "Not an HTTP operation: the path is opened as a WebSocket.",
        "x-websocket": {"summary": "The Agent Client Protocol, for a client that starts no process",
                        "description": " ".join(_ACP.split()), "security": [{"bearer": []}],
                        "refusals": ["InvalidPayload", "Unauthorized", "RateLimited", "Forbidden"]},
    },
    "/mcp": {
        "description": " ".join(_MCP.split()),
    },
    "/rawp": {
        "description": "Not an HTTP operation: a runner opens it as a WebSocket.",
        "x-websocket": {"summary": "The link of a runner", "subprotocol": DPS_VERSION,
                        "description": "RAWP-DPS frames, described by the AsyncAPI document and the JSON Schema of the "
                                       "frames. The credential is a runner's token.",
                        "refusals": ["Unauthorized"]},
    },
}
