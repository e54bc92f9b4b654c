"""Hooks of schemathesis for this API, and a record of its observations; it loads this file itself
(SCHEMATHESIS_HOOKS)."""

from __future__ import annotations

import base64
import itertools
import json
import os
import random
from collections.abc import Callable, MutableMapping
from pathlib import Path
from typing import Any, cast

import schemathesis
from schemathesis.core import NotSet

from proof.json_value import Json

SEEN = "INTERLOCK_PROOF_SEEN"
"""Variable: the file that gets a line of JSON for each answer."""
KNOWN = "INTERLOCK_PROOF_KNOWN"
"""Variable: ids that exist, as JSON, by the name of their place in a path."""
OWN_RUNNER = "local"
TRANSCRIPT = '{"type":"session","version":3,"id":"s","timestamp":"2026-11-21T00:00:00.000Z","cwd":"/"}\n'

_known: dict[str, str] = json.loads(os.environ.get(KNOWN, "{}"))
_numbers = itertools.count()
_dice = random.Random(5)
_hook = cast("Callable[[Callable[..., None]], object]", getattr(schemathesis, "hook"))  # noqa: B009 - it has no types


def _good_body(label: str) -> dict[str, Json] | None:
    """A valid body for an operation whose schema cannot express validity."""
    message: Json = {"messages": [{"role": "user", "content": [{"contentType": "text", "value": "true"}]}]}
    bodies: dict[str, dict[str, Json]] = {
        "POST /v1/commands": {"type": "execute", "target": {"agent_id": "shell"}, "payload": message},
        "POST /v1/keys": {"principal": {"type": "user", "id": "ann"}, "roles": ["viewer"]},
        "POST /v1/tenants": {"tenant_id": f"tenant-{next(_numbers)}"},
        "POST /v1/signing-keys": {"public_key": base64.b64encode(_dice.randbytes(32)).decode()},
        "POST /v1/inbound": {"channel": "irc", "chat_type": "direct", "sender": "ann", "text": "hello"},
        "POST /v1/sessions/import": {"content": TRANSCRIPT, "agent_id": "shell"},
        "POST /v1/drain": {"scope": "agent", "id": "goose"},
        "POST /v1/undrain": {"scope": "agent", "id": "goose"},
    }
    return bodies.get(label)


def _make_good(case: schemathesis.Case[Any]) -> None:
    """Conditions that a schema cannot express: a cursor was issued before, an input is JSON, integers are integers."""
    for name in ("cursor", "since"):
        (case.query or {}).pop(name, None)
    if "input" in (case.query or {}):
        case.query["input"] = "{}"
    if not isinstance(case.body, NotSet):  # Setting it would turn an omitted value into a wrong one.
        case.body = _whole(cast("Json", case.body))


def _whole(value: Json) -> Json:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        return {name: _whole(member) for name, member in value.items()}
    return [_whole(member) for member in value] if isinstance(value, list) else value


@_hook
def before_call(_context: object, case: schemathesis.Case[Any], _kwargs: object) -> None:
    """Polls do not wait; keys are fresh, so that one request is not the repetition of another; and half of the good
    requests are for something that exists. What a bad request has wrong stays wrong."""
    wait = str((case.query or {}).get("wait"))
    if wait.isascii() and wait.isdecimal() and int(wait) <= 30:
        case.query["wait"] = "0"
    if (case.path_parameters or {}).get("runner_id") == OWN_RUNNER:
        case.path_parameters["runner_id"] = "another"  # Without its runner the stack would take no command any more.
    if case.meta is None or not case.meta.generation.mode.is_positive:
        return
    _make_good(case)
    if _dice.random() < 0.5:
        for name in case.path_parameters or {}:
            case.path_parameters[name] = _known.get(name, case.path_parameters[name])
        if (body := _good_body(case.operation.label)) is not None:
            case.body = body
    if case.method in ("POST", "PATCH", "DELETE"):
        key = f"proof-of-the-schema-{next(_numbers):08d}"
        cast("MutableMapping[str, str]", case.headers)["Idempotency-Key"] = key
        body = cast("Json", case.body)
        if isinstance(body, dict) and body.get("idempotency_key") is not None:
            body["idempotency_key"] = key


@_hook
def after_call(_context: object, case: schemathesis.Case[Any], response: schemathesis.Response) -> None:
    """Write down what was answered."""
    code = response.json().get("code") if response.status_code >= 400 and response.content else None
    with Path(os.environ[SEEN]).open("a") as file:
        file.write(json.dumps([case.operation.label, response.status_code, code]) + "\n")
