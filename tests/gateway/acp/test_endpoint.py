"""`/acp`: which credentials it accepts, what they allow, and how a connection ends (O-7)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio.lowlevel
import msgspec
import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from interlock.config import RatesSection
from interlock.doors.acp.door import REQUESTS_MAX
from interlock.gateway.access.credentials import digest
from interlock.gateway.rest.socket import BAD_REQUEST, UNAUTHORIZED
from interlock.ports.ledger import Put, PutCommand, WriteBatch
from interlock.protocol import payloads as p
from interlock.protocol.envelope import Frame
from interlock.protocol.limits import MAX_MESSAGE_BYTES
from interlock.protocol.records import KeyRecord
from interlock.protocol.resources import Actor
from small_gateway.desk import NOW
from small_gateway.running import Gateway

pytestmark = [pytest.mark.anyio, pytest.mark.req("O-7")]
PATIENCE_S = 30
SESSION = "agent:shell:run:s1"
ROLES = ("owner", "admin", "operator", "approver", "viewer", "auditor")


class Client:
    """An ACP client that asks one thing at a time; session updates are kept in `updates`."""

    def __init__(self, link: ClientConnection) -> None:
        self.link = link
        self.updates: list[dict[str, Any]] = []
        self.number = 0

    async def send(self, method: str, **params: Any) -> int:
        self.number += 1
        await self.link.send(json.dumps({"jsonrpc": "2.0", "id": self.number, "method": method, "params": params}))
        return self.number

    async def answer(self, number: int) -> dict[str, Any]:
        while (message := json.loads(await asyncio.wait_for(self.link.recv(), PATIENCE_S))).get("id") != number:
            if "method" in message:
                self.updates.append(message["params"]["update"])
        return message

    async def ask(self, method: str, **params: Any) -> dict[str, Any]:
        return await self.answer(await self.send(method, **params))

    async def update(self, kind: str) -> dict[str, Any]:
        while (update := json.loads(await self.link.recv())["params"]["update"])["sessionUpdate"] != kind:
            self.updates.append(update)
        return update

    async def outcome(self, method: str, **params: Any) -> str:
        """`done`, or the code of the refusal."""
        answer = await self.ask(method, **params)
        return answer["error"].get("data", {}).get("code", "refused") if "error" in answer else "done"

    async def closed(self) -> tuple[int, str]:
        async def read_all() -> None:
            while True:
                await self.link.recv()

        with pytest.raises(ConnectionClosed) as closed:
            await read_all()
        assert closed.value.rcvd is not None
        return closed.value.rcvd.code, closed.value.rcvd.reason


def url(gateway: Gateway, query: str = "", path: str = "/acp") -> str:
    return gateway.base.replace("http", "ws", 1) + path + query


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


@asynccontextmanager
async def connected(gateway: Gateway, role: str = "owner", tenant: str = "default", query: str = "?agent=shell",
                    path: str = "/acp", **options: Any) -> AsyncIterator[Client]:
    headers = bearer(f"ilk_{tenant}_{role}")
    async with connect(url(gateway, query, path), additional_headers=headers, max_queue=None, **options) as link:
        yield Client(link)


async def refusal(gateway: Gateway, query: str = "", key: str | None = "ilk_default_owner", **headers: str
                  ) -> tuple[int, str, str]:
    with pytest.raises(InvalidStatus) as refused:
        async with connect(url(gateway, query), additional_headers={**(bearer(key) if key else {}), **headers}):
            pass
    response = refused.value.response
    problem = json.loads(response.body)
    return response.status_code, problem["code"], problem["detail"]


@pytest.mark.parametrize("path", ["/acp", "/v1/acp"])
async def test_a_client_with_a_key_is_served_without_process_options(gateway: Gateway, path: str) -> None:
    async with connected(gateway, path=path) as client:
        answer = await client.ask("initialize", protocolVersion=1)
    assert answer["result"]["agentInfo"]["name"] == "interlock"
    assert answer["result"]["authMethods"] == []


async def test_a_refused_connection_names_its_code(gateway: Gateway) -> None:
    await gateway.desk.ledger.commit(WriteBatch([Put(KeyRecord(
        key_sha256=digest("ilk_runner"), key_id="runner", tenant_id="default", role="runner",
        principal=Actor(type="user", id="runner"), created_ms=NOW))]))

    assert (await refusal(gateway, key=None))[:2] == (401, "Unauthorized")
    assert (await refusal(gateway, key="ilk_of_nobody"))[:2] == (401, "Unauthorized")
    assert (await refusal(gateway, "?key=ilk_default_owner", key=None))[:2] == (401, "Unauthorized")
    assert (await refusal(gateway, key="ilk_runner"))[:2] == (403, "Forbidden")
    assert (await refusal(gateway, Origin="https://evil.example"))[:2] == (403, "Forbidden")
    assert await refusal(gateway, "?agent=Not%20One") == (400, "InvalidPayload", "'Not One' is not an agent's id.")
    assert (await refusal(gateway, "?agent=a&agent=b"))[2] == "The query parameter `agent` is there twice."
    assert "known: agent, runner" in (await refusal(gateway, "?on_exit=cancel"))[2]
    assert (await refusal(gateway, "?runner="))[2] == "A runner's id has 1 to 256 characters."


async def test_a_page_connects_once_with_a_ticket_as_its_principal(gateway: Gateway) -> None:
    await gateway.desk.add_session()
    async with gateway.as_role("viewer") as viewer:
        given = await viewer.post("/v1/stream-tickets", json={"path": "/acp"}, headers={"Idempotency-Key": "k" * 16})
    ticket = f"?ticket={given.json()['ticket']}&agent=shell"

    async with connect(url(gateway, ticket), origin="https://ok.example") as link:  # type: ignore[arg-type]
        client = Client(link)
        listed = await client.ask("session/list")
        outcomes = [await client.outcome("session/load", sessionId=SESSION, cwd="/w", mcpServers=[]),
                    await client.outcome("session/close", sessionId=SESSION)]

    assert [one["sessionId"] for one in listed["result"]["sessions"]] == [SESSION]
    assert outcomes == ["done", "Forbidden"]
    assert (await refusal(gateway, ticket, key=None))[:2] == (401, "Unauthorized")


@pytest.mark.parametrize("role", ROLES)
async def test_a_role_may_do_over_acp_what_it_may_do_over_rest(gateway: Gateway, role: str) -> None:
    await gateway.desk.add_session()
    key = {"Idempotency-Key": "one-key-for-each"}
    command = {"type": "execute", "target": {"agent_id": "shell"}}
    async with gateway.as_role(role) as http:
        rest = [(await http.get("/v1/sessions")).status_code, (await http.get("/v1/sessions/s1/frames")).status_code,
                (await http.post("/v1/sessions/s1/compact", json={}, headers=key)).status_code,
                (await http.post("/v1/commands", json=command, headers=key)).status_code,
                (await http.post("/v1/sessions/s1/close", json={}, headers=key)).status_code]
    prompt = {"sessionId": SESSION, "prompt": [{"type": "text", "text": "work"}]}
    async with connected(gateway, role) as client:
        outcomes = [await client.outcome("session/list"),
                    await client.outcome("session/load", sessionId=SESSION, cwd="/w", mcpServers=[]),
                    await client.outcome("session/prompt", sessionId=SESSION,
                                         prompt=[{"type": "text", "text": "/compact"}])]
        prompted = await client.send("session/prompt", **prompt)
        answering, gateway.desk.entered = asyncio.ensure_future(client.answer(prompted)), asyncio.Event()
        begun = asyncio.ensure_future(gateway.desk.entered.wait())
        await asyncio.wait((answering, begun), return_when=asyncio.FIRST_COMPLETED, timeout=20)
        outcomes.append("done" if begun.done() else answering.result()["error"]["data"]["code"])
        answering.cancel()
        begun.cancel()
        await asyncio.gather(answering, begun, return_exceptions=True)
        outcomes.append(await client.outcome("session/close", sessionId=SESSION))

    assert outcomes == ["Forbidden" if status == 403 else "done" for status in rest]


async def test_another_tenant_neither_lists_nor_loads_nor_deletes_the_session(gateway: Gateway) -> None:
    await gateway.desk.add_session()
    async with connected(gateway, "owner", "other") as client:
        listed = await client.ask("session/list")
        refused = [await client.ask(method, sessionId=name, cwd="/w", mcpServers=[])
                   for method in ("session/load", "session/resume", "session/delete") for name in (SESSION, "s1")]

    assert listed["result"]["sessions"] == []
    assert {answer["error"]["message"] for answer in refused} == {
        f"The gateway has no session '{name}'. List them with session/list." for name in (SESSION, "s1")}


async def test_a_session_is_found_by_its_key_and_by_its_id(gateway: Gateway) -> None:
    for number in range(3):
        await gateway.desk.add_session(f"s{number}")
    async with connected(gateway) as client:
        by_key = await client.ask("session/resume", sessionId="agent:shell:run:s1", cwd="/w", mcpServers=[])
        by_id = await client.ask("session/resume", sessionId="s2", cwd="/w", mcpServers=[])
        absent = [await client.ask("session/resume", sessionId=name, cwd="/w", mcpServers=[])
                  for name in ("s3", "", "x" * 10_000, "../keys", 7)]

    assert "result" in by_key
    assert "result" in by_id
    assert all("has no session" in answer["error"]["message"] for answer in absent)


async def test_a_connection_ends_with_its_key(gateway: Gateway) -> None:
    await gateway.desk.add_session()
    async with connected(gateway, "operator") as client, connected(gateway, "viewer") as other:
        await client.ask("session/load", sessionId=SESSION, cwd="/w", mcpServers=[])
        revoked = await gateway.post("/v1/keys/default-operator/revoke", {})
        assert revoked.status_code == 200
        assert await client.closed() == (UNAUTHORIZED, "the credential is accepted no more")
        assert (await other.outcome("session/list")) == "done"


async def test_a_malformed_message_closes_the_connection(gateway: Gateway) -> None:
    async with connected(gateway) as client:
        await client.link.send(b"{}")
        assert await client.closed() == (BAD_REQUEST, "a message is a text frame with one JSON-RPC message")
    async with connected(gateway) as client:
        await client.link.send("x" * (MAX_MESSAGE_BYTES + 1))
        assert (await client.closed())[0] == 1009


async def test_malformed_parameters_are_refused_and_the_connection_stays_open(gateway: Gateway) -> None:
    await gateway.desk.add_session()
    opened = {"sessionId": SESSION, "cwd": "/w"}
    async with connected(gateway) as client:
        answers = [await client.ask("session/list", cursor=7), await client.ask("session/load", **opened, mcpServers=7),
                   await client.ask("session/load", **opened, mcpServers=[7, {"name": "sql"}]),
                   await client.ask("session/prompt", sessionId=SESSION, prompt="work"),
                   await client.ask("session/new", cwd=7)]

    sentences = [answer.get("error", {}).get("message", "") for answer in answers]
    assert sentences == ["`cursor` must be a text.", "`mcpServers` must be a list.", "", "`prompt` must be a list.",
                         "`cwd` must be an absolute path, and is 7."]
    assert answers[2]["result"]["_meta"]["interlock"]["mcpServersNotStarted"] == ["sql"]


async def test_connections_count_against_their_principals_limit(gateway: Gateway) -> None:
    gateway.access.openings.configure(RatesSection(principal_streams=1))
    async with connected(gateway) as client:
        assert (await refusal(gateway))[:2] == (429, "RateLimited")
        async with connected(gateway, "viewer") as other:
            assert await other.outcome("session/list") == "done"
        assert gateway.access.openings.counts()["websocket"] >= 1
        assert await client.outcome("session/list") == "done"


async def test_requests_in_progress_are_bounded(gateway: Gateway) -> None:
    gateway.desk.gate = asyncio.Event()
    await gateway.desk.add_session()
    async with connected(gateway) as client:
        await client.ask("session/load", sessionId=SESSION, cwd="/w", mcpServers=[])
        one = await client.send("session/prompt", sessionId=SESSION, prompt=[{"type": "text", "text": "work"}])
        await gateway.desk.entered.wait()
        gateway.desk.ledger.sessions = blocked = Blocked()  # type: ignore[method-assign]
        numbers = [await client.send("session/list") for _ in range(REQUESTS_MAX)]
        refused = await client.answer(numbers[-1])
        blocked.event.set()
        assert "result" in await client.answer(numbers[-2])

    assert one
    assert refused["error"]["data"]["code"] == "QuotaExceeded"


class Blocked:
    """A query of the ledger that waits."""

    def __init__(self) -> None:
        self.event = asyncio.Event()

    async def __call__(self, *_: Any) -> list[Any]:
        await self.event.wait()
        return []


async def test_a_client_that_reads_nothing_is_disconnected(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("interlock.gateway.acp.web_socket.SEND_STALL_S", 0.2)
    async with connected(gateway, max_size=None) as client:
        client.link.transport.pause_reading()
        # An answer repeats the request's id, so that the kernel's buffers fill.
        request = json.dumps({"jsonrpc": "2.0", "id": "x" * (MAX_MESSAGE_BYTES // 2), "method": "initialize"})

        async def send_all() -> None:
            while True:
                await client.link.send(request)

        with pytest.raises(ConnectionClosed):
            await asyncio.wait_for(send_all(), PATIENCE_S)
    async with asyncio.timeout(PATIENCE_S):
        while gateway.access.openings.counts()["websocket"]:
            await anyio.lowlevel.checkpoint()


@pytest.mark.req("O-5")
async def test_the_agents_mode_is_a_config_option(gateway: Gateway) -> None:
    from acp import schema

    await gateway.desk.add_session()
    await gateway.desk.frame(capabilities(1, ["ask", "plan"]))
    opened = {"sessionId": SESSION, "cwd": "/w", "mcpServers": []}
    async with connected(gateway) as client:
        loaded = (await client.ask("session/load", **opened))["result"]
        schema.LoadSessionResponse.model_validate(loaded)
        chosen = (await client.ask("session/set_config_option", sessionId=SESSION, configId="mode", value="plan")
                  )["result"]
        schema.SetSessionConfigOptionResponse.model_validate(chosen)
        refused = [await client.ask("session/set_config_option", sessionId=SESSION, configId=option, value=value)
                   for option, value in (("mode", "yolo"), ("model", "best"), (None, 7))]
        await gateway.desk.frame(capabilities(2, ["ask", "plan", "code"]))
        update = await client.update("config_option_update")
        schema.ConfigOptionUpdate.model_validate(update)

    assert [option["currentValue"] for option in loaded["configOptions"]] == ["ask"]
    assert [option["currentValue"] for option in chosen["configOptions"]] == ["plan"]
    assert [answer["error"]["message"] for answer in refused] == [
        "The agent has no mode 'yolo'; it has: ask, plan.", "The session has no config option 'model'; there is: mode.",
        "The session has no config option 'None'; there is: mode."]
    assert [one["value"] for one in update["configOptions"][0]["options"]] == ["ask", "plan", "code"]


def capabilities(number: int, modes: list[str]) -> Frame:
    payload = p.Capabilities(dps_version="1.0", features={"modes": modes})
    return Frame(type="session.capabilities", message_id=f"m-{number}", session_id="s1", timestamp="t", seq=number,
                 payload=payload)


@pytest.mark.req("O-4")
async def test_a_client_that_supports_forms_receives_a_question_as_a_form(gateway: Gateway) -> None:
    await gateway.desk.add_session()
    command = await gateway.execute(target={"agent_id": "shell", "session_id": "s1"})
    await gateway.desk.add_approval("apr_1", door="tool", kind="question", title="Left or right?", command_id=command)
    record = await gateway.desk.ledger.command(command, "default")
    assert record is not None
    running = msgspec.structs.replace(record, command=msgspec.structs.replace(record.command, state="running"))
    await gateway.desk.commit([PutCommand(running), gateway.desk.status(
        command, event="approval", approval_id="apr_1", approval_state="pending")])
    async with connected(gateway) as client, asyncio.timeout(PATIENCE_S):
        await client.ask("initialize", protocolVersion=1, clientCapabilities={"elicitation": {"form": {}}})
        await client.send("session/load", sessionId=SESSION, cwd="/w", mcpServers=[])
        while (asked := json.loads(await client.link.recv())).get("method") != "elicitation/create":
            pass
        await client.link.send(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": {
            "action": "accept", "content": {"answer": "left"}}}))
        while (await gateway.http.get("/v1/approvals/apr_1")).json()["state"] == "pending":
            await asyncio.sleep(0.01)
    assert asked["params"]["sessionId"] == SESSION
    assert (await gateway.http.get("/v1/approvals/apr_1")).json()["answer"] == "left"
