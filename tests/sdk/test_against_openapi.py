"""The library against the OpenAPI document: every operation has a method, of its path, parameters, body and answer."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import jsonschema
import msgspec
import pytest

from interlock.gateway.rest.routes import RouteTable, unversioned
from interlock.protocol.answers import Health, Readiness
from interlock.protocol.api.operation import Operation
from interlock.protocol.api.table import OPERATIONS
from interlock.protocol.bodies import EntryBody
from interlock.protocol.inbound import InboundBody
from interlock.protocol.problems import PROBLEMS
from interlock.protocol.resources import Actor, PasskeyAssertion
from interlock.sdk import AsyncInterlock, Interlock, async_client, blocking_client, problems, resources
from interlock.sdk.exchange import RequestSpec
from interlock.sdk.follower import SSE, Following

DOCUMENT: dict[str, Any] = json.loads((Path(__file__).resolve().parents[2] / "spec/openapi.json").read_bytes())
"""The document that the repository has; tests/docs/test_openapi_document.py compares it to the table."""
TABLE = RouteTable(OPERATIONS)
RAW = {"/healthz": "isAlive", "/readyz": "isReady", "/openapi.json": "describeApi"}
NO_METHOD: dict[str, str] = {
    "readMetrics": "it is Prometheus's text, for Prometheus",
    "callHook": "other programs call it, with a secret of their own",
} | {one.name: one.no_method for one in OPERATIONS if one.no_method}
"""Operations that no method reaches, and why."""
GIVEN: dict[str, Any] = {
    "prompt": "hello", "p256dh": "x" * 87, "auth": "x" * 22,
    "principal": Actor(type="user", id="ann"), "roles": ["viewer"], "decision": "grant",
    "root": "ab" * 32, "lines": b"{}\n",
    "assertion": PasskeyAssertion(authenticator_data="YQ", client_data_json="YQ", signature="YQ"),
    "records": [1], "tools": ["ls"], "limit": 3, "wait": 1, "seq": 1, "size": 2, "first": 1, "second": 2,
    "older_than_ms": 3_600_000, "dry_run": True,
    "priority": 1, "timeout_ms": 5, "ttl_ms": 5000, "approvals": 2, "on_busy": "reject", "close_session": True,
    "wait_s": 5, "last": 5, "format": "html", "fields": EntryBody(label="mine", subject=None),
    "message": InboundBody(channel="irc", chat_type="direct", sender="ann", text="hello", message_id="7"),
    "remember": None, "updated_input": {"a": 1}, "state": "pending", "view": "raw", "scope": "rule", "kind": "cancel",
}


SPECIAL = {("drain", "scope"): "agent", ("undrain", "scope"): "agent", ("land", "files"): ["a"],
           ("discard", "files"): ["a"], ("replay", "rules"): [{"name": "a", "effect": "deny"}],
           ("replay", "sessions"): 3, ("replay", "calls"): 4, ("replay", "changed"): True}


class Method(NamedTuple):
    resource: str
    name: str
    verb: Any

    def __str__(self) -> str:
        return f"{self.resource}.{self.name}"


def methods() -> Iterator[Method]:
    """Every method that is a request, by the descriptor that makes it."""
    for resource in (*resources.RESOURCES.values(), resources.GatewayMethods):
        for name, verb in vars(resource).items():
            if hasattr(verb, "ask"):
                yield Method(resource.__name__, name, verb)


METHODS = list(methods())


def asked(method: Method, *, everything: bool) -> Any:
    """Call the request with its required arguments, or with all its arguments."""
    given: dict[str, Any] = {}
    for name, parameter in inspect.signature(method.verb.ask).parameters.items():
        if parameter.kind is parameter.VAR_KEYWORD:
            given |= {"door": "tool", "tool": "x"} if everything else {}
        elif (method.name, name) in SPECIAL:
            given[name] = SPECIAL[method.name, name]
        elif parameter.default is parameter.empty or everything:
            given[name] = GIVEN.get(name, "x" * 16)
    return method.verb.ask(**given)


def operation_of(ask: RequestSpec[Any] | Following[Any]) -> Operation[Any] | str:
    if ask.path in RAW:
        return RAW[ask.path]
    return TABLE.find(ask.method if isinstance(ask, RequestSpec) else "GET", unversioned(ask.path)).operation


@pytest.mark.req("F-2")
def test_every_operation_has_a_method_or_a_reason_for_none() -> None:
    found = [operation_of(asked(method, everything=False)) for method in METHODS]
    reached = {one if isinstance(one, str) else one.name for one in found}
    declared = {operation["operationId"] for path in DOCUMENT["paths"].values()
                for operation in path.values() if isinstance(operation, dict) and "operationId" in operation}
    assert reached | set(NO_METHOD) == declared
    assert reached & set(NO_METHOD) == set()


@pytest.mark.req("F-2")
@pytest.mark.parametrize("method", METHODS, ids=str)
def test_a_method_sends_the_documented_request(method: Method) -> None:
    for everything in (False, True):
        ask = asked(method, everything=everything)
        operation = operation_of(ask)
        if isinstance(operation, str):
            health = b'{"ok": true, "ledger": "writes", "lanes": "up", "draining": false}'
            ready = Readiness(ok=True, ledger="writes", lanes="up", draining=False)
            assert ask.read(health) in (json.loads(health), Health(ok=True), ready)
            continue
        assert set(ask.query) <= set(operation.query)
        if isinstance(ask, Following):
            assert SSE in operation.media
            continue
        check_body(ask, operation)
        assert not ask.changes or ask.keyed is not operation.public
        if ask.read is not bytes:
            assert ask.read.__self__.type == operation.answers  # type: ignore[attr-defined]
        else:
            assert "application/json" not in operation.media


def check_body(ask: RequestSpec[Any], operation: Operation[Any]) -> None:
    assert (ask.body is None) == (operation.body is None)
    if ask.content_type != "application/json":
        assert ask.content_type == operation.upload
        return
    if ask.body is not None and operation.body is not None:
        form = {"$ref": f"#/components/schemas/{operation.body.__name__}", "components": DOCUMENT["components"]}
        jsonschema.Draft202012Validator(form).validate(json.loads(ask.body))
        msgspec.json.decode(ask.body, type=operation.body)


@pytest.mark.req("F-2")
@pytest.mark.parametrize("operation", [one for one in OPERATIONS if one.query and one.name not in NO_METHOD],
                         ids=lambda one: one.name)
def test_every_parameter_can_be_passed(operation: Operation[Any]) -> None:
    of_it = [method for method in METHODS if operation_of(asked(method, everything=False)) == operation]
    open_ended = {name for method in of_it for name, one in inspect.signature(method.verb.ask).parameters.items()
                  if one.kind is one.VAR_KEYWORD}
    given = {name for method in of_it if isinstance(asked(method, everything=True), RequestSpec)
             for name in asked(method, everything=True).query}
    assert open_ended or given == set(operation.query)


def test_both_clients_have_every_resource_with_the_same_methods() -> None:
    made = [Interlock("http://127.0.0.1:1", "k"), AsyncInterlock("http://127.0.0.1:1", "k")]
    for shell, module in zip(made, (blocking_client, async_client), strict=True):
        assert isinstance(shell, resources.GatewayMethods)
        assert {name for name in vars(shell) if not name.startswith("_")} == set(resources.RESOURCES)
        for name, resource in resources.RESOURCES.items():
            assert isinstance(getattr(shell, name), resource)
        # A method of one shell alone would be one that the other is missing.
        own = {name for kind in vars(module).values() if isinstance(kind, type) and kind.__module__ == module.__name__
               for name in vars(kind) if not name.startswith("_")}
        assert own == {"watch", "close", "stream"}


@pytest.mark.req("F-1")
def test_every_code_has_its_exception_and_there_are_no_others() -> None:
    assert set(problems.BY_CODE) == set(PROBLEMS)
    assert all(name == kind.__name__ for name, kind in problems.BY_CODE.items())
