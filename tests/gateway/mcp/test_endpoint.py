"""`/mcp`: MCP's own SDK as the client over HTTP; which credentials it accepts, what they allow, and how a request ends
(O-8)."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest

from interlock.config import RatesSection
from interlock.gateway.access.credentials import digest
from interlock.ports.ledger import Put, WriteBatch
from interlock.protocol.limits import MAX_BODY_BYTES
from interlock.protocol.records import KeyRecord
from interlock.protocol.resources import Actor
from small_gateway.desk import NOW
from small_gateway.running import Gateway

pytestmark = [pytest.mark.anyio, pytest.mark.req("O-8"), pytest.mark.needs("mcp")]
PATIENCE_S = 30
ROLES = ("owner", "admin", "operator", "approver", "viewer", "auditor")
ACCEPT = {"Accept": "application/json, text/event-stream"}
LIST = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
VERSIONS = ("2026-07-28", "legacy")


def bearer(role: str = "owner", tenant: str = "default") -> dict[str, str]:
    return {"Authorization": f"Bearer ilk_{tenant}_{role}"}


@asynccontextmanager
async def client_of(gateway: Gateway, role: str = "owner", tenant: str = "default", *, path: str = "/mcp",
                    key: str | None = None, **options: Any) -> AsyncIterator[Any]:
    from mcp.client.client import Client
    from mcp.client.streamable_http import streamable_http_client

    headers = {"Authorization": f"Bearer {key}"} if key else bearer(role, tenant)
    async with (asyncio.timeout(PATIENCE_S), httpx2.AsyncClient(headers=headers, timeout=PATIENCE_S) as http,
                Client(streamable_http_client(gateway.base + path, http_client=http), **options) as client):
        yield client


async def called(client: Any, name: str, **arguments: Any) -> dict[str, Any]:
    answer = await client.call_tool(name, arguments)
    assert not answer.is_error, answer.content
    return answer.structured_content


async def outcome(client: Any, name: str, **arguments: Any) -> str:
    """`done`, or what the refusal reads."""
    answer = await client.call_tool(name, arguments)
    return answer.content[0].text if answer.is_error else "done"


async def posted(gateway: Gateway, body: Any = LIST, path: str = "/mcp", **headers: str) -> httpx2.Response:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    async with httpx2.AsyncClient(base_url=gateway.base, timeout=PATIENCE_S) as http:
        return await http.post(path, content=content,
                               headers={**ACCEPT, "Content-Type": "application/json", **bearer(), **headers})


def code(answer: httpx2.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["code"]


@pytest.mark.parametrize("path", ["/mcp", "/v1/mcp"])
@pytest.mark.parametrize("mode", VERSIONS)
async def test_the_tools_are_those_of_standard_input_and_output(gateway: Gateway, path: str, mode: str) -> None:
    from mcp.client.client import Client

    from interlock.doors.mcp.server import make_server

    await gateway.desk.add_session()
    async with client_of(gateway, path=path, mode=mode) as client:
        over_http = (await client.list_tools()).tools
        listed = await called(client, "list_sessions")
    async with Client(make_server(lambda: pytest.fail("no tool is called"))) as local:
        assert over_http == (await local.list_tools()).tools
    assert [one["session"] for one in listed["sessions"]] == ["s1"]


async def test_a_request_that_is_refused_names_its_code(gateway: Gateway) -> None:
    await gateway.desk.ledger.commit(WriteBatch([Put(KeyRecord(
        key_sha256=digest("ilk_runner"), key_id="runner", tenant_id="default", role="runner",
        principal=Actor(type="user", id="runner"), created_ms=NOW))]))

    async with httpx2.AsyncClient(base_url=gateway.base) as http:
        assert code(await http.post("/mcp", json=LIST)) == (401, "Unauthorized")
    assert code(await posted(gateway, Authorization="Bearer ilk_of_nobody")) == (401, "Unauthorized")
    assert code(await posted(gateway, path="/mcp?key=ilk_default_owner")) == (401, "Unauthorized")
    assert code(await posted(gateway, Authorization="Bearer ilk_runner")) == (403, "Forbidden")
    assert code(await posted(gateway, Origin="https://evil.example")) == (403, "Forbidden")
    assert code(await posted(gateway, Host="evil.example")) == (421, "MisdirectedRequest")
    assert code(await posted(gateway, **{"Content-Type": "text/plain"})) == (415, "UnsupportedMediaType")
    for method in ("GET", "DELETE", "PUT"):
        refused = await gateway.http.request(method, "/mcp", headers={"Mcp-Session-Id": "of-somebody-else"})
        assert (code(refused), refused.headers["allow"]) == ((405, "MethodNotAllowed"), "POST")


async def test_a_body_is_one_bounded_message(gateway: Gateway) -> None:
    assert code(await posted(gateway, b'{"a": "' + b"x" * MAX_BODY_BYTES + b'"}')) == (413, "PayloadTooLarge")
    assert code(await posted(gateway, b"[" * 5_000 + b"]" * 5_000)) == (400, "InvalidPayload")
    assert code(await posted(gateway, b'{"id": 1, "id": 2}')) == (400, "InvalidPayload")
    assert code(await posted(gateway, b'{"jsonrpc"')) == (400, "InvalidPayload")
    for version in ("2026-07-28", "2025-06-18", "1999-01-01"):
        for wrong in ([LIST, LIST], [], "text", {"jsonrpc": "2.0", "id": 1}, {"jsonrpc": "2.0", "id": 1, "result": {}}):
            refused = await posted(gateway, wrong, **{"Mcp-Protocol-Version": version})
            assert refused.status_code in (202, 400), refused.text
    assert (await posted(gateway, **{"Mcp-Session-Id": "of-somebody-else"})).status_code == 200
    async with client_of(gateway) as client:
        assert "agents" in await called(client, "list_agents")


@pytest.mark.parametrize("mode", VERSIONS)
@pytest.mark.parametrize("role", ROLES)
async def test_a_role_may_do_over_mcp_what_it_may_do_over_rest(gateway: Gateway, role: str, mode: str) -> None:
    await gateway.desk.add_session()
    command = {"type": "execute", "target": {"agent_id": "shell"}, "payload": {"messages": [
        {"role": "user", "content": [{"contentType": "text", "value": "work"}]}]}}
    async with gateway.as_role(role) as http:
        rest = [(await http.get("/v1/edge/nodes")).status_code, (await http.get("/v1/sessions")).status_code,
                (await http.get("/v1/approvals")).status_code, (await http.get("/v1/audit")).status_code,
                (await http.post("/v1/commands", json=command, headers={"Idempotency-Key": "k" * 16})).status_code]
    async with client_of(gateway, role, mode=mode) as client:
        outcomes = [await outcome(client, "list_agents"), await outcome(client, "list_sessions"),
                    await outcome(client, "list_approvals"), await outcome(client, "search_audit"),
                    await outcome(client, "start_task", agent="shell", prompt="work")]

    assert [one == "done" for one in outcomes] == [status < 400 for status in rest], outcomes
    assert all("Forbidden" in one for one, status in zip(outcomes, rest, strict=True) if status == 403), outcomes


async def test_another_tenant_can_neither_see_nor_control_a_session(gateway: Gateway) -> None:
    await gateway.desk.add_session()
    async with client_of(gateway) as mine:
        task = (await called(mine, "start_task", agent="shell", prompt="work"))["task"]
    async with client_of(gateway, "owner", "other") as client:
        assert (await called(client, "list_sessions"))["sessions"] == []
        refused = [await outcome(client, "read_transcript", session="s1"),
                   await outcome(client, "wait_for_task", task=task),
                   await outcome(client, "steer_task", task=task, how="cancel")]
    assert all("There is no" in one for one in refused), refused


async def test_concurrent_requests_act_each_with_their_own_key(gateway: Gateway) -> None:
    await gateway.desk.add_session()
    async with client_of(gateway) as mine, client_of(gateway, "viewer", "other") as theirs:
        for _ in range(3):
            answers = await asyncio.gather(*(called(client, "list_sessions") for client in (mine, theirs) * 4))
            assert [len(one["sessions"]) for one in answers] == [1, 0] * 4


async def test_a_command_is_an_mcp_task_for_a_client_that_supports_tasks(gateway: Gateway) -> None:
    from mcp.client.extension import advertise
    from mcp.shared.exceptions import MCPError
    from mcp_types import Request, RequestParams, Result
    from pydantic import ConfigDict

    class AnyResult(Result):
        model_config = ConfigDict(extra="allow")

    class TaskParams(RequestParams):
        model_config = ConfigDict(extra="allow")

    async def ask(client: Any, method: str, **params: Any) -> dict[str, Any]:
        class Asked(Request[TaskParams, str]):
            name_param = "taskId"

        answer = await client.session.send_request(Asked(method=method, params=TaskParams(**params)), AnyResult)
        return answer.model_dump(by_alias=True)

    async def refusal(client: Any, method: str, **params: Any) -> int:
        with pytest.raises(MCPError) as refused:
            await ask(client, method, **params)
        return refused.value.code

    tasks = {"extensions": [advertise("io.modelcontextprotocol/tasks")]}
    async with client_of(gateway, "operator", **tasks) as client:
        assert "io.modelcontextprotocol/tasks" in client.server_capabilities.extensions
        created = await ask(client, "tools/call", name="start_task", arguments={"agent": "shell", "prompt": "work"})
        assert (created["resultType"], created["status"], created["ttlMs"]) == ("task", "working", None)
        task = created["taskId"]
        assert (await ask(client, "tasks/get", taskId=task))["status"] == "working"
        assert await refusal(client, "tasks/get", taskId="cmd_none") == -32602
        assert await refusal(client, "tasks/cancel", taskId="../keys") == -32602
        assert (await ask(client, "tasks/update", taskId=task, inputResponses={"a": {"action": "accept"}})
                )["resultType"] == "complete"
    async with client_of(gateway, "operator") as client:
        assert "task" in (await called(client, "start_task", agent="shell", prompt="work"))
        assert await refusal(client, "tasks/get", taskId=task) == -32021
    async with client_of(gateway, "owner", "other", **tasks) as client:
        assert await refusal(client, "tasks/get", taskId=task) == -32602
        assert await refusal(client, "tasks/cancel", taskId=task) == -32602
    async with client_of(gateway, "viewer", **tasks) as client:
        assert (await ask(client, "tasks/get", taskId=task))["status"] == "working"
        assert await refusal(client, "tasks/cancel", taskId=task) == -32602
    assert (await gateway.http.get(f"/v1/commands/{task}")).json()["state"] == "queued"


async def waiting(gateway: Gateway, client: Any) -> asyncio.Task[Any]:
    """Begin to wait for a task that does not end; return once its status is followed."""
    task = (await called(client, "start_task", agent="shell", prompt="work"))["task"]
    call = asyncio.ensure_future(client.call_tool("wait_for_task", {"task": task, "within_s": 300}))
    async with asyncio.timeout(PATIENCE_S):
        while gateway.desk.viewers.count() == 0:
            assert not call.done()
            await asyncio.sleep(0.01)
    return call


async def followed_no_more(gateway: Gateway) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while gateway.desk.viewers.count() or gateway.access.openings.counts().total():
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("mode", VERSIONS)
async def test_a_disconnected_client_is_no_longer_followed(gateway: Gateway, mode: str) -> None:
    async with client_of(gateway, "operator", mode=mode) as client:
        call = await waiting(gateway, client)
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
    await followed_no_more(gateway)


@pytest.mark.parametrize("mode", VERSIONS)
async def test_a_request_ends_with_its_key(gateway: Gateway, mode: str) -> None:
    async with client_of(gateway, "operator", mode=mode) as client:
        call = await waiting(gateway, client)
        assert (await gateway.post("/v1/keys/default-operator/revoke", {})).status_code == 200
        await followed_no_more(gateway)
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
    assert code(await posted(gateway, **bearer("operator"))) == (401, "Unauthorized")


async def test_a_gateway_that_stops_waits_for_no_request(gateway: Gateway) -> None:
    async with client_of(gateway, "operator") as client:
        call = await waiting(gateway, client)
        began = asyncio.get_running_loop().time()
        gateway.server.should_exit = True
        await followed_no_more(gateway)
        assert asyncio.get_running_loop().time() - began < 3
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)


async def test_an_incomplete_request_holds_no_resources(gateway: Gateway) -> None:
    head = ("POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer ilk_default_owner\r\n"
            "Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{\"jsonrpc\":")
    reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
    writer.write(head.encode())
    await writer.drain()
    async with asyncio.timeout(PATIENCE_S):
        while not gateway.access.openings.counts().total():
            await asyncio.sleep(0.01)
    writer.close()
    await followed_no_more(gateway)
    assert await reader.read() == b""


async def test_requests_that_are_open_are_bounded(gateway: Gateway) -> None:
    gateway.access.openings.configure(RatesSection(principal_streams=2))
    async with client_of(gateway, "operator") as client, client_of(gateway, "viewer") as other:
        call = await waiting(gateway, client)  # A stream, and what it follows.
        refused = await posted(gateway, **bearer("operator"))
        assert code(refused) == (429, "RateLimited")
        assert "agents" in await called(other, "list_agents")
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)


def test_a_gateway_without_mcp_requests_does_not_load_its_modules() -> None:
    program = ("import sys; import interlock.app.gateway; "
               "print([one for one in sys.modules if one.partition('.')[0] in ('mcp', 'pydantic', 'sse_starlette')])")
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert shown.stdout.strip() == "[]"
