"""A message to a task that waits for an answer answers its question, and never decides an approval (O-9)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx2
import pytest

from small_gateway.running import Gateway, running

pytestmark = [pytest.mark.anyio, pytest.mark.req("O-9")]
HEADERS = {"A2A-Version": "1.0"}


@pytest.fixture
async def gateway(anyio_backend: str) -> AsyncIterator[Gateway]:
    async with running(15.0) as gateway:
        await gateway.desk.add_session()
        yield gateway


async def task_that_waits(gateway: Gateway, client: httpx2.AsyncClient, kind: str) -> str:
    body = {"type": "execute", "target": {"agent_id": "shell", "session_id": "s1"},
            "payload": {"messages": [{"role": "user", "content": [{"contentType": "text", "value": "go"}]}]}}
    made = await client.post("/v1/commands", json=body, headers={"Idempotency-Key": "a-key-of-sixteen-characters"})
    await gateway.desk.add_approval("apr_1", door="tool", kind=kind, title="Left or right?",
                                    command_id=made.json()["id"])
    return made.json()["id"]


async def answered(client: httpx2.AsyncClient, task_id: str, parts: list[dict[str, Any]]) -> httpx2.Response:
    message = {"messageId": "m-1", "role": "ROLE_USER", "taskId": task_id, "parts": parts}
    return await client.post("/a2a/shell/message:send", headers=HEADERS, json={
        "message": message, "configuration": {"returnImmediately": True}})


async def test_a_question_is_shown_and_answered_by_a_message_to_the_task(gateway: Gateway) -> None:
    async with gateway.as_role("operator") as client:
        task_id = await task_that_waits(gateway, client, "question")
        task = (await client.get(f"/a2a/shell/tasks/{task_id}", headers=HEADERS)).json()
        assert task["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
        assert task["status"]["message"]["parts"][0]["text"].startswith("The agent asks: Left or right?")
        refused = await answered(client, task_id, [{"url": "https://x.example"}])
        assert refused.json()["error"]["details"][0]["reason"] == "CONTENT_TYPE_NOT_SUPPORTED"
        assert (await answered(client, task_id, [{"text": "left"}])).status_code == 200
        assert (await client.get("/v1/approvals/apr_1")).json()["answer"] == "left"


async def test_a_message_does_not_answer_a_permission_request(gateway: Gateway) -> None:
    async with gateway.as_role("owner") as client:
        task_id = await task_that_waits(gateway, client, "permission")
        refused = await answered(client, task_id, [{"text": "yes"}])
        assert (refused.status_code, refused.json()["error"]["details"][0]["reason"]) == (400, "UNSUPPORTED_OPERATION")
        approval = (await client.get("/v1/approvals/apr_1")).json()
        assert (approval["state"], approval.get("votes")) == ("pending", None)


async def test_a_long_list_counts_as_few_requests_of_the_caller(gateway: Gateway) -> None:
    async with gateway.as_role("operator") as client:
        body = {"type": "execute", "target": {"agent_id": "shell", "session_id": "s1"},
                "payload": {"messages": [{"role": "user", "content": [{"contentType": "text", "value": "go"}]}]}}
        made = [(await client.post("/v1/commands", json=body, headers={"Idempotency-Key": f"a-key-of-{number:08d}"}))
                .json()["id"] for number in range(12)]
        before = gateway.desk.metrics.exposed("")[0].decode()
        listed = (await client.get("/a2a/shell/tasks?pageSize=10", headers=HEADERS)).json()
        assert [task["id"] for task in listed["tasks"]] == list(reversed(made))[:10]
        assert {task["contextId"] for task in listed["tasks"]} == {"s1"}
        assert "history" not in listed["tasks"][0]
        assert requests(gateway.desk.metrics.exposed("")[0].decode()) - requests(before) < 10
        rest = (await client.get(f"/a2a/shell/tasks?pageSize=10&pageToken={listed['nextPageToken']}&historyLength=1",
                                 headers=HEADERS)).json()
        assert ([task["id"] for task in rest["tasks"]], rest["totalSize"]) == (list(reversed(made))[10:], 12)
        assert rest["tasks"][0]["history"][0]["parts"][0]["text"] == "go"


def requests(metrics: str) -> int:
    """How many requests the gateway has answered."""
    return sum(int(float(line.rsplit(" ", 1)[1])) for line in metrics.splitlines()
               if line.startswith("interlock_http_requests_total"))
