"""A model's program at `interlock mcp`: MCP's own SDK as the client, against a gateway and a runner of processes."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from proof.house import House

from end_to_end.errands import PATIENCE_S, new_key

pytestmark = [pytest.mark.anyio, pytest.mark.req("O-8"), pytest.mark.needs("mcp")]
NEVER = ("vote", "grant", "approve", "deny", "allow", "key", "policy", "answer")


def key_of(house: House, role: str) -> str:
    made = house.post("/v1/keys", {"principal": {"type": "user", "id": f"model-{role}"}, "roles": [role]}, new_key())
    return made.json()["key"]


@asynccontextmanager
async def client_of(house: House, key: str, **options: Any) -> AsyncIterator[Any]:
    from mcp.client.client import Client
    from mcp.client.stdio import StdioServerParameters

    server = StdioServerParameters(command=sys.executable, args=["-m", "interlock", "mcp"], env={
        "PATH": os.environ["PATH"], "INTERLOCK_URL": house.url, "INTERLOCK_KEY": key, "HOME": str(house.place)})
    async with asyncio.timeout(3 * PATIENCE_S), Client(server, **options) as client:
        yield client


async def called(client: Any, name: str, **arguments: Any) -> dict[str, Any]:
    answer = await client.call_tool(name, arguments)
    assert not answer.is_error, answer.content
    return answer.structured_content


async def test_a_task_is_started_waits_for_a_person_and_is_read(house: House, workspace: Path) -> None:
    from mcp_types import ElicitResult

    opened: list[str] = []

    async def person(_context: Any, asked: Any) -> Any:
        approval = house.get(f"/v1/approvals/{asked.url.rpartition('/')[2]}")
        opened.append(asked.url)
        house.post(f"/v1/approvals/{approval['id']}/grants", {"decision": "grant", "digest": approval["digest"]},
                   new_key())
        return ElicitResult(action="accept")

    async with client_of(house, key_of(house, "operator"), elicitation_callback=person) as client:
        agents = await called(client, "list_agents")
        assert "shell" in {one["agent"] for one in agents["agents"]}
        asked = {"agent": "shell", "prompt": "echo made > made; echo by a model", "directory": str(workspace),
                 "request_id": "one"}
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
    assert house.get(f"/v1/commands/{task}")["reason"] == "started by a model (MCP)"


async def test_no_tool_decides_whatever_the_key_may_do(house: House, workspace: Path) -> None:
    async with client_of(house, house.headers["Authorization"].removeprefix("Bearer ")) as client:
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
    approval = house.get(f"/v1/approvals/{held['approval']}")
    assert (approval["state"], approval.get("votes")) == ("void", None)
    assert not (workspace / "made").exists()


async def test_a_key_may_do_here_what_it_may_do_over_rest_and_no_more(house: House) -> None:
    async with client_of(house, key_of(house, "viewer")) as client:
        assert "agents" in await called(client, "list_agents")
        refused = await client.call_tool("start_task", {"agent": "shell", "prompt": "echo no # free"})
        assert refused.is_error
        assert "Forbidden" in refused.content[0].text
        missing = await client.call_tool("wait_for_task", {"task": "cmd_none"})
        assert missing.is_error
        assert "There is no command cmd_none" in missing.content[0].text
        assert "records" not in str(await client.call_tool("search_audit", {}))
    async with client_of(house, "ilk_wrong") as client:
        refused = await client.call_tool("list_agents", {})
        assert refused.is_error
        assert "Unauthorized" in refused.content[0].text
