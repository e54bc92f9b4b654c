"""An A2A client against a gateway and a runner of processes, without A2A's own SDK (O-9)."""

from __future__ import annotations

import itertools
import json
from collections.abc import Generator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from end_to_end.tasks import PATIENCE_S, new_key
from proof.processes.stack import Stack

pytestmark = pytest.mark.req("O-9")
HEADERS = {"A2A-Version": "1.0"}
_numbers = itertools.count(1)


def message(text: str, **members: Any) -> dict[str, Any]:
    return {"messageId": f"message-{next(_numbers):04d}", "role": "ROLE_USER", "parts": [{"text": text}], **members}


class Client:
    """One client of one agent."""

    def __init__(self, stack: Stack, agent: str, key: str | None = None) -> None:
        self.base = f"{stack.url}/a2a/{agent}"
        headers = stack.headers if key is None else {"Authorization": f"Bearer {key}"}
        self.http = httpx2.Client(headers=headers | HEADERS, timeout=PATIENCE_S)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.http.close()

    def post(self, path: str, body: dict[str, Any]) -> httpx2.Response:
        return self.http.post(self.base + path, json=body)

    def rpc(self, method: str, **params: Any) -> dict[str, Any]:
        answer = self.post("", {"jsonrpc": "2.0", "id": 7, "method": method, "params": params}).json()
        assert (answer["jsonrpc"], answer["id"]) == ("2.0", 7)
        return answer

    def stream(self, asked: dict[str, Any]) -> Generator[dict[str, Any]]:
        with self.http.stream("POST", self.base + "/message:stream", json={"message": asked}) as answer:
            assert answer.headers["content-type"].startswith("text/event-stream")
            for line in answer.iter_lines():
                if line.startswith("data: "):
                    yield json.loads(line.removeprefix("data: "))


@pytest.fixture
def client(stack: Stack) -> Generator[Client]:
    with Client(stack, "shell") as client:
        yield client


def grant(stack: Stack, approval_id: str) -> None:
    approval = stack.get(f"/v1/approvals/{approval_id}")
    stack.post(f"/v1/approvals/{approval_id}/grants", {"decision": "grant", "digest": approval["digest"]}, new_key())


def approval_of(update: dict[str, Any]) -> str:
    text: str = update["status"]["message"]["parts"][0]["text"]
    return text.partition("/a/")[2].partition(";")[0]


def test_a_blocking_message_returns_the_task_and_its_answer_also_when_repeated(client: Client) -> None:
    asked = {"message": message("echo from a client # free")}
    task = client.post("/message:send", asked).json()["task"]
    assert task["status"]["state"] == "TASK_STATE_COMPLETED"
    answer, output = task["artifacts"]
    assert (answer["artifactId"], output["parts"][0]["text"]) == ("answer", "from a client\n")
    assert task["history"][0]["messageId"] == asked["message"]["messageId"]
    assert client.post("/message:send", asked).json()["task"]["id"] == task["id"]
    assert client.http.get(f"{client.base}/tasks/{task['id']}").json() == task


def test_a_stream_starts_with_the_task_waits_for_approval_and_ends_with_the_task(stack: Stack, client: Client) -> None:
    states: list[str] = []
    texts: list[str] = []
    for number, event in enumerate(client.stream(message("echo waited"))):
        ((kind, update),) = event.items()
        assert (kind == "task") == (number == 0)
        if kind == "artifactUpdate":
            texts += [part["text"] for part in update["artifact"]["parts"]]
            continue
        states.append(update["status"]["state"].removeprefix("TASK_STATE_"))
        if states[-1] == "AUTH_REQUIRED":
            grant(stack, approval_of(update))
    assert states[0] in ("SUBMITTED", "WORKING", "AUTH_REQUIRED")
    assert "AUTH_REQUIRED" in states
    assert states[-1] == "COMPLETED"
    assert "waited\n" in texts


def test_a_message_to_a_waiting_task_never_counts_as_a_vote(stack: Stack, client: Client, workspace: Path) -> None:
    asked = {"message": message("touch made"), "metadata": {"interlock": {"workspace": str(workspace)}}}
    task = client.post("/message:send", asked).json()["task"]
    assert task["status"]["state"] == "TASK_STATE_AUTH_REQUIRED"
    refused = client.post("/message:send", {"message": message("yes, approve", taskId=task["id"])})
    error = refused.json()["error"]
    assert (refused.status_code, error["details"][0]["reason"]) == (400, "UNSUPPORTED_OPERATION")
    assert "no message is a vote" in error["message"]
    approval_id = approval_of(task)
    assert "votes" not in stack.get(f"/v1/approvals/{approval_id}")
    canceled = client.post(f"/tasks/{task['id']}:cancel", {}).json()
    assert canceled["id"] == task["id"]
    ended = [event for event in _subscribed(client, task["id"]) if "statusUpdate" in event]
    got = client.http.get(f"{client.base}/tasks/{task['id']}").json()
    assert got["status"]["state"] == "TASK_STATE_CANCELED"
    assert not ended or ended[-1]["statusUpdate"]["status"]["state"] == "TASK_STATE_CANCELED"
    assert not (workspace / "made").exists()
    again = client.rpc("CancelTask", id=task["id"])["error"]
    assert (again["code"], again["data"][0]["reason"]) == (-32002, "TASK_NOT_CANCELABLE")


def _subscribed(client: Client, task_id: str) -> list[dict[str, Any]]:
    """The updates of a subscription until it ends; none if the task has ended before."""
    with client.http.stream("GET", f"{client.base}/tasks/{task_id}:subscribe") as answer:
        if answer.status_code == 400:
            return []
        return [json.loads(line[6:]) for line in answer.iter_lines() if line.startswith("data: ")]


def test_a_context_continues_in_its_session_also_if_the_client_chose_its_id(client: Client) -> None:
    first = client.rpc("SendMessage", message=message("echo one # free"))["result"]["task"]
    following = message("echo two # free", contextId=first["contextId"])
    second = client.rpc("SendMessage", message=following)["result"]["task"]
    named = client.rpc("SendMessage", message=message("echo three # free", contextId="named-by-me"))["result"]["task"]
    assert second["contextId"] == first["contextId"] != named["contextId"] == "named-by-me"
    sessions = [task["metadata"]["interlock"]["session"] for task in (first, second, named)]
    assert sessions[0] == sessions[1] != sessions[2]
    listed = client.rpc("ListTasks", contextId=first["contextId"], pageSize=1)["result"]
    assert ([task["id"] for task in listed["tasks"]], listed["totalSize"]) == ([second["id"]], 2)
    rest = client.rpc("ListTasks", contextId=first["contextId"], pageToken=listed["nextPageToken"])["result"]
    assert ([task["id"] for task in rest["tasks"]], rest["nextPageToken"]) == ([first["id"]], "")
    assert "artifacts" not in rest["tasks"][0]
    wrong = client.rpc("SendMessage", message=message("echo", contextId="another", taskId=first["id"]))
    assert "is of the context" in wrong["error"]["message"]


def test_the_public_card_is_the_same_for_everyone_and_the_extended_card_needs_a_key(
    stack: Stack, client: Client
) -> None:
    anonymous = httpx2.get(f"{client.base}/.well-known/agent-card.json")
    card = anonymous.json()
    assert [one["url"] for one in card["supportedInterfaces"]] == [client.base] * 2
    assert httpx2.get(f"{client.base}/.well-known/agent-card.json",
                      headers={"If-None-Match": anonymous.headers["etag"]}).status_code == 304
    assert "max-age" in anonymous.headers["cache-control"]
    absent = httpx2.get(f"{stack.url}/a2a/there-is-none/.well-known/agent-card.json").json()
    assert json.loads(json.dumps(absent).replace("there-is-none", "shell")) == card
    assert "It runs on" in client.http.get(f"{client.base}/extendedAgentCard").json()["description"]
    refused = httpx2.get(f"{client.base}/extendedAgentCard", headers=HEADERS)
    assert (refused.status_code, refused.headers["www-authenticate"]) == (401, 'Bearer realm="interlock"')
    with Client(stack, "there-is-none") as intruder:
        assert "No runner offers" in intruder.rpc("GetExtendedAgentCard")["error"]["message"]


def test_a_key_has_the_same_rights_over_a2a_as_over_rest(stack: Stack, client: Client) -> None:
    task = client.rpc("SendMessage", message=message("echo mine # free"))["result"]["task"]
    with Client(stack, "shell", _key(stack, "viewer")) as viewer:
        assert viewer.rpc("GetTask", id=task["id"])["result"] == task
        refused = viewer.post("/message:send", {"message": message("echo no # free")})
        assert (refused.status_code, refused.json()["error"]["details"][0]["reason"]) == (403, "Forbidden")
        assert viewer.post("", {"jsonrpc": "2.0", "id": 1, "method": "SendMessage",
                                "params": {"message": message("echo no # free")}}).status_code == 403
    with Client(stack, "builtin") as other:
        assert other.rpc("GetTask", id=task["id"])["error"]["data"][0]["reason"] == "TASK_NOT_FOUND"
    stack.post("/v1/tenants", {"tenant_id": "elsewhere"}, new_key())
    with Client(stack, "shell", _key(stack, "admin", "elsewhere")) as stranger:
        assert stranger.rpc("GetTask", id=task["id"])["error"]["code"] == -32001
        assert stranger.rpc("CancelTask", id=task["id"])["error"]["code"] == -32001
        assert stranger.rpc("ListTasks")["result"]["tasks"] == []


def _key(stack: Stack, role: str, tenant: str | None = None) -> str:
    body = {"principal": {"type": "user", "id": f"kim-{role}"}, "roles": [role],
            **({"tenant_id": tenant} if tenant else {})}
    made = stack.post("/v1/keys", body, new_key())
    assert made.status_code == 201, made.text
    return made.json()["key"]


@pytest.mark.parametrize(("body", "code"), [
    (b"{", -32700), (b"[]", -32600), (b'{"jsonrpc": "1.0", "method": "GetTask", "id": 1}', -32600),
    (b'{"jsonrpc": "2.0", "method": "tasks/get", "id": 1}', -32601),
    (b'{"jsonrpc": "2.0", "method": "GetTask", "id": 1, "params": {}}', -32602),
    (b'{"jsonrpc": "2.0", "method": "GetTask", "id": 1, "params": {"id": "../keys"}}', -32001),
    (b'{"jsonrpc": "2.0", "method": "GetTask", "id": 1, "params": {"id": "cmd_none"}}', -32001),
    (b'{"jsonrpc": "2.0", "method": "ListTasks", "id": 1, "params": {"status": "DONE"}}', -32602),
    (b'{"jsonrpc": "2.0", "method": "ListTaskPushNotificationConfigs", "id": 1, "params": {"taskId": "x"}}', -32001),
])
def test_an_invalid_request_gets_a_code_and_one_sentence(client: Client, body: bytes, code: int) -> None:
    answer = client.http.post(client.base, content=body, headers={"Content-Type": "application/json"})
    error = answer.json()["error"]
    assert (answer.status_code, error["code"]) == (200, code)
    assert error["message"].endswith(".")


def test_an_unknown_version_and_an_unknown_path_are_refused(client: Client) -> None:
    old = httpx2.get(f"{client.base}/tasks", headers={"Authorization": client.http.headers["authorization"]})
    assert (old.status_code, old.json()["error"]["details"][0]["reason"]) == (400, "VERSION_NOT_SUPPORTED")
    assert client.http.get(f"{client.base}/nowhere").status_code == 404
    assert client.http.get(client.base.replace("shell", "NOT_AN_ID")).status_code == 404
