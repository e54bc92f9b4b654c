"""A model's program at `interlock mcp` and at `/mcp`: MCP's own SDK as the client, against a gateway and a runner of
processes."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import httpx2
import pytest

from end_to_end.tasks import PATIENCE_S, new_key
from proof.processes.stack import Stack

pytestmark = [pytest.mark.anyio, pytest.mark.req("O-8"), pytest.mark.needs("mcp")]
DOORS = pytest.mark.parametrize("door", ["stdio", "http"])
NEVER = ("vote", "grant", "approve", "deny", "allow", "key", "policy", "answer")


def key_of(stack: Stack, role: str) -> str:
    made = stack.post("/v1/keys", {"principal": {"type": "user", "id": f"model-{role}"}, "roles": [role]}, new_key())
    return made.json()["key"]


@asynccontextmanager
async def client_of(stack: Stack, key: str, door: str, **options: Any) -> AsyncIterator[Any]:
    from mcp.client.client import Client
    from mcp.client.stdio import StdioServerParameters
    from mcp.client.streamable_http import streamable_http_client

    async with asyncio.timeout(3 * PATIENCE_S), AsyncExitStack() as exits:
        server: Any = StdioServerParameters(command=sys.executable, args=["-m", "interlock", "mcp"], env={
            "PATH": os.environ["PATH"], "INTERLOCK_URL": stack.url, "INTERLOCK_KEY": key, "HOME": str(stack.place)})
        if door == "http":
            http = httpx2.AsyncClient(headers={"Authorization": f"Bearer {key}"}, timeout=3 * PATIENCE_S)
            await exits.enter_async_context(http)
            server = streamable_http_client(f"{stack.url}/mcp", http_client=http)
        yield await exits.enter_async_context(Client(server, **options))


async def called(client: Any, name: str, **arguments: Any) -> dict[str, Any]:
    answer = await client.call_tool(name, arguments)
    assert not answer.is_error, answer.content
    return answer.structured_content


@DOORS
async def test_a_task_starts_waits_for_approval_and_is_read(stack: Stack, workspace: Path, door: str) -> None:
    from mcp_types import ElicitResult

    opened: list[str] = []

    async def person(_context: Any, asked: Any) -> Any:
        approval = stack.get(f"/v1/approvals/{asked.url.rpartition('/')[2]}")
        opened.append(asked.url)
        stack.post(f"/v1/approvals/{approval['id']}/grants", {"decision": "grant", "digest": approval["digest"]},
                   new_key())
        return ElicitResult(action="accept")

    async with client_of(stack, key_of(stack, "operator"), door, elicitation_callback=person) as client:
        agents = await called(client, "list_agents")
        assert "shell" in {one["agent"] for one in agents["agents"]}
        asked = {"agent": "shell", "prompt": "echo made > made; echo by a model", "directory": str(workspace),
                 "request_id": f"one over {door}"}
        task = (await called(client, "start_task", **asked))["task"]
        assert (await called(client, "start_task", **asked))["task"] == task
        waiting = await called(client, "wait_for_task", task=task, within_s=30)
        (held,) = waiting["waits_for_a_person"]
        assert held["what"] == "$ echo made > made; echo by a model"
        assert not (workspace / "made").exists()
        asked_for = await called(client, "ask_for_decision", approval=held["approval"])
        assert (asked_for["asked"], opened) == (True, [held["a_person_decides_at"]])
        ended = await called(client, "wait_for_task", task=task, within_s=30)
        assert ended["state"] == "succeeded"
        assert "by a model\n" in ended["answer"]
        read = await called(client, "read_transcript", session=ended["session"])
        assert any("by a model" in entry for entry in read["entries"])
    assert (workspace / "made").exists()
    assert stack.get(f"/v1/commands/{task}")["reason"] == "started by a model (MCP)"


@DOORS
async def test_no_tool_can_vote_whatever_the_rights_of_the_key(stack: Stack, workspace: Path, door: str) -> None:
    async with client_of(stack, stack.headers["Authorization"].removeprefix("Bearer "), door) as client:
        tools = (await client.list_tools()).tools
        assert not [tool.name for tool in tools if any(word in tool.name.split("_") for word in NEVER)]
        started = await called(client, "start_task", agent="shell", prompt="touch made", directory=str(workspace))
        task = started["task"]
        (held,) = (await called(client, "wait_for_task", task=task))["waits_for_a_person"]
        others = {"approval": held["approval"], "task": task, "session": held["session"], "agent": "shell",
                  "prompt": "echo # free", "how": "cancel"}
        for tool in sorted(tools, key=lambda tool: tool.name == "steer_task"):
            needed = {name: others[name] for name in tool.input_schema.get("required", [])}
            await client.call_tool(tool.name, needed)
        while (await called(client, "wait_for_task", task=task))["state"] != "canceled":
            await asyncio.sleep(0.05)
    approval = stack.get(f"/v1/approvals/{held['approval']}")
    assert (approval["state"], approval.get("votes")) == ("void", None)
    assert not (workspace / "made").exists()


@DOORS
async def test_a_key_has_the_same_rights_over_mcp_as_over_rest(stack: Stack, door: str) -> None:
    async with client_of(stack, key_of(stack, "viewer"), door) as client:
        assert "agents" in await called(client, "list_agents")
        refused = await client.call_tool("start_task", {"agent": "shell", "prompt": "echo no # free"})
        assert refused.is_error
        assert "Forbidden" in refused.content[0].text
        missing = await client.call_tool("wait_for_task", {"task": "cmd_none"})
        assert missing.is_error
        assert "There is no command cmd_none" in missing.content[0].text
        assert "records" not in str(await client.call_tool("search_audit", {}))
    if door == "stdio":
        async with client_of(stack, "ilk_wrong", door) as client:
            refused = await client.call_tool("list_agents", {})
        assert refused.is_error
        assert "Unauthorized" in refused.content[0].text


@DOORS
async def test_a_protocol_task_waits_for_the_approval_page_and_has_its_decision(
    stack: Stack, workspace: Path, door: str
) -> None:
    from mcp.client.extension import ClientExtension, ResultClaim
    from mcp_types import ElicitResult, Request, RequestParams, Result
    from pydantic import ConfigDict

    class Shown(Result):
        model_config = ConfigDict(extra="allow")
        result_type: Literal["task"] = "task"

    class Answer(Result):
        model_config = ConfigDict(extra="allow")

    class Params(RequestParams):
        model_config = ConfigDict(extra="allow")

    class Asked(Request[Params, str]):
        name_param = "taskId"

    async def ask(client: Any, method: str, **params: Any) -> dict[str, Any]:
        answer = await client.session.send_request(Asked(method=method, params=Params(**params)), Answer)
        return answer.model_dump(by_alias=True)

    async def unresolved(_shown: Shown, _context: Any) -> Any:
        raise AssertionError("the test looks by itself")

    class Tasks(ClientExtension):
        identifier = "io.modelcontextprotocol/tasks"

        def claims(self) -> Any:
            return [ResultClaim(result_type="task", model=Shown, resolve=unresolved)]

    async def no_answer(_context: Any, _asked: Any) -> Any:
        return ElicitResult(action="decline")

    async with client_of(stack, key_of(stack, "owner"), door, extensions=[Tasks()], elicitation_callback=no_answer
                         ) as client:
        started = await client.session.call_tool("start_task", {
            "agent": "shell", "prompt": "touch made", "directory": str(workspace)}, allow_claimed=True)
        task = started.model_extra["taskId"]
        while (shown := await ask(client, "tasks/get", taskId=task))["status"] == "working":
            await asyncio.sleep(0.05)
        assert shown["status"] == "input_required"
        ((approval, request),) = shown["inputRequests"].items()
        assert (request["method"], request["params"]["mode"]) == ("elicitation/create", "url")
        assert request["params"]["url"].endswith(f"/a/{approval}")
        await ask(client, "tasks/update", taskId=task, inputResponses={approval: {
            "action": "accept", "content": {"decision": "grant"}}})
        assert stack.get(f"/v1/approvals/{approval}").get("votes") is None
        digest = stack.get(f"/v1/approvals/{approval}")["digest"]
        stack.post(f"/v1/approvals/{approval}/grants", {"decision": "grant", "digest": digest}, new_key())
        while (shown := await ask(client, "tasks/get", taskId=task))["status"] != "completed":
            await asyncio.sleep(0.05)
        assert shown["result"]["structuredContent"]["state"] == "succeeded"
        assert not shown["result"]["isError"]
        assert "records" in str(await called(client, "search_audit", task=task))
        started = await client.session.call_tool("start_task", {
            "agent": "shell", "prompt": "touch made-too", "directory": str(workspace)}, allow_claimed=True)
        task = started.model_extra["taskId"]
        await ask(client, "tasks/cancel", taskId=task)
        while (shown := await ask(client, "tasks/get", taskId=task))["status"] not in ("completed", "cancelled"):
            await asyncio.sleep(0.05)
        assert shown["status"] == "cancelled"
        assert (await ask(client, "tasks/cancel", taskId=task))["resultType"] == "complete"
    assert (workspace / "made").exists()
    assert not (workspace / "made-too").exists()
