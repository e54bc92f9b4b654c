"""The codes that operations answer are those that the OpenAPI document declares, each provoked once (F-1, F-2)."""

from __future__ import annotations

import json
import re
from functools import cache
from typing import Any

import httpx2
import pytest

from interlock.gateway.rest import app, openapi
from interlock.gateway.rest.problem_forms import codes_of
from interlock.protocol.api.operation import EVERYBODY, Operation
from interlock.protocol.api.table import OPERATIONS
from small_gateway.running import Gateway

KEY = {"Idempotency-Key": "the-key-of-this-test-0001"}
JSON = {"Content-Type": "application/json"}
SMALL_BODY_BYTES = 65_536
NAMES = ("owner", "admin", "operator", "approver", "viewer", "auditor")


def path_of(operation: Operation[Any]) -> str:
    return "/v1" + re.sub(r"\{\w+\}", "nothing", operation.path)


def declared(operation: Operation[Any]) -> set[str]:
    return {code for group in codes_of(operation).values() for code in group}


@pytest.mark.req("F-2")
@pytest.mark.anyio
async def test_the_document_is_served_to_anyone(gateway: Gateway) -> None:
    async with httpx2.AsyncClient(base_url=gateway.base) as anyone:
        served = await anyone.get("/openapi.json")
        assert (served.status_code, served.headers["content-type"]) == (200, "application/json")
        assert served.content == openapi.document()
        assert (await anyone.get("/v1/openapi.json")).content == served.content
        assert (await anyone.head("/openapi.json")).content == b""
        refused = await anyone.post("/openapi.json")
        assert (refused.status_code, refused.headers["allow"]) == (405, "GET, HEAD")


class Asked:
    """Sends requests of one operation, and notes which codes came back."""

    def __init__(self, gateway: Gateway, operation: Operation[Any]) -> None:
        self.gateway = gateway
        self.operation = operation
        self.path = path_of(operation)
        self.seen: set[str] = set()

    async def send(self, who: httpx2.AsyncClient | None = None, path: str = "", **more: Any) -> dict[str, Any]:
        """Send, note and give the problem."""
        answer = await (who or self.gateway.http).request(self.operation.method, path or self.path, **more)
        if answer.status_code < 400:
            return {}
        problem = answer.json()
        assert answer.headers["content-type"] == "application/problem+json"
        assert problem["status"] == answer.status_code
        assert {"type", "title", "detail", "instance", "code", "retryable", "hint"} <= set(problem)
        self.seen.add(problem["code"])
        return problem


@pytest.mark.req("F-1", "F-2")
@pytest.mark.anyio
async def test_every_operation_returns_the_codes_of_its_form_and_no_other(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each response that operations of a form have in common is provoked at each, and each response is declared."""
    monkeypatch.setattr(app, "MAX_BODY_BYTES", SMALL_BODY_BYTES)  # Another test checks the real location.
    async with httpx2.AsyncClient(base_url=gateway.base) as anonymous:
        people = {role: gateway.as_role(role) for role in NAMES}
        for operation in OPERATIONS:
            asked = Asked(gateway, operation)
            await asked.send(headers={"Host": "elsewhere.example"})
            await asked.send(path=asked.path + "?colour=red", content=b"{}", headers={**JSON, **KEY})
            await asked.send(headers={"Origin": "https://foreign.example"})
            expected = {"MisdirectedRequest", "Forbidden", "InvalidPayload"}
            if not operation.public:
                await asked.send(anonymous)
                await asked.send(headers={"Accept": "image/tiff"})
                expected |= {"Unauthorized", "NotAcceptable"}
                for role in (role for role in NAMES if role not in operation.roles and operation.roles != EVERYBODY):
                    assert (await asked.send(people[role]))["code"] == "Forbidden"
            if operation.body is not None:
                await asked.send(content=b"{}", headers={**KEY, "Content-Type": "text/plain"})
                await asked.send(content=b" " * (SMALL_BODY_BYTES + 1), headers={**JSON, **KEY})
                expected |= {"UnsupportedMediaType", "PayloadTooLarge"}
            if "{" in operation.path:
                body = least(operation) if operation.body else None
                problem = await asked.send(content=body, headers={**JSON, **KEY})
                assert problem["code"] == "NotFound", (operation.name, problem)
                expected |= {"NotFound"}
            if operation.body is not None and not operation.public:
                await asked.send(content=least(operation), headers=JSON)
                expected |= {"IdempotencyKeyMissing"}
            assert expected <= asked.seen, operation.name
            assert asked.seen <= declared(operation), operation.name
        for person in people.values():
            await person.aclose()


@cache
def all_schemas() -> dict[str, Any]:
    return openapi.openapi()["components"]["schemas"]


def least(operation: Operation[Any]) -> bytes:
    """The least body of its form."""
    schemas = all_schemas()

    def value(form: dict[str, Any]) -> Any:
        if "$ref" in form:
            inner = schemas[form["$ref"].rpartition("/")[2]]
            return {name: value(inner["properties"][name]) for name in inner.get("required", ())}
        if "enum" in form:
            return form["enum"][0]
        if "anyOf" in form:
            return value(form["anyOf"][0])
        if form.get("pattern") == "^[0-9a-f]{64}$":
            return "a" * 64
        text = "x" * form.get("minLength", 1)
        return {"string": text, "integer": form.get("minimum", 1), "array": ["x"], "boolean": True}[form["type"]]

    return json.dumps(value({"$ref": operation.body.__name__})).encode() if operation.body else b""
