"""The OpenAPI 3.1 document, generated from the table of operations and the types of bodies and responses (F-2).

`python -m interlock.gateway.rest.openapi` prints it; `spec/openapi.json` stores it, `/openapi.json` serves it to
anyone: it holds no secret, and a program must be able to read it before it has a key.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Sequence
from functools import cache
from importlib import import_module
from typing import Any

import msgspec

from interlock.gateway.rest.problem_forms import codes_of, name_of, problem_responses, problem_schema
from interlock.gateway.rest.raw_paths import RAW_PATHS
from interlock.gateway.rest.request.browser_halves import COOKIE
from interlock.protocol.answers import COMPONENTS, AuditLine, FrameEvent, Health, Readiness
from interlock.protocol.api.operation import EVERYBODY, READERS, SSE, Operation
from interlock.protocol.api.parameters import parameter
from interlock.protocol.api.table import OPERATIONS
from interlock.protocol.limits import IDEMPOTENCY_KEY_MAX, IDEMPOTENCY_KEY_MIN
from interlock.protocol.resources import ExecutePayload, FeedEvent, Heartbeat, StatusEvent

Schema = dict[str, Any]

VERSION = "1"
"""Of the API: the `/v1` of its paths."""
TITLE = "Interlock"
LINE = ("Commands, approvals, status and audit over HTTP. Every path is served with and without the prefix `/v1`. "
        "Clients must ignore unknown fields of responses; unknown fields of bodies and unknown parameters are refused. "
        "Refusals are `application/problem+json` with a stable `code`.")
LICENSE_URL = "https://www.apache.org/licenses/LICENSE-2.0"

IN_BYTES = (StatusEvent, Heartbeat, FeedEvent, FrameEvent, AuditLine, ExecutePayload, Health, Readiness)
"""Types that responses and bodies carry as bytes; `answers` and `resources` refer to them by name."""

TAGS = {
    "commands": "Submit commands to agents, and follow them to their results.",
    "approvals": "One inbox for all pending decisions: commands, tool calls, questions.",
    "sessions": "Conversations with agents, their frames and files.",
    "messages": "Messages from chats and hooks, and cron jobs.",
    "events": "The tenant's feed.",
    "audit": "The log, its checkpoints and its proofs.",
    "policy": "The rules, their decisions and replays of them.",
    "runners": "The hosts that agents run on.",
    "access": "Keys, tenants, tickets and browser sessions.",
    "webhooks": "Notifications to approvers through other services, and usage.",
    "gateway": "The gateway itself.",
}
_TAG_OF = {"edge": "runners", "status": "gateway", "signing-keys": "access", "keys": "access", "tenants": "access",
           "passkeys": "access", "whoami": "access", "login-issuers": "access", "stream-tickets": "access",
           "browser-codes": "access", "browser-sessions": "access",
           "push-subscriptions": "access", "inbound": "messages", "hooks": "messages"}


_SECURITY: Schema = {
    "bearer": {
        "type": "http", "scheme": "bearer",
        "description": "An API key (`ilk_…`), or a token of a connected OIDC issuer. Never in a URL; a stream opened "
                       "by a browser takes a ticket."},
    "browserCookie": {
        "type": "apiKey", "in": "cookie", "name": COOKIE + "ID",
        "description": "Set by `openBrowserSession`; `ID` names the gateway."},
    "browserHalf": {
        "type": "apiKey", "in": "header", "name": "Interlock-Browser",
        "description": "`half` of `openBrowserSession`. A browser session is the cookie and this header together, with "
                       "`Sec-Fetch-Site: same-origin`."},
}


def openapi() -> Schema:
    """Return the whole document."""
    paths: dict[str, Schema] = {}
    codes: set[tuple[str, ...]] = set()
    for operation in OPERATIONS:
        paths.setdefault(f"/v1{operation.path}", {})[operation.method.lower()] = _operation(operation, codes)
    return {
        "openapi": "3.1.0",
        "info": {"title": TITLE, "version": VERSION, "description": LINE,
                 "license": {"name": "Apache-2.0", "url": LICENSE_URL}},
        "servers": [{"url": "/"}],
        "tags": [{"name": name, "description": text} for name, text in TAGS.items()],
        "security": [{"bearer": []}, {"browserCookie": [], "browserHalf": []}],
        "paths": paths | RAW_PATHS,
        "components": {
            "securitySchemes": _SECURITY,
            "schemas": _schemas(),
            "responses": problem_responses(codes),
        },
    }


@cache
def document() -> bytes:
    """Return the document as it is served and stored: indented, ended by a newline."""
    return msgspec.json.format(msgspec.json.encode(openapi()), indent=1) + b"\n"


def _operation(operation: Operation[Any], codes: set[tuple[str, ...]]) -> Schema:
    described: Schema = {"operationId": operation.name, "tags": [_tag(operation)], **_described(operation),
                    "x-roles": sorted(operation.roles)}
    if operation.public:
        described["security"] = []
    if parameters := [*_in_path(operation), *_in_query(operation), *_in_headers(operation)]:
        described["parameters"] = parameters
    if operation.body is not None:
        forms: Schema = {"application/json": {"schema": _ref(operation.body)}}
        if operation.upload:
            forms[operation.upload] = {"schema": {"type": "string", "format": "binary"}}
        described["requestBody"] = {"required": not operation.body_optional, "content": forms}
    described["responses"] = _good(operation) | _refused(operation, codes)
    return described


def _described(operation: Operation[Any]) -> Schema:
    roles = "any role" if operation.roles >= READERS else ", ".join(sorted(operation.roles))
    sentences = [operation.text] if operation.text else []
    if not operation.public:
        sentences += [f"Roles: {'every credential' if operation.roles == EVERYBODY else roles}."]
    return {"summary": _words(operation.name), "description": " ".join(sentences)}


def _words(name: str) -> str:
    return re.sub(r"(?<=[a-z])([A-Z])", lambda found: " " + found[1].lower(), name).capitalize()


def _tag(operation: Operation[Any]) -> str:
    first = operation.path.split("/")[1]
    name = _TAG_OF.get(first, first)
    return name if name in TAGS else "gateway"


def _in_path(operation: Operation[Any]) -> Iterable[Schema]:
    for name in re.findall(r"\{(\w+)\}", operation.path):
        yield {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}


def _in_query(operation: Operation[Any]) -> Iterable[Schema]:
    for name in operation.query:
        form = parameter(operation.name, name)
        yield {"name": name, "in": "query", **({"required": True} if form.required else {}),
               **({"description": form.description} if form.description else {}), "schema": form.schema}


def _in_headers(operation: Operation[Any]) -> Iterable[Schema]:
    if operation.keyed:
        yield {"name": "Idempotency-Key", "in": "header",
               "description": "Required, here or in the body as `idempotency_key`: a new key for each new request, the "
                              "same key for each retry.",
               "schema": {"type": "string", "minLength": IDEMPOTENCY_KEY_MIN, "maxLength": IDEMPOTENCY_KEY_MAX,
                          "pattern": "^[\\x21-\\x7e]+$"}}
    if operation.streams:
        yield {"name": "Last-Event-ID", "in": "header", "description": "The `id` of the last event received. It "
               "takes precedence over `since`, and is used for server-sent events only.", "schema": {"type": "string"}}
    for name, schema, text in operation.headers:
        yield {"name": name, "in": "header", "description": text, "schema": schema}


def _good(operation: Operation[Any]) -> dict[str, Schema]:
    content: Schema = {}
    for media in operation.media:
        if media == "application/json":
            content[media] = {"schema": _ref(operation.answers)} if operation.answers is not None else {}
        elif media == SSE:
            content[media] = {"schema": {"type": "string", "description": operation.events}}
        elif media.startswith("text/") or media == "application/x-ndjson":
            content[media] = {"schema": {"type": "string"}}
        else:
            content[media] = {"schema": {"type": "string", "format": "binary"}}
    answers = {str(operation.status): {"description": "Success.", **_links(operation), "content": content}}
    if operation.streams and operation.name == "getStatus":
        answers["204"] = {"description": "The stream has ended, and the client has received all of it (S-2)."}
    for status, text in operation.also:
        answers[str(status)] = {"description": text, **_links(operation), "content": content}
    return dict(sorted(answers.items()))


def _links(operation: Operation[Any]) -> Schema:
    """Return the links from a response's id to the operations on it."""
    named = {"submitCommand": "getCommand", "closeSession": "getSession", "vote": "getApproval"}.get(operation.name)
    if named is None:
        return {}
    name = {"getCommand": ("command_id", "id"), "getSession": ("session_id", "session_id"),
            "getApproval": ("approval_id", "id")}[named]
    return {"links": {named: {"operationId": named, "parameters": {name[0]: f"$response.body#/{name[1]}"}}}}


def _refused(operation: Operation[Any], codes: set[tuple[str, ...]]) -> dict[str, Schema]:
    refused: dict[str, Schema] = {}
    for status, group in codes_of(operation).items():
        codes.add(group)
        refused[str(status)] = {"$ref": f"#/components/responses/{name_of(group)}"}
    return refused


def _ref(kind: Any) -> Schema:
    return msgspec.json.schema_components([kind], ref_template=COMPONENTS + "{name}")[0][0]


def _schemas() -> dict[str, Schema]:
    kinds: list[Any] = [*IN_BYTES]
    for operation in OPERATIONS:
        kinds += [kind for kind in (operation.body, operation.answers) if kind is not None]
    unique: Sequence[Any] = sorted(set(kinds), key=lambda kind: kind.__name__)
    _, found = msgspec.json.schema_components(unique, ref_template=COMPONENTS + "{name}")
    return dict(sorted({**found, "Problem": problem_schema()}.items()))


def main() -> int:
    """Print the document."""
    sys.stdout.buffer.write(document())
    return 0


if __name__ == "__main__":
    # Run as a program this module has another name, under which the API does not find it.
    sys.exit(import_module("interlock.gateway.rest.openapi").main())
