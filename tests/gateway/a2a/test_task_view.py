"""A command as an A2A task, frames as pieces of its answer, and a message as a prompt (O-9)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from interlock.gateway.a2a.task_view import (
    AnswerText,
    answer_text,
    artifacts_of,
    context_of,
    prompt_of,
    session_key,
    state_of,
    task_of,
)
from interlock.gateway.a2a.wire import A2AError, Part, SendRequest, TaskOptions, check_version, read
from interlock.protocol.resources import Approval, Command

pytestmark = pytest.mark.req("O-9")
ORIGIN = "http://127.0.0.1:7420"


def command(state: str = "running", **members: Any) -> Command:
    return msgspec.convert({
        "id": "cmd_1", "created_at": "2026-01-01T00:00:00.000Z", "updated_at": "2026-01-01T00:00:01.000Z",
        "tenant_id": "default", "actor": {"type": "user", "id": "kim"}, "type": "execute", "timeout_ms": 1_000,
        "target": {"agent_id": "shell", "session_id": "s-1"}, "state": state, **members}, Command)


def waiting(kind: str) -> Approval:
    raw = (b'{"id":"apr_1","tenant_id":"default","door":"tool","kind":"%s","state":"pending",'
           b'"created_at":"","expires_at":"","title":"$ rm -rf build","agent_id":"shell","session_id":"s-1",'
           b'"digest":"00","input":{},"rule":"r"}')
    return msgspec.json.decode(raw % kind.encode(), type=Approval)


@pytest.mark.parametrize(("state", "kinds", "expected"), [
    ("pending_approval", (), "AUTH_REQUIRED"), ("queued", (), "SUBMITTED"), ("paused", (), "WORKING"),
    ("running", ("permission",), "AUTH_REQUIRED"), ("running", ("question",), "INPUT_REQUIRED"),
    ("running", ("question", "permission"), "AUTH_REQUIRED"), ("succeeded", ("permission",), "COMPLETED"),
    ("timed_out", (), "FAILED"), ("canceled", (), "CANCELED"), ("expired", (), "REJECTED"),
])
def test_a_waiting_state_names_the_party_that_must_act(state: str, kinds: tuple[str, ...], expected: str) -> None:
    assert state_of(command(state), [waiting(kind) for kind in kinds]) == f"TASK_STATE_{expected}"


def test_a_waiting_task_names_the_action_and_the_page_for_it() -> None:
    status = task_of(command(), "c-1", [waiting("permission")], ORIGIN)["status"]
    assert status["message"]["parts"] == [{
        "text": "The agent asks for permission: $ rm -rf build. A person answers at http://127.0.0.1:7420/a/apr_1; "
                "no message is a vote.", "mediaType": "text/plain"}]


def test_an_ended_task_names_the_denier_the_call_and_the_error() -> None:
    ended = command("failed", error={"code": "AgentLost", "message": "The agent is gone."}, denials=[
        {"tool_name": "shell", "title": "$ rm -rf build", "by": "policy:never", "reason": "It deletes.", "at": ""}])
    parts = task_of(ended, "c-1", (), ORIGIN)["status"]["message"]["parts"]
    assert [part["text"] for part in parts] == ["Denied by policy:never: $ rm -rf build (It deletes.).",
                                                "The agent is gone. (AgentLost)"]


def test_the_answer_is_one_artifact_and_each_tools_output_another() -> None:
    output = [{"role": "tool", "toolCallId": "t1", "name": "shell", "status": "ok",
               "content": [{"contentType": "text", "value": "hello\n"}]},
              {"role": "assistant", "content": [{"contentType": "text", "value": "It says "},
                                                {"contentType": "text", "value": "hello."}]}]
    done = command("succeeded", result={"ok": True, "output": {"output": output, "session_id": "s-1"}})
    answer, tool = artifacts_of(done)
    assert (answer["artifactId"], answer_text(answer)) == ("answer", "It says hello.")
    assert (tool["artifactId"], tool["name"], answer_text(tool)) == ("t1", "shell", "hello\n")
    assert "artifacts" not in task_of(done, "c-1", (), ORIGIN, artifacts=False)


def test_history_is_omitted_when_its_length_is_zero() -> None:
    asked = command(payload=msgspec.Raw(b"{}"))
    asked = msgspec.structs.replace(asked, payload=msgspec.Raw(
        b'{"messages":[{"role":"user","content":[{"contentType":"text","value":"ls"}]}]}'))
    assert task_of(asked, "c-1", (), ORIGIN)["history"][0]["parts"] == [{"text": "ls", "mediaType": "text/plain"}]
    assert "history" not in task_of(asked, "c-1", (), ORIGIN, history_length=0)


def delta(offset: int, text: str, turn: str = "t-1", kind: str = "C") -> dict[str, Any]:
    return {"kind": kind, "frame": {"type": "agent.text.delta", "payload": {
        "turn_id": turn, "block_id": "b", "offset": offset, "text": text}}}


def done(text: str) -> dict[str, Any]:
    return {"kind": "C", "frame": {"type": "agent.text.done", "payload": {
        "turn_id": "t-1", "block_id": "b", "text": text}}}


def test_repeated_text_is_forwarded_once_by_its_offset() -> None:
    answer = AnswerText()
    events = [delta(0, "Hel"), delta(0, "Hel"), delta(3, "lo"), delta(9, "lost"), delta(1, "ello wor"),
              delta(0, "of another turn", turn="t-2"), delta(0, "refused", kind="refused"), done("Hello world")]
    assert [answer.piece(event, "t-1") for event in events] == ["Hel", "", "lo", "", " wor", "", "", "ld"]
    assert answer.text == "Hello world"


def test_parts_of_every_kind_reach_the_prompt() -> None:
    parts = [Part(text="Look"), Part(url="https://x.example/a", filename="a"), Part(data={"n": 1}),
             Part(raw="aGk=", media_type="image/png", filename="p.png")]
    payload = prompt_of(parts, TaskOptions(mode="plan"))
    assert payload["mode"] == "plan"
    assert [(part["contentType"], part["value"]) for part in payload["messages"][0]["content"]] == [
        ("text", "Look"), ("text", "[a](https://x.example/a)"), ("text", '{"n":1}'),
        ("image", {"encoding": "base64", "data": "aGk=", "name": "p.png", "media_type": "image/png"})]


@pytest.mark.parametrize("part", [Part(), Part(text="a", url="b"), Part(raw="not base64!")])
def test_a_part_without_exactly_one_content_is_refused(part: Part) -> None:
    with pytest.raises(A2AError, match="part"):
        prompt_of([part], TaskOptions())


@pytest.mark.parametrize(("key", "context"), [
    ("agent:shell:a2a:ctx-1", "ctx-1"), ("agent:shell:main", "s-1"), ("agent:shell:a2a:x y", "s-1"), (None, "s-1")])
def test_a_context_id_is_the_name_in_the_session_key_or_the_session_id(key: str | None, context: str) -> None:
    assert context_of(key, "s-1") == context


@pytest.mark.parametrize("context_id", ["", "a b", "../x", "a:b", "x" * 129])
def test_a_context_id_that_is_invalid_in_a_session_key_is_refused(context_id: str) -> None:
    with pytest.raises(A2AError, match="contextId"):
        session_key("shell", context_id)


@pytest.mark.parametrize("version", ["", "0.3", "2.0", "x"])
def test_an_unsupported_version_is_refused_with_the_header_to_send(version: str) -> None:
    with pytest.raises(A2AError, match=r"A2A-Version: 1\.0"):
        check_version(version)
    check_version("1.0")
    check_version("1.7")


@pytest.mark.parametrize("message", [
    {"role": "ROLE_USER", "parts": [{"text": "a"}]}, {"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": "a"}]},
    {"messageId": "m", "role": "ROLE_USER", "parts": []}, {"messageId": "m", "role": "ROLE_USER", "parts": "a"}])
def test_the_error_of_a_malformed_message_names_the_place(message: dict[str, Any]) -> None:
    with pytest.raises(A2AError, match=r"\$\.message"):
        read(SendRequest, {"message": message})
