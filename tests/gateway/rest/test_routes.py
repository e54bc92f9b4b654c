"""Authentication, routing and the body: every refusal is problem+json with code, place and hint."""

import asyncio
import json

import httpx2
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from interlock.ports.ledger import Full
from interlock.protocol.api.table import OPERATIONS
from interlock.protocol.limits import MAX_BODY_BYTES
from interlock.protocol.problems import PROBLEMS
from small_gateway.running import Gateway

pytestmark = pytest.mark.anyio
JSON = {"Content-Type": "application/json"}


def refused(answer: httpx2.Response, code: str) -> dict[str, object]:
    assert answer.headers["Content-Type"] == "application/problem+json"
    problem = answer.json()
    assert (answer.status_code, problem["status"]) == (PROBLEMS[code].status, PROBLEMS[code].status), answer.text
    assert problem["code"] == code
    assert problem["type"].endswith(code)
    assert problem["title"] == PROBLEMS[code].title
    assert problem["hint"]
    assert problem["retryable"] is PROBLEMS[code].retryable
    assert "Traceback" not in answer.text
    return problem


@pytest.mark.req("K-2", "F-1")
@pytest.mark.parametrize(
    ("host", "taken"),
    [("127.0.0.1:9", True), ("localhost", True), ("[::1]:80", True), ("[::1]", True), ("desk.example", True),
     ("DESK.example:7420", True), ("evil.example", False), ("127.0.0.1.evil.example", False), ("localhost:x", False),
     ("", False)],
)
async def test_only_configured_host_names_are_answered(gateway: Gateway, host: str, taken: bool) -> None:
    answer = await gateway.http.get("/healthz", headers={"Host": host})
    if taken:
        assert answer.json() == {"ok": True}
    else:
        refused(answer, "MisdirectedRequest")


@pytest.mark.req("K-2", "F-1")
async def test_a_page_needs_an_allowed_origin(gateway: Gateway) -> None:
    refused(await gateway.http.get("/v1/commands", headers={"Origin": "https://evil.example"}), "Forbidden")
    refused(await gateway.http.get("/v1/commands", headers={"Origin": "null"}), "Forbidden")
    assert (await gateway.http.get("/v1/commands", headers={"Origin": "https://ok.example"})).status_code == 200


@pytest.mark.req("K-2")
async def test_the_runners_endpoint_has_the_same_request_guard(gateway: Gateway) -> None:
    address = f"ws://127.0.0.1:{gateway.port}"
    async with connect(address + "/rawp") as link:
        with pytest.raises(ConnectionClosed):
            await link.recv()
    for path, headers, status in (("/rawp", {"Origin": "https://evil.example"}, 403), ("/other", {}, 404)):
        with pytest.raises(InvalidStatus) as caught:
            await connect(address + path, additional_headers=headers)
        assert caught.value.response.status_code == status
        assert json.loads(caught.value.response.body)["hint"]


@pytest.mark.req("K-1", "F-1")
@pytest.mark.parametrize("header", [None, "", "Basic abc", "Bearer", "Bearer ilk_unknown", "Bearer other_form",
                                    "Bearer ilk_" + "x" * 400])
async def test_without_a_valid_key_every_path_is_401(gateway: Gateway, header: str | None) -> None:
    headers = {} if header is None else {"Authorization": header}
    async with httpx2.AsyncClient(base_url=gateway.base) as anonymous:
        for path in ("/v1/commands", "/no/such/path"):
            answer = await anonymous.get(path, headers=headers)
            refused(answer, "Unauthorized")
            assert answer.headers["WWW-Authenticate"].startswith("Bearer")


@pytest.mark.req("K-1", "F-1")
@pytest.mark.parametrize(
    ("role", "method", "path", "allowed"),
    [
        ("viewer", "GET", "/v1/commands", True), ("viewer", "POST", "/v1/commands", False),
        ("approver", "POST", "/v1/commands", False), ("operator", "POST", "/v1/commands", True),
        ("operator", "POST", "/v1/approvals/a/grants", False), ("approver", "POST", "/v1/approvals/a/grants", True),
        ("viewer", "GET", "/v1/audit", False), ("auditor", "GET", "/v1/audit", True),
        ("viewer", "POST", "/v1/sessions/s1/close", False), ("admin", "POST", "/v1/sessions/s1/close", True),
        ("viewer", "GET", "/v1/sessions/s1/frames?view=raw", False),
        ("auditor", "GET", "/v1/sessions/s1/frames?view=raw", True),
        ("viewer", "GET", "/v1/sessions/s1/frames", True),
    ],
)
async def test_roles(gateway: Gateway, role: str, method: str, path: str, allowed: bool) -> None:
    await gateway.desk.add_session()
    async with gateway.as_role(role) as someone:
        answer = await someone.request(method, path)
    if allowed:
        assert answer.status_code not in (401, 403), answer.text
    else:
        refused(answer, "Forbidden")


@pytest.mark.req("U-1")
async def test_refused_credentials_and_roles_are_audited_once_a_second_per_source(gateway: Gateway) -> None:
    async with gateway.as_role("nobody") as anonymous, gateway.as_role("viewer") as viewer:
        for _ in range(3):
            refused(await anonymous.get("/v1/commands"), "Unauthorized")
            refused(await viewer.get("/v1/audit"), "Forbidden")
        records = [json.loads(record.body) for record in await gateway.desk.ledger.audit("default", 0, 10)]
        assert [(record["action"], record["who"]["id"]) for record in records] == [
            ("auth_denied", "unknown"), ("auth_denied", "user:viewer")]
        gateway.desk.at_ms += 1000
        refused(await viewer.get("/v1/audit"), "Forbidden")
    records = [json.loads(record.body) for record in await gateway.desk.ledger.audit("default", 2, 10)]
    assert [record["meta"] for record in records] == [{"code": "Forbidden", "count": 3}]


@pytest.mark.req("F-1")
async def test_unknown_paths_and_methods(gateway: Gateway) -> None:
    refused(await gateway.http.get("/v1/nothing"), "NotFound")
    refused(await gateway.http.get("/v1/commands/"), "NotFound")
    refused(await gateway.http.get("/v1/v1/commands"), "NotFound")
    answer = await gateway.http.delete("/v1/commands")
    refused(answer, "MethodNotAllowed")
    assert answer.headers["Allow"] == "GET, HEAD, POST"
    head = await gateway.http.head("/v1/commands")
    assert (head.status_code, head.content) == (200, b"")
    assert int(head.headers["Content-Length"]) == len((await gateway.http.get("/v1/commands")).content)


@pytest.mark.req("F-1")
async def test_an_unacceptable_media_type_is_406(gateway: Gateway) -> None:
    refused(await gateway.http.get("/v1/commands", headers={"Accept": "text/html"}), "NotAcceptable")
    refused(await gateway.http.get("/v1/commands", headers={"Accept": "application/json;q=0"}), "NotAcceptable")
    browser = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
    assert (await gateway.http.get("/v1/commands", headers=browser)).status_code == 200


@pytest.mark.req("F-1")
@pytest.mark.parametrize("headers", [
    {"Content-Type": "text/plain"}, {"Content-Type": "application/json; charset=utf-16"}, {"Content-Type": ""},
    {**JSON, "Content-Encoding": "gzip"},
])
async def test_a_body_of_another_type_is_415(gateway: Gateway, headers: dict[str, str]) -> None:
    refused(await gateway.post("/v1/commands", b"{}", headers=headers), "UnsupportedMediaType")


@pytest.mark.req("F-1")
async def test_a_body_too_large_is_413(gateway: Gateway) -> None:
    refused(await gateway.post("/v1/commands", b" " * (MAX_BODY_BYTES + 1)), "PayloadTooLarge")


@pytest.mark.req("F-1", "M-1")
@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        (b"", ""), (b"{", ""), (b"\xff", ""), (b"[]", ""), (b"null", ""), (b'{"a":1}{}', ""),
        (b'{"type":"execute"}', "/target"),
        (b'{"type":"dance","target":{}}', "/type"),
        (b'{"type":"execute","target":{},"priority":"3"}', "/priority"),
        (b'{"type":"execute","target":{"agent":"x"}}', "/target/agent"),
        (b'{"type":"execute","target":{},"target":{}}', "/target"),
        (b'{"type":"execute","target":{"agent_id":"\\ud800"}}', "/target/agent_id"),
        (b'{"type":"execute","target":{},"payload":{"n":9007199254740993}}', "/payload/n"),
        (b'{"type":"execute","target":{},"payload":{"n":NaN}}', "/payload/n"),
        (b'{"type":"execute","target":{},"payload":{"n":1e999}}', "/payload/n"),
        (b'{"type":"execute","target":{},"payload":{"a/b":[{"x":1,"x":2}]}}', "/payload/a~1b/0/x"),
    ],
)
async def test_a_body_outside_its_form_names_the_place(gateway: Gateway, body: bytes, pointer: str) -> None:
    problem = refused(await gateway.post("/v1/commands", body), "InvalidPayload")
    errors = problem["errors"]
    assert isinstance(errors, list)
    assert errors[0]["pointer"] == pointer
    assert gateway.desk.made == 0


@pytest.mark.req("F-1")
async def test_depth_is_bounded_however_deep(gateway: Gateway) -> None:
    for depth in (64, 10_000):
        body = b'{"type":"execute","target":{},"payload":' + b"[" * depth + b"]" * depth + b"}"
        problem = refused(await gateway.post("/v1/commands", body), "InvalidPayload")
        assert "deeper" in json.dumps(problem)
    fine = b'{"type":"execute","target":{},"payload":' + b"[" * 62 + b"]" * 62 + b"}"
    assert (await gateway.post("/v1/commands", fine)).status_code == 202


@pytest.mark.req("F-1")
async def test_a_misspelt_field_is_refused_with_the_nearest_name(gateway: Gateway) -> None:
    problem = refused(await gateway.post("/v1/commands", {"type": "execute", "target": {}, "priorty": 1}),
                      "InvalidPayload")
    assert problem["hint"] == "Did you mean `priority`?"


@pytest.mark.req("F-1")
async def test_an_unexpected_error_is_reported_without_internals(gateway: Gateway) -> None:
    gateway.desk.failure = RuntimeError("a secret inside")
    answer = await gateway.post("/v1/commands", {"type": "execute", "target": {}})
    refused(answer, "InternalError")
    assert "secret" not in answer.text
    gateway.desk.failure = Full("disk full")
    answer = await gateway.post("/v1/commands", {"type": "execute", "target": {}})
    refused(answer, "Unavailable")
    assert answer.headers["Retry-After"]


@pytest.mark.req("K-2")
async def test_health_needs_no_key(gateway: Gateway) -> None:
    async with httpx2.AsyncClient(base_url=gateway.base) as anonymous:
        for path in ("/healthz", "/readyz"):
            assert (await anonymous.get(path)).json()["ok"] is True


@pytest.mark.req("C-0")
def test_operations_have_names_of_their_own() -> None:
    names = [operation.name for operation in OPERATIONS]
    assert len(set(names)) == len(names)
    assert all(operation.body is not None for operation in OPERATIONS if operation.method == "POST")


@pytest.mark.req("S-4")
async def test_stopping_ends_open_streams_at_once(gateway: Gateway) -> None:
    await gateway.desk.add_session()
    async with gateway.sse("/v1/sessions/s1/frames") as sse:
        while not gateway.desk.viewers.count():
            await asyncio.sleep(0)
        gateway.server.should_exit = True
        assert await asyncio.wait_for(sse.next(), 4) is None
