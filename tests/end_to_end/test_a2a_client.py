"""A2A's own Python SDK as an unmodified client, over both bindings (O-9)."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from end_to_end.tasks import PATIENCE_S
from proof.processes.stack import Stack

pytestmark = [pytest.mark.anyio, pytest.mark.req("O-9"), pytest.mark.needs("a2a-sdk")]


@pytest.mark.parametrize("binding", ["JSONRPC", "HTTP+JSON"])
async def test_the_sdk_reads_the_card_streams_a_task_and_reads_it_again(stack: Stack, binding: str) -> None:
    from a2a.client import A2ACardResolver, ClientConfig, ClientFactory
    from a2a.types import a2a_pb2 as a2a
    from google.protobuf.json_format import MessageToDict

    async with httpx.AsyncClient(headers=stack.headers, timeout=PATIENCE_S) as http:
        card = await A2ACardResolver(http, f"{stack.url}/a2a/shell").get_agent_card()
        config = ClientConfig(httpx_client=http, streaming=True, supported_protocol_bindings=[binding])
        client = ClientFactory(config).create(card)
        message = a2a.Message(message_id=f"sdk-{binding}", role=a2a.Role.ROLE_USER,
                              parts=[a2a.Part(text="echo by the sdk # free")])
        events: list[dict[str, Any]] = [
            MessageToDict(event) async for event in client.send_message(a2a.SendMessageRequest(message=message))]
        task_id = events[0]["task"]["id"]
        assert events[-1]["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED"
        got = MessageToDict(await client.get_task(a2a.GetTaskRequest(id=task_id)))
        assert got["artifacts"][1]["parts"][0]["text"] == "by the sdk\n"
        listed = await client.list_tasks(a2a.ListTasksRequest(page_size=1))
        assert [task.id for task in listed.tasks] == [task_id]
        extended = await client.get_extended_agent_card(a2a.GetExtendedAgentCardRequest())
        assert "It runs on" in extended.description
        await client.close()
