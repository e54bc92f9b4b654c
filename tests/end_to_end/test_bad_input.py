"""Hostile bodies and hostile frames: each gets one clear answer, and the gateway stays up."""

from __future__ import annotations

import itertools
import json
import socket
import time
import uuid
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest
from websockets.exceptions import InvalidStatus

from end_to_end.rogue import AGENT, Rogue
from end_to_end.tasks import PATIENCE_S, SubmittedTask, body, healthy, new_key, submit
from proof.processes.fork_server import ForkServer
from proof.processes.stack import Stack

pytestmark = pytest.mark.usefixtures("healthy_gateway")


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory, fork_server: ForkServer) -> Iterator[Stack]:
    """A gateway without a runner of its own."""
    stack = Stack(tmp_path_factory.mktemp("gateway"), fork_server=fork_server)
    try:
        stack.start("gateway")
        stack.until_up()
        yield stack
    finally:
        stack.down()
    audit_ok, _, says = stack.audit_ok()
    assert audit_ok, says
    assert "Traceback" not in stack.log("gateway")


@pytest.fixture
def healthy_gateway(gateway: Stack) -> Iterator[None]:
    """After each test the same process still answers."""
    process = gateway.processes["gateway"]
    yield
    assert process.poll() is None
    assert healthy(gateway)


GOOD = body("shell", "echo", workspace="/")
BODIES: dict[str, bytes] = {
    "nothing": b"",
    "not JSON": b"{",
    "not UTF-8": b'{"type":"\xff\xfe"}',
    "a list": b"[]",
    "null": b"null",
    "a number": b"1e999",
    "NaN": b'{"type":NaN}',
    "a huge integer": b'{"priority":' + b"9" * 10_000 + b"}",
    "nested deeply": b"[" * 100_000 + b"]" * 100_000,
    "a key twice": b'{"type":"execute","type":"cancel","target":{}}',
    "half a surrogate pair": b'{"type":"execute","target":{"agent_id":"\\ud800"}}',
    "an unknown field": json.dumps({**GOOD, "sudo": True}).encode(),
    "an unknown type": json.dumps({**GOOD, "type": "explode"}).encode(),
    "no target": json.dumps({"type": "execute", "payload": GOOD["payload"]}).encode(),
    "no payload": json.dumps({"type": "execute", "target": {"agent_id": "shell"}}).encode(),
    "no messages": json.dumps({**GOOD, "payload": {"messages": []}}).encode(),
    "another role": json.dumps({**GOOD, "payload": {"messages": [{"role": "system", "content": []}]}}).encode(),
    "an agent that is a path": json.dumps({**GOOD, "target": {"agent_id": "../../etc/passwd"}}).encode(),
    "a relative workspace": json.dumps({**GOOD, "target": {"agent_id": "shell", "workspace": "../up"}}).encode(),
    "a session that is none": json.dumps({**GOOD, "target": {"session_id": "' OR 1=1 --"}}).encode(),
    "a number for a name": json.dumps({**GOOD, "target": {"agent_id": 7}}).encode(),
    "a negative timeout": json.dumps({**GOOD, "timeout_ms": -1}).encode(),
    "no time at all": json.dumps({**GOOD, "timeout_ms": 0}).encode(),
    "a huge priority": json.dumps({**GOOD, "priority": 101}).encode(),
    "an approval of nobody": json.dumps({**GOOD, "approval": {"required": -5}}).encode(),
    "too much": json.dumps({**GOOD, "reason": "x" * 9_000_000}).encode(),
}


@pytest.mark.req("F-1", "M-1", "C-0")
@pytest.mark.parametrize("name", list(BODIES))
def test_a_hostile_body(gateway: Stack, name: str) -> None:
    with Rogue(gateway) as rogue:  # An agent is there to take it, so that nothing else is what is wrong.
        rogue.hello(agents=[{"agent_id": "shell", "adapter": "acp", "adapter_type": "process", "permission": "asks",
                             "context_owner": "agent"}])
        rogue.receive("x-interlock.welcome")
        answer = httpx2.post(gateway.url + "/v1/commands", content=BODIES[name], timeout=PATIENCE_S, headers={
            **gateway.headers, "Idempotency-Key": new_key(), "Content-Type": "application/json"})

    assert 400 <= answer.status_code < 500, answer.text
    refused(answer)


def refused(answer: httpx2.Response) -> None:
    """One clear refusal: problem+json with a sentence and a remedy, and nothing of our insides."""
    assert answer.headers["content-type"] == "application/problem+json"
    problem = answer.json()
    assert problem["status"] == answer.status_code
    assert problem["detail"]
    assert problem["hint"]
    assert "Traceback" not in answer.text
    assert ".py" not in answer.text


@pytest.mark.req("F-1", "K-1", "S-2", "M-1")
@pytest.mark.parametrize(("method", "path", "status"), [
    ("GET", "/v1/commands/..%2f..%2fetc%2fpasswd", 404), ("GET", "/v1/commands/cmd_%00", 404),
    ("GET", "/v1/nothing", 404), ("DELETE", "/v1/commands", 405), ("GET", "/v1/commands?limit=0", 400),
    ("GET", "/v1/commands?limit=1e9", 400), ("GET", "/v1/commands?state=odd", 400),
    ("GET", "/v1/commands?cursor=%FF", 400), ("GET", "/v1/events?since=garbage", 400),
    ("GET", "/v1/events?wait=99", 400), ("GET", "/v1/sessions/x/frames", 404), ("GET", "/v1/approvals/x", 404),
    ("POST", "/v1/approvals/x/grants", 404), ("POST", "/v1/sessions/x/close", 404),
    ("GET", "/" + "a" * 20_000, 404), ("GET", "/rawp", 426)])
def test_a_hostile_path(gateway: Stack, method: str, path: str, status: int) -> None:
    content = b'{"decision":"grant"}' if path.endswith("grants") else b"{}" if method == "POST" else None
    answer = httpx2.request(method, gateway.url + path, content=content, timeout=PATIENCE_S, headers={
        **gateway.headers, "Idempotency-Key": new_key(), "Content-Type": "application/json"})

    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"


@pytest.mark.req("M-1", "F-1")
@pytest.mark.parametrize(("headers", "status"), [
    ({}, 400), ({"Idempotency-Key": "short"}, 400), ({"Idempotency-Key": "x" * 256}, 400),
    ({"Idempotency-Key": "x" * 20, "Content-Type": "text/plain"}, 415),
    ({"Idempotency-Key": "x" * 20, "Accept": "image/png"}, 406)])
def test_hostile_headers(gateway: Stack, headers: dict[str, str], status: int) -> None:
    answer = httpx2.post(gateway.url + "/v1/commands", content=json.dumps(GOOD), timeout=PATIENCE_S, headers={
        **gateway.headers, "Content-Type": "application/json", **headers})

    assert answer.status_code == status
    refused(answer)


@pytest.mark.req("F-1")
@pytest.mark.parametrize("sent", [
    b"\x00\x01\x02\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"GET /healthz HTTP/1.1\r\n\r\n",
    b"POST /v1/commands HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: -1\r\n\r\n",
    b"GET /rawp HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n"])
def test_a_malformed_request_is_refused(gateway: Stack, sent: bytes) -> None:
    with socket.create_connection(("127.0.0.1", gateway.port), PATIENCE_S) as connection:
        connection.sendall(sent)
        connection.shutdown(socket.SHUT_WR)
        received = connection.recv(65_536)
    assert received == b"" or b" 4" in received.split(b"\r\n")[0]


@pytest.mark.req("L-2", "L-3", "W-2")
@pytest.mark.parametrize("token", ["", "ilr_wrong", "ilk_wrong", "x" * 5_000])
def test_a_link_with_a_wrong_token(gateway: Stack, token: str) -> None:
    with pytest.raises(InvalidStatus) as refused_with, Rogue(gateway, token):
        pass
    assert refused_with.value.response.status_code == 401


@pytest.mark.req("L-4", "W-2")
@pytest.mark.parametrize(("changes", "code"), [
    ({"versions": ["rawp-dps-9.9"]}, 4406), ({"runner_id": "somebody-else"}, 4401), ({"agents": "all"}, 4408),
    ({"sessions": [{"session_id": "x"}]}, 4408)])
def test_a_hello_that_is_not_accepted(gateway: Stack, changes: dict[str, Any], code: int) -> None:
    with Rogue(gateway) as rogue:
        rogue.hello(**changes)

        assert rogue.closed() == code


@pytest.mark.req("L-4")
@pytest.mark.parametrize("first", [
    "garbage", "{}", '{"type":"x-interlock.heartbeat","message_id":"1","payload":{"agents":[]}}'])
def test_a_frame_before_hello_ends_the_link(gateway: Stack, first: str) -> None:
    with Rogue(gateway) as rogue:
        rogue.raw(first)

        assert rogue.closed() == 4408


@pytest.fixture
def rogue(gateway: Stack) -> Iterator[Rogue]:
    """A rogue that was welcomed."""
    with Rogue(gateway) as rogue:
        rogue.hello()
        rogue.receive("x-interlock.welcome")
        yield rogue


@pytest.mark.req("L-2", "E-1")
@pytest.mark.parametrize(("message", "code"), [
    ("garbage", 1003), ("[]", 1003), ('{"type":7}', 1003), (b"\xff\xfe", 1003), ("[" * 50_000, 1003),
    ("x" * 1_100_000, 1009)])
def test_a_message_that_is_not_a_frame_ends_only_the_link(
    rogue: Rogue, message: str | bytes, code: int
) -> None:
    rogue.raw(message)

    assert rogue.closed() == code


@pytest.mark.req("E-1")
@pytest.mark.parametrize("message", [
    '{"type":"x-interlock.heartbeat","message_id":"1","payload":{"agents":7}}', '{"type":"x","payload":{}}',
    '{"type":"session.usage","message_id":"1","payload":{}}', '{"type":"session.usage","seq":1,"payload":{}}'])
def test_a_frame_without_a_session_is_ignored(gateway: Stack, rogue: Rogue, message: str) -> None:
    rogue.raw(message)

    task = _begun(gateway, rogue, welcomed=True)
    rogue.ended(task.session_id, rogue.started(task.session_id))
    assert task.ended()["state"] == "succeeded"


@pytest.mark.req("E-1", "W-1", "T-4", "W-2", "D-1")
def test_frames_that_do_not_fit_are_refused_and_the_link_and_the_turn_continue(gateway: Stack, rogue: Rogue) -> None:
    task = submit(gateway, AGENT, "be yourself", workspace="/")
    session = task.session_id
    rogue.opened(session)
    turn = rogue.started(session)
    hostile: list[tuple[str, Any, str]] = [
        ("control.session.open", {"session_id": session, "agent_id": AGENT, "workspace": "/",
                                  "workspace_access": "rw"}, "INVALID_FRAME"),  # The wrong direction.
        ("x-interlock.interaction.held", {"interaction_id": "i", "approval_id": "a", "expires_in_ms": 1},
         "INVALID_FRAME"),
        ("agent.text.done", {"turn_id": turn}, "INVALID_FRAME"),  # Fields are missing.
        ("agent.text.done", {"turn_id": turn, "block_id": 7, "text": []}, "INVALID_FRAME"),
        ("tool.invoke.result", {"invocation_id": "x", "status": "splendid", "output_type": "text", "output": "",
                                "duration_ms": 0}, "INVALID_FRAME"),  # No such status.
        ("agent.text.done", [], "INVALID_FRAME"),
        ("agent.text.done", {"turn_id": "another", "block_id": "b", "text": "x"}, "UNKNOWN_TURN"),
        ("tool.invoke.result", {"invocation_id": "never", "status": "ok", "output_type": "text", "output": "",
                                "duration_ms": 0}, "UNKNOWN_TURN"),
        ("x-interlock.interaction.resolved", {"interaction_id": "never", "outcome": "allowed", "decided_at": ""},
         "UNKNOWN_TURN"),
        ("session.turn.start", {"turn_id": str(uuid.uuid4()), "turn_index": 9}, "PROMPT_IN_PROGRESS"),
    ]
    for kind, payload, code in hostile:
        sent = rogue.send_frame(kind, payload, session)
        answer = rogue.receive("session.error", session)
        assert (answer["payload"]["error_code"], answer["payload"]["fatal"]) == (code, False), kind
        assert answer["metadata"]["in_reply_to"] == sent["message_id"]
        assert answer["payload"]["message"]
    rogue.send_frame("agent.strange.thing", {"any": "thing"}, session)  # Of a type that no one knows: kept and relayed.
    rogue.send_frame("x-vendor.odd", {"more": [1]}, session)
    rogue.send_frame("agent.text.done", {"turn_id": turn, "block_id": "b", "text": "after all"}, session)
    rogue.ended(session, turn)

    assert task.ended()["state"] == "succeeded"
    assert task.text() == "after all"
    assert len([event for event in task.frames() if event["kind"] == "refused"]) == len(hostile)
    assert task.sent("x-vendor.odd")[0]["payload"] == {"more": [1]}
    assert task.sent("agent.strange.thing")[0]["payload"] == {"any": "thing"}


@pytest.mark.req("E-3", "D-1", "E-4")
def test_a_repeated_frame_is_ignored_and_a_gap_is_repaired_by_a_new_link(gateway: Stack) -> None:
    with Rogue(gateway) as rogue:
        rogue.hello()
        task = _begun(gateway, rogue)
        session, turn = task.session_id, rogue.started(task.session_id)
        text = {"turn_id": turn, "block_id": "b", "text": "once"}
        first = rogue.send_frame("agent.text.done", text, session)
        for _ in range(3):
            rogue.raw(json.dumps(first))
        rogue.send_frame("agent.text.done", {**text, "block_id": "c"}, session, seq=first["seq"] + 5)
        assert rogue.closed() == 4409
    with Rogue(gateway) as rogue:
        rogue.hello(sessions=[{"session_id": session, "last_seq_sent": first["seq"], "control_seq": 2,
                               "state": "running"}])
        welcome = rogue.receive("x-interlock.welcome")
        assert {known["session_id"]: known["last_durable_seq"] for known in welcome["payload"]["sessions"]} == {
            session: first["seq"]}
        rogue.seqs[session] = itertools.count(first["seq"] + 1)
        rogue.ended(session, turn)
        assert task.ended()["state"] == "succeeded"
    assert task.text() == "once"


@pytest.mark.req("E-3", "W-2", "K-1")
def test_a_runner_cannot_write_to_a_session_of_another_runner(gateway: Stack, rogue: Rogue) -> None:
    nobodys = "00000000-0000-4000-8000-000000000000"
    rogue.send_frame("agent.text.done", {"turn_id": "t", "block_id": "b", "text": "x"}, nobodys)
    rogue.send_frame("session.closed", {"reason": "x"}, nobodys)
    task = _begun(gateway, rogue, welcomed=True)
    rogue.ended(task.session_id, rogue.started(task.session_id))

    assert task.ended()["state"] == "succeeded"
    assert httpx2.get(f"{gateway.url}/v1/sessions/{nobodys}", headers=gateway.headers).status_code == 404


@pytest.mark.req("D-2", "D-4", "E-1")
@pytest.mark.parametrize("history", [
    {}, {"frames": "all", "buffer_status": {}, "last_sync_timestamp": "", "last_message_id": ""},
    {"frames": [7], "buffer_status": {"policy_applied": "RING", "truncated": False}, "last_sync_timestamp": "",
     "last_message_id": ""},
    {"frames": [{"type": "session.history", "payload": {}}], "last_sync_timestamp": "", "last_message_id": "",
     "buffer_status": {"policy_applied": "RING", "truncated": False}}])
def test_a_hostile_history(gateway: Stack, rogue: Rogue, history: dict[str, Any]) -> None:
    task = _begun(gateway, rogue, welcomed=True)
    rogue.send_frame("session.history", history, task.session_id, seq=None)
    if history.get("frames", "all") != "all":
        assert rogue.closed() == 1003
    else:
        assert rogue.receive("session.error", task.session_id)["payload"]["error_code"] == "INVALID_FRAME"
    task.cancel()


def _present(gateway: Stack) -> None:
    """Wait until the gateway gives commands to the runner: after its welcome the lanes of its sessions come first."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        nodes = httpx2.get(f"{gateway.url}/v1/edge/nodes", headers=gateway.headers).json()["nodes"]
        if any(node["status"] != "offline" and AGENT in [one["agent_id"] for one in node["agents"]] for node in nodes):
            return
    raise AssertionError("the rogue was not seen")


def _begun(gateway: Stack, rogue: Rogue, *, welcomed: bool = False) -> SubmittedTask:
    if not welcomed:
        rogue.receive("x-interlock.welcome")
    _present(gateway)
    task = submit(gateway, AGENT, "be yourself", workspace="/")
    rogue.opened(task.session_id)
    return task
