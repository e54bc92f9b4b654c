"""A2A's own SDK has itself notified of a task, at a receiver on loopback, through deaths of the gateway (O-9)."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Generator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from channels.post_server import Posted, PostServer, post_server
from end_to_end.conftest import CONFIG
from end_to_end.tasks import PATIENCE_S, new_key
from proof.processes.fork_server import ForkServer
from proof.processes.stack import Stack

pytestmark = [pytest.mark.anyio, pytest.mark.req("O-9"), pytest.mark.needs("a2a-sdk"), pytest.mark.long]
ENDS = ("TASK_STATE_COMPLETED", "TASK_STATE_FAILED", "TASK_STATE_CANCELED", "TASK_STATE_REJECTED")


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory, fork_server: ForkServer) -> Generator[Stack]:
    stack = Stack(tmp_path_factory.mktemp("stack"), CONFIG + '\n[outgoing]\nallow = ["127.0.0.1/32"]\n',
                  fork_server=fork_server)
    try:
        stack.up()
        yield stack
    finally:
        stack.down()
    audit_ok, _, says = stack.audit_ok()
    assert audit_ok, says
    assert "Traceback" not in stack.log("gateway") + stack.log("runner")


def key_of(stack: Stack, role: str, tenant: str | None = None) -> str:
    made = stack.post("/v1/keys", {"principal": {"type": "user", "id": f"kim-{role}"}, "roles": [role],
                                   **({"tenant_id": tenant} if tenant else {})}, new_key())
    return made.json()["key"]


@asynccontextmanager
async def client_of(stack: Stack, binding: str, key: str | None = None) -> AsyncIterator[Any]:
    from a2a.client import A2ACardResolver, ClientConfig, ClientFactory

    headers = stack.headers if key is None else {"Authorization": f"Bearer {key}"}
    async with httpx.AsyncClient(headers=headers, timeout=PATIENCE_S) as http:
        card = await A2ACardResolver(http, f"{stack.url}/a2a/shell").get_agent_card()
        assert card.capabilities.push_notifications
        config = ClientConfig(httpx_client=http, streaming=False, polling=True, supported_protocol_bindings=[binding])
        client = ClientFactory(config).create(card)
        yield client
        await client.close()


async def sent(client: Any, text: str, workspace: Path, push: Any = None) -> str:
    """Send a message that is answered at once; return its task."""
    from a2a.types import a2a_pb2 as a2a
    from google.protobuf.json_format import MessageToDict, ParseDict

    request = a2a.SendMessageRequest(
        message=a2a.Message(message_id=new_key(), role=a2a.Role.ROLE_USER, parts=[a2a.Part(text=text)]),
        configuration=a2a.SendMessageConfiguration(return_immediately=True, task_push_notification_config=push))
    ParseDict({"interlock": {"workspace": str(workspace)}}, request.metadata)
    events = [MessageToDict(event) async for event in client.send_message(request)]
    return events[0]["task"]["id"]


def states(receiver: PostServer) -> list[str]:
    return [json.loads(one.body)["statusUpdate"]["status"]["state"] for one in receiver.got]


async def until(receiver: PostServer, state: str) -> dict[str, Any]:
    async with asyncio.timeout(PATIENCE_S):
        while state not in states(receiver):
            await asyncio.sleep(0.02)
    return next(update for one in receiver.got
                if (update := json.loads(one.body)["statusUpdate"])["status"]["state"] == state)


def check_signature(stack: Stack, one: Posted) -> None:
    card = httpx.get(f"{stack.url}/a2a/shell/.well-known/agent-card.json").json()
    (extension,) = card["capabilities"]["extensions"]
    key = base64.b64decode(extension["params"]["publicKey"].removeprefix("whpk_"))
    public = Ed25519PublicKey.from_public_bytes(key)
    signed = f"{one.headers['webhook-id']}.{one.headers['webhook-timestamp']}.".encode() + one.body
    public.verify(base64.b64decode(one.headers["webhook-signature"].removeprefix("v1a,")), signed)


async def granted(stack: Stack, text: str) -> None:
    approval = await asyncio.to_thread(stack.get, f"/v1/approvals/{text.partition('/a/')[2].partition(';')[0]}")
    await asyncio.to_thread(stack.post, f"/v1/approvals/{approval['id']}/grants",
                            {"decision": "grant", "digest": approval["digest"]}, new_key())


@pytest.mark.parametrize("binding", ["JSONRPC", "HTTP+JSON"])
async def test_a_push_client_receives_each_state_change_and_no_agent_text(
    stack: Stack, workspace: Path, binding: str
) -> None:
    from a2a.types import a2a_pb2 as a2a

    async with post_server() as receiver, client_of(stack, binding) as client:
        push = a2a.TaskPushNotificationConfig(
            id="mine", url=f"{receiver.url}/here", token="its-token",
            authentication=a2a.AuthenticationInfo(scheme="Bearer", credentials="its-credentials"))
        task = await sent(client, "touch made-secretly", workspace, push)
        asked = await until(receiver, "TASK_STATE_AUTH_REQUIRED")
        assert asked["taskId"] == task
        sentence = asked["status"]["message"]["parts"][0]["text"]
        assert f"{stack.url}/a/" in sentence
        shown = await client.get_task_push_notification_config(
            a2a.GetTaskPushNotificationConfigRequest(id="mine", task_id=task))
        assert (shown.url, shown.token, shown.authentication.credentials) == (push.url, "", "")
        await granted(stack, sentence)
        await until(receiver, "TASK_STATE_COMPLETED")

        assert states(receiver)[-1] == "TASK_STATE_COMPLETED"
        assert len({one.headers["webhook-id"] for one in receiver.got}) == len(receiver.got)
        for one in receiver.got:
            check_signature(stack, one)
            assert one.line == "POST /here"
            assert (one.headers["x-a2a-notification-token"], one.headers["authorization"]) == (
                "its-token", "Bearer its-credentials")
            assert b"secretly" not in one.body
        # It has ended, and so has its config.
        left = await client.list_task_push_notification_configs(
            a2a.ListTaskPushNotificationConfigsRequest(task_id=task))
        assert list(left.configs) == []
    assert stack.get("/v1/webhooks/deliveries")["deliveries"] == []


async def test_keys_that_may_command_set_list_replace_and_delete_push_configs(
    stack: Stack, workspace: Path
) -> None:
    from a2a.types import a2a_pb2 as a2a
    from a2a.utils.errors import A2AError

    stack.post("/v1/tenants", {"tenant_id": "elsewhere"}, new_key())
    async with post_server() as receiver, client_of(stack, "JSONRPC") as client:
        task = await sent(client, "touch never", workspace)

        def config(name: str, path: str = "/") -> Any:
            return a2a.TaskPushNotificationConfig(id=name, task_id=task, url=receiver.url + path)

        for name in ("a", "b", "c", "d", "a"):
            made = await client.create_task_push_notification_config(config(name, "/again"))
            assert (made.id, made.task_id) == (name, task)
        with pytest.raises(A2AError, match="429"):
            await client.create_task_push_notification_config(config("e"))
        for url in ("https://10.0.0.1/", "http://169.254.169.254/", "ftp://client.example/", "nothing", ""):
            with pytest.raises(A2AError, match="url"):
                await client.create_task_push_notification_config(
                    a2a.TaskPushNotificationConfig(id="a", task_id=task, url=url))
        with pytest.raises(A2AError):
            await client.create_task_push_notification_config(
                a2a.TaskPushNotificationConfig(id="a", task_id=task, url=receiver.url, token="two\r\nlines: 1"))
        for role, tenant in (("viewer", None), ("approver", None), ("admin", "elsewhere")):
            async with client_of(stack, "HTTP+JSON", key_of(stack, role, tenant)) as other:
                for refused in (other.create_task_push_notification_config(config("x")),
                                other.get_task_push_notification_config(
                                    a2a.GetTaskPushNotificationConfigRequest(id="a", task_id=task)),
                                other.delete_task_push_notification_config(
                                    a2a.DeleteTaskPushNotificationConfigRequest(id="a", task_id=task))):
                    with pytest.raises(A2AError):
                        await refused
        listing = a2a.ListTaskPushNotificationConfigsRequest(task_id=task)
        found = (await client.list_task_push_notification_configs(listing)).configs
        assert [one.id for one in found] == ["a", "b", "c", "d"]
        for name in ("a", "b", "c", "d", "d"):
            await client.delete_task_push_notification_config(
                a2a.DeleteTaskPushNotificationConfigRequest(id=name, task_id=task))
        assert list((await client.list_task_push_notification_configs(listing)).configs) == []
        with pytest.raises(A2AError):
            await client.get_task_push_notification_config(
                a2a.GetTaskPushNotificationConfigRequest(id="a", task_id=task))
        await client.cancel_task(a2a.CancelTaskRequest(id=task))
    steps = [one["record"]["meta"]["step"] for one in stack.get("/v1/audit", command=task, action="push")["items"]]
    assert sorted(steps) == ["subscribed"] * 5 + ["unsubscribed"] * 4


async def test_the_next_gateway_sends_the_notifications_that_a_dead_one_did_not(stack: Stack, workspace: Path) -> None:
    from a2a.types import a2a_pb2 as a2a

    async with post_server() as receiver, client_of(stack, "JSONRPC") as client:
        receiver.status = 503
        task = await sent(client, "touch made", workspace, a2a.TaskPushNotificationConfig(url=receiver.url))
        async with asyncio.timeout(PATIENCE_S):
            while not receiver.got:
                await asyncio.sleep(0.02)
        await asyncio.to_thread(stack.kill, "gateway")
        receiver.status, receiver.got = 200, []
        await asyncio.to_thread(stack.start, "gateway")
        await asyncio.to_thread(stack.until_up)
        asked = await until(receiver, "TASK_STATE_AUTH_REQUIRED")
        await granted(stack, asked["status"]["message"]["parts"][0]["text"])
        ended = await until(receiver, "TASK_STATE_COMPLETED")
        assert ended["taskId"] == task
        assert [one for one in states(receiver) if one in ENDS] == ["TASK_STATE_COMPLETED"]


async def test_tasks_are_listed_in_pages_by_their_last_change(stack: Stack, workspace: Path) -> None:
    from a2a.types import a2a_pb2 as a2a

    async with client_of(stack, "JSONRPC") as client:
        first = await sent(client, "touch by-the-first", workspace)
        others = [await sent(client, f"echo {number} # free", workspace) for number in ("one", "two", "three")]
        async with asyncio.timeout(PATIENCE_S):
            for task in others:
                while (await client.get_task(a2a.GetTaskRequest(id=task))).status.state != \
                        a2a.TaskState.TASK_STATE_COMPLETED:
                    await asyncio.sleep(0.02)
        await client.cancel_task(a2a.CancelTaskRequest(id=first))
        async with asyncio.timeout(PATIENCE_S):
            while (await client.get_task(a2a.GetTaskRequest(id=first))).status.state != \
                    a2a.TaskState.TASK_STATE_CANCELED:
                await asyncio.sleep(0.02)
        listed: list[str] = []
        token = ""
        while True:
            page = await client.list_tasks(a2a.ListTasksRequest(page_size=2, page_token=token))
            listed += [task.id for task in page.tasks]
            assert len(page.tasks) <= 2
            if not (token := page.next_page_token):
                break
        assert listed[0] == first
        assert len(listed) == len(set(listed)) == page.total_size
        assert set(listed[1:4]) == set(others)
